//! The crate against the real `git apply`, real patches and hostile text.

#![expect(clippy::disallowed_methods, reason = "the reference is the git program")]

mod cases;
mod generated;
mod git;
mod gold;
mod hostile;
