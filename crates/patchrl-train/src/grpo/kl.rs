//! Estimates of KL(policy || reference) from one token, and their derivatives.
//!
//! Owns k1, k2, k3 and the two ways to make their gradient that of the divergence.
//! Source: J. Schulman, "Approximating KL divergence" (2020); DeepSeek-V3.2
//! (arXiv 2512.02556) for the ratio, verl's `kl_penalty` for the straight-through form.

use serde::{Deserialize, Serialize};

use super::Bounds;

/// Which estimate. `g = reference - logp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// `-g`: unbiased, may be below 0; its gradient has a mean of 0.
    K1,
    /// `g^2 / 2`: biased; its gradient is the divergence's.
    K2,
    /// `exp(g) - g - 1`: unbiased, never below 0; its gradient is biased.
    K3,
}

/// What makes the gradient that of the divergence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KlGradient {
    /// Nothing: the derivative of the estimate.
    Plain,
    /// The derivative of k2 in place of the estimate's own (verl's `k3+`).
    StraightThrough,
    /// The estimate times the ratio (TRL's `use_bias_correction_kl`).
    Ratio,
}

/// The KL term of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kl {
    /// Weight in the loss.
    pub coef: f32,
    /// Which estimate.
    pub estimator: Estimator,
    /// With whose gradient.
    pub gradient: KlGradient,
}

/// One token's estimate and its derivatives, before [`Kl::coef`].
pub(super) struct KlTerm {
    pub(super) value: f64,
    /// By the log-probability, the ratio held.
    pub(super) by_logp: f64,
    /// By the log of the ratio.
    pub(super) by_ratio: f64,
}

impl Kl {
    /// `gap` is `reference - logp`, `ratio` the policy's ratio to the weights of the step's start.
    pub(super) fn term(self, gap: f64, ratio: f64, bounds: Bounds) -> KlTerm {
        let (value, by_logp) = match self.estimator {
            Estimator::K1 => (-gap, 1.0),
            Estimator::K2 => (0.5 * gap * gap, -gap),
            Estimator::K3 => k3(gap, bounds),
        };
        match self.gradient {
            KlGradient::Plain => KlTerm { value, by_logp, by_ratio: 0.0 },
            KlGradient::StraightThrough => KlTerm { value, by_logp: -gap, by_ratio: 0.0 },
            KlGradient::Ratio => {
                KlTerm { value: ratio * value, by_logp: ratio * by_logp, by_ratio: ratio * value }
            }
        }
    }
}

/// k3 and its derivative by the log-probability.
fn k3(gap: f64, bounds: Bounds) -> (f64, f64) {
    let bounded = if bounds == Bounds::None { gap } else { gap.clamp(-20.0, 20.0) };
    let value = bounded.exp() - bounded - 1.0;
    let slope = 1.0 - bounded.exp();
    match bounds {
        Bounds::Verl if value > 10.0 => (10.0, 0.0),
        Bounds::None | Bounds::Exponent | Bounds::Verl => (value, slope),
    }
}
