//! The SWE-bench harness's own judgement, versions 4 and 5, to the last test.
//!
//! Open [`grade()`] for the report on a log, [`Parser`] for the status of each test in it,
//! [`script`] for the commands that make the log, [`Dialect::apply`] for how a patch is put
//! on. Faults of the harness are kept: numbers that are published rest on them. What may be
//! believed in training is judged by `crate::suite` instead.

mod chain;
mod grade;
mod infra;
mod parser;
pub mod script;
#[cfg(test)]
mod tests;

pub use chain::{Blob, ChainError, Chained, Evaluated, Step};
pub use grade::{EvalType, Expected, Groups, Report, Split, TestsStatus, grade, logged};
pub use infra::{Infra, Tier, infra};
pub use parser::{Context, LogFault, Parser, StatusMap};

/// Which harness: swebench 4.1.0, or 5.0.2, which is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 4.1.0, which most published numbers come from.
    V4,
    /// 5.0.2.
    V5,
}
