//! What became of one answer: the outcome, its parts, and the evidence.
//!
//! Owns the record that everything above this crate reads. Does not decide a
//! number (see `preset`) and does not run anything (see `judge`).

use serde::{Deserialize, Serialize};

/// How one answer ended. Exactly one of these holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// Every `FAIL_TO_PASS` test passes and no `PASS_TO_PASS` test broke.
    Resolved,
    /// The patch was applied and tested, and at least one required test did not pass.
    Failed,
    /// The patch applies and changes the tree. No test was asked for.
    Applied,
    /// The answer holds a well-formed patch. Nothing more was asked for.
    WellFormed,
    /// The answer holds no patch that can be read.
    Malformed {
        /// What is wrong with it.
        why: String,
    },
    /// The patch is well formed but does not fit the repository.
    NotApplied {
        /// The first hunk or file that does not fit.
        why: String,
    },
    /// The patch applies and leaves every file as it was.
    Unchanged,
    /// The answer was cut off at its token limit before a whole patch was written.
    Truncated,
    /// The tests did not end within their time limit.
    TimedOut,
    /// The patch works on the judge and not on the problem.
    Cheated {
        /// What it tried.
        why: String,
    },
    /// Our fault: sandbox, disk, mirror or interpreter. Says nothing about the answer.
    Lost {
        /// What broke.
        why: String,
    },
}

impl Outcome {
    /// The machine word of this outcome, as journals and reports spell it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Failed => "failed",
            Self::Applied => "applied",
            Self::WellFormed => "well_formed",
            Self::Malformed { .. } => "malformed",
            Self::NotApplied { .. } => "not_applied",
            Self::Unchanged => "unchanged",
            Self::Truncated => "truncated",
            Self::TimedOut => "timed_out",
            Self::Cheated { .. } => "cheated",
            Self::Lost { .. } => "lost",
        }
    }

    /// The reason in words, where the outcome carries one.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Malformed { why }
            | Self::NotApplied { why }
            | Self::Cheated { why }
            | Self::Lost { why } => Some(why),
            _ => None,
        }
    }
}

/// The measurements a reward is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// The answer holds a well-formed diff or edit blocks with at least one change.
    pub valid_diff: bool,
    /// The patch applies at the base commit and changes the tree.
    pub applied: bool,
    /// `FAIL_TO_PASS` tests that passed.
    pub f2p_passed: u32,
    /// `FAIL_TO_PASS` tests of the task. 0 where no test was asked for.
    pub f2p_total: u32,
    /// `PASS_TO_PASS` tests that still pass, or are skipped as before.
    pub p2p_passed: u32,
    /// `PASS_TO_PASS` tests of the task. 0 where no test was asked for.
    pub p2p_total: u32,
}

impl Parts {
    /// Share of the `FAIL_TO_PASS` tests that passed; 0 where no test was asked for.
    pub(crate) fn f2p_share(&self) -> f64 {
        share(self.f2p_passed, self.f2p_total)
    }

    /// Share of the `PASS_TO_PASS` tests that broke; 0 where no test was asked for.
    pub(crate) fn p2p_broken(&self) -> f64 {
        share(self.p2p_total.saturating_sub(self.p2p_passed), self.p2p_total)
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(part) / f64::from(whole) }
}

/// Why the outcome is what it is: enough to disagree with the judge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The extraction rule that found the patch.
    pub rule: Option<String>,
    /// What the patch did, as a canonical unified diff against the base tree.
    pub patch: Option<String>,
    /// The end of what the tests printed.
    pub test_log: Option<String>,
    /// How the test command ended: `exit 1`, `signal 9`, `timed out`, `out of memory`.
    pub ending: Option<String>,
    /// Files of the patch that were put back before grading, with the rule that names them.
    pub restored: Vec<String>,
    /// Where added code reaches for the test run itself, with what it reaches for.
    pub reaches: Vec<String>,
    /// Required tests that did not pass, with what was seen of each (at most 20).
    pub failures: Vec<String>,
    /// Where exit code, log and result file disagree.
    pub disagreements: Vec<String>,
    /// Wall seconds in the sandbox. 0 when the verdict came from the cache.
    pub seconds: f64,
    /// Most memory the tests held, in bytes, where the sandbox could measure it.
    pub peak_memory: Option<u64>,
    /// The same tree had been judged before; the tests were not run again.
    pub cached: bool,
    /// The answer was cut off at its token limit (a whole patch may precede the cut).
    pub truncated: bool,
}

/// One named value of a judgement and its weight in the reward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Its name in the configuration.
    pub name: String,
    /// What was measured, on the scale that the component's description gives.
    pub value: f64,
    /// Factor of the value in the reward.
    pub weight: f64,
}

/// The judge's word on one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What happened.
    pub outcome: Outcome,
    /// The number, or nothing where the answer could not be judged.
    pub reward: Option<f64>,
    /// What the number is made of.
    pub parts: Parts,
    /// The weighted values of a preset that adds such up; empty for the others.
    #[serde(default)]
    pub components: Vec<Component>,
    /// Why.
    pub evidence: Evidence,
}

impl Judgement {
    /// The number, or nothing where the answer could not be judged. Nothing
    /// leaves the sample out of its group before the mean is taken.
    pub fn reward(&self) -> Option<f64> {
        self.reward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_json_and_names_itself() {
        let all = [Outcome::Resolved, Outcome::Unchanged, Outcome::Lost { why: "no disk".into() }];
        for outcome in all {
            let text = serde_json::to_string(&outcome).unwrap();
            assert!(text.contains(&format!("\"kind\":\"{}\"", outcome.as_str())), "{text}");
            assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        }
    }
}
