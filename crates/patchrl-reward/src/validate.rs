//! Is a task fit to learn from? The empty patch must fail and the known answer
//! must pass, each as often as asked.

use patchrl_patch::Changes;
use patchrl_task::TaskId;
use serde::{Deserialize, Serialize};

use crate::judge::Judge;
use crate::outcome::{Judgement, Outcome};
use crate::prepare::Ready;
use crate::preset::Mode;

/// What is the matter with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// Nothing: fit to learn from.
    Valid,
    /// Runs of the same tree differ.
    Flaky,
    /// The known answer does not pass.
    GoldFails,
    /// `FAIL_TO_PASS` tests pass without a patch, or there are none.
    EmptyPasses,
    /// It names no test: only rewards that run nothing can judge it.
    NoTests,
    /// The known answer does not pass, and the log speaks of a network.
    NeedsNetwork,
    /// A run reached the time limit.
    TimedOut,
    /// Our failure, or an environment that cannot be built: says nothing about the task.
    Lost,
}

impl Fitness {
    /// The word that reports use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Flaky => "flaky",
            Self::GoldFails => "gold-fails",
            Self::EmptyPasses => "empty-passes",
            Self::NoTests => "no-tests",
            Self::NeedsNetwork => "needs-network",
            Self::TimedOut => "timed-out",
            Self::Lost => "lost",
        }
    }
}

/// What running a task's tests with and without its known answer showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// The task.
    pub task: TaskId,
    /// The verdict, in one word.
    pub fitness: Fitness,
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
    /// Wall seconds of one test run, the mean.
    pub run_seconds: f64,
}

/// Signs in a log that a test wanted a network.
const NETWORK: [&str; 8] = [
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Could not resolve host",
    "Max retries exceeded with url",
    "NameResolutionError",
    "gaierror",
    "No route to host",
];

/// Run the tests without and with the known answer, `runs` times each (at least once).
pub fn validate(judge: &Judge, ready: &Ready, runs: u32) -> Validation {
    let runs = runs.max(1);
    let mut seconds = 0.0;
    let mut rounds = Vec::new();
    for _ in 0..runs {
        let before = judge.test_afresh(ready, &Changes::new());
        judge.clear_cache();
        let gold = judge.judge(ready, &ready.task.patch, false, Mode::Tests);
        seconds += before.evidence.seconds + gold.evidence.seconds;
        rounds.push((before, gold));
    }
    let found: Vec<Vec<(Fitness, String)>> =
        rounds.iter().map(|(before, gold)| problems_of(before, gold)).collect();
    let mut problems: Vec<(Fitness, String)> = Vec::new();
    for problem in found.iter().flatten() {
        if !problems.contains(problem) {
            problems.push(problem.clone());
        }
    }
    if found.iter().any(|round| *round != found[0]) {
        problems.push((Fitness::Flaky, "runs of the same trees differ".to_owned()));
    }
    let empty = judge.judge(ready, "", false, Mode::Tests);
    if empty.reward != Some(0.0) {
        let why = format!("an empty answer scores {:?}", empty.reward);
        problems.push((Fitness::EmptyPasses, why));
    }
    let (before, gold) = rounds.swap_remove(0);
    let named = |it: &Fitness| problems.iter().any(|(fitness, _)| fitness == it);
    let order =
        [Fitness::NoTests, Fitness::Lost, Fitness::Flaky, Fitness::TimedOut, Fitness::EmptyPasses];
    let fitness = match order.into_iter().find(named) {
        Some(fitness) => fitness,
        None => problems.first().map_or(Fitness::Valid, |(fitness, _)| *fitness),
    };
    Validation {
        task: ready.task.id.clone(),
        fitness,
        valid: fitness == Fitness::Valid,
        problems: problems.into_iter().map(|(_, why)| why).collect(),
        empty_reward: empty.reward,
        before,
        gold,
        seconds,
        run_seconds: seconds / f64::from(2 * runs),
    }
}

fn problems_of(before: &Judgement, gold: &Judgement) -> Vec<(Fitness, String)> {
    let mut problems = Vec::new();
    for (name, run) in [("without a patch", before), ("with the known answer", gold)] {
        match &run.outcome {
            Outcome::Lost { why } => problems.push((Fitness::Lost, format!("{name}: lost: {why}"))),
            Outcome::TimedOut => problems.push((Fitness::TimedOut, format!("{name}: timed out"))),
            _ => {}
        }
    }
    if !problems.is_empty() {
        return problems;
    }
    if before.parts.f2p_total + before.parts.p2p_total == 0 {
        let why = "it names no test: only rewards that run nothing can judge it";
        return vec![(Fitness::NoTests, why.to_owned())];
    }
    if before.parts.f2p_total == 0 {
        problems.push((Fitness::EmptyPasses, "no FAIL_TO_PASS test".to_owned()));
    }
    if before.parts.f2p_passed > 0 {
        let passed = before.parts.f2p_passed;
        let why = format!("{passed} FAIL_TO_PASS tests pass without a patch");
        problems.push((Fitness::EmptyPasses, why));
    }
    if gold.outcome != Outcome::Resolved {
        let why = match gold.evidence.failures.first().or(gold.evidence.disagreements.first()) {
            Some(first) => first.clone(),
            None => gold.outcome.why().unwrap_or_default().to_owned(),
        };
        let log = gold.evidence.test_log.as_deref().unwrap_or_default();
        let network = NETWORK.iter().any(|sign| log.contains(sign));
        let fitness = if network { Fitness::NeedsNetwork } else { Fitness::GoldFails };
        problems.push((fitness, format!("the known answer is {}: {why}", gold.outcome.as_str())));
    }
    problems
}
