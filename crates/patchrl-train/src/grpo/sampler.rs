//! What corrects for a sampler that is not the trainer: weights and rejections.
//!
//! Owns the ratio `rho = exp(old - sampled)` between the trainer's probabilities
//! and those that the sampler drew from. A weight scales an answer's policy term
//! and leaves it in every denominator; a rejection takes the answer out of the
//! step. Neither is differentiated. Log-probabilities that the sampler could not
//! give (NaN) count as equal to the trainer's.

use serde::{Deserialize, Serialize};

use super::Scored;

/// How `rho` weighs the policy term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Not at all.
    Off,
    /// Each token by its own `rho`, cut to the bounds (TIS).
    TokenTruncate,
    /// Each token by its own `rho`, or by 0 outside of the bounds (`IcePop`).
    TokenMask,
    /// The answer by the product over its tokens, cut to the bounds.
    SequenceTruncate,
    /// The answer by the product over its tokens, or by 0 outside of the bounds (MIS).
    SequenceMask,
}

/// Which answers leave the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reject {
    /// None.
    Off,
    /// Those whose geometric mean of `rho` is out of bounds.
    Geometric,
    /// Those with any token whose `rho` is out of bounds.
    Outlier,
}

/// The constants of the correction. Bounds are of ratios; both ends are inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// How `rho` weighs the policy term.
    pub weight: Weight,
    /// Bounds of the weight, low and high.
    pub weight_bounds: (f32, f32),
    /// Which answers leave the step.
    pub reject: Reject,
    /// Bounds of the rejection, low and high.
    pub reject_bounds: (f32, f32),
    /// Answers with a negative advantage weigh 0 above this mean of `sampled - logp`
    /// (off-policy sequence mask of DeepSeek-V3.2); 0 leaves all in.
    pub drift_limit: f32,
}

impl Correction {
    /// The weight of every token, (T,).
    pub(super) fn weights(&self, answer: &Scored<'_>) -> Vec<f64> {
        if self.drifted(answer) {
            return vec![0.0; answer.logp.len()];
        }
        let (low, high) = wide(self.weight_bounds);
        let cut = |rho: f64| rho.clamp(low, high);
        let drop = |rho: f64| if (low..=high).contains(&rho) { rho } else { 0.0 };
        let whole = || answer.counted().map(|t| answer.log_rho(t)).sum::<f64>().exp();
        let each = |f: &dyn Fn(f64) -> f64| {
            (0..answer.logp.len()).map(|t| f(answer.log_rho(t).exp())).collect()
        };
        match self.weight {
            Weight::Off => vec![1.0; answer.logp.len()],
            Weight::TokenTruncate => each(&cut),
            Weight::TokenMask => each(&drop),
            Weight::SequenceTruncate => vec![cut(whole()); answer.logp.len()],
            Weight::SequenceMask => vec![drop(whole()); answer.logp.len()],
        }
    }

    /// Whether an answer stays in the step. Reads `old` and `sampled`, not `logp`.
    pub fn keeps(&self, answer: &Scored<'_>) -> bool {
        let (low, high) = wide(self.reject_bounds);
        let inside = |log_rho: f64| (low..=high).contains(&log_rho.exp());
        match self.reject {
            Reject::Off => true,
            Reject::Geometric => inside(mean(answer.counted().map(|t| answer.log_rho(t)))),
            Reject::Outlier => answer.counted().all(|t| inside(answer.log_rho(t))),
        }
    }

    fn drifted(&self, answer: &Scored<'_>) -> bool {
        let gap = |t: usize| known(answer.sampled[t] - answer.logp[t]);
        self.drift_limit > 0.0
            && answer.advantage < 0.0
            && mean(answer.counted().map(gap)) > f64::from(self.drift_limit)
    }
}

impl Scored<'_> {
    /// `old - sampled` of one token.
    pub(super) fn log_rho(&self, t: usize) -> f64 {
        known(self.old[t] - self.sampled[t])
    }
}

fn known(difference: f32) -> f64 {
    if difference.is_nan() { 0.0 } else { f64::from(difference) }
}

fn wide((low, high): (f32, f32)) -> (f64, f64) {
    (f64::from(low), f64::from(high))
}

/// 0 where there is nothing.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0_usize), |(sum, n), v| (sum + v, n + 1));
    sum / n.max(1) as f64
}
