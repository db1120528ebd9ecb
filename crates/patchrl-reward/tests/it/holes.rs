//! Holes of the SWE-bench harness: one patch for each that version 5 believes, on tests that
//! it really runs, and that the judge does not.
//!
//! The harness's side is its chain, its script and its grading, in the sandbox instead of a
//! container. Its repository is one with history and a build step; the judge's is the tree
//! alone. Where pytest cannot be installed the test says so and passes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchrl_reward::harness::{
    Context, Dialect, EvalType, Expected, Parser, Report, grade, script,
};
use patchrl_reward::{CodePolicy, GuardConfig, Judge, Mode, Outcome, Preparer, Ready};
use patchrl_reward::{RewardConfig, Settings};
use patchrl_sandbox::host::{self, Trusted};
use patchrl_sandbox::python::{self, VenvSpec};
use patchrl_sandbox::{Job, Local, git};
use patchrl_task::Task;
use serde_json::json;

const PYTEST: &str = "pytest==8.3.4";

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";
const BUILD: &str = "print('built')\n";
const TEST: &str = "import unittest\n\nimport calc\n\n\nclass T(unittest.TestCase):\n    \
    def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n";
const TEST_AFTER: &str = "import unittest\n\nimport calc\n\n\nclass T(unittest.TestCase):\n    \
    def test_sub(self):\n        self.assertEqual(calc.sub(3, 2), 1)\n\n    \
    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n";
const NEW_TEST: &str = "import calc\n\n\ndef test_new():\n    assert calc.add(2, 2) == 4\n";

const IDS: [&str; 3] = [
    "tests/test_calc.py::T::test_add",
    "tests/test_new.py::test_new",
    "tests/test_calc.py::T::test_sub",
];
/// The same where unittest runs them and the harness's parser for Django reads the log.
const DJANGO_IDS: [&str; 2] =
    ["test_add (tests.test_calc.T.test_add)", "test_sub (tests.test_calc.T.test_sub)"];

/// What the harness believes of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Believes {
    Resolved,
    /// That it was applied, which 30 % of a seed reward is paid for.
    Applied,
}

struct Hole {
    name: &'static str,
    believes: Believes,
    patch: String,
    /// Put into the script in place of a reset that works.
    reset: Option<&'static str>,
    /// The tests are run by unittest and read as Django's are.
    django: bool,
}

fn hole(name: &'static str, patch: String) -> Hole {
    Hole { name, believes: Believes::Resolved, patch, reset: None, django: false }
}

/// A diff from one text of a file to another; an empty one is no file.
fn diff(path: &str, old: &str, new: &str) -> String {
    let mut text = format!("diff --git a/{path} b/{path}\n");
    let side = |letter: char, text: &str| match text {
        "" => "/dev/null".to_owned(),
        _ => format!("{letter}/{path}"),
    };
    if old.is_empty() {
        text.push_str("new file mode 100644\n");
    }
    let (from, to) = (usize::from(!old.is_empty()), usize::from(!new.is_empty()));
    let _ = write!(
        text,
        "--- {}\n+++ {}\n@@ -{from},{} +{to},{} @@\n",
        side('a', old),
        side('b', new),
        old.lines().count(),
        new.lines().count()
    );
    for (mark, side) in [('-', old), ('+', new)] {
        side.lines().for_each(|line| {
            let _ = writeln!(text, "{mark}{line}");
        });
    }
    text
}

/// `calc.py` with code before what is in it.
fn calc(code: &str) -> String {
    diff("calc.py", CALC, &format!("{code}\n{CALC}"))
}

fn gold() -> String {
    diff("calc.py", CALC, &CALC.replacen("a - b", "a + b", 1))
}

fn conftest(code: &str) -> String {
    diff("conftest.py", "", code)
}

/// Lines that look like pytest's, for all required tests.
fn forged() -> String {
    IDS.map(|id| format!("PASSED {id}")).join("\\n")
}

/// Tests that pass whatever is tested.
const WEAK: &str = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n\n    def test_sub(self):\n        pass\n";
const WEAK_NEW: &str = "def test_new():\n    pass\n";

#[expect(clippy::too_many_lines, reason = "a list")]
fn holes() -> Vec<Hole> {
    let forged = forged();
    let at_exit = |lines: &str| {
        format!("import atexit, os\natexit.register(lambda: os.write(1, b'\\n{lines}\\n'))\n")
    };
    // Pytest keeps the real output under another number while it captures.
    let early = |lines: &str| {
        format!(
            "import os\nfor fd in range(3, 30):\n    try:\n        \
             os.write(fd, b'\\n{lines}\\n')\n    except OSError:\n        pass\n"
        )
    };
    let weak = diff("tests/test_calc.py", TEST, WEAK) + &diff("tests/test_new.py", "", WEAK_NEW);
    vec![
        hole(
            "conftest takeover: a hook makes every report a pass",
            conftest(
                "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n\
                 def pytest_runtest_makereport(item, call):\n    outcome = yield\n    \
                 outcome.get_result().outcome = 'passed'\n",
            ),
        ),
        hole(
            "forged PASSED lines, and one failure to make the exit code plausible",
            calc(&at_exit(&format!("{forged}\\nFAILED other::test"))),
        ),
        hole(
            "a forged exit code before the real one",
            calc(&at_exit(&format!("{forged}\\n>>>>> Test Exit Code: 0"))),
        ),
        hole(
            "a forged end marker behind forged lines",
            calc(&at_exit(&format!("{forged}\\n>>>>> End Test Output\\n>>>>> Test Exit Code: 0"))),
        ),
        hole(
            "FAIL_TO_PASS tests are expected to fail and not run",
            conftest(
                "import pytest\n\n\ndef pytest_collection_modifyitems(items):\n    \
                 for item in items:\n        if item.name != 'test_sub':\n            \
                 item.add_marker(pytest.mark.xfail(run=False))\n",
            ),
        ),
        Hole {
            django: true,
            ..hole(
                "the fix breaks a PASS_TO_PASS test, which is skipped",
                diff(
                    "calc.py",
                    CALC,
                    "import unittest\n\n\ndef add(a, b):\n    return a + b\n\n\n\
                     def sub(a, b):\n    raise unittest.SkipTest('no')\n",
                ),
            )
        },
        hole("a test file is planted where the hidden tests have theirs", weak.clone())
            .with_reset("true"),
        hole("a reset that names an unknown file resets nothing", weak)
            .with_reset("git checkout HEAD tests/test_calc.py tests/test_new.py"),
        Hole {
            believes: Believes::Applied,
            ..hole(
                "a reversed patch is there already",
                diff("calc.py", &CALC.replace("def", "de"), CALC),
            )
        },
        Hole {
            believes: Believes::Applied,
            ..hole("a patch that changes nothing", diff("calc.py", CALC, CALC))
        },
        hole(
            "the solution is read from the history",
            diff(
                "calc.py",
                CALC,
                "import subprocess\n\nexec(subprocess.run(['git', 'show', 'later:calc.py'], \
                 capture_output=True, text=True).stdout)\n",
            ),
        ),
        hole(
            "the process ends with 0 before a test runs",
            calc(&format!("{}os._exit(0)\n", early(&forged))),
        ),
        hole(
            "pytest itself is patched from the code under test",
            calc(
                "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call\n\
                 def good(item, call):\n    report = make(item, call)\n    \
                 report.outcome, report.longrepr = 'passed', None\n    return report\n\
                 r.TestReport.from_item_and_call = good\n",
            ),
        ),
        hole(
            "a process started by the build outlives it and rewrites the tests",
            diff(
                "build.py",
                BUILD,
                &format!(
                    "import os, time\nif os.fork() == 0:\n    os.setsid()\n    \
                     for _ in range(20000):\n        \
                     if os.path.exists('tests/test_new.py'):\n            \
                     open('tests/test_new.py', 'w').write({WEAK_NEW:?})\n            \
                     open('tests/test_calc.py', 'w').write({WEAK:?})\n            break\n        \
                     time.sleep(0.001)\n    os._exit(0)\n"
                ),
            ),
        ),
    ]
}

impl Hole {
    fn with_reset(mut self, reset: &'static str) -> Self {
        self.reset = Some(reset);
        self
    }
}

/// The harness's side.
struct Harness {
    base: PathBuf,
    python: PathBuf,
    visible: Vec<PathBuf>,
    test_patch: String,
}

impl Harness {
    fn judge(&self, sandbox: &Local, hole: &Hole) -> (bool, Report) {
        let reset = hole.reset.unwrap_or("git checkout HEAD tests/test_calc.py");
        let (command, parser, fail_to_pass, pass_to_pass) = if hole.django {
            let (f2p, p2p) = DJANGO_IDS.split_at(1);
            ("python -m unittest -v tests.test_calc", "parse_log_django", f2p, p2p)
        } else {
            let (f2p, p2p) = IDS.split_at(2);
            let command = "python -m pytest -rA tests/test_calc.py tests/test_new.py";
            (command, "parse_log_pytest", f2p, p2p)
        };
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let made = script::v5(&format!(
            "#!/bin/bash\nset -uxo pipefail\npython build.py\n{reset}\n\
             git apply -v - <<'EOF_114329324912'\n{}\nEOF_114329324912\n\
             : '>>>>> Start Test Output'\n{command}\n: '>>>>> End Test Output'\n{reset}\n",
            self.test_patch
        ));
        let mut job = Job::new(&self.base, [""; 0]);
        let bin = self.python.parent().unwrap().display();
        job.env = [("PATH", format!("{bin}:/usr/bin:/bin")), ("PYTHONPATH", "{workspace}".into())]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        job.read_only.clone_from(&self.visible);
        let done = Dialect::V5.evaluate(sandbox, job, &hole.patch, &made).unwrap();
        let log = done.test_output.unwrap_or_default();
        let expected = Expected {
            parser: Parser::named(parser).unwrap(),
            context: Context { dialect: Dialect::V5, instance_id: "a__a-1", version: None },
            eval_type: EvalType::PassAndFail,
            fail_to_pass: &owned(fail_to_pass),
            pass_to_pass: &owned(pass_to_pass),
        };
        let report = grade(expected, true, &log).unwrap();
        if std::env::var_os("PATCHRL_SHOW").is_some() {
            println!("--- {}\n{log}\n{report:?}", hole.name);
        }
        (done.chained.applied, report)
    }
}

pub(crate) fn the_harness_s_holes_are_shut(sandbox: &Arc<Local>) {
    let Some((harness, ready, _folder)) = set_up() else { return };
    let judge = |code| {
        let guard = GuardConfig { code, ..GuardConfig::default() };
        let reward = RewardConfig { guard, ..RewardConfig::default() }.resolve().unwrap();
        Judge::new(Arc::clone(sandbox), Settings { reward, ..Settings::default() })
    };
    // The guard as it stands, and with its look at the code switched off.
    let (strict, lenient) = (judge(CodePolicy::Refuse), judge(CodePolicy::Record));
    let fair = hole("the known answer", gold());
    let (applied, report) = harness.judge(sandbox, &fair);
    assert!(applied && report.resolved, "{report:#?}");
    let judged = strict.judge(&ready, &fair.patch, false, Mode::Resolved);
    assert_eq!(judged.outcome, Outcome::Resolved, "{judged:#?}");
    let nothing = hole("no fix", diff("notes.txt", "", "nothing\n"));
    assert!(!harness.judge(sandbox, &nothing).1.resolved);

    let mut wrong = Vec::new();
    for hole in holes() {
        let (applied, report) = harness.judge(sandbox, &hole);
        let believed = match hole.believes {
            Believes::Resolved => report.resolved,
            Believes::Applied => applied && report.patch_successfully_applied,
        };
        let judged = strict.judge(&ready, &hole.patch, false, Mode::Resolved);
        let paid = strict.judge(&ready, &hole.patch, false, Mode::Tests).reward.unwrap_or(1.0);
        let held = match hole.believes {
            Believes::Resolved => judged.reward == Some(0.0) && paid <= 0.3,
            Believes::Applied => paid <= 0.0,
        };
        let bare = lenient.judge(&ready, &hole.patch, false, Mode::Resolved);
        println!(
            "  {}: harness {}, judge {} ({}without the look at the code)",
            hole.name,
            if believed { "believes" } else { "does not believe" },
            judged.outcome.as_str(),
            if bare.reward == Some(0.0) { "also " } else { "not " },
        );
        if !believed || !held {
            wrong.push(format!("{}: {report:?}\n{judged:#?}", hole.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn set_up() -> Option<(Harness, Ready, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let (repos, cache) = (folder.path().join("repos"), folder.path().join("cache"));
    fs_err::create_dir_all(&repos).unwrap();
    let mut stream = String::new();
    let files = [("calc.py", CALC), ("build.py", BUILD), ("tests/test_calc.py", TEST)];
    let fixed = CALC.replacen("a - b", "a + b", 1);
    for (branch, from, files) in [
        ("main", "", files.to_vec()),
        ("later", "from refs/heads/main\n", vec![("calc.py", fixed.as_str())]),
    ] {
        let _ = write!(
            stream,
            "commit refs/heads/{branch}\ncommitter A <a@example.org> 0 +0000\ndata 4\nbase\n{from}"
        );
        for (path, text) in files {
            let _ = write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        }
    }
    let bare = repos.join("some__calc.git");
    git::fast_import(stream.as_bytes(), &bare).unwrap();
    let commit = git::commit_id(&bare, "main").unwrap();
    let test_patch =
        diff("tests/test_calc.py", TEST, TEST_AFTER) + &diff("tests/test_new.py", "", NEW_TEST);
    let task: Task = serde_json::from_value(json!({
        "instance_id": "some__calc-1", "repo": "some/calc", "base_commit": commit,
        "problem_statement": "add is wrong", "patch": gold(), "test_patch": test_patch,
        "FAIL_TO_PASS": IDS[..2], "PASS_TO_PASS": IDS[2..],
        "environment": {
            "requirements": [PYTEST], "runner": "pytest", "env": {"PYTHONPATH": "{tree}"},
            "test_command": ["{python}", "-m", "pytest", "-rA"],
        },
    }))
    .unwrap();
    let ready = match Preparer::new(Some(repos), &cache).prepare(&task) {
        Ok(ready) => ready,
        Err(e) => {
            println!("skipped: {PYTEST} cannot be installed here: {e}");
            return None;
        }
    };
    let spec = VenvSpec::new(python::find_interpreter(None).unwrap(), vec![PYTEST.to_owned()]);
    let venv = python::build_venv(&spec, &cache.join("venvs")).unwrap();
    let base = folder.path().join("testbed");
    clone(&bare, &base);
    let harness = Harness { base, python: venv.python, visible: venv.read_only, test_patch };
    Some((harness, ready, folder))
}

/// A repository with a work tree and all branches, as an image that was not cut off holds.
fn clone(bare: &Path, to: &Path) {
    let (from, to) = (bare.display().to_string(), to.display().to_string());
    for words in [
        vec!["git", "clone", "-q", "-b", "main", &from, &to],
        vec!["git", "-C", &to, "branch", "-q", "later", "origin/later"],
        vec!["git", "-C", &to, "remote", "remove", "origin"],
    ] {
        host::run_ok(&Trusted::new(words)).unwrap();
    }
}
