//! A few answers worth reading, out of `rollouts/step-*.jsonl`.
//!
//! Owns the choice: the last answer of each outcome, and the best of some steps.
//! Bounded in files, lines and bytes; a line it cannot read is passed over, since
//! the report must not fail on one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use fs_err::File;
use serde::Deserialize;
use serde_json::Value;

use super::evenly;
use crate::error::TelemetryError;

/// Most files opened, spread evenly over the run.
const FILES: usize = 16;
/// Most bytes read of a file.
const FILE_BYTES: u64 = 64 << 20;
/// Most examples shown.
const EXAMPLES: usize = 12;

/// One answer with what became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Example {
    pub(super) step: u64,
    pub(super) task: String,
    pub(super) outcome: String,
    pub(super) why: Option<String>,
    pub(super) reward: Option<f64>,
    pub(super) prompt: String,
    pub(super) answer: String,
    pub(super) patch: String,
    pub(super) test_log: String,
}

/// What is read of a line; the rest of it is left alone.
#[derive(Deserialize)]
struct Line {
    task: Option<String>,
    prompt: Option<String>,
    answer: Option<String>,
    patch: Option<String>,
    test_log: Option<String>,
    reward: Option<f64>,
    outcome: Option<Value>,
}

/// The examples of a run, the latest first; none if it kept no rollouts.
pub(super) fn choose(rollouts: &Path) -> Result<Vec<Example>, TelemetryError> {
    let files = files(rollouts)?;
    let mut last_of: BTreeMap<String, Example> = BTreeMap::new();
    let mut best = Vec::new();
    for at in evenly(files.len(), FILES) {
        let (step, path) = &files[at];
        let examples = read(path, *step)?;
        best.extend(examples.iter().max_by(|a, b| order(a).total_cmp(&order(b))).cloned());
        for example in examples {
            last_of.insert(example.outcome.clone(), example);
        }
    }
    let mut chosen: Vec<Example> = last_of.into_values().take(EXAMPLES / 2).collect();
    for at in evenly(best.len(), EXAMPLES - chosen.len()).into_iter().rev() {
        if !chosen.contains(&best[at]) {
            chosen.push(best[at].clone());
        }
    }
    chosen.sort_by(|a, b| b.step.cmp(&a.step).then(order(b).total_cmp(&order(a))));
    Ok(chosen)
}

fn order(example: &Example) -> f64 {
    example.reward.unwrap_or(f64::NEG_INFINITY)
}

/// Step and path, in order.
fn files(rollouts: &Path) -> Result<Vec<(u64, PathBuf)>, TelemetryError> {
    let failed = |source| TelemetryError::Read { path: rollouts.to_owned(), source };
    let entries = match fs_err::read_dir(rollouts) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let step = name.strip_prefix("step-").and_then(|rest| rest.strip_suffix(".jsonl"));
        if let Some(step) = step.and_then(|digits| digits.parse().ok()) {
            files.push((step, path));
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path, step: u64) -> Result<Vec<Example>, TelemetryError> {
    let failed = |source| TelemetryError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mut reader = BufReader::new(file.take(FILE_BYTES));
    let mut examples = Vec::new();
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).map_err(failed)? > 0 {
        if let Ok(line) = serde_json::from_slice::<Line>(&bytes) {
            examples.push(example(line, step));
        }
        bytes.clear();
    }
    Ok(examples)
}

fn example(line: Line, step: u64) -> Example {
    let (outcome, why) = outcome(line.outcome.unwrap_or_default());
    Example {
        step,
        task: line.task.unwrap_or_default(),
        outcome,
        why,
        reward: line.reward,
        prompt: line.prompt.unwrap_or_default(),
        answer: line.answer.unwrap_or_default(),
        patch: line.patch.unwrap_or_default(),
        test_log: line.test_log.unwrap_or_default(),
    }
}

/// An outcome as serde writes an enum: a word, an object tagged `outcome` or
/// `kind`, or an object whose one key is the word.
fn outcome(value: Value) -> (String, Option<String>) {
    let why = |value: &Value| value.get("why").and_then(Value::as_str).map(str::to_owned);
    match value {
        Value::String(word) => (word, None),
        Value::Object(map) => {
            let tag = ["outcome", "kind", "type"].iter().find_map(|key| map.get(*key)?.as_str());
            match (tag, map.iter().next()) {
                (Some(word), _) => {
                    let word = word.to_owned();
                    (word, why(&Value::Object(map)))
                }
                (None, Some((word, inner))) => (word.clone(), why(inner)),
                (None, None) => ("unknown".into(), None),
            }
        }
        _ => ("unknown".into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::outcome;
    use serde_json::json;

    #[test]
    fn an_outcome_is_read_in_each_of_its_forms() {
        assert_eq!(outcome(json!("resolved")), ("resolved".into(), None));
        let why = Some("hunk 2".to_owned());
        assert_eq!(outcome(json!({"not_applied": {"why": "hunk 2"}})), ("not_applied".into(), why));
        let why = Some("x".to_owned());
        assert_eq!(outcome(json!({"kind": "lost", "why": "x"})), ("lost".into(), why));
        assert_eq!(outcome(json!(null)).0, "unknown");
    }
}
