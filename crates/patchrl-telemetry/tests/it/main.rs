//! A run's files, written and read through the front door.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod report;
mod resume;
mod run;
