//! From a log to a report, as `get_eval_report` of the harness makes it.
//!
//! Owns which part of a log is read, which tests count as passed, and the fields of
//! `report.json`. The two dialects differ where they do so there.

use serde::{Deserialize, Serialize};

use super::{Context, Dialect, LogFault, Parser, StatusMap, Tier, infra};
use crate::python::{find, has, re};

const START: &str = ">>>>> Start Test Output";
const END: &str = ">>>>> End Test Output";
const FAULTS: [&str; 4] = [
    ">>>>> Patch Apply Failed",
    ">>>>> Reset Failed",
    ">>>>> Tests Errored",
    ">>>>> Tests Timed Out",
];

/// Signs that tests ran, where a parser notes failures only.
const SUITE_RAN: &str = "(?m)Executed [1-9]\\d* of \\d+|TOTAL: [1-9]\\d* (?:SUCCESS|FAILED)\
    |[1-9]\\d* passing|Tests:\\s+[1-9]\\d*|Test Suites:\\s+(?:\\d+ \\w+, )*[1-9]\\d* total\
    |^# tests [1-9]\\d*|[1-9]\\d* specs?, \\d+ failures?|': ok$";

/// Which statuses count: column `eval_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalType {
    /// A test must be seen to pass.
    #[default]
    PassAndFail,
    /// The log names failures only; what it does not name passed.
    FailOnly,
}

impl EvalType {
    /// The type that version 4 uses for a repository.
    pub fn of_repo(repo: &str) -> Self {
        match repo {
            "chartjs/Chart.js" | "markedjs/marked" | "processing/p5.js" => Self::FailOnly,
            _ => Self::PassAndFail,
        }
    }
}

/// What an instance expects of its log.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Who reads the log.
    pub parser: Parser,
    /// What the parser wants to know.
    pub context: Context<'a>,
    /// Which statuses count.
    pub eval_type: EvalType,
    /// `FAIL_TO_PASS`.
    pub fail_to_pass: &'a [String],
    /// `PASS_TO_PASS`.
    pub pass_to_pass: &'a [String],
}

/// What `report.json` says of one instance.
#[expect(clippy::struct_excessive_bools, reason = "the harness's fields")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// There is no patch at all.
    #[serde(rename = "patch_is_None")]
    pub patch_is_none: bool,
    /// There is one, maybe an empty one.
    pub patch_exists: bool,
    /// The log holds results.
    pub patch_successfully_applied: bool,
    /// All required tests pass.
    pub resolved: bool,
    /// The environment broke. Version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_failure: Option<bool>,
    /// How. Version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_failure_reason: Option<String>,
    /// The required tests, where the log holds results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_status: Option<TestsStatus>,
}

/// The required tests by what is required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct TestsStatus {
    /// Failed before, must pass.
    pub fail_to_pass: Split,
    /// Passed before, must pass.
    pub pass_to_pass: Split,
    /// Always empty.
    pub fail_to_fail: Split,
    /// Always empty.
    pub pass_to_fail: Split,
}

/// Tests as they came out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// As required.
    pub success: Vec<String>,
    /// Not so.
    pub failure: Vec<String>,
}

/// Shares of [`TestsStatus`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Share of `FAIL_TO_PASS` that succeeded; 1 if none was counted.
    pub fail_to_pass: f64,
    /// The same for `PASS_TO_PASS`.
    pub pass_to_pass: f64,
}

impl TestsStatus {
    /// The two shares that decide.
    pub fn shares(&self) -> Groups {
        let share = |split: &Split| {
            let total = split.success.len() + split.failure.len();
            if total == 0 { 1.0 } else { split.success.len() as f64 / total as f64 }
        };
        Groups { fail_to_pass: share(&self.fail_to_pass), pass_to_pass: share(&self.pass_to_pass) }
    }

    fn is_full(&self) -> bool {
        self.fail_to_pass.failure.is_empty() && self.pass_to_pass.failure.is_empty()
    }
}

/// The report on one log. `has_patch` says whether the prediction holds a patch, even an
/// empty one. `log` is the text of `test_output.txt`.
pub fn grade(expected: Expected<'_>, has_patch: bool, log: &str) -> Result<Report, LogFault> {
    let v5 = expected.context.dialect == Dialect::V5;
    let mut report = Report {
        patch_is_none: !has_patch,
        patch_exists: has_patch,
        patch_successfully_applied: false,
        resolved: false,
        infra_failure: v5.then_some(false),
        infra_failure_reason: None,
        tests_status: None,
    };
    if !has_patch {
        return Ok(report);
    }
    let log = universal_newlines(log);
    let Some(statuses) = logged(expected, &log)? else {
        if v5 && let Some(found) = infra(&log) {
            report.infra_failure = Some(found.tier == Tier::Environment);
            report.infra_failure_reason = Some(found.reason.to_owned());
        }
        return Ok(report);
    };
    report.patch_successfully_applied = true;
    let status = required(expected, &statuses);
    report.resolved = status.is_full();
    report.tests_status = Some(status);
    Ok(report)
}

/// Python opens logs as text: every line end is `\n`.
fn universal_newlines(log: &str) -> std::borrow::Cow<'_, str> {
    if has(log, "\r") { log.replace("\r\n", "\n").replace('\r', "\n").into() } else { log.into() }
}

/// The statuses in a log, or nothing if it holds no results.
pub fn logged(expected: Expected<'_>, log: &str) -> Result<Option<StatusMap>, LogFault> {
    if FAULTS.iter().any(|fault| has(log, fault)) || !has(log, END) {
        return Ok(None);
    }
    let Some(start) = find(log, START) else { return Ok(None) };
    // What stands between the first start and the next marker of either kind.
    let mut inside = &log[start + START.len()..];
    for marker in [START, END] {
        inside = find(inside, marker).map_or(inside, |at| &inside[..at]);
    }
    let mut statuses = expected.parser.parse(inside, expected.context)?;
    if statuses.is_empty() {
        statuses = expected.parser.parse(log, expected.context)?;
    }
    if expected.context.dialect == Dialect::V4 {
        return Ok(Some(statuses));
    }
    if statuses.is_empty() && !re!(SUITE_RAN).is_match(log) {
        return Ok(None);
    }
    let code = re!(r">>>>> Test Exit Code:\s*(-?\d+)").captures(log);
    let went_wrong = code.is_some_and(|found| found[1].parse::<i64>().ok() != Some(0));
    let failed = statuses.values().any(|status| matches!(status.as_str(), "FAILED" | "ERROR"));
    // It ended badly without a failure: the log does not tell what happened.
    let contradicts = went_wrong && !statuses.is_empty() && !failed;
    Ok((!contradicts).then_some(statuses))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    FailToPass,
    PassToPass,
}

fn required(expected: Expected<'_>, statuses: &StatusMap) -> TestsStatus {
    let split = |tests: &[String], side: Side| {
        let mut split = Split::default();
        for test in tests {
            match verdict(expected, statuses, test, side) {
                Some(true) => split.success.push(test.clone()),
                Some(false) => split.failure.push(test.clone()),
                None => {}
            }
        }
        split
    };
    TestsStatus {
        fail_to_pass: split(expected.fail_to_pass, Side::FailToPass),
        pass_to_pass: split(expected.pass_to_pass, Side::PassToPass),
        ..TestsStatus::default()
    }
}

/// Whether a test came out as required. Some statuses are neither, and the test is left out.
fn verdict(expected: Expected<'_>, statuses: &StatusMap, test: &str, side: Side) -> Option<bool> {
    if expected.eval_type == EvalType::FailOnly {
        return Some(statuses.get(test).is_none_or(|status| status != "FAILED"));
    }
    let v5 = expected.context.dialect == Dialect::V5;
    let status = match statuses.get(test) {
        None if v5 => of_truncated(statuses, test),
        known => known.map(String::as_str),
    };
    match status {
        Some("PASSED" | "XFAIL") => Some(true),
        None | Some("FAILED" | "ERROR") => Some(false),
        Some("SKIPPED") if v5 => Some(side == Side::PassToPass),
        Some(_) => None,
    }
}

/// An id that the data set cut inside its brackets stands for all that begin so, if they
/// agree.
fn of_truncated<'s>(statuses: &'s StatusMap, test: &str) -> Option<&'s str> {
    if test.matches('[').count() <= test.matches(']').count() {
        return None;
    }
    let passes = |status: &str| matches!(status, "PASSED" | "XFAIL");
    let begins = |(name, _): &(&String, &String)| name.starts_with(test);
    let mut found = statuses.iter().filter(begins).map(|(_, status)| status.as_str());
    let first = found.next()?;
    found.all(|status| passes(status) == passes(first)).then_some(first)
}
