//! A model's answers as predictions, with what became of each, on disk as soon as it is known.
//!
//! Owns the file: one object a line in the harness's form of predictions, with the fields of ours
//! after them. A run that was stopped goes on from it. Does not sample and does not judge.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use patchrl_reward::Outcome;
use patchrl_rollout::Group;
use serde::{Deserialize, Serialize};

use crate::Shares;

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

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnswersError {
    /// It cannot be read or written.
    #[error("cannot use the predictions `{path}`")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A whole line of it is none of ours.
    #[error("`{path}`, line {line}, was not written by this command: {why}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// The file of answers.
pub struct Answers {
    path: PathBuf,
    file: fs_err::File,
    model: String,
    known: BTreeMap<(String, u32), Answered>,
}

impl Answers {
    /// Open or begin the file of `model`'s answers. A line that was cut off when a run was killed
    /// is dropped; answers that we lost are asked for again.
    pub fn open(path: &Path, model: &str) -> Result<Self, AnswersError> {
        let fail = |source| AnswersError::File { path: path.to_owned(), source };
        let bad = |line, why| AnswersError::Line { path: path.to_owned(), line, why };
        let mut options = fs_err::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(fail)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(fail)?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let mut known = BTreeMap::new();
        for (at, line) in text[..whole].lines().enumerate() {
            let it: Answered =
                serde_json::from_str(line).map_err(|e| bad(at + 1, e.to_string()))?;
            if it.model_name_or_path != model {
                let why = format!("it is an answer of `{}`", it.model_name_or_path);
                return Err(bad(at + 1, why));
            }
            known.insert((it.instance_id.clone(), it.sample), it);
        }
        file.set_len(whole as u64).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { path: path.to_owned(), file, model: model.to_owned(), known })
    }

    /// Whether all of a task's answers are there.
    pub fn has(&self, instance_id: &str, samples: u32) -> bool {
        let of = |sample| self.known.get(&(instance_id.to_owned(), sample));
        (0..samples).all(|sample| of(sample).is_some_and(|it| it.resolved.is_some()))
    }

    /// Write down judged groups, each line whole.
    pub fn add(&mut self, groups: &[Group]) -> Result<(), AnswersError> {
        let fail = |source| AnswersError::File { path: self.path.clone(), source };
        let mut lines = Vec::new();
        for group in groups {
            for (sample, attempt) in group.attempts.iter().enumerate() {
                let judgement = &attempt.judgement;
                let known = judgement.reward.is_some();
                let it = Answered {
                    instance_id: group.prompt.task.to_string(),
                    model_name_or_path: self.model.clone(),
                    model_patch: judgement.evidence.patch.clone(),
                    sample: sample as u32,
                    outcome: judgement.outcome.as_str().to_owned(),
                    valid_diff: judgement.parts.valid_diff,
                    applied: judgement.parts.applied,
                    resolved: known.then_some(judgement.outcome == Outcome::Resolved),
                };
                serde_json::to_writer(&mut lines, &it).map_err(|e| fail(e.into()))?;
                lines.push(b'\n');
                self.known.insert((it.instance_id.clone(), it.sample), it);
            }
        }
        self.file.write_all(&lines).and_then(|()| self.file.sync_data()).map_err(fail)
    }

    /// Shares over every answer of the file; `seconds` is the caller's.
    pub fn shares(&self) -> Shares {
        let judged = || self.known.values().filter(|it| it.resolved.is_some());
        let n = judged().count();
        let share = |is: fn(&Answered) -> bool| judged().filter(|it| is(it)).count() as f64 / n.max(1) as f64;
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
