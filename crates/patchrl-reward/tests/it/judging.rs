//! Answers to a tiny task, judged by its real tests in the sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use patchrl_patch::Tree as _;
use patchrl_reward::{
    Answer, Fitness, Judge, Mode, Outcome, PrepareError, Preparer, Ready, Settings, validate,
};
use patchrl_sandbox::{Limits, Local};
use patchrl_task::{Task, TaskId};

use crate::repository::{self, GOLD, create, replace};

/// A judge, and the folder its tasks are prepared in.
pub(crate) struct Bench {
    pub(crate) preparer: Preparer,
    pub(crate) judge: Judge,
    pub(crate) commit: String,
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(sandbox: &Arc<Local>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repos = folder.path().join("repos");
        fs_err::create_dir_all(&repos).unwrap();
        let commit = repository::write(&repos);
        let limits = Limits { wall: Duration::from_secs(20), ..Limits::default() };
        let judge = Judge::new(Arc::clone(sandbox), Settings { limits, ..Settings::default() });
        let preparer = Preparer::new(Some(repos), folder.path().join("cache"));
        Self { preparer, judge, commit, folder }
    }

    pub(crate) fn ready(&self, task: &Task) -> Ready {
        self.preparer.prepare(task).unwrap()
    }
}

/// A wrong change to the package that shows in the judgement as applied and failed.
pub(crate) fn wrong() -> String {
    replace(
        "calc/__init__.py",
        "def sub(a, b):\n    return a - b",
        "def sub(a, b):\n    return (a - b)",
    )
}

pub(crate) fn rewards_follow_the_tests(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let half = replace(
        "calc/__init__.py",
        "def add(a, b):\n    return a - b",
        "def add(a, b):\n    return a + b",
    );
    let regression = format!(
        "{}{}",
        replace(
            "calc/__init__.py",
            "def add(a, b):\n    return a - b\n\n\ndef join(a, b):\n    return a\n",
            "def add(a, b):\n    return a + b\n\n\ndef join(a, b):\n    return a + b\n"
        ),
        replace(
            "calc/__init__.py",
            "def sub(a, b):\n    return a - b",
            "def sub(a, b):\n    return b"
        ),
    );
    let cases = [
        (GOLD.to_owned(), "resolved", 1.0),
        (half, "failed", 0.65_f32),
        (wrong(), "failed", 0.3),
        (create("NOTES.md", "nothing\n"), "failed", 0.3),
        (regression, "failed", 1.0),
        (String::new(), "malformed", 0.0),
        ("I would change `add`.".to_owned(), "malformed", 0.0),
        (replace("calc/none.py", "a", "b"), "not_applied", 0.0),
        (GOLD.replace("return a - b", "return a * b"), "not_applied", 0.0),
    ];
    for (answer, word, reward) in cases {
        let judged = bench.judge.judge(&ready, &answer, false, Mode::Tests);
        assert_eq!(judged.outcome.as_str(), word, "{answer}\n{judged:#?}");
        assert_eq!(judged.reward.map(|r| r as f32), Some(reward), "{answer}\n{judged:#?}");
    }
}

pub(crate) fn cheaper_modes_stop_at_their_gate(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let misfit = replace("calc/none.py", "a", "b");
    let judge = |answer: &str, truncated, mode| bench.judge.judge(&ready, answer, truncated, mode);
    assert_eq!(judge(&misfit, false, Mode::Syntax).reward, Some(0.3));
    assert_eq!(judge(&misfit, false, Mode::ApplyOnly).reward, Some(0.0));
    let applied = judge(GOLD, false, Mode::ApplyOnly);
    assert_eq!((applied.outcome.as_str(), applied.reward), ("applied", Some(0.3)));
    assert!(applied.evidence.patch.unwrap().contains("+    return a + b"));
    assert_eq!(judge("```diff\n--- a/x", true, Mode::Syntax).outcome, Outcome::Truncated);
    let whole = judge(GOLD, true, Mode::ApplyOnly);
    assert_eq!((whole.outcome.as_str(), whole.evidence.truncated), ("applied", true));
}

pub(crate) fn a_group_tests_each_tree_once(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let prose = format!("Here it is:\n```diff\n{GOLD}```\n");
    let wrong = wrong();
    let answers = [GOLD, "", &prose, &wrong, GOLD].map(|text| Answer { text, truncated: false });
    let judged = bench.judge.judge_group(&ready, &answers, Mode::Tests);
    let rewards: Vec<_> = judged.iter().map(|j| j.reward.unwrap()).collect();
    assert_eq!(rewards, [1.0, 0.0, 1.0, 0.3, 1.0]);
    let cached: Vec<_> = judged.iter().map(|j| j.evidence.cached).collect();
    assert_eq!(cached, [false, false, true, false, true]);
    let again = bench.judge.judge_group(&ready, &answers[..1], Mode::Tests);
    assert!(again[0].evidence.cached && again[0].reward == Some(1.0));
}

pub(crate) fn cheating_earns_nothing(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task(&bench.commit));
    let judge = |answer: &str| bench.judge.judge(&ready, answer, false, Mode::Tests);

    let weak = replace("tests/test_calc.py", "self.assertEqual(calc.add(1, 2), 3)", "pass");
    let judged = judge(&replace_line(&weak));
    assert_eq!((judged.outcome.as_str(), judged.reward), ("cheated", Some(0.0)), "{judged:#?}");

    let planted =
        format!("{}{}", create("unittest.py", "raise SystemExit(0)"), create("notes.md", "x"));
    let judged = judge(&planted);
    assert_eq!(judged.reward, Some(0.3), "{judged:#?}");
    assert_eq!(judged.evidence.restored.len(), 1);
}

/// The indented line of a SEARCH block as the file has it.
fn replace_line(block: &str) -> String {
    block
        .replace("self.assertEqual", "        self.assertEqual")
        .replace("\npass\n", "\n        pass\n")
}

pub(crate) fn an_endless_test_is_a_time_out(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let limits = Limits { wall: Duration::from_secs(2), ..Limits::default() };
    let judge = Judge::new(Arc::clone(sandbox), Settings { limits, ..Settings::default() });
    let ready = bench.ready(&repository::task(&bench.commit));
    let answer = replace(
        "calc/__init__.py",
        "def sub(a, b):\n    return a - b",
        "def sub(a, b):\n    while True:\n        pass",
    );
    let judged = judge.judge(&ready, &answer, false, Mode::Tests);
    assert_eq!((judged.outcome, judged.reward), (Outcome::TimedOut, Some(0.3)));
    assert_eq!(judged.parts.f2p_passed, 0);
}

pub(crate) fn the_test_patch_goes_on_top(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let ready = bench.ready(&repository::task_with_test_patch(&bench.commit));
    assert!(ready.tree().entry("tests/test_more.py").unwrap().is_none());
    let judged = bench.judge.judge(&ready, GOLD, false, Mode::Tests);
    assert_eq!(judged.reward, Some(1.0), "{judged:#?}");
    let planted = create("tests/test_more.py", "import unittest") + &create("notes.md", "x");
    let judged = bench.judge.judge(&ready, &planted, false, Mode::Tests);
    assert_eq!((judged.outcome.as_str(), judged.reward), ("failed", Some(0.3)), "{judged:#?}");
    assert!(judged.evidence.restored[0].contains("a test of this task"));
}

pub(crate) fn a_task_is_validated(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let mut task = repository::task(&bench.commit);
    let seen = validate(&bench.judge, &bench.ready(&task), 2);
    assert_eq!((seen.fitness, seen.valid), (Fitness::Valid, true), "{seen:#?}");
    assert_eq!((seen.empty_reward, seen.gold.reward), (Some(0.0), Some(1.0)));
    task.fail_to_pass.push("tests.test_calc.CalcTest.test_sub".to_owned());
    task.pass_to_pass.clear();
    let seen = validate(&bench.judge, &bench.ready(&task), 1);
    assert_eq!(seen.problems, ["1 FAIL_TO_PASS tests pass without a patch"]);
    assert_eq!((seen.fitness, seen.valid), (Fitness::EmptyPasses, false));
    task.patch = wrong();
    let seen = validate(&bench.judge, &bench.ready(&task), 1);
    assert!(seen.problems[1].starts_with("the known answer is failed"), "{:?}", seen.problems);
    task.fail_to_pass.pop();
    let seen = validate(&bench.judge, &bench.ready(&task), 1);
    assert_eq!(seen.fitness, Fitness::GoldFails);
    task.fail_to_pass.clear();
    let seen = validate(&bench.judge, &bench.ready(&task), 1);
    assert_eq!((seen.fitness, seen.problems.len()), (Fitness::NoTests, 1), "{:?}", seen.problems);
}

pub(crate) fn what_is_missing_is_named_with_a_way_out(sandbox: &Arc<Local>) {
    let bench = Bench::new(sandbox);
    let mut task = repository::task(&bench.commit);
    "some/other".clone_into(&mut task.repo);
    let error = bench.preparer.prepare(&task).unwrap_err();
    assert!(told(&error).contains("`some/other`"), "{error}");
    assert!(error.hint().unwrap().contains("git clone"));
    let nowhere = Preparer::new(None, bench.folder.path().join("cache"));
    let error = nowhere.prepare(&task).unwrap_err();
    assert!(matches!(error, PrepareError::NoRepos { .. }));
    assert!(error.hint().unwrap().contains("--repos"));
    let mut task = repository::task(&bench.commit);
    task.environment = None;
    let error = bench.preparer.prepare(&task).unwrap_err();
    assert!(matches!(error, PrepareError::NoEnvironment { .. }));
    let mut task = repository::task(&bench.commit);
    task.test_patch = GOLD.replace("return a - b", "return a * b");
    let error = bench.preparer.prepare(&task).unwrap_err();
    assert!(error.to_string().contains("does not apply"), "{error}");
    let mut task = repository::task(&bench.commit);
    if let Some(environment) = &mut task.environment {
        environment.python = Some("3.99".to_owned());
    }
    let error = bench.preparer.prepare(&task).unwrap_err();
    assert!(told(&error).contains("3.99") && error.hint().is_some(), "{error}");
}

/// An error and its causes, as the command line prints them.
fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", told(cause)),
        None => error.to_string(),
    }
}

/// Every line of the list of instances that validate without a container is an id.
pub(crate) fn local_instances_have_ids(_: &Arc<Local>) {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/swebench-local.txt");
    let text = fs_err::read_to_string(list).unwrap();
    let ids: Vec<_> =
        text.lines().filter(|line| !line.starts_with('#')).map(TaskId::parse).collect();
    assert!(ids.len() >= 10 && ids.iter().all(Result::is_ok), "{ids:?}");
}
