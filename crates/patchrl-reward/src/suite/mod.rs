//! Test suites: the command that runs them and how their reports are read.
//!
//! Owns one reader per framework and the agreement between three witnesses: the exit code
//! (out of band, from the sandbox), marked lines in the log, and the result file that the
//! framework wrote outside the workspace. A test passed only if all of them say so, and
//! only if the run's controls came out as they must: tests of ours that have to fail, and
//! one that fails where it finds the run tampered with. Test code and tested code share one
//! process, so this is a fence and no wall; the guard looks at the code for what it takes
//! to climb it. sympy's own runner has neither marks nor controls.

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

/// What the runners need to know of the answer under judgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Marks this run's report lines, so that text prepared in advance is no report.
    pub(crate) nonce: &'a str,
    /// Python files that the patch leaves.
    pub(crate) touched: &'a [String],
    /// Files of the task's tests.
    pub(crate) tests: &'a [String],
}

/// One run of a test suite, ready for the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) argv: Vec<String>,
    /// Result file under the sandbox's `{out}`, if the framework writes one.
    pub(crate) result_file: Option<String>,
    /// Files of ours to put into the workspace.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    nonce: String,
    runner: Option<Runner>,
    controls: Controls,
}

/// Keys of the tests that must fail and of those that must pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Controls {
    fail: Vec<String>,
    pass: Vec<String>,
}

/// Where a runner finds its settings: in the folder that no patch may touch. The runner
/// removes the file before it imports anything of the workspace.
const SETTINGS: &str = ".patchrl/run.json";

/// Goes into the cache key of verdicts: raise it when the reading of reports changes.
pub(crate) const READING: &str = "3";

impl Command {
    /// Add to a test command what makes its reports readable here.
    ///
    /// `argv` is complete: interpreter filled in, test files named.
    pub(crate) fn new(runner: Runner, argv: Vec<String>, subject: Subject<'_>) -> Self {
        let mut command =
            Self { argv, nonce: subject.nonce.to_owned(), runner: Some(runner), ..Self::default() };
        match runner {
            Runner::Unittest => unittest::instrument(&mut command, subject),
            Runner::Pytest => pytest::instrument(&mut command, subject),
            Runner::Sympy => {}
        }
        command
    }

    /// Replace `-m MODULE` by a runner of ours that reads its settings first.
    fn run_by(&mut self, module: &str, program: &str, subject: Subject<'_>, more: &[&str]) -> bool {
        let place = self.argv.windows(2).position(|pair| pair[0] == "-m" && pair[1] == module);
        let Some(at) = place else {
            return false;
        };
        let program = [PRELUDE, CONTROL, program].join("\n\n");
        let words = ["-s", "-B", "-c", program.as_str(), SETTINGS];
        self.argv.splice(at..at + 2, words.iter().chain(more).map(|word| (*word).to_owned()));
        let settings = serde_json::json!({
            "nonce": subject.nonce, "touched": subject.touched, "tests": subject.tests,
        });
        self.files.insert(SETTINGS.to_owned(), settings.to_string().into_bytes());
        true
    }

    /// Read what the run left behind.
    pub(crate) fn read(&self, ending: Ending, log: &[u8], results: Option<&[u8]>) -> Reading {
        let text = String::from_utf8_lossy(log);
        let instrumented = self.result_file.is_some();
        let logged = match self.runner {
            Some(Runner::Unittest) if instrumented => {
                marked_lines(&text, &self.nonce, unittest::key)
            }
            Some(Runner::Pytest) if instrumented => marked_lines(&text, &self.nonce, pytest::key),
            Some(Runner::Unittest) => unittest::verbose_log(&text),
            Some(Runner::Pytest) => pytest::summary(&text),
            Some(Runner::Sympy) => sympy::verbose_log(&text),
            None => Statuses::new(),
        };
        let filed = match self.runner {
            Some(Runner::Unittest) => results.map(unittest::result_file),
            Some(Runner::Pytest) => {
                results.map(|bytes| junit::parse(&String::from_utf8_lossy(bytes)))
            }
            Some(Runner::Sympy) | None => None,
        };
        let mut reading = grade::agree(ending, logged, filed, instrumented);
        grade::hold_controls(&mut reading, &self.controls);
        if text.contains(&format!("{} error control.peek", self.nonce)) {
            grade::void(&mut reading, "the code under test reads its tests".to_owned());
        }
        reading
    }
}

/// The beginning of both runners.
const PRELUDE: &str = include_str!("prelude.py");

/// Tests of ours, put into both runners.
const CONTROL: &str = include_str!("control.py");

/// Read the lines that a runner of ours marks with this run's nonce.
fn marked_lines(log: &str, nonce: &str, key: fn(&str) -> String) -> Statuses {
    let mut statuses = Statuses::new();
    for line in log.lines() {
        let Some(rest) = line.strip_prefix(nonce).and_then(|rest| rest.strip_prefix(' ')) else {
            continue;
        };
        if let Some((word, id)) = rest.split_once(' ')
            && let Some(status) = status(word)
        {
            record(&mut statuses, key(id), status);
        }
    }
    statuses
}

/// The status that a runner of ours calls `word`.
fn status(word: &str) -> Option<Status> {
    use Status::{Error, Failed, Passed, Skipped, Xfail, Xpass};
    [Passed, Skipped, Xfail, Xpass, Failed, Error].into_iter().find(|s| s.as_str() == word)
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
