//! The task set that ships with patchrl: small Python packages with injected bugs.
//!
//! Owns the packages under `toy/packages` (sources, tests, history), the tasks made of them
//! (`toy/tasks.jsonl`), and the git history that holds every task's tree. The tasks are made by
//! `cargo run -p patchrl-task --example generate-toy`, which runs the packages' tests. A task's
//! tree is a commit of its own on top of the package's history; nothing comes after it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::environment::Environment;
use crate::git_object::{Commit, Tree};
use crate::inject::{InjectError, Injected, Options, Package, TestRun, inject, undo};
use crate::record::{Start, Task, TaskId};
use crate::split::{Split, seeded};
use crate::store;

/// The owner in `repo`, for every package.
const OWNER: &str = "patchrl-toy";
const DAY: u64 = 24 * 60 * 60;

/// One package of the set.
#[derive(Clone, Debug)]
pub struct ToyPackage {
    /// Its name, the second half of `repo`.
    pub name: &'static str,
    /// The side that all its tasks are on.
    pub split: Split,
    /// Its working tree, without bugs.
    pub package: Package,
    history: Vec<Past>,
}

/// How the set is made.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Settles every choice.
    pub seed: u64,
    /// Tasks wanted of each package to train on.
    pub per_train: usize,
    /// Tasks wanted of each held-out package.
    pub per_held_out: usize,
}

impl Default for Recipe {
    /// The recipe of the shipped tasks.
    fn default() -> Self {
        Self { seed: 1, per_train: 18, per_held_out: 12 }
    }
}

/// The tasks that ship with patchrl.
///
/// # Panics
/// Never: a test reads the embedded rows.
pub fn tasks() -> Vec<Task> {
    store::parse_lines(include_str!("../toy/tasks.jsonl"), Path::new("toy/tasks.jsonl"))
        .expect("a test reads the embedded rows")
}

/// One `git fast-import` stream for each package, by the name its mirror has under a folder of
/// mirrors. The streams hold every `base_commit` of [`tasks`].
pub fn streams() -> Vec<(String, Vec<u8>)> {
    let tasks = tasks();
    let write = |package: ToyPackage| {
        let repo = package.repo();
        let own: Vec<&Task> = tasks.iter().filter(|task| task.repo == repo).collect();
        (format!("{OWNER}__{}", package.name), package.stream(&own))
    };
    packages().into_iter().map(write).collect()
}

/// The packages, those to train on first.
pub fn packages() -> Vec<ToyPackage> {
    PACKAGES.iter().map(|(name, files)| read_package(name, files)).collect()
}

/// Makes the tasks anew. `run` gets a whole tree and runs its tests.
pub fn generate<F>(recipe: Recipe, mut run: F) -> Result<Vec<Task>, InjectError>
where
    F: FnMut(
        &BTreeMap<String, String>,
    ) -> Result<TestRun, Box<dyn std::error::Error + Send + Sync>>,
{
    let mut tasks = Vec::new();
    for package in packages() {
        let count = match package.split {
            Split::Train => recipe.per_train,
            Split::HeldOut => recipe.per_held_out,
        };
        let options = Options { seed: seeded(recipe.seed, package.name), count };
        let bugs = inject(&package.package, options, &mut run)?;
        let made = bugs.into_iter().enumerate().map(|(at, bug)| package.task(at + 1, bug));
        tasks.extend(made);
    }
    Ok(tasks)
}

/// One commit of a package's history, as `history.json` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Past {
    author: String,
    email: String,
    /// Seconds since 1970, UTC.
    time: u64,
    message: String,
    /// Files that get their final text here.
    files: Vec<String>,
    /// Files with the text they have for now.
    #[serde(default)]
    write: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct History {
    split: Split,
    commits: Vec<Past>,
}

fn read_package(name: &'static str, files: &[(&str, &str)]) -> ToyPackage {
    let mut files: Tree =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let history = files.remove("history.json").unwrap_or_default();
    let history: History =
        serde_json::from_str(&history).expect("a test reads the embedded histories");
    let prefix = format!("{name}/");
    let is_source = |path: &&String| path.starts_with(&prefix) && !path.ends_with("__init__.py");
    let sources = files.keys().filter(is_source).cloned().collect();
    ToyPackage {
        name,
        split: history.split,
        package: Package { files, sources },
        history: history.commits,
    }
}

impl ToyPackage {
    /// `owner/name`.
    pub fn repo(&self) -> String {
        format!("{OWNER}/{}", self.name)
    }

    fn task(&self, number: usize, bug: Injected) -> Task {
        let mut extra = Map::new();
        let source = json!({
            "path": bug.path, "line": bug.mutation.line, "kind": bug.mutation.kind.as_str(),
        });
        extra.insert("bug".into(), source);
        let id = format!("{OWNER}__{}-{number}", self.name);
        Task {
            id: TaskId::parse(&id).expect("packages have plain names"),
            repo: self.repo(),
            base_commit: self.base_commit(&bug.path, &bug.mutation.new_source),
            problem_statement: bug.problem_statement,
            start: Start::Commit,
            patch: bug.patch,
            test_patch: String::new(),
            fail_to_pass: bug.fail_to_pass,
            pass_to_pass: bug.pass_to_pass,
            version: None,
            environment: Some(Environment::unittest()),
            split: Some(self.split),
            extra,
        }
    }

    /// The trees of the history, oldest first.
    fn trees(&self) -> Vec<Tree> {
        let mut tree = Tree::new();
        let grow = |past: &Past| {
            for path in &past.files {
                let text = self.package.files.get(path).cloned().unwrap_or_default();
                tree.insert(path.clone(), text);
            }
            tree.extend(past.write.clone());
            tree.clone()
        };
        self.history.iter().map(grow).collect()
    }

    /// The name of the commit that puts `text` at `path`, on top of the history.
    fn base_commit(&self, path: &str, text: &str) -> String {
        let mut parent = None;
        let mut last = Tree::new();
        for (past, tree) in self.history.iter().zip(self.trees()) {
            parent = Some(past.commit(&tree).id(parent.as_deref()));
            last = tree;
        }
        last.insert(path.to_owned(), text.to_owned());
        let message = bug_message(path);
        self.bug_commit(&message, &last).id(parent.as_deref())
    }

    fn stream(&self, tasks: &[&Task]) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut last = Tree::new();
        for (at, (past, tree)) in self.history.iter().zip(self.trees()).enumerate() {
            past.commit(&tree).write(&mut stream, "refs/heads/main", at + 1, at);
            last = tree;
        }
        let head = self.history.len();
        for (at, task) in tasks.iter().enumerate() {
            let mut tree = last.clone();
            let Some(path) = task.touched_files().into_iter().next() else { continue };
            let Some(text) = last.get(&path).and_then(|clean| undo(&task.patch, clean)) else {
                continue;
            };
            let message = bug_message(&path);
            tree.insert(path, text);
            let branch = format!("refs/tasks/{}", at + 1);
            self.bug_commit(&message, &tree).write(&mut stream, &branch, head + at + 1, head);
        }
        stream
    }

    fn bug_commit<'a>(&'a self, message: &'a str, tree: &'a Tree) -> Commit<'a> {
        let last = self.history.last();
        Commit {
            author: last.map_or("", |past| &past.author),
            email: last.map_or("", |past| &past.email),
            time: last.map_or(0, |past| past.time + DAY),
            message,
            tree,
        }
    }
}

impl Past {
    fn commit<'a>(&'a self, tree: &'a Tree) -> Commit<'a> {
        Commit {
            author: &self.author,
            email: &self.email,
            time: self.time,
            message: &self.message,
            tree,
        }
    }
}

fn bug_message(path: &str) -> String {
    let module = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".py");
    format!("Refactor {module}")
}

/// The kind of bug in a task of this set.
pub fn kind(task: &Task) -> Option<crate::inject::Kind> {
    let word = task.extra.get("bug").and_then(|bug| bug.get("kind")).and_then(Value::as_str);
    word.and_then(crate::inject::Kind::parse)
}

/// A package's embedded files: paths inside the package, with their texts.
macro_rules! package {
    ($name:literal, $first:literal, $second:literal) => {
        (
            $name,
            &[
                package!(@file $name, "history.json"),
                package!(@file $name, ".gitignore"),
                package!(@file $name, "README.md"),
                package!(@file $name, $name, "/__init__.py"),
                package!(@file $name, $name, "/", $first, ".py"),
                package!(@file $name, $name, "/", $second, ".py"),
                package!(@file $name, "tests/__init__.py"),
                package!(@file $name, "tests/test_", $first, ".py"),
                package!(@file $name, "tests/test_", $second, ".py"),
            ],
        )
    };
    (@file $name:literal, $($part:literal),+) => {
        (
            concat!($($part),+),
            include_str!(concat!("../toy/packages/", $name, "/", $($part),+)),
        )
    };
}

type Embedded = (&'static str, &'static [(&'static str, &'static str)]);

static PACKAGES: [Embedded; 18] = [
    package!("textkit", "words", "lines"),
    package!("moneybag", "amounts", "sharing"),
    package!("spans", "span", "joins"),
    package!("stacks", "stack", "queue"),
    package!("matrices", "shape", "algebra"),
    package!("romans", "numerals", "digits"),
    package!("rowkit", "rows", "table"),
    package!("calendars", "leap", "clock"),
    package!("figures", "rect", "points"),
    package!("unitkit", "lengths", "heat"),
    package!("statlite", "centre", "spread"),
    package!("slugs", "slug", "cases"),
    package!("grids", "cells", "moves"),
    package!("scoring", "grades", "ranks"),
    package!("inventory", "stock", "orders"),
    package!("versions", "parts", "bumps"),
    package!("colours", "rgb", "mixing"),
    package!("paging", "pages", "chunks"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::inject::{candidates, gold_patch};

    #[test]
    fn shipped_tasks_are_what_the_packages_give() {
        let recipe = Recipe::default();
        let tasks = tasks();
        for package in packages() {
            let seed = seeded(recipe.seed, package.name);
            let repo = package.repo();
            for task in tasks.iter().filter(|task| task.repo == repo) {
                let path = &task.touched_files()[0];
                let clean = &package.package.files[path];
                let buggy = undo(&task.patch, clean).expect("the patch is of this text");
                let mutation = candidates(clean, seeded(seed, path))
                    .into_iter()
                    .find(|mutation| mutation.new_source == buggy)
                    .expect("the bug is a candidate");
                assert_eq!(Some(mutation.kind), kind(task), "{}", task.id);
                assert_eq!(task.extra["bug"]["line"], mutation.line, "{}", task.id);
                assert_eq!(gold_patch(path, &buggy, clean), task.patch);
                assert_eq!(package.base_commit(path, &buggy), task.base_commit);
            }
        }
    }

    #[test]
    fn every_task_is_small_and_says_what_is_wrong() {
        let tasks = tasks();
        let commits: BTreeSet<&str> = tasks.iter().map(|task| task.base_commit.as_str()).collect();
        assert_eq!(commits.len(), tasks.len(), "every bug is another tree");
        for task in &tasks {
            assert_eq!(task.touched_files().len(), 1, "{}", task.id);
            let hunk = task.patch.split_once("\n@@").map_or("", |(_, hunk)| hunk);
            let changed = |sign: char| hunk.lines().filter(|line| line.starts_with(sign)).count();
            assert!(changed('-') <= 1 && (1..=2).contains(&changed('+')), "{}", task.id);
            assert!(task.problem_statement.len() <= 200, "{}", task.id);
            for line in hunk.lines().filter_map(|line| line.strip_prefix('+')) {
                assert!(!task.problem_statement.contains(line.trim()), "{} tells", task.id);
            }
            assert!(!task.fail_to_pass.is_empty(), "{}", task.id);
            assert!(task.fail_to_pass.len() <= task.pass_to_pass.len(), "{}", task.id);
        }
    }

    #[test]
    fn sides_are_by_package_and_large_enough() {
        let tasks = tasks();
        let count = |split| tasks.iter().filter(|task| task.split == Some(split)).count();
        assert_eq!((count(Split::Train), count(Split::HeldOut)), (252, 48));
        for package in packages() {
            let repo = package.repo();
            let own = || tasks.iter().filter(|task| task.repo == repo);
            assert!(own().count() >= 12, "{repo}");
            assert!(own().all(|task| task.split == Some(package.split)), "{repo}");
        }
    }

    #[test]
    fn what_a_prompt_shows_is_short() {
        for package in packages() {
            for path in &package.package.sources {
                let text = &package.package.files[path];
                assert!((10..=28).contains(&text.lines().count()), "{path}");
                assert!(text.len() <= 640, "{path}: {} bytes", text.len());
            }
        }
    }

    #[test]
    fn the_history_ends_in_the_package() {
        for package in packages() {
            assert!(package.history.len() >= 3, "{}", package.name);
            assert_eq!(package.trees().pop(), Some(package.package.files.clone()));
            let times: Vec<u64> = package.history.iter().map(|past| past.time).collect();
            assert!(times.is_sorted(), "{}", package.name);
        }
    }

    #[test]
    fn every_test_of_a_package_is_named_by_its_tasks() {
        let tasks = tasks();
        for package in packages() {
            let files = package.package.files.iter();
            let suites = files.filter(|(path, _)| path.starts_with("tests/test_"));
            let count: usize = suites.map(|(_, text)| text.matches("    def test_").count()).sum();
            for task in tasks.iter().filter(|task| task.repo == package.repo()) {
                assert_eq!(task.fail_to_pass.len() + task.pass_to_pass.len(), count, "{}", task.id);
                assert!(task.test_files().len() == 2, "{}", task.id);
            }
        }
    }
}
