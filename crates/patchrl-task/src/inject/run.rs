//! From candidates to bugs that tests can see.
//!
//! Owns which candidates are tried and which are kept: some test must fail, another still pass,
//! and the failure must say something that an issue can quote. The caller's closure runs the
//! tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::split::seeded;

use super::dice::Dice;
use super::{Kind, Mutation, candidates, gold_patch, issue_text, symptoms};

/// Bugs on one line: more would make one line known by heart.
const PER_LINE: usize = 2;

/// Files of a package that works.
#[derive(Clone, Debug)]
pub struct Package {
    /// Path to text: the whole tree.
    pub files: BTreeMap<String, String>,
    /// The paths that bugs go into.
    pub sources: Vec<String>,
}

/// How many bugs and which.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Settles every choice.
    pub seed: u64,
    /// Bugs wanted.
    pub count: usize,
}

/// What a run of the test suite showed.
#[derive(Clone, Debug, Default)]
pub struct TestRun {
    /// Whether each test passed, by unittest id.
    pub passed: BTreeMap<String, bool>,
    /// Everything the run printed, tracebacks included.
    pub output: String,
    /// Whether the run ended by itself, within its limits.
    pub ended: bool,
}

/// One bug that tests can see.
#[derive(Clone, Debug)]
pub struct Injected {
    /// The file with the bug.
    pub path: String,
    /// What was done to it.
    pub mutation: Mutation,
    /// The issue.
    pub problem_statement: String,
    /// The git diff that repairs it.
    pub patch: String,
    /// Tests that fail with the bug.
    pub fail_to_pass: Vec<String>,
    /// Tests that pass with the bug.
    pub pass_to_pass: Vec<String>,
}

/// Why no bugs were injected.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The tests of the clean tree do not all pass.
    #[error("the tests of the correct tree must pass, but {} of {total} do not", .failing.len())]
    CleanFails {
        /// Tests that fail.
        failing: Vec<String>,
        /// Tests there are.
        total: usize,
    },
    /// The tests could not be run.
    #[error("the tests could not be run")]
    Run(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl InjectError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::CleanFails { failing, total: 0 } if failing.is_empty() => {
                Some("no test was found: unittest looks for `tests/test_*.py`".into())
            }
            Self::CleanFails { failing, .. } => {
                failing.first().map(|test| format!("repair `{test}`"))
            }
            Self::Run(_) => None,
        }
    }
}

/// Puts up to `options.count` bugs into a package, one at a time, kinds in turn. `run` gets a
/// whole tree and runs its tests.
pub fn inject<F>(
    package: &Package,
    options: Options,
    mut run: F,
) -> Result<Vec<Injected>, InjectError>
where
    F: FnMut(
        &BTreeMap<String, String>,
    ) -> Result<TestRun, Box<dyn std::error::Error + Send + Sync>>,
{
    let clean = run(&package.files).map_err(InjectError::Run)?;
    let failing: Vec<String> =
        clean.passed.iter().filter(|(_, ok)| !**ok).map(|(test, _)| test.clone()).collect();
    if !failing.is_empty() || clean.passed.is_empty() || !clean.ended {
        return Err(InjectError::CleanFails { failing, total: clean.passed.len() });
    }
    let mut bugs = Vec::new();
    let mut per_line: BTreeMap<(String, usize), usize> = BTreeMap::new();
    for (path, mutation) in in_turn(package, options.seed) {
        if bugs.len() == options.count {
            break;
        }
        let place = (path.clone(), mutation.line);
        if per_line.get(&place).is_some_and(|count| *count >= PER_LINE) {
            continue;
        }
        let mut files = package.files.clone();
        files.insert(path.clone(), mutation.new_source.clone());
        let broken = run(&files).map_err(InjectError::Run)?;
        let clean_source = &package.files[&path];
        let seed = seeded(options.seed, &mutation.new_source);
        if let Some(bug) = judge(&path, clean_source, mutation, (&clean, &broken), seed) {
            *per_line.entry(place).or_default() += 1;
            bugs.push(bug);
        }
    }
    Ok(bugs)
}

/// Candidates of all sources, one of each kind in turn, so that common kinds do not crowd out the
/// others.
fn in_turn(package: &Package, seed: u64) -> Vec<(String, Mutation)> {
    let mut kinds: BTreeMap<Kind, Vec<(String, Mutation)>> = BTreeMap::new();
    for path in &package.sources {
        let Some(text) = package.files.get(path) else { continue };
        for mutation in candidates(text, seeded(seed, path)) {
            kinds.entry(mutation.kind).or_default().push((path.clone(), mutation));
        }
    }
    let names: String = package.sources.concat();
    let mut dice = Dice::new(seeded(seed, &names));
    let mut queues: Vec<Vec<(String, Mutation)>> = kinds.into_values().collect();
    for queue in &mut queues {
        dice.shuffle(queue);
    }
    dice.shuffle(&mut queues);
    let mut order = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        order.extend(queues.iter_mut().filter_map(Vec::pop));
    }
    order
}

/// Keeps a mutation that tests can see and an issue can describe.
fn judge(
    path: &str,
    clean_source: &str,
    mutation: Mutation,
    (clean, broken): (&TestRun, &TestRun),
    seed: u64,
) -> Option<Injected> {
    let known: BTreeSet<&String> = clean.passed.keys().collect();
    // A test that is gone says that the module no longer loads: no bug that a user would report.
    if !broken.ended || known != broken.passed.keys().collect() {
        return None;
    }
    let of = |wanted: bool| {
        let tests = broken.passed.iter().filter(|(_, passed)| **passed == wanted);
        tests.map(|(test, _)| test.clone()).collect::<Vec<String>>()
    };
    let (fail_to_pass, pass_to_pass) = (of(false), of(true));
    if fail_to_pass.is_empty() || fail_to_pass.len() > pass_to_pass.len() {
        return None;
    }
    let problem_statement = issue_text(&symptoms(&broken.output), seed)?;
    let patch = gold_patch(path, &mutation.new_source, clean_source);
    Some(Injected {
        path: path.to_owned(),
        mutation,
        problem_statement,
        patch,
        fail_to_pass,
        pass_to_pass,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        let source = "def f(a, b):\n    return a + b\n\n\ndef g(a):\n    return a * 2\n";
        Package {
            files: [("p.py".to_owned(), source.to_owned())].into(),
            sources: vec!["p.py".to_owned()],
        }
    }

    /// Stands for a suite with one test for each function, by looking for its line.
    fn suite(files: &BTreeMap<String, String>) -> TestRun {
        let mut run = TestRun { ended: true, ..TestRun::default() };
        for (test, line) in [("test_f", "return a + b"), ("test_g", "return a * 2")] {
            let passed = files["p.py"].contains(line);
            run.passed.insert(format!("tests.test_p.TestP.{test}"), passed);
            if !passed {
                let call = &test["test_".len()..];
                let rule = "=".repeat(70);
                let block = format!(
                    "{rule}\nFAIL: {test} (tests.test_p.TestP.{test})\n  File \"t\", line 1, in \
                     {test}\n    self.assertEqual({call}(1, 2), 3)\nAssertionError: 9 != 3\n"
                );
                run.output.push_str(&block);
            }
        }
        run
    }

    #[test]
    fn only_bugs_that_show_are_kept() {
        let options = Options { seed: 1, count: 50 };
        let bugs = inject(&package(), options, |files| Ok(suite(files))).expect("the suite runs");
        assert_eq!(bugs.len(), 4, "two for each line");
        for bug in &bugs {
            assert_eq!((bug.fail_to_pass.len(), bug.pass_to_pass.len()), (1, 1));
            assert!(bug.problem_statement.contains("(1, 2)"), "{}", bug.problem_statement);
            assert!(bug.patch.starts_with("diff --git a/p.py b/p.py\n"));
        }
    }

    #[test]
    fn a_broken_tree_takes_no_bugs() {
        let mut package = package();
        package.files.insert("p.py".into(), "def f(): pass\n".into());
        let options = Options { seed: 1, count: 5 };
        let fault = inject(&package, options, |files| Ok(suite(files))).expect_err("tests fail");
        assert_eq!(fault.to_string(), "the tests of the correct tree must pass, but 2 of 2 do not");
        let empty = inject(&package, options, |_| Ok(TestRun::default())).expect_err("no tests");
        assert!(empty.hint().is_some_and(|hint| hint.contains("no test was found")));
    }
}
