//! Task sets through the crate's front door.

mod swe_bench;
mod task_files;
