//! What a patch may not change or reach for: what decides its own grade.
//!
//! Owns the list of protected paths and what is done about them: before grading they are
//! put back as the base commit has them, and the evidence says so. The tests of
//! `test_patch` go on top afterwards. What added *code* reaches for is in `reach`, what is
//! done about either in `policy`.

mod policy;
mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use patchrl_patch::{Changes, Entry, Mode, Tree};

pub(crate) use reach::reaches;

pub use self::policy::{CodePolicy, FilePolicy, GuardConfig, PresetGuard};
use crate::component::Added;
use crate::tree::{FsTree, is_inside};

/// Folders whose contents are tests.
const TEST_FOLDERS: [&str; 2] = ["tests", "test"];

/// Files that steer a test run or the interpreter, wherever they lie.
const STEERING: [&str; 15] = [
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "tox.toml",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "pyvenv.cfg",
    ".coveragerc",
    "runtests.py",
    "noxfile.py",
];

/// Files and folders of build services. They decide what others believe of a change.
const SERVICES: [&str; 8] = [
    ".github",
    ".circleci",
    ".gitlab-ci.yml",
    ".travis.yml",
    "appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
];

/// Compiled code and path files: imported in place of a source or before it.
const COMPILED: [&str; 7] = ["pyc", "pyo", "so", "pyd", "pth", "egg-link", "egg"];

/// Modules of the test run and of Python itself, one a line. A new file or folder of such
/// a name where imports start would be imported in its place.
static RUN_MODULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let ours =
        ["pytest", "_pytest", "pluggy", "iniconfig", "py", "pkg_resources", "importlib_metadata"];
    include_str!("guard/stdlib.txt").lines().chain(ours).collect()
});

const SHADOWS: &str = "shadows the test run";

/// The protected paths of one task.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Paths of the task's test patch.
    tests: BTreeSet<String>,
    /// Paths that the known answer changes: the task is about them.
    allowed: BTreeSet<String>,
    /// What the known answer's code reaches for.
    allowed_reaches: BTreeSet<String>,
    /// Folders that imports start from, `""` for the tree's own.
    roots: BTreeSet<String>,
    /// Files of the tree that the test command names.
    programs: BTreeSet<String>,
}

/// A patch after the guard has seen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guarded {
    /// What is left of the patch.
    pub(crate) changes: Changes,
    /// Paths put back to the base, each with the rule that names it.
    pub(crate) restored: Vec<String>,
}

impl Guard {
    /// A guard for a task whose test patch touches `tests` and whose known
    /// answer touches `gold`.
    pub fn new(
        tests: impl IntoIterator<Item = String>,
        gold: impl IntoIterator<Item = String>,
    ) -> Self {
        let tests: BTreeSet<String> = tests.into_iter().collect();
        let allowed = gold.into_iter().filter(|path| !tests.contains(path)).collect();
        // pytest starts imports at the folders of the tests as well.
        let folders = tests.iter().filter_map(|path| Some(path.rsplit_once('/')?.0.to_owned()));
        let roots = ["", "src", "lib"].map(str::to_owned).into_iter().chain(folders).collect();
        Self { tests, allowed, roots, ..Self::default() }
    }

    /// Imports start from `root` too.
    #[must_use]
    pub fn with_root(mut self, root: impl Into<String>) -> Self {
        self.roots.insert(root.into());
        self
    }

    /// The words of the test command: files among them run the tests.
    #[must_use]
    pub fn with_command(mut self, words: impl IntoIterator<Item = String>) -> Self {
        for word in words {
            match word.as_str() {
                "make" | "gmake" => {
                    self.programs
                        .extend(["Makefile", "makefile", "GNUmakefile"].map(str::to_owned));
                }
                word if word.contains('/') || has_extension(word, "py") => {
                    self.programs.insert(word.trim_start_matches("./").to_owned());
                }
                _ => {}
            }
        }
        self
    }

    /// What the known answer's added code reaches for, any answer may.
    #[must_use]
    pub(crate) fn with_gold(mut self, gold: &[Added]) -> Self {
        let reached = gold.iter().flat_map(|file| self.reached(file)).collect();
        self.allowed_reaches = reached;
        self
    }

    /// The Python files among the task's tests.
    pub(crate) fn tests(&self) -> Vec<String> {
        self.tests.iter().filter(|path| has_extension(path, "py")).cloned().collect()
    }

    /// The rule that protects `path`, if one does.
    pub fn rule(&self, path: &str) -> Option<&'static str> {
        if self.tests.contains(path) {
            return Some("a test of this task");
        }
        if !is_inside(path) {
            return Some("outside the repository");
        }
        let lower = path.to_ascii_lowercase();
        let parts: Vec<&str> = lower.split('/').collect();
        let (name, folders) = parts.split_last().unwrap_or((&"", &[]));
        if parts.contains(&".git") {
            return Some("git's own files");
        }
        if parts[0] == ".patchrl" {
            return Some("the installed packages");
        }
        if self.allowed.contains(path) {
            return None;
        }
        if self.programs.contains(path) {
            return Some("runs the tests");
        }
        if STEERING.contains(name) {
            return Some("steers the test run");
        }
        let metadata = |part: &&str| part.ends_with(".egg-info") || part.ends_with(".dist-info");
        if parts.iter().any(metadata) {
            return Some("registers plugins");
        }
        if parts.contains(&"__pycache__") || COMPILED.iter().any(|ext| has_extension(name, ext)) {
            return Some("compiled code");
        }
        if SERVICES.contains(&parts[0]) {
            return Some("steers a build service");
        }
        if folders.iter().any(|part| TEST_FOLDERS.contains(part))
            || (has_extension(name, "py") && is_test_name(name))
        {
            return Some("a test file");
        }
        None
    }

    /// Put protected files back and say which.
    ///
    /// `overlay` holds the files that are put in place after the patch; a patch
    /// file where the overlay needs a folder goes too.
    pub(crate) fn restore(&self, changes: Changes, base: &FsTree, overlay: &Changes) -> Guarded {
        let mut guarded = Guarded::default();
        let mut kept: BTreeSet<String> = overlay.keys().cloned().collect();
        for (path, entry) in changes {
            let rule = self.rule(&path).or_else(|| self.entry_rule(&path, entry.as_ref(), base));
            if let Some(rule) = rule {
                guarded.restored.push(format!("{path} ({rule})"));
                kept.insert(path);
            } else {
                guarded.changes.insert(path, entry);
            }
        }
        // What was put back wins over a file in a folder's place and the reverse.
        guarded.changes.retain(|path, entry| {
            let free = entry.is_none() || !collides(path, &kept);
            if !free {
                guarded.restored.push(format!("{path} (in the way of a file put back)"));
            }
            free
        });
        guarded
    }

    /// The rule that protects the tree from this entry, if one does.
    fn entry_rule(&self, path: &str, entry: Option<&Entry>, base: &FsTree) -> Option<&'static str> {
        let entry = entry?;
        if entry.mode == Mode::Symlink {
            if leaves_tree(path, &entry.bytes) {
                return Some("a link out of the repository");
            }
            let name = path.rsplit('/').next().unwrap_or(path);
            if TEST_FOLDERS.contains(&name.to_ascii_lowercase().as_str()) {
                return Some("a link in place of the tests");
            }
        }
        self.shadows_run(path, base).then_some(SHADOWS)
    }

    /// Does a new path hide a module of the test run?
    fn shadows_run(&self, path: &str, base: &FsTree) -> bool {
        self.roots.iter().any(|root| {
            let Some(below) = below(path, root) else {
                return false;
            };
            let prefix = &path[..path.len() - below.len()];
            let top = below.split('/').next().unwrap_or(below);
            let module = top.split('.').next().unwrap_or(top);
            RUN_MODULES.contains(module)
                && has_extension(path, "py")
                && !base.is_dir(&format!("{prefix}{top}"))
                && base.entry(path).ok().flatten().is_none()
        })
    }

    /// What the added lines of `file` reach for that neither the file had before nor the
    /// known answer does.
    pub(crate) fn reached(&self, file: &Added) -> Vec<String> {
        if !has_extension(&file.path, "py") {
            return Vec::new();
        }
        let before = reach::reaches(&file.before, &self.tests);
        let lines: BTreeSet<usize> = file.lines.iter().map(|(number, _)| *number).collect();
        let after: BTreeMap<String, Vec<usize>> = reach::reaches(&file.after, &self.tests);
        after
            .into_iter()
            .filter(|(what, at)| {
                !before.contains_key(what)
                    && !self.allowed_reaches.contains(what)
                    && at.iter().any(|line| lines.contains(line))
            })
            .map(|(what, _)| what)
            .collect()
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ext)| ext.eq_ignore_ascii_case(extension))
}

fn is_test_name(name: &str) -> bool {
    let stem = name.strip_suffix(".py").unwrap_or(name);
    stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests"
}

/// The part of `path` below the folder `root`.
fn below<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    if root.is_empty() { Some(path) } else { path.strip_prefix(root)?.strip_prefix('/') }
}

/// Does a link at `path` with this target lead out of the tree, or into what git keeps?
fn leaves_tree(path: &str, target: &[u8]) -> bool {
    let Ok(target) = std::str::from_utf8(target) else {
        return true;
    };
    let mut depth = path.matches('/').count();
    for part in target.split('/') {
        match part {
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            "" | "." => {}
            _ => depth += 1,
        }
    }
    target.starts_with('/') || target.contains('\0')
}

/// Is `path` a folder of one of `kept`, or below one of them?
fn collides(path: &str, kept: &BTreeSet<String>) -> bool {
    let below = format!("{path}/");
    let folder = kept.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
    folder || path.match_indices('/').any(|(at, _)| kept.contains(&path[..at]))
}

#[cfg(test)]
mod tests {
    use patchrl_patch::Mode;

    use super::*;

    fn guard() -> Guard {
        let tests = ["checks/case.py".to_owned()];
        let gold =
            ["pyproject.toml".to_owned(), "src/a.py".to_owned(), "checks/case.py".to_owned()];
        Guard::new(tests, gold)
    }

    #[test]
    fn files_that_decide_the_grade_are_protected() {
        for path in [
            "checks/case.py",
            "tests/helper.txt",
            "pkg/tests/test_x.py",
            "pkg/test_x.py",
            "pkg/x_test.py",
            "conftest.py",
            "a/b/conftest.py",
            "setup.cfg",
            "tox.ini",
            "x.pth",
            "lib/sitecustomize.py",
            ".git/config",
            "sub/.GIT/hooks/x",
            "../outside",
            "CONFTEST.py",
            "Tests/x.txt",
            ".github/workflows/ci.yml",
            "azure-pipelines.yml",
            "evil.egg-info/entry_points.txt",
            "pkg/__pycache__/a.cpython-311.pyc",
            "pkg/_speed.so",
            "pytest.toml",
        ] {
            assert!(guard().rule(path).is_some(), "{path}");
        }
        for path in [
            "src/a.py",
            "pkg/attest.py",
            "pyproject.toml",
            "contest.py",
            "pkg/testing.py",
            "README.md",
        ] {
            assert_eq!(guard().rule(path), None, "{path}");
        }
        assert!(Guard::default().rule("pyproject.toml").is_some());
        let sympy = Guard::default().with_command(["bin/test".to_owned(), "-C".to_owned()]);
        assert_eq!(sympy.rule("bin/test"), Some("runs the tests"));
        assert_eq!(sympy.rule("Makefile"), None);
    }

    #[test]
    fn protected_changes_are_dropped_and_named() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("pkg/tests")).unwrap();
        let file = |mode| Some(Entry { mode, bytes: b"x".to_vec() });
        let changes = Changes::from([
            ("pkg/a.py".to_owned(), file(Mode::Regular)),
            ("conftest.py".to_owned(), file(Mode::Regular)),
            ("tests".to_owned(), file(Mode::Symlink)),
            ("pkg/tests/test_a.py".to_owned(), None),
            ("conftest.py/x".to_owned(), file(Mode::Regular)),
            ("pkg".to_owned(), file(Mode::Regular)),
            ("unittest/__init__.py".to_owned(), file(Mode::Regular)),
            ("src/pytest.py".to_owned(), file(Mode::Regular)),
            ("checks/json.py".to_owned(), file(Mode::Regular)),
            ("pkg/json.py".to_owned(), file(Mode::Regular)),
            ("types/notes.md".to_owned(), file(Mode::Regular)),
            ("pkg/near".to_owned(), Some(Entry { mode: Mode::Symlink, bytes: b"../a".to_vec() })),
            ("pkg/far".to_owned(), Some(Entry { mode: Mode::Symlink, bytes: b"../../a".to_vec() })),
            ("abs".to_owned(), Some(Entry { mode: Mode::Symlink, bytes: b"/etc".to_vec() })),
        ]);
        let overlay = Changes::from([("tests/test_b.py".to_owned(), file(Mode::Regular))]);
        let guarded = guard().restore(changes, &FsTree::new(dir.path()), &overlay);
        assert_eq!(
            guarded.changes.keys().collect::<Vec<_>>(),
            ["pkg/a.py", "pkg/json.py", "pkg/near", "types/notes.md"]
        );
        assert_eq!(guarded.restored.len(), 10, "{:?}", guarded.restored);
        assert!(guarded.restored.iter().any(|it| it.starts_with("conftest.py (")));
    }
}
