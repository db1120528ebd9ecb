//! What a task's tests need: interpreter, packages, commands, and how their results are read.
//!
//! Owns the description and the table of descriptions known for public repositories
//! (`environments.json`). Installs nothing and runs nothing. The table was written for tests
//! that run without a container; rows outside its version ranges have no description.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// What the tests of a task need.
///
/// `{python}` in a command stands for the environment's interpreter and `{tree}`, in commands and
/// in values of `env`, for the tree the tests run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// `major.minor` of the interpreter; none means any Python 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// pip requirements, one each; empty means that the bare interpreter is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// A command run once in the task's base tree, after the requirements. What it writes into the
    /// tree stays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Vec<String>>,
    /// The command that runs the tests; see [`Environment::test_argv`].
    pub test_command: Vec<String>,
    /// Variables set for the install command and the tests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whose output the tests write.
    pub runner: Runner,
}

/// The test runner whose output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// `python -m unittest -v`; ids are `module.Class.method`.
    Unittest,
    /// `pytest -rA`; ids are `path::Class::test[parameters]`.
    Pytest,
    /// sympy's own `bin/test --verbose`; ids are function names.
    Sympy,
}

impl Environment {
    /// Any Python 3 and the unittest suite in `tests/`.
    pub fn unittest() -> Self {
        let words = ["{python}", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."];
        Self {
            python: None,
            requirements: Vec::new(),
            install: None,
            test_command: words.map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            runner: Runner::Unittest,
        }
    }

    /// Any Python 3 and pytest, which must be there.
    pub fn pytest() -> Self {
        let words = ["{python}", "-m", "pytest", "-rA"];
        Self {
            test_command: words.map(str::to_owned).to_vec(),
            runner: Runner::Pytest,
            ..Self::unittest()
        }
    }

    /// The command that runs `test_files`: placeholders filled, files appended for the runners
    /// that take them (unittest discovers its own). Files that hold no tests are left out.
    pub fn test_argv(&self, python: &str, tree: &str, test_files: &[String]) -> Vec<String> {
        let mut argv = filled(&self.test_command, python, tree);
        if self.runner != Runner::Unittest {
            argv.extend(test_files.iter().filter(|file| holds_tests(file)).cloned());
        }
        argv
    }

    /// The install command with placeholders filled.
    pub fn install_argv(&self, python: &str, tree: &str) -> Option<Vec<String>> {
        self.install.as_ref().map(|words| filled(words, python, tree))
    }

    /// The variables with placeholders filled.
    pub fn variables(&self, python: &str, tree: &str) -> BTreeMap<String, String> {
        let fill = |(name, value): (&String, &String)| (name.clone(), fill(value, python, tree));
        self.env.iter().map(fill).collect()
    }
}

/// The description known for a repository at a version.
pub fn known(repo: &str, version: Option<&str>) -> Option<Environment> {
    let version = numbers(version?)?;
    TABLE
        .iter()
        .find(|row| {
            row.repo == repo
                && numbers(&row.from).is_some_and(|from| from <= version)
                && numbers(&row.until).is_some_and(|until| version <= until)
        })
        .map(|row| row.environment.clone())
}

/// Repositories with at least one known description, in order.
pub fn known_repositories() -> Vec<&'static str> {
    let mut repos: Vec<&str> = TABLE.iter().map(|row| row.repo.as_str()).collect();
    repos.dedup();
    repos
}

/// One row of `environments.json`: versions from `from` to `until`, both included.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    repo: String,
    from: String,
    until: String,
    environment: Environment,
}

static TABLE: LazyLock<Vec<Known>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("environments.json"))
        .expect("a test reads the embedded environments.json")
});

fn filled(words: &[String], python: &str, tree: &str) -> Vec<String> {
    words.iter().map(|word| fill(word, python, tree)).collect()
}

fn fill(word: &str, python: &str, tree: &str) -> String {
    word.replace("{python}", python).replace("{tree}", tree)
}

/// SWE-bench's rule: endings that are never given to a test runner. `csv` has no dot there.
fn holds_tests(file: &str) -> bool {
    const DATA: [&str; 11] =
        [".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"];
    !DATA.iter().any(|ending| file.ends_with(ending))
}

/// `1.10` as numbers, so that it comes after `1.9`.
fn numbers(version: &str) -> Option<Vec<u64>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let older = known("pytest-dev/pytest", Some("5.4")).expect("5.4 is known");
        let newer = known("pytest-dev/pytest", Some("8.0")).expect("8.0 is known");
        assert!(older.requirements.contains(&"pluggy==0.13.1".to_owned()));
        assert!(newer.requirements.contains(&"pluggy==1.3.0".to_owned()));
        assert!(known("sympy/sympy", Some("1.10")).is_some());
        assert!(known("sympy/sympy", Some("9.0")).is_none());
        assert!(known("sympy/sympy", None).is_none());
        assert!(known("sympy/sympy", Some("main")).is_none());
        assert_eq!(known_repositories().len(), 5);
    }

    #[test]
    fn placeholders_are_filled() {
        let environment = known("pytest-dev/pytest", Some("7.2")).expect("7.2 is known");
        let files = ["testing/test_x.py".to_owned(), "testing/data.csv".to_owned()];
        let argv = environment.test_argv("/v/bin/python", "/t", &files);
        assert_eq!(argv, ["/v/bin/python", "-m", "pytest", "-rA", "testing/test_x.py"]);
        assert_eq!(environment.variables("/p", "/t")["PYTHONPATH"], "/t/src");
        let unittest = Environment::unittest().test_argv("py", "/t", &files);
        assert_eq!(unittest.last().map(String::as_str), Some("."));
    }
}
