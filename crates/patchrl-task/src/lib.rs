//! What is to be solved: task records, task sets and mechanical bugs.
//!
//! Owns the record of a task, the files it is read from, the descriptions of environments that
//! its tests run in, splits, filters, bug injection and the toy set that ships with patchrl.
//! Runs nothing: whatever has to be executed goes through a closure of the caller's, and what has
//! to be fetched through the hub crate.

pub mod environment;
pub mod filter;
mod forms;
mod git_object;
mod hub;
pub mod inject;
pub mod record;
pub mod split;
pub mod store;
pub mod toy;

pub use environment::{Environment, Runner};
pub use hub::DataSet;
pub use record::{FieldFault, Start, Task, TaskId};
pub use split::Split;
pub use store::{TaskError, load, save};
