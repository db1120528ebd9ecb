//! Rewards that need no task: a record in JSON goes in, a number comes out.
//!
//! Owns the forms of records of the presets `swerl` and `similarity`, for the command line
//! and for servers. Rewards that look at a repository or run tests are `Judge`'s.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use patchrl_patch::{Autojunk, Reference, TooLong};
use serde::Deserialize;

use crate::swerl::{self, Texts};

/// Golden texts kept ready: the answers of a group share one.
const KEPT: usize = 64;

/// How alike a predicted and a golden patch are.
pub struct Similarity {
    autojunk: Autojunk,
    penalty: f64,
    ready: Mutex<HashMap<String, Arc<Reference>>>,
}

/// `{"predicted", "golden"}`.
#[derive(Deserialize)]
struct Pair {
    predicted: String,
    golden: String,
}

impl Similarity {
    /// `penalty` is the reward of an answer that is empty or holds no patch.
    pub fn new(autojunk: Autojunk, penalty: f64) -> Self {
        Self { autojunk, penalty, ready: Mutex::default() }
    }

    /// `SequenceMatcher(None, predicted, golden).ratio()` of a record `{"predicted",
    /// "golden"}`, or the penalty if `predicted` holds no patch.
    pub fn score(&self, record: &str) -> Result<swerl::Score, String> {
        let pair: Pair = parse(record)?;
        if let Err(fault) = patchrl_patch::extract(&pair.predicted) {
            return Ok(swerl::Score { reward: self.penalty, error: Some(fault.to_string()) });
        }
        let reward = self.compare(&pair.predicted, &pair.golden).map_err(|e| e.to_string())?;
        Ok(swerl::Score { reward, error: None })
    }

    /// The bare ratio of a record `{"predicted", "golden"}` of any two texts.
    pub fn ratio(&self, record: &str) -> Result<f64, String> {
        let pair: Pair = parse(record)?;
        self.compare(&pair.predicted, &pair.golden).map_err(|e| e.to_string())
    }

    fn compare(&self, predicted: &str, golden: &str) -> Result<f64, TooLong> {
        self.reference(golden)?.ratio(predicted)
    }

    fn reference(&self, golden: &str) -> Result<Arc<Reference>, TooLong> {
        let lock = || self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reference) = lock().get(golden) {
            return Ok(Arc::clone(reference));
        }
        let reference = Arc::new(Reference::new(golden, self.autojunk)?);
        let mut ready = lock();
        if ready.len() >= KEPT {
            ready.clear();
        }
        ready.insert(golden.to_owned(), Arc::clone(&reference));
        Ok(reference)
    }
}

/// The SWE-RL reward of a record: `{"context", "oracle", "output"}` with files by path and
/// a whole answer, or `{"oracle_patches", "pred_patches"}` with lists of diffs.
pub fn swerl(record: &str) -> Result<swerl::Score, String> {
    #[derive(Deserialize)]
    struct Record {
        context: Option<Texts>,
        oracle: Option<Texts>,
        output: Option<String>,
        oracle_patches: Option<Vec<String>>,
        pred_patches: Option<Vec<String>>,
    }
    match parse(record)? {
        Record { context: Some(context), oracle: Some(oracle), output: Some(output), .. } => {
            swerl::from_answer(&context, &oracle, &output).map_err(|e| e.to_string())
        }
        Record { oracle_patches: Some(oracle), pred_patches: Some(predicted), .. } => {
            let reward = swerl::from_diffs(&oracle, &predicted).map_err(|e| e.to_string())?;
            Ok(swerl::Score { reward, error: None })
        }
        _ => Err("a record holds either `context`, `oracle` and `output`, or `oracle_patches` \
                  and `pred_patches`"
            .to_owned()),
    }
}

fn parse<'r, T: Deserialize<'r>>(record: &'r str) -> Result<T, String> {
    serde_json::from_str(record).map_err(|error| format!("not a valid record: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/f\\n+++ b/f\\n@@ -1 +1 @@\\n-a\\n+b\\n";

    #[test]
    fn similarity_reads_its_record() {
        let similarity = Similarity::new(Autojunk::On, -2.0);
        let record = format!(r#"{{"predicted":"{DIFF}","golden":"{DIFF}","id":7}}"#);
        let same = swerl::Score { reward: 1.0, error: None };
        assert_eq!(similarity.score(&record), Ok(same));
        let score = similarity.score(r#"{"predicted":"","golden":"x"}"#).unwrap();
        assert_eq!((score.reward, score.error.is_some()), (-2.0, true));
        assert_eq!(similarity.ratio(r#"{"predicted":"ab","golden":"ac"}"#), Ok(0.5));
        let error = similarity.ratio(r#"{"predicted":"ab"}"#).unwrap_err();
        assert!(error.contains("`golden`"), "{error}");
    }

    #[test]
    fn both_forms_of_the_paper_s_record_are_read() {
        let reward =
            |record: &str| swerl(record).map(|score| (score.reward, score.error.is_some()));
        assert_eq!(reward(r#"{"context":{},"oracle":{},"output":"x"}"#), Ok((-1.0, true)));
        let record = format!(r#"{{"oracle_patches":["{DIFF}"],"pred_patches":["{DIFF}"]}}"#);
        assert_eq!(reward(&record), Ok((1.0, false)));
        assert_eq!(reward(r#"{"oracle_patches":[],"pred_patches":["x"]}"#), Ok((1.0, false)));
        assert!(swerl(r#"{"oracle":{}}"#).unwrap_err().contains("`pred_patches`"));
    }
}
