//! Makes `toy/tasks.jsonl` anew: injects bugs into the toy packages and keeps those their tests see.
//!
//! Runs the packages' own tests with `python3`, without a sandbox. With `--check` writes nothing
//! and fails if the result differs from the file.

#![expect(clippy::disallowed_methods, reason = "a development tool that only runs the toy tests")]
#![expect(clippy::print_stdout, reason = "says what was made")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;

use patchrl_task::inject::TestRun;
use patchrl_task::{Task, save, toy};

/// Prints `{"test id": passed}` on one line, then the usual output. An endless loop ends after 10 s of work.
const RUNNER: &str = r#"
import io, json, signal, unittest
signal.setitimer(signal.ITIMER_PROF, 10)
passed = {}
class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        passed[test.id()] = True
    def addFailure(self, test, error):
        super().addFailure(test, error)
        passed[test.id()] = False
    def addError(self, test, error):
        super().addError(test, error)
        passed[test.id()] = False
suite = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
text = io.StringIO()
unittest.TextTestRunner(text, verbosity=2, resultclass=Result).run(suite)
print(json.dumps(passed))
print(text.getvalue())
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let check = std::env::args().any(|argument| argument == "--check");
    let mut runs = 0;
    let tasks = toy::generate(toy::Recipe::default(), |files| {
        runs += 1;
        run_tests(files)
    })?;
    report(&tasks, runs);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("toy/tasks.jsonl");
    if check {
        return if patchrl_task::load(&path)? == tasks {
            Ok(())
        } else {
            Err("toy/tasks.jsonl is not what the packages give".into())
        };
    }
    save(&path, &tasks)?;
    Ok(())
}

fn run_tests(files: &BTreeMap<String, String>) -> Result<TestRun, Box<dyn Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    for (path, text) in files {
        let path = folder.path().join(path);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        fs_err::write(path, text)?;
    }
    let output =
        Command::new("python3").args(["-B", "-c", RUNNER]).current_dir(&folder).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (first, rest) = text.split_once('\n').unwrap_or_default();
    Ok(TestRun {
        passed: serde_json::from_str(first).unwrap_or_default(),
        output: rest.to_owned(),
        ended: output.status.success(),
    })
}

fn report(tasks: &[Task], runs: usize) {
    let mut packages: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for task in tasks {
        *packages.entry(&task.repo).or_default() += 1;
        *kinds.entry(toy::kind(task).map_or("?", |kind| kind.as_str())).or_default() += 1;
    }
    println!("{} tasks from {runs} test runs", tasks.len());
    println!("packages: {packages:?}");
    println!("kinds: {kinds:?}");
}
