//! One rollout as a line of `rollouts/step-000123.jsonl`.
//!
//! Owns the file's form. Tokens and log-probabilities are kept with the policy
//! version that made them, so that a step can be replayed and audited.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use patchrl_agent::Turn;
use patchrl_model::Finish;
use serde::{Deserialize, Serialize};

use crate::{Group, Origin, RolloutError};

/// One answer and everything that was found out about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Step, counted over all phases.
    pub step: u64,
    /// The task's id.
    pub task: String,
    /// Position in the group.
    pub sample: u32,
    /// The rendered prompt.
    pub prompt: String,
    /// The answer without its stop token.
    pub answer: String,
    /// Tokens as sampled, and those that closed a thought.
    pub tokens: Vec<u32>,
    /// Whether each token was sampled; left out where all were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<bool>,
    /// Their log-probabilities at the sampling temperature; null where the sampler said none.
    #[serde(with = "known")]
    pub log_probs: Vec<f32>,
    /// The version of the weights that drew each token: optimizer steps behind it. 0 for one that
    /// was not sampled.
    #[serde(default)]
    pub versions: Vec<u64>,
    /// The tokens are the text encoded again, since the sampler did not say its own.
    #[serde(default)]
    pub retokenized: bool,
    /// Whether the answer ran into the token limit.
    pub truncated: bool,
    /// What happened, as a machine word.
    pub outcome: String,
    /// The reward, or null where the sample was lost by our fault.
    pub reward: Option<f64>,
    /// The advantage, or null where the group gave no update.
    pub advantage: Option<f32>,
    /// The change as a unified diff, where one was found.
    pub patch: Option<String>,
    /// The end of the tests' output, where they ran.
    pub test_log: Option<String>,
    /// Why an agent's episode ended, as a machine word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Its turns, with their tokens and masks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// The whole judgement: outcome with reasons, parts, evidence.
    pub judgement: serde_json::Value,
}

/// The file that holds the rollouts of `step`.
pub fn records_path(run_dir: &Path, step: u64) -> PathBuf {
    run_dir.join("rollouts").join(format!("step-{step:06}.jsonl"))
}

/// Write the groups of one step, whole or not at all.
///
/// `advantages` is one entry per group: its advantages, or nothing where the
/// group was silent.
pub fn write_records(
    run_dir: &Path,
    step: u64,
    groups: &[Group],
    advantages: &[Option<Vec<Option<f32>>>],
) -> Result<(), RolloutError> {
    let path = records_path(run_dir, step);
    let partial = path.with_extension("partial");
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut file = std::io::BufWriter::new(fs_err::File::create(&partial)?);
    for (group, advantages) in groups.iter().zip(advantages) {
        for (i, attempt) in group.attempts.iter().enumerate() {
            let advantage = advantages.as_ref().and_then(|a| a[i]);
            serde_json::to_writer(&mut file, &record(step, group, i, attempt, advantage))
                .map_err(std::io::Error::from)?;
            file.write_all(b"\n")?;
        }
    }
    file.flush()?;
    drop(file);
    fs_err::rename(&partial, &path)?;
    Ok(())
}

/// Remove the records of steps after `step`: a resumed run makes them again.
pub fn forget_after(run_dir: &Path, step: u64) -> Result<(), RolloutError> {
    let Ok(entries) = fs_err::read_dir(run_dir.join("rollouts")) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let number = stem.strip_prefix("step-").and_then(|n| n.parse::<u64>().ok());
        let partial = path.extension().is_some_and(|e| e == "partial");
        if partial || number.is_some_and(|n| n > step) {
            fs_err::remove_file(&path)?;
        }
    }
    Ok(())
}

fn record(
    step: u64,
    group: &Group,
    sample: usize,
    attempt: &crate::Attempt,
    advantage: Option<f32>,
) -> Record {
    let (judgement, mask) = (&attempt.judgement, &attempt.sample.mask);
    Record {
        step,
        task: group.prompt.task.as_str().to_owned(),
        sample: sample as u32,
        prompt: group.prompt.text.clone(),
        answer: attempt.answer.clone(),
        tokens: attempt.sample.tokens.clone(),
        mask: if mask.contains(&false) { mask.clone() } else { Vec::new() },
        log_probs: attempt.sample.log_probs.clone(),
        versions: attempt.versions.clone(),
        retokenized: attempt.origin == Origin::Retokenized,
        truncated: attempt.sample.finish == Finish::Length,
        outcome: judgement.outcome.as_str().to_owned(),
        reward: judgement.reward,
        advantage,
        patch: judgement.evidence.patch.clone(),
        test_log: judgement.evidence.test_log.clone(),
        end: attempt.played.as_ref().map(|it| it.trajectory.end.as_str().to_owned()),
        turns: attempt.played.as_ref().map(|it| it.trajectory.turns.clone()).unwrap_or_default(),
        judgement: serde_json::to_value(judgement).unwrap_or(serde_json::Value::Null),
    }
}

/// Numbers of which some are not known: NaN here, null in the file.
mod known {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[f32], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|value| (!value.is_nan()).then_some(*value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
        let values = Vec::<Option<f32>>::deserialize(from)?;
        Ok(values.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect())
    }
}
