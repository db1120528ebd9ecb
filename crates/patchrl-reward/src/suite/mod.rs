//! Test suites: the command that runs them and how their reports are read.
//!
//! Owns one reader per framework and the agreement between three witnesses:
//! the exit code (out of band, from the sandbox), the log, and the result file
//! that the framework wrote outside the workspace. A test passed only if all
//! of them say so. Not a defence against a package that rewrites its own test
//! framework in memory: test code and tested code share one process.

mod grade;
mod junit;
mod pytest;
mod sympy;
mod unittest;

use std::collections::BTreeMap;

pub(crate) use grade::{Graded, grade};
use patchrl_sandbox::Ending;
use patchrl_task::Runner;

/// What a framework said about one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Passed,
    Skipped,
    /// Failed, as its mark expects.
    Xfail,
    /// Passed against the expectation of its mark.
    Xpass,
    Failed,
    Error,
    /// The witnesses disagree.
    Disputed,
}

impl Status {
    /// The word a report uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Xfail => "xfail",
            Self::Xpass => "xpass",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Disputed => "disputed",
        }
    }
}

/// Status by test key. Keys are framework-specific; `key` maps a task's test id to one.
pub(crate) type Statuses = BTreeMap<String, Status>;

/// Keep the worst word on a test that is reported more than once.
fn record(statuses: &mut Statuses, key: String, status: Status) {
    let slot = statuses.entry(key).or_insert(status);
    *slot = (*slot).max(status);
}

/// One run of a test suite, ready for the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) argv: Vec<String>,
    /// Result file under the sandbox's `{out}`, if the framework writes one.
    pub(crate) result_file: Option<String>,
    nonce: String,
    runner: Runner,
}

/// Goes into the cache key of verdicts: raise it when the reading of reports changes.
pub(crate) const READING: &str = "1";

impl Command {
    /// Add to a test command what makes its reports readable here.
    ///
    /// `argv` is complete: interpreter filled in, test files named. `nonce` marks this run's report lines and result file, so that
    /// text prepared in advance is not taken for a report.
    pub(crate) fn new(runner: Runner, mut argv: Vec<String>, nonce: &str) -> Self {
        let result_file = match runner {
            Runner::Unittest => unittest::instrument(&mut argv, nonce),
            Runner::Pytest => Some(pytest::instrument(&mut argv, nonce)),
            Runner::Sympy => None,
        };
        Self { argv, result_file, nonce: nonce.to_owned(), runner }
    }

    /// Read what the run left behind.
    pub(crate) fn read(&self, ending: Ending, log: &[u8], results: Option<&[u8]>) -> Reading {
        let text = String::from_utf8_lossy(log);
        let instrumented = self.result_file.is_some();
        let logged = match self.runner {
            Runner::Unittest if instrumented => unittest::marked_lines(&text, &self.nonce),
            Runner::Unittest => unittest::verbose_log(&text),
            Runner::Pytest => pytest::summary(&text),
            Runner::Sympy => sympy::verbose_log(&text),
        };
        let filed = match self.runner {
            Runner::Unittest => results.map(unittest::result_file),
            Runner::Pytest => results.map(|bytes| junit::parse(&String::from_utf8_lossy(bytes))),
            Runner::Sympy => None,
        };
        grade::agree(ending, logged, filed, instrumented)
    }
}

/// What all witnesses of a run agree on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) statuses: Statuses,
    pub(crate) disagreements: Vec<String>,
}

/// The key under which a framework's reports name the test that a task calls `id`.
pub(crate) fn key(runner: Runner, id: &str) -> String {
    match runner {
        Runner::Unittest => unittest::key(id),
        Runner::Pytest => pytest::key(id),
        Runner::Sympy => id.to_owned(),
    }
}
