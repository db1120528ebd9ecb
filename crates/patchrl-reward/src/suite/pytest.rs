//! pytest: our runner of it, its flags, and its `-rA` summary.
//!
//! Keys are `dotted.module.Class::name[params]`, the form its result file uses.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::{CONTROL, Command, Status, Statuses, Subject, record};

const RUNNER: &str = include_str!("pytest_runner.py");

const RESULTS: &str = "junit.xml";

/// Turn `PYTHON -m pytest ARGS` into our runner with the same arguments, a result file, and
/// a file of controls beside the first test file.
///
/// A command of another form gets the flags alone and is read by its summary.
pub(super) fn instrument(command: &mut Command, subject: Subject<'_>) {
    let runs = command.run_by("pytest", RUNNER, subject, &[]);
    if runs {
        add_controls(command, subject);
    }
    for flag in ["-rA", "--color=no"] {
        if !command.argv.iter().any(|arg| arg == flag) {
            command.argv.push(flag.to_owned());
        }
    }
    command.argv.extend(["-p".to_owned(), "no:cacheprovider".to_owned()]);
    if runs {
        command.argv.push(format!("--junitxml={{out}}/{RESULTS}"));
        command.result_file = Some(RESULTS.to_owned());
    }
}

/// Not where a run stops at the first failure, and not where the command names no file:
/// one named would be the only one that runs.
fn add_controls(command: &mut Command, subject: Subject<'_>) {
    let stops =
        |word: &String| word == "-x" || word == "--exitfirst" || word.starts_with("--maxfail");
    let file = |word: &String| {
        let file = word.split("::").next().unwrap_or(word);
        let is_python = Path::new(file).extension().is_some_and(|it| it == "py");
        (is_python && !file.starts_with(['-', '/'])).then(|| file.to_owned())
    };
    let Some(first) = command.argv.iter().find_map(file) else {
        return;
    };
    if command.argv.iter().any(stops) {
        return;
    }
    // The name tells nothing of the nonce: whoever lists the folder sees it.
    let name = crate::prepare::hex(&Sha256::digest(subject.nonce)[..6]);
    let folder = first.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let path = format!("{folder}test_{name}.py");
    let touched = serde_json::json!(subject.touched);
    let text = format!(
        "{CONTROL}\n\ndef test_{name}_a():\n    assert \"{name}\" == \"\"\n\n\n\
         def test_{name}_b():\n    raise ValueError\n\n\n\
         def test_{name}_c():\n    check({touched})\n"
    );
    let id = |letter: char| key(&format!("{path}::test_{name}_{letter}"));
    command.controls.fail = vec![id('a'), id('b')];
    command.controls.pass = vec![id('c')];
    command.argv.push(path.clone());
    command.files.insert(path, text.into_bytes());
}

/// `tests/test_a.py::Class::test[x]` as the result file spells it.
pub(super) fn key(id: &str) -> String {
    let (path, params) = match id.find('[') {
        Some(at) => id.split_at(at),
        None => (id, ""),
    };
    let mut names: Vec<&str> = path.split("::").filter(|name| *name != "()").collect();
    let last = names.pop().unwrap_or_default();
    let mut class = String::new();
    for (at, name) in names.iter().enumerate() {
        if at == 0 {
            class.push_str(&name.strip_suffix(".py").unwrap_or(name).replace('/', "."));
        } else {
            class.push('.');
            class.push_str(name);
        }
    }
    format!("{class}::{last}{params}")
}

/// Read the lines after the last `short test summary info` header.
///
/// Skips are folded there (`SKIPPED [2] file:line: why`) and carry no test id;
/// the result file names them.
pub(super) fn summary(log: &str) -> Statuses {
    let mut statuses = Statuses::new();
    for line in log.lines() {
        let line = line.trim_end();
        if line.starts_with("===") && line.contains("short test summary info") {
            statuses.clear();
            continue;
        }
        let Some((word, rest)) = line.split_once(' ') else {
            continue;
        };
        let (status, has_reason) = match word {
            "PASSED" => (Status::Passed, false),
            "FAILED" => (Status::Failed, true),
            "ERROR" => (Status::Error, true),
            "XFAIL" => (Status::Xfail, true),
            "XPASS" => (Status::Xpass, true),
            _ => continue,
        };
        if !rest.contains("::") {
            continue;
        }
        let id = if has_reason { rest.split(" - ").next().unwrap_or(rest) } else { rest };
        record(&mut statuses, key(id), status);
    }
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_the_result_file_s_keys() {
        assert_eq!(
            key("tests/a/test_x.py::C::test_y[a::b/c.py]"),
            "tests.a.test_x.C::test_y[a::b/c.py]"
        );
        assert_eq!(key("test_x.py::test_y"), "test_x::test_y");
        assert_eq!(key("no_separator"), "::no_separator");
    }

    #[test]
    fn only_the_last_summary_counts() {
        let log = "PASSED t.py::forged\n\
            ==== short test summary info ====\n\
            PASSED t.py::test_a\nPASSED t.py::test_b[x y]\nERROR t.py::test_b[x y] - boom\n\
            FAILED t.py::test_c - assert 1 - 1\nSKIPPED [1] t.py:3: no\nXFAIL t.py::test_d - why\n\
            ==== 2 passed ====\n";
        let read = summary(log);
        assert_eq!(read.get("t::forged"), None);
        assert_eq!(read["t::test_a"], Status::Passed);
        assert_eq!(read["t::test_b[x y]"], Status::Error);
        assert_eq!(read["t::test_c"], Status::Failed);
        assert_eq!(read["t::test_d"], Status::Xfail);
        assert_eq!(read.len(), 4);
    }
}
