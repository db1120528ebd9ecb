//! What a patch may not change: the files that decide its own grade.
//!
//! Owns the list of protected paths and what is done about them: before grading
//! they are put back as the base commit has them, and the evidence says so. The
//! tests of `test_patch` go on top afterwards. Not a defence against code that
//! attacks the test framework from inside the test process.

use std::collections::BTreeSet;

use patchrl_patch::{Changes, Entry};

use crate::tree::{FsTree, is_inside};

/// Folders whose contents are tests.
const TEST_FOLDERS: [&str; 2] = ["tests", "test"];

/// Files that steer a test run or the interpreter, wherever they lie.
const STEERING: [&str; 9] = [
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "pyvenv.cfg",
];

/// Modules of the test run itself. A new file or folder of this name at the top
/// of an import path would be imported in their place.
const RUN_MODULES: [&str; 5] = ["pytest", "_pytest", "pluggy", "unittest", "sitecustomize"];

const SHADOWS: &str = "shadows the test run";

/// The protected paths of one task.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Paths of the task's test patch.
    tests: BTreeSet<String>,
    /// Paths that the known answer changes: the task is about them.
    allowed: BTreeSet<String>,
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
        Self { tests, allowed }
    }

    /// The rule that protects `path`, if one does.
    pub fn rule(&self, path: &str) -> Option<&'static str> {
        if self.tests.contains(path) {
            return Some("a test of this task");
        }
        if !is_inside(path) {
            return Some("outside the repository");
        }
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
            return Some("git's own files");
        }
        if path.starts_with(".patchrl/") || path == ".patchrl" {
            return Some("the installed packages");
        }
        if self.allowed.contains(path) {
            return None;
        }
        if STEERING.contains(&name) || has_extension(name, "pth") {
            return Some("steers the test run");
        }
        if folders.split('/').any(|part| TEST_FOLDERS.contains(&part))
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
            let shadow = || shadows_run(&path, entry.as_ref(), base).then_some(SHADOWS);
            if let Some(rule) = self.rule(&path).or_else(shadow) {
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
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ext)| ext.eq_ignore_ascii_case(extension))
}

fn is_test_name(name: &str) -> bool {
    let stem = name.strip_suffix(".py").unwrap_or(name);
    stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests"
}

/// Does a new path hide a module of the test run?
fn shadows_run(path: &str, entry: Option<&Entry>, base: &FsTree) -> bool {
    if entry.is_none() {
        return false;
    }
    let below = path.strip_prefix("src/").unwrap_or(path);
    let prefix = &path[..path.len() - below.len()];
    let top = below.split('/').next().unwrap_or(below);
    let module = top.split('.').next().unwrap_or(top);
    RUN_MODULES.contains(&module)
        && !base.is_dir(&format!("{prefix}{top}"))
        && patchrl_patch::Tree::entry(base, path).ok().flatten().is_none()
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
        ]);
        let overlay = Changes::from([("tests/test_b.py".to_owned(), file(Mode::Regular))]);
        let guarded = guard().restore(changes, &FsTree::new(dir.path()), &overlay);
        assert_eq!(guarded.changes.keys().collect::<Vec<_>>(), ["pkg/a.py"]);
        assert_eq!(guarded.restored.len(), 7, "{:?}", guarded.restored);
        assert!(guarded.restored[0].starts_with("conftest.py ("));
    }
}
