//! The crate against the real `git apply`, real patches and hostile text.

#![expect(clippy::disallowed_methods, reason = "the reference is the git program")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

mod binary;
mod campaign;
mod cases;
mod damage;
mod dice;
mod difflib;
mod generated;
mod git;
mod gold;
mod hostile;
mod limits;
mod records;
mod scenario;
