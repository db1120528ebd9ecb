//! A model's answers as predictions, with what became of each, on disk as soon as it is known.
//!
//! Owns the line's form: the harness's prediction, with fields of ours after it. A run that was
//! stopped goes on from the file. Does not sample and does not judge.

use std::collections::BTreeMap;
use std::path::Path;

use patchrl_reward::Outcome;
use patchrl_rollout::Group;
use serde::{Deserialize, Serialize};

use crate::Shares;
use crate::lines::{Lines, LinesError};

/// One answer: a line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The instance.
    pub instance_id: String,
    /// The model.
    pub model_name_or_path: String,
    /// The change as a diff; null if the answer holds none.
    pub model_patch: Option<String>,
    /// Which of the task's answers, from 0.
    pub sample: u32,
    /// What became of it, as one word.
    pub outcome: String,
    /// It holds a well-formed patch.
    pub valid_diff: bool,
    /// The patch applies and changes the tree.
    pub applied: bool,
    /// All required tests pass; null if we lost it.
    pub resolved: Option<bool>,
}

/// The file of answers.
pub struct Answers {
    lines: Lines,
    model: String,
    known: BTreeMap<(String, u32), Answered>,
}

impl Answers {
    /// Open or begin the file of `model`'s answers. Answers that we lost are asked for again.
    pub fn open(path: &Path, model: &str) -> Result<Self, LinesError> {
        let (lines, all) = Lines::open::<Answered>(path)?;
        if let Some(at) = all.iter().position(|it| it.model_name_or_path != model) {
            let why = format!("it is an answer of `{}`", all[at].model_name_or_path);
            return Err(lines.bad(at + 1, why));
        }
        let known = all.into_iter().map(|it| ((it.instance_id.clone(), it.sample), it)).collect();
        Ok(Self { lines, model: model.to_owned(), known })
    }

    /// Whether all of a task's answers are there.
    pub fn has(&self, instance_id: &str, samples: u32) -> bool {
        let of = |sample| self.known.get(&(instance_id.to_owned(), sample));
        (0..samples).all(|sample| of(sample).is_some_and(|it| it.resolved.is_some()))
    }

    /// Write down judged groups.
    pub fn add(&mut self, groups: &[Group]) -> Result<(), LinesError> {
        let mut new = Vec::new();
        for group in groups {
            for (sample, attempt) in group.attempts.iter().enumerate() {
                let judgement = &attempt.judgement;
                let known = judgement.reward.is_some();
                new.push(Answered {
                    instance_id: group.prompt.task.to_string(),
                    model_name_or_path: self.model.clone(),
                    model_patch: judgement.evidence.patch.clone(),
                    sample: sample as u32,
                    outcome: judgement.outcome.as_str().to_owned(),
                    valid_diff: judgement.parts.valid_diff,
                    applied: judgement.parts.applied,
                    resolved: known.then_some(judgement.outcome == Outcome::Resolved),
                });
            }
        }
        self.lines.add(&new)?;
        self.known.extend(new.into_iter().map(|it| ((it.instance_id.clone(), it.sample), it)));
        Ok(())
    }

    /// Shares over every answer of the file; `seconds` is the caller's.
    pub fn shares(&self) -> Shares {
        let judged = || self.known.values().filter(|it| it.resolved.is_some());
        let n = judged().count();
        let share = |is: fn(&Answered) -> bool| {
            judged().filter(|it| is(it)).count() as f64 / n.max(1) as f64
        };
        let mut tasks: Vec<&str> = self.known.keys().map(|(id, _)| id.as_str()).collect();
        tasks.dedup();
        Shares {
            valid_diff: share(|it| it.valid_diff),
            applied: share(|it| it.applied),
            resolved: share(|it| it.resolved == Some(true)),
            samples: n as u64,
            lost: (self.known.len() - n) as u64,
            tasks: tasks.len() as u64,
            seconds: 0.0,
        }
    }
}
