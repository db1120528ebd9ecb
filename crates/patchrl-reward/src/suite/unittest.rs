//! unittest: its runner, and its `-v` log.
//!
//! Keys are dotted: `tests.test_a.Class.test_b`. Ids in the log's form
//! (`test_b (tests.test_a.Class)`) and in pytest's (`tests/test_a.py::Class::test_b`)
//! are read too.

use std::collections::BTreeMap;

use super::{Command, Status, Statuses, Subject, record, status};

const RUNNER: &str = include_str!("unittest_runner.py");

const RESULTS: &str = "unittest.json";

/// Turn `PYTHON -m unittest ARGS` into our runner with the same arguments; a command of
/// another form stays as it is.
///
/// The runner keeps the workspace off the module path until its own imports are done, so
/// that a planted `unittest.py` is not the one that is imported.
pub(super) fn instrument(command: &mut Command, subject: Subject<'_>) {
    if !command.run_by("unittest", RUNNER, subject, &[&format!("{{out}}/{RESULTS}")]) {
        return;
    }
    command.result_file = Some(RESULTS.to_owned());
    // A run that stops at the first failure may not come to the controls.
    if !command.argv.iter().any(|word| word == "-f" || word == "--failfast") {
        command.controls.fail =
            vec!["control.must_fail".to_owned(), "control.must_raise".to_owned()];
        command.controls.pass = vec!["control.must_pass".to_owned()];
    }
}

/// The dotted form of a test id.
pub(super) fn key(id: &str) -> String {
    if let Some((path, names)) = id.split_once("::") {
        let module = path.strip_suffix(".py").unwrap_or(path).replace('/', ".");
        return format!("{module}.{}", names.replace("::", "."));
    }
    let Some((test, rest)) = id.split_once(" (") else {
        return id.to_owned();
    };
    let class = rest.split(')').next().unwrap_or(rest);
    // From Python 3.11 on the bracket holds the test's name as well.
    match class.strip_suffix(test).and_then(|head| head.strip_suffix('.')) {
        Some(_) => class.to_owned(),
        None => format!("{class}.{test}"),
    }
}

/// Read the file our runner writes.
pub(super) fn result_file(bytes: &[u8]) -> Statuses {
    let seen: BTreeMap<String, String> = serde_json::from_slice(bytes).unwrap_or_default();
    let mut statuses = Statuses::new();
    for (id, word) in &seen {
        if let Some(status) = status(word) {
            record(&mut statuses, key(id), status);
        }
    }
    statuses
}

/// Read `python -m unittest -v` as it prints itself: `test_b (tests.test_a.C) ... ok`.
pub(super) fn verbose_log(log: &str) -> Statuses {
    let mut statuses = Statuses::new();
    let mut pending: Option<String> = None;
    for line in log.lines() {
        let line = line.trim_end();
        if let Some((head, word)) = line.rsplit_once(" ... ") {
            // A doc-string's first line follows the id on a line of its own.
            let id = if head.contains(" (") { Some(head.to_owned()) } else { pending.take() };
            if let (Some(id), Some(status)) = (id.clone(), word_status(word)) {
                record(&mut statuses, key(&id), status);
                pending = None;
            } else {
                pending = id;
            }
        } else if let Some(failed) = line.strip_prefix("FAIL: ") {
            record(&mut statuses, key(failed), Status::Failed);
        } else if let Some(failed) = line.strip_prefix("ERROR: ") {
            record(&mut statuses, key(failed), Status::Error);
        } else if let Some(status) = word_status(line) {
            // The test printed between its name and its word.
            if let Some(id) = pending.take() {
                record(&mut statuses, key(&id), status);
            }
        } else if line.starts_with("test") && line.ends_with(')') && line.contains(" (") {
            pending = Some(line.to_owned());
        }
    }
    statuses
}

fn word_status(word: &str) -> Option<Status> {
    Some(match word {
        "ok" => Status::Passed,
        "FAIL" => Status::Failed,
        "ERROR" => Status::Error,
        "expected failure" => Status::Xfail,
        "unexpected success" => Status::Xpass,
        word if word.starts_with("skipped") => Status::Skipped,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_id_is_one_key() {
        for id in [
            "tests.test_a.C.test_b",
            "test_b (tests.test_a.C)",
            "test_b (tests.test_a.C.test_b)",
            "tests/test_a.py::C::test_b",
        ] {
            assert_eq!(key(id), "tests.test_a.C.test_b", "{id}");
        }
    }

    #[test]
    fn the_verbose_log_is_read() {
        let log = "test_a (t.C) ... ok\ntest_b (t.C.test_b) ... FAIL\n\
            test_c (t.C)\nSays what it does. ... ok\ntest_d (t.C) ... printed\nok\n\
            test_e (t.C) ... skipped 'no'\ntest_f (t.C) ... expected failure\n\
            ======\nFAIL: test_b (t.C.test_b)\nFAILED (failures=1)\n";
        let read = verbose_log(log);
        assert_eq!(read["t.C.test_a"], Status::Passed);
        assert_eq!(read["t.C.test_b"], Status::Failed);
        assert_eq!(read["t.C.test_c"], Status::Passed);
        assert_eq!(read["t.C.test_d"], Status::Passed);
        assert_eq!(read["t.C.test_e"], Status::Skipped);
        assert_eq!(read["t.C.test_f"], Status::Xfail);
        assert_eq!(read.len(), 6);
    }

    #[test]
    fn lines_without_the_nonce_are_not_a_report() {
        let log = "n0 passed t.C.a\nn1 passed t.C.b\nn0passed t.C.c\nn0 nonsense t.C.d\n";
        let read = super::super::marked_lines(log, "n0", key);
        assert_eq!(read.keys().collect::<Vec<_>>(), ["t.C.a"]);
    }
}
