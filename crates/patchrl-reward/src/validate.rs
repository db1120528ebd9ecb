//! Is a task fit to learn from? The empty patch must fail and the known answer
//! must pass, each as often as asked.

use patchrl_patch::Changes;
use patchrl_task::TaskId;
use serde::Serialize;

use crate::judge::Judge;
use crate::outcome::{Judgement, Outcome};
use crate::prepare::Ready;
use crate::preset::Mode;

/// What running a task's tests with and without its known answer showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// The task.
    pub task: TaskId,
    /// No problem was found.
    pub valid: bool,
    /// What is wrong, in words.
    pub problems: Vec<String>,
    /// Reward of an empty answer.
    pub empty_reward: Option<f64>,
    /// The tests on the unchanged tree.
    pub before: Judgement,
    /// The known answer, judged like any answer.
    pub gold: Judgement,
    /// Wall seconds of all test runs.
    pub seconds: f64,
}

/// Run the tests without and with the known answer, `runs` times each (at least once).
pub fn validate(judge: &Judge, ready: &Ready, runs: u32) -> Validation {
    let mut problems = Vec::new();
    let mut seconds = 0.0;
    let mut rounds = Vec::new();
    for round in 0..runs.max(1) {
        let before = judge.test_afresh(ready, &Changes::new());
        judge.clear_cache();
        let gold = judge.judge(ready, &ready.task.patch, false, Mode::Tests);
        seconds += before.evidence.seconds + gold.evidence.seconds;
        for problem in problems_of(&before, &gold) {
            if !problems.contains(&problem) {
                problems.push(if round > 0 { format!("flaky: {problem}") } else { problem });
            }
        }
        rounds.push((before, gold));
    }
    let empty = judge.judge(ready, "", false, Mode::Tests);
    if empty.reward != Some(0.0) {
        problems.push(format!("an empty answer scores {:?}", empty.reward));
    }
    let (before, gold) = rounds.swap_remove(0);
    Validation {
        task: ready.task.id.clone(),
        valid: problems.is_empty(),
        problems,
        empty_reward: empty.reward,
        before,
        gold,
        seconds,
    }
}

fn problems_of(before: &Judgement, gold: &Judgement) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, run) in [("without a patch", before), ("with the known answer", gold)] {
        match &run.outcome {
            Outcome::Lost { why } => problems.push(format!("{name}: lost: {why}")),
            Outcome::TimedOut => problems.push(format!("{name}: timed out")),
            _ => {}
        }
    }
    if !problems.is_empty() {
        return problems;
    }
    if before.parts.f2p_total == 0 {
        problems.push("no FAIL_TO_PASS test".to_owned());
    }
    if before.parts.f2p_passed > 0 {
        let passed = before.parts.f2p_passed;
        problems.push(format!("{passed} FAIL_TO_PASS tests pass without a patch"));
    }
    if gold.outcome != Outcome::Resolved {
        let why = match gold.evidence.failures.first().or(gold.evidence.disagreements.first()) {
            Some(first) => first.clone(),
            None => gold.outcome.why().unwrap_or_default().to_owned(),
        };
        problems.push(format!("the known answer is {}: {why}", gold.outcome.as_str()));
    }
    problems
}
