//! From three witnesses and the controls to counts.
//!
//! Rules: a `FAIL_TO_PASS` test must have passed; skipped, expected to fail and
//! absent are all failures. A `PASS_TO_PASS` test may also be skipped or fail
//! as expected, if it does so without the patch too. Where the witnesses differ, the test did not pass; where the
//! exit code contradicts the tests, none did.

use patchrl_sandbox::Ending;
use patchrl_task::Runner;

use super::{Controls, Reading, Status, Statuses, key};

/// How many failures a verdict lists by name.
const LISTED: usize = 20;

/// Counts and reasons of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Graded {
    pub(crate) f2p_passed: u32,
    pub(crate) p2p_passed: u32,
    pub(crate) failures: Vec<String>,
    /// `PASS_TO_PASS` tests that count as passed although they did not run to their end.
    pub(crate) excused: Vec<(String, Status)>,
}

/// Merge log and result file, then hold the exit code against them.
pub(super) fn agree(
    ending: Ending,
    logged: Statuses,
    filed: Option<Statuses>,
    expected_file: bool,
) -> Reading {
    let mut reading = Reading::default();
    let mut statuses = logged;
    if let Some(filed) = filed {
        statuses = merge(&statuses, &filed, &mut reading.disagreements);
    } else if expected_file {
        reading.disagreements.push("the result file is missing".to_owned());
        dispute(&mut statuses);
    }
    let failed = statuses.values().any(|s| matches!(s, Status::Failed | Status::Error));
    // These two may or may not have made the run fail.
    let unsure = statuses.values().any(|s| matches!(s, Status::Xpass | Status::Disputed));
    let complaint = match ending {
        Ending::Exited(0) if failed => Some("exit code 0, but tests failed".to_owned()),
        Ending::Exited(1) if !failed && !unsure => {
            Some("exit code 1, but no test failed".to_owned())
        }
        Ending::Exited(0 | 1) => None,
        Ending::Exited(code) => Some(format!("exit code {code}: the run did not complete")),
        Ending::Signaled(_) | Ending::TimedOut | Ending::OutOfMemory => {
            Some("the run did not complete".to_owned())
        }
    };
    if let Some(complaint) = complaint {
        reading.disagreements.push(complaint);
        dispute(&mut statuses);
    }
    reading.disagreements.truncate(LISTED);
    reading.statuses = statuses;
    reading
}

/// Take the controls out; where one did not come out as it must, nothing is believed.
pub(super) fn hold_controls(reading: &mut Reading, controls: &Controls) {
    let mut wrong = Vec::new();
    for key in &controls.fail {
        match reading.statuses.remove(key) {
            Some(Status::Failed | Status::Error) => {}
            status => wrong.push((key, status)),
        }
    }
    for key in &controls.pass {
        match reading.statuses.remove(key) {
            Some(Status::Passed) => {}
            status => wrong.push((key, status)),
        }
    }
    for (key, status) in wrong {
        let seen = status.map_or("not run", Status::as_str);
        void(reading, format!("the control `{key}`: {seen}"));
    }
}

/// Believe no test of this run, for this reason.
pub(super) fn void(reading: &mut Reading, why: String) {
    reading.disagreements.push(why);
    dispute(&mut reading.statuses);
}

/// No test of this run is believed to have passed.
fn dispute(statuses: &mut Statuses) {
    for status in statuses.values_mut().filter(|status| **status < Status::Failed) {
        *status = Status::Disputed;
    }
}

fn merge(logged: &Statuses, filed: &Statuses, disagreements: &mut Vec<String>) -> Statuses {
    let mut merged = Statuses::new();
    for key in logged.keys().chain(filed.keys()) {
        if merged.contains_key(key) {
            continue;
        }
        let (log, file) = (logged.get(key).copied(), filed.get(key).copied());
        let status = match (log, file) {
            (Some(log), Some(file)) if log == file => log,
            // The log folds skips and the file has no word for these two.
            (None, Some(Status::Skipped)) => Status::Skipped,
            (Some(Status::Xpass), Some(Status::Passed)) => Status::Xpass,
            (Some(Status::Xfail), Some(Status::Skipped)) => Status::Xfail,
            (Some(log), Some(file)) if log >= Status::Failed && file >= Status::Failed => {
                log.max(file)
            }
            (log, Some(file)) if file >= Status::Failed && log.is_none() => file,
            (log, file) => {
                let word = |status: Option<Status>| status.map_or("nothing", Status::as_str);
                disagreements.push(format!(
                    "`{key}`: log says {}, result file says {}",
                    word(log),
                    word(file)
                ));
                Status::Disputed
            }
        };
        merged.insert(key.clone(), status);
    }
    merged
}

/// Count the required tests.
pub(crate) fn grade(runner: Runner, reading: &Reading, f2p: &[String], p2p: &[String]) -> Graded {
    let mut graded = Graded::default();
    for id in f2p {
        match worst(runner, &reading.statuses, id) {
            Some(Status::Passed) => graded.f2p_passed += 1,
            status => graded.miss("FAIL_TO_PASS", id, status),
        }
    }
    for id in p2p {
        match worst(runner, &reading.statuses, id) {
            Some(Status::Passed) => graded.p2p_passed += 1,
            Some(status @ (Status::Skipped | Status::Xfail)) => {
                graded.p2p_passed += 1;
                graded.excused.push((id.clone(), status));
            }
            status => graded.miss("PASS_TO_PASS", id, status),
        }
    }
    graded
}

impl Graded {
    /// Believe no excuse that the unchanged tree does not have: a patch must not make a test
    /// skip that it breaks.
    pub(crate) fn hold_excuses(&mut self, unchanged: &Self) {
        for (id, status) in std::mem::take(&mut self.excused) {
            if unchanged.excused.iter().any(|(known, _)| *known == id) {
                self.excused.push((id, status));
            } else {
                self.p2p_passed -= 1;
                self.miss("PASS_TO_PASS", &id, Some(status));
            }
        }
    }

    fn miss(&mut self, list: &str, id: &str, status: Option<Status>) {
        if self.failures.len() < LISTED {
            let seen = status.map_or("not run", Status::as_str);
            self.failures.push(format!("{list} `{id}`: {seen}"));
        }
    }
}

/// The status of a required test. Ids that a data set cut at the first blank
/// inside their brackets stand for every test that begins so; the worst counts.
fn worst(runner: Runner, statuses: &Statuses, id: &str) -> Option<Status> {
    let key = key(runner, id);
    if let Some(status) = statuses.get(&key) {
        return Some(*status);
    }
    let open = key.matches('[').count() > key.matches(']').count();
    if !open {
        return None;
    }
    statuses
        .range(key.clone()..)
        .take_while(|(name, _)| name.starts_with(&key))
        .map(|(_, status)| *status)
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(pairs: &[(&str, Status)]) -> Statuses {
        pairs.iter().map(|(key, status)| ((*key).to_owned(), *status)).collect()
    }

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn skip_xfail_and_absence_fail_a_fail_to_pass_test_only() {
        let seen =
            statuses(&[("t.a", Status::Passed), ("t.b", Status::Skipped), ("t.c", Status::Xfail)]);
        let reading = Reading { statuses: seen, disagreements: vec![] };
        let all = ids(&["t.a", "t.b", "t.c", "t.d"]);
        let graded = grade(Runner::Unittest, &reading, &all, &all);
        assert_eq!((graded.f2p_passed, graded.p2p_passed), (1, 3));
        assert!(graded.failures.contains(&"FAIL_TO_PASS `t.d`: not run".to_owned()));
        assert_eq!(graded.excused.len(), 2);
    }

    #[test]
    fn an_excuse_holds_only_if_the_unchanged_tree_has_it() {
        let seen = statuses(&[("t.a", Status::Skipped), ("t.b", Status::Xfail)]);
        let reading = Reading { statuses: seen, disagreements: vec![] };
        let mut graded = grade(Runner::Unittest, &reading, &[], &ids(&["t.a", "t.b"]));
        let unchanged =
            Graded { excused: vec![("t.a".into(), Status::Skipped)], ..Graded::default() };
        graded.hold_excuses(&unchanged);
        assert_eq!(graded.p2p_passed, 1);
        assert_eq!(graded.failures, ["PASS_TO_PASS `t.b`: xfail"]);
    }

    #[test]
    fn a_forged_line_without_a_result_does_not_pass() {
        let log = statuses(&[("t.a", Status::Passed), ("t.b", Status::Passed)]);
        let file = statuses(&[("t.a", Status::Passed), ("t.b", Status::Failed)]);
        let reading = agree(Ending::Exited(1), log.clone(), Some(file), true);
        assert_eq!(reading.statuses["t.a"], Status::Passed);
        assert_eq!(reading.statuses["t.b"], Status::Disputed);
        let reading = agree(Ending::Exited(0), log, None, true);
        assert_eq!(reading.statuses["t.a"], Status::Disputed);
    }

    #[test]
    fn an_exit_code_that_contradicts_the_tests_voids_them() {
        let good = statuses(&[("t.a", Status::Passed)]);
        for ending in
            [Ending::Exited(1), Ending::Exited(137), Ending::Signaled(9), Ending::OutOfMemory]
        {
            let reading = agree(ending, good.clone(), Some(good.clone()), true);
            assert_eq!(reading.statuses["t.a"], Status::Disputed, "{ending:?}");
            assert!(!reading.disagreements.is_empty());
        }
        let reading = agree(Ending::Exited(0), good.clone(), Some(good), true);
        assert_eq!(reading.statuses["t.a"], Status::Passed);
    }

    #[test]
    fn a_cut_id_stands_for_all_that_begin_so() {
        let seen = statuses(&[
            ("t::x[a b]", Status::Passed),
            ("t::x[a c]", Status::Passed),
            ("t::y[a b]", Status::Passed),
            ("t::y[a c]", Status::Failed),
        ]);
        let reading = Reading { statuses: seen, disagreements: vec![] };
        let graded =
            grade(Runner::Pytest, &reading, &ids(&["t.py::x[a", "t.py::y[a", "t.py::x"]), &[]);
        assert_eq!(graded.f2p_passed, 1);
    }
}
