//! Answers to problems of one function, run with their assertions.

use std::sync::Arc;
use std::time::Duration;

use patchrl_reward::{Answer, Checker, Judgement, Problem, Shaping};
use patchrl_sandbox::Local;
use patchrl_sandbox::python::find_interpreter;
use serde_json::json;

const SHAPING: Shaping = Shaping { compiles: 0.1, runs: 0.1, asserts: 0.2 };

fn problem() -> Problem {
    Problem::from_row(&json!({
        "task_id": 2, "text": "Double a number.", "code": "def f(x): return 2 * x",
        "test_setup_code": "import math",
        "test_list": ["assert f(1) == 2", "assert math.isclose(f(2.5), 5)"],
    }))
    .unwrap()
}

fn judge(sandbox: &Arc<Local>, workers: usize, answers: &[&str]) -> Vec<Judgement> {
    let (empty, problem) = (tempfile::tempdir().unwrap(), problem());
    let interpreter = find_interpreter(None).unwrap();
    let checker = Checker {
        sandbox,
        empty: empty.path(),
        interpreter: &interpreter,
        wall: Duration::from_secs(3),
        workers,
        seed: 7,
    };
    let asked: Vec<_> =
        answers.iter().map(|text| (&problem, Answer { text, truncated: false })).collect();
    checker.judge(&asked, SHAPING)
}

pub(crate) fn each_stage_has_its_worth(sandbox: &Arc<Local>) {
    let rows = [
        ("Here:\n```python\ndef f(x):\n    return 2 * x\n```\n", "resolved", 1.0),
        ("def f(x): return x + 1", "failed", 0.3),
        ("def g(x): return x", "failed", 0.2),
        ("import nothing_here", "failed", 0.1),
        ("def f(x:", "malformed", 0.0),
        ("```\n```", "malformed", 0.0),
        ("while True: pass", "timed_out", 0.1),
    ];
    let answers: Vec<&str> = rows.iter().map(|row| row.0).collect();
    let judged = judge(sandbox, 2, &answers);
    for ((answer, outcome, reward), got) in rows.iter().zip(&judged) {
        assert_eq!(got.outcome.as_str(), *outcome, "{answer}: {got:?}");
        assert!((got.reward.unwrap() - reward).abs() < 1e-9, "{answer}: {got:?}");
    }
    let alone = judge(sandbox, 1, &answers);
    let worth = |all: &[Judgement]| all.iter().map(|j| (j.reward, j.parts)).collect::<Vec<_>>();
    assert_eq!(worth(&alone), worth(&judged), "the number of workers decides a reward");
}

pub(crate) fn fooling_the_run_earns_nothing(sandbox: &Arc<Local>) {
    let answers = [
        // Stops before the assertions, as if all were well.
        "import sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "raise SystemExit",
        // Says what it thinks the mark is.
        "print('compiles\\nruns\\npasses 0\\npasses 1')",
        // Equal to everything.
        "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
        // Looks its caller up.
        "import sys\nframe = sys._getframe(1)\ndef f(x): return 2 * x",
        "import gc\ndef f(x): return gc.get_objects()",
    ];
    for (answer, got) in answers.iter().zip(judge(sandbox, 2, &answers)) {
        assert_ne!(got.outcome.as_str(), "resolved", "{answer}");
        assert!(got.reward.unwrap() <= 0.2, "{answer}: {got:?}");
    }
}
