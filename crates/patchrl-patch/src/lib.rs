//! Model text in, patch out, files out.
//!
//! Owns finding an edit in an answer ([`extract()`]), unified and git diffs ([`Patch`]),
//! SEARCH/REPLACE blocks ([`Block`]), applying either to files with the semantics of
//! `git apply` ([`Edit::apply`]), showing what changed ([`unified()`], and as Python does,
//! [`python_diff`]) and how alike two texts are ([`ratio()`]).
//! Touches no clock, no file system and no network: files come through [`Tree`].
//!
//! Everything here reads text that a stranger wrote. Nothing panics, cost is linear in
//! the input, and what would cost more ends as a fault. A megabyte of answer takes less
//! than a quarter of a processor second to extract, parse and apply, even in a test build,
//! and less than 20 MB of memory. Applying costs at most a fixed amount of work whatever
//! the diff says, and binary data inflates to at most 64 MiB a diff. `tests/it/limits.rs`
//! holds this for answers of 50 MB, a million hunks, lines of 100 MB and 10,000 fences.

mod apply;
mod diff;
mod difflib;
mod edit;
mod extract;
mod fault;
mod reverse;
mod similarity;
mod tree;
mod unified;
mod work;

pub use diff::{Claim, FilePatch, Hunk, Move, Patch, Span};
pub use difflib::{python_diff, python_lines};
pub use edit::{Block, Edit, Placed};
pub use extract::{Extraction, Rule, extract};
pub use fault::{ApplyFault, DiffFault, ExtractFault};
pub use similarity::{Autojunk, LONGEST, Reference, TooLong, ratio};
pub use tree::{Changes, Entry, Mode, Tree, is_safe_path};
pub use unified::{line_changes, unified};
