//! Task sets through the crate's front door.

mod forms;
mod git_stream;
mod swe_bench;
mod task_files;
