//! Trees that are more than a commit: with a bug on it, or files of the row's own.

use std::sync::Arc;

use patchrl_patch::Tree as _;
use patchrl_reward::{Judge, Mode, Outcome, Preparer, Settings};
use patchrl_sandbox::Local;
use patchrl_task::{Start, Task};
use serde_json::json;

use crate::repository;

pub(crate) fn a_bug_is_planted_and_the_answer_takes_it_out(sandbox: &Arc<Local>) {
    let dir = tempfile::tempdir().unwrap();
    let commit = repository::write(dir.path());
    // The repository as it is, with its faults, is the right one here; the bug breaks `sub`.
    let bug = "diff --git a/calc/__init__.py b/calc/__init__.py\n--- a/calc/__init__.py\n\
        +++ b/calc/__init__.py\n@@ -9,2 +9,2 @@\n def sub(a, b):\n-    return a - b\n+    return b - a\n";
    let mut row = repository::task(&commit).to_row();
    row.shift_remove("base_commit");
    row["patch"] = json!(bug);
    row["repo"] = json!(format!("swesmith/some__calc.{}", &commit[..8]));
    row["FAIL_TO_PASS"] = json!(["tests.test_calc.CalcTest.test_sub"]);
    row["PASS_TO_PASS"] = json!([]);
    let task = Task::from_row(row).unwrap();
    let judge = Judge::new(Arc::clone(sandbox), Settings::default());
    let preparer = Preparer::new(Some(dir.path().into()), dir.path().join("cache"));
    let ready = preparer.prepare(&task).unwrap();
    let text = ready.tree().entry("calc/__init__.py").unwrap().unwrap().bytes;
    assert!(String::from_utf8(text).unwrap().contains("return b - a"));
    let gold = judge.judge(&ready, &task.patch, false, Mode::Tests);
    assert_eq!(gold.outcome, Outcome::Resolved, "{gold:?}");
    let nothing = judge.judge(&ready, &repository::create("n.txt", "x\n"), false, Mode::Tests);
    assert!(matches!(nothing.outcome, Outcome::Failed), "{nothing:?}");
    // The clean tree is still there for others.
    let clean = Task { start: Start::Commit, ..task.clone() };
    let clean = preparer.prepare(&clean).unwrap();
    let text = clean.tree().entry("calc/__init__.py").unwrap().unwrap();
    assert!(String::from_utf8(text.bytes).unwrap().ends_with("return a - b\n"));
    let other = judge.judge(&clean, &repository::create("n.txt", "x\n"), false, Mode::Tests);
    assert_eq!(other.outcome, Outcome::Resolved, "a verdict on another tree is none on this one");
}

pub(crate) fn files_of_a_row_are_its_tree(sandbox: &Arc<Local>) {
    let dir = tempfile::tempdir().unwrap();
    let gold = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";
    let row = json!({
        "instance_id": "small-1", "problem_statement": "x must be 2", "golden_patch": gold,
        "changed_files": {"m.py": "x = 1\n"}, "related_unchanged_files": {"p/n.py": "y = 1\n"},
    });
    let task: Task = serde_json::from_value(row).unwrap();
    let ready = Preparer::new(None, dir.path()).prepare(&task).unwrap();
    assert_eq!(ready.tree().entry("p/n.py").unwrap().unwrap().bytes, b"y = 1\n");
    let judge = Judge::new(Arc::clone(sandbox), Settings::default());
    let applied = judge.judge(&ready, gold, false, Mode::ApplyOnly);
    assert_eq!(applied.reward, Some(0.3), "{applied:?}");
    let swerl =
        judge.judge(&ready, &repository::replace("m.py", "x = 1", "x = 2"), false, Mode::Swerl);
    assert!(swerl.reward.is_some(), "{swerl:?}");
    let elsewhere = judge.judge(&ready, &gold.replace("m.py", "q.py"), false, Mode::ApplyOnly);
    assert_eq!(elsewhere.reward, Some(0.0), "{elsewhere:?}");
}
