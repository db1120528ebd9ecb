//! A few answers before a run: is there anything to train on?
//!
//! Owns which tasks are asked, what is found out about each answer, and the words for what that
//! means. Trains nothing, and prints nothing.

use patchrl_model::Finish;
use patchrl_reward::{Mode, Ready};
use patchrl_rollout::{
    At, Attempt, Group, Origin, Roller, RolloutError, SamplingConfig, items_of_step,
};
use serde::Serialize;

/// Below this mean, prompt and context are looked at before anything is trained.
const LOW_MEAN: f64 = 0.4;
/// From this mean on, little is left to learn.
const HIGH_MEAN: f64 = 0.95;
/// No training step has this number, so the check repeats no rollout's seeds.
const STEP: u64 = u64::MAX - 1;

/// Asks and looks.
pub struct Checkup<'a> {
    /// Who answers and who judges.
    pub roller: Roller<'a>,
    /// What an answer is judged by.
    pub mode: Mode,
    /// Answers in all.
    pub samples: u32,
    /// Answers to each task, where there are tasks enough.
    pub group_size: u32,
    /// Seed of tasks and draws.
    pub seed: u64,
}

/// What was found out.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Every answer.
    pub samples: Vec<Sampled>,
    /// Over the answers that have a reward.
    pub mean: Option<f64>,
    /// The same; their number is the denominator.
    pub variance: Option<f64>,
    /// The first question, asked twice at temperature 0.
    pub repeat: Repeat,
    /// What it means.
    pub verdicts: Vec<Verdict>,
    /// Whether there is something to train on.
    pub fit: bool,
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
pub struct Sampled {
    /// The task's id.
    pub task: String,
    /// Its place in the group.
    pub sample: u32,
    /// The rule by which a patch was found in it, `none` or `cut`.
    pub form: String,
    /// What happened, as a machine word.
    pub outcome: String,
    /// The reason, where there is one.
    pub why: Option<String>,
    /// The reward; nothing where the answer was lost.
    pub reward: Option<f64>,
    /// Tokens of the answer, where the sampler says them.
    pub tokens: Option<usize>,
    /// It holds a patch that can be read.
    pub valid: bool,
    /// The patch applies.
    pub applies: bool,
    /// It ran into its limit.
    pub truncated: bool,
}

/// The same question twice.
#[derive(Clone, Debug, Serialize)]
pub struct Repeat {
    /// The two rewards.
    pub rewards: Vec<Option<f64>>,
    /// The two answers are the same text.
    pub same_answer: bool,
    /// The two rewards are the same.
    pub same_reward: bool,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// A machine word.
    pub word: &'static str,
    /// In a sentence.
    pub says: String,
    /// What to try.
    pub try_this: String,
    /// Training would be a waste.
    pub bars: bool,
}

impl Checkup<'_> {
    /// Ask and judge. `on_token` hears how many tokens came.
    pub fn run(
        &self,
        tasks: &[Ready],
        on_token: &mut dyn FnMut(usize),
    ) -> Result<CheckReport, RolloutError> {
        let wanted = (self.samples / self.group_size.max(1)).max(1) as usize;
        let taken = items_of_step(self.seed, 0, wanted, tasks.len());
        let taken: Vec<&Ready> = taken.into_iter().map(|at| &tasks[at]).collect();
        let count = taken.len().max(1) as u32;
        let (each, more) = (self.samples / count, (self.samples % count) as usize);
        let mut groups = self.ask(&taken[..more], each + 1, on_token)?;
        groups.extend(self.ask(&taken[more..], each, on_token)?);
        let repeat = self.repeat(taken.first().copied(), on_token)?;
        let greedy = self.roller.sampling.temperature == 0.0;
        let echoes = !greedy && echoes(&groups);
        Ok(CheckReport::of(&groups, repeat, self.mode, echoes))
    }

    fn ask(
        &self,
        tasks: &[&Ready],
        group_size: u32,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<Vec<Group>, RolloutError> {
        if tasks.is_empty() || group_size == 0 {
            return Ok(Vec::new());
        }
        let at = At { run: self.seed, step: STEP, group_size };
        Ok(self.roller.roll(tasks, self.mode, at, on_token)?.0)
    }

    /// Two answers at temperature 0.
    fn repeat(
        &self,
        task: Option<&Ready>,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<Repeat, RolloutError> {
        let sampling = SamplingConfig { temperature: 0.0, ..self.roller.sampling.clone() };
        let roller = Roller { sampling: &sampling, ..self.roller };
        let at = At { run: self.seed, step: STEP, group_size: 1 };
        let mut answers = Vec::new();
        for _ in 0..2 {
            let tasks: Vec<&Ready> = task.into_iter().collect();
            let (groups, _) = roller.roll(&tasks, self.mode, at, on_token)?;
            answers.extend(groups.into_iter().flat_map(|it| it.attempts));
        }
        let rewards: Vec<Option<f64>> = answers.iter().map(|it| it.judgement.reward).collect();
        let texts: Vec<&str> = answers.iter().map(|it| it.answer.as_str()).collect();
        let same_answer = texts.windows(2).all(|pair| pair[0] == pair[1]);
        // The same number or nothing twice; what was lost says nothing.
        let same = |pair: &[Option<f64>]| match (pair[0], pair[1]) {
            (Some(a), Some(b)) => a.to_bits() == b.to_bits(),
            _ => true,
        };
        let same_reward = rewards.windows(2).all(same);
        Ok(Repeat { rewards, same_answer, same_reward })
    }
}

impl CheckReport {
    fn of(groups: &[Group], repeat: Repeat, mode: Mode, echoes: bool) -> Self {
        let samples: Vec<Sampled> = groups.iter().flat_map(sampled).collect();
        let rewards: Vec<f64> = samples.iter().filter_map(|it| it.reward).collect();
        let n = rewards.len() as f64;
        let mean = (n > 0.0).then(|| rewards.iter().sum::<f64>() / n);
        let variance =
            mean.map(|mean| rewards.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n);
        let mut verdicts = verdicts(&samples, mean, &repeat, mode);
        if echoes {
            verdicts.insert(0, no_sampling());
        }
        let fit = !verdicts.iter().any(|it| it.bars);
        Self { samples, mean, variance, repeat, verdicts, fit }
    }
}

/// Whether every task has one answer many times.
fn echoes(groups: &[Group]) -> bool {
    let same = |group: &Group| {
        let mut said = group.attempts.iter().filter(|it| it.judgement.reward.is_some());
        let first = said.next().map(|it| it.answer.as_str());
        let mut others = said.peekable();
        others.peek().is_some() && others.all(|it| Some(it.answer.as_str()) == first)
    };
    !groups.is_empty() && groups.iter().all(same)
}

fn no_sampling() -> Verdict {
    bars(
        "no_sampling",
        "the answers to a task are all the same text, although the temperature is above 0: the \
         server does not sample",
        "look for what overrules the temperature there: transformers' serve samples only where \
         the model's `generation_config.json` has `do_sample: true`",
    )
}

fn sampled(group: &Group) -> impl Iterator<Item = Sampled> {
    let of = |(at, it): (usize, &Attempt)| {
        let judgement = &it.judgement;
        let truncated = it.sample.finish == Finish::Length;
        let rule = judgement.evidence.rule.clone();
        let none = if truncated { "cut" } else { "none" };
        Sampled {
            task: group.prompt.task.to_string(),
            sample: at as u32,
            form: rule.filter(|_| judgement.parts.valid_diff).unwrap_or_else(|| none.to_owned()),
            outcome: judgement.outcome.as_str().to_owned(),
            why: judgement.outcome.why().map(str::to_owned),
            reward: judgement.reward,
            tokens: (it.origin != Origin::Unknown).then_some(it.sample.tokens.len()),
            valid: judgement.parts.valid_diff,
            applies: judgement.parts.applied,
            truncated,
        }
    };
    group.attempts.iter().enumerate().map(of)
}

/// What the answers mean, the gravest first.
fn verdicts(samples: &[Sampled], mean: Option<f64>, repeat: &Repeat, mode: Mode) -> Vec<Verdict> {
    let judged: Vec<&Sampled> = samples.iter().filter(|it| it.reward.is_some()).collect();
    let lost = lost(samples, samples.len() - judged.len());
    let Some(mean) = mean else { return lost.into_iter().collect() };
    let all = [
        lost,
        truncated(&judged),
        form(&judged, mode),
        low_mean(mean, mode),
        no_variance(samples, all_there(&judged, mean, mode)),
        repeated(repeat),
        no_tokens(&judged),
    ];
    let mut found: Vec<Verdict> = all.into_iter().flatten().collect();
    if !found.iter().any(|it| it.bars) {
        let says = format!("the mean reward is {mean:.2}, and groups differ: it can be trained on");
        found.push(passes("fit", says, "`patchrl train grpo` with the same flags"));
    }
    found
}

/// A verdict that says no.
fn bars(word: &'static str, says: impl Into<String>, try_this: &str) -> Verdict {
    Verdict { word, says: says.into(), try_this: try_this.to_owned(), bars: true }
}

/// A verdict that lets pass.
fn passes(word: &'static str, says: impl Into<String>, try_this: &str) -> Verdict {
    Verdict { bars: false, ..bars(word, says, try_this) }
}

fn lost(samples: &[Sampled], lost: usize) -> Option<Verdict> {
    let why = samples.iter().find(|it| it.reward.is_none())?.why.clone();
    let says = format!(
        "{lost} of {} answers were lost by no fault of the model: {}",
        samples.len(),
        why.unwrap_or_else(|| "nobody says why".into())
    );
    let try_this = "see to the server or the sandbox first: lost answers are not trained on";
    let say = if 2 * lost > samples.len() { bars } else { passes };
    Some(say("lost", says, try_this))
}

fn truncated(judged: &[&Sampled]) -> Option<Verdict> {
    let (cut, n) = (judged.iter().filter(|it| it.truncated).count(), judged.len());
    let says = format!("{cut} of {n} answers ran into the token limit, and are not trained on");
    let try_this = "raise `--max-new-tokens`; give a thinking model's thoughts a budget \
                    (`sampling.thinking_tokens`), or turn them off";
    (2 * cut >= n).then(|| bars("truncated", says, try_this))
}

/// Whether the mode has nothing more to give.
fn all_there(judged: &[&Sampled], mean: f64, mode: Mode) -> bool {
    match mode {
        Mode::Syntax => judged.iter().all(|it| it.valid),
        Mode::ApplyOnly => judged.iter().all(|it| it.applies),
        _ => mean >= HIGH_MEAN,
    }
}

/// Patches that cannot be read, or do not fit.
fn form(judged: &[&Sampled], mode: Mode) -> Option<Verdict> {
    let n = judged.len();
    let valid = judged.iter().filter(|it| it.valid).count();
    if valid == 0 {
        return Some(bars(
            "form",
            format!("none of {n} answers holds a patch that can be read: the form is wrong"),
            "try the other `prompt.format`, see one answer in full, or teach the form first with \
             `train sft`",
        ));
    }
    let says = format!(
        "{valid} of {n} answers hold a patch, and none applies: the model does not see the lines \
         it has to change"
    );
    let try_this = "raise `--max-prompt-tokens`, so that files are not cut";
    // Syntax alone does not try.
    let nowhere = mode != Mode::Syntax && judged.iter().all(|it| !it.applies);
    nowhere.then(|| bars("context", says, try_this))
}

/// The easier modes give less than this to the best of answers.
fn low_mean(mean: f64, mode: Mode) -> Option<Verdict> {
    let says = format!("the mean reward is {mean:.2}, below {LOW_MEAN}");
    let try_this = "look at prompt and context before training: what a person could not solve \
                    from the prompt is not learnt; begin with an easier reward mode or easier \
                    tasks";
    let whole = !matches!(mode, Mode::Syntax | Mode::ApplyOnly);
    (whole && mean < LOW_MEAN).then(|| bars("low_mean", says, try_this))
}

fn no_variance(samples: &[Sampled], all_there: bool) -> Option<Verdict> {
    let says = "in no group do two rewards differ, so that no advantage is other than 0: there is \
                nothing to learn";
    let try_this = if all_there {
        "the model can do this already: take harder tasks or a stricter reward mode"
    } else {
        "raise `--temperature` or `--group-size`, or take a reward mode with more steps between \
         nothing and all"
    };
    (!speaks(samples)).then(|| bars("no_variance", says, try_this))
}

fn repeated(repeat: &Repeat) -> Option<Verdict> {
    match (repeat.same_reward, repeat.same_answer) {
        (false, true) => Some(bars(
            "judge",
            format!("the same answer had two rewards: {}", pair(repeat)),
            "run `patchrl task validate`: the task's tests are flaky",
        )),
        (false, false) => Some(bars(
            "not_repeatable",
            format!("the same question twice at temperature 0 had two rewards: {}", pair(repeat)),
            "ask again with `--concurrency 1`; a server that batches may compute the same prompt \
             in two ways",
        )),
        (true, false) => Some(passes(
            "not_the_same_text",
            "the same question twice at temperature 0 had two answers of the same reward",
            "nothing needs to be done; a replay will differ",
        )),
        (true, true) => None,
    }
}

fn no_tokens(judged: &[&Sampled]) -> Option<Verdict> {
    let says = "the server does not say the tokens of its answers: GRPO cannot train on them";
    let try_this = "train with vLLM, SGLang or llama.cpp and `rollout.api: completions`, or with \
                    `rollout.retokenize: true`";
    judged.iter().all(|it| it.tokens.is_none()).then(|| passes("no_tokens", says, try_this))
}

/// Whether the rewards of any one task differ.
fn speaks(samples: &[Sampled]) -> bool {
    samples.iter().any(|a| {
        let other = |b: &&Sampled| {
            a.task == b.task && matches!((a.reward, b.reward), (Some(x), Some(y)) if x < y)
        };
        samples.iter().any(|b| other(&b))
    })
}

fn pair(repeat: &Repeat) -> String {
    let text = |it: &Option<f64>| it.map_or_else(|| "lost".to_owned(), |it| format!("{it:.3}"));
    repeat.rewards.iter().map(text).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(task: &str, reward: Option<f64>) -> Sampled {
        Sampled {
            task: task.into(),
            sample: 0,
            form: "edit".into(),
            outcome: "failed".into(),
            why: None,
            reward,
            tokens: Some(9),
            valid: true,
            applies: true,
            truncated: false,
        }
    }

    fn words(samples: &[Sampled], repeat: (bool, bool)) -> Vec<(&'static str, bool)> {
        let rewards: Vec<f64> = samples.iter().filter_map(|it| it.reward).collect();
        let mean =
            (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64);
        let (same_answer, same_reward) = repeat;
        let rewards = vec![Some(0.0), Some(1.0)];
        let repeat = Repeat { rewards, same_answer, same_reward };
        verdicts(samples, mean, &repeat, Mode::Tests)
            .into_iter()
            .map(|it| (it.word, it.bars))
            .collect()
    }

    #[test]
    fn each_verdict_has_its_case() {
        let good = [sample("a", Some(1.0)), sample("a", Some(0.2))];
        let same = (true, true);
        assert_eq!(words(&good, same), [("fit", false)]);
        assert_eq!(words(&good, (true, false)), [("judge", true)]);
        assert_eq!(words(&good, (false, false)), [("not_repeatable", true)]);
        assert_eq!(words(&good, (false, true)), [("not_the_same_text", false), ("fit", false)]);

        // The rewards of two tasks differ, those of none do.
        let flat = [sample("a", Some(1.0)), sample("a", Some(1.0)), sample("b", Some(0.5))];
        assert_eq!(words(&flat, same), [("no_variance", true)]);
        let low = [sample("a", Some(0.1)), sample("a", Some(0.3))];
        assert_eq!(words(&low, same), [("low_mean", true)]);

        let change = |change: &dyn Fn(&mut Sampled)| {
            let mut all = good.clone();
            all.iter_mut().for_each(change);
            words(&all, same)
        };
        assert_eq!(change(&|it| it.truncated = true), [("truncated", true)]);
        assert_eq!(change(&|it| it.applies = false), [("context", true)]);
        let form = change(&|it| {
            (it.valid, it.applies) = (false, false);
            it.reward = Some(-1.0);
        });
        assert_eq!(form, [("form", true), ("low_mean", true), ("no_variance", true)]);
        assert_eq!(change(&|it| it.tokens = None), [("no_tokens", false), ("fit", false)]);
        assert_eq!(change(&|it| it.reward = None), [("lost", true)]);
        let some = [good[0].clone(), good[1].clone(), sample("a", None)];
        assert_eq!(words(&some, same), [("lost", false), ("fit", false)]);
    }
}
