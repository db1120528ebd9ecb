//! The loss of one answer and its derivative by each log-probability.
//!
//! Owns the ratio, its clips, and how the policy term, the sampler's weight and
//! the KL term meet; there is no other loss code. Does not know about models: it
//! reads log-probabilities and writes derivatives. What a sum over tokens is
//! divided by comes from [`super::aggregation`].
//!
//! With `r = exp(logp - old)`, `A` the advantage and `w` the sampler's weight, a
//! token adds `w * policy + kl_coef * kl`, where `policy` is by [`Form`]:
//!
//! | form | policy term | source |
//! |---|---|---|
//! | `Token` | `-min(r A, clip(r) A)`, for `A < 0` at most `-dual_clip A` | arXiv 2402.03300, 1912.09729 |
//! | `Sequence` | the same with `r = exp(mean(logp - old))` of the whole answer | GSPO, arXiv 2507.18071 |
//! | `Cispo` | `-clip(r) A logp`, `clip(r)` held constant | arXiv 2506.13585 |
//! | `Sapo` | `-(4 / tau) sigmoid(tau (r - 1)) A` | arXiv 2511.20347 |

use serde::{Deserialize, Serialize};

use super::tally::{Clip, Seen, Tally};
use super::{Correction, Kl};

/// The shape of the policy term.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// The clipped ratio of each token.
    Token,
    /// The clipped ratio of the whole answer.
    Sequence,
    /// The clipped ratio as a constant weight of the log-probability.
    Cispo,
    /// A soft gate in place of the clip, with a temperature for each sign of the advantage.
    Sapo {
        /// Where the advantage is above 0.
        positive: f64,
        /// Elsewhere.
        negative: f64,
    },
}

/// Where exponents are cut off, so that one token on which two policies disagree
/// completely cannot make a step infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounds {
    /// Nowhere (TRL).
    None,
    /// k3's exponent at 20, with the slope it has there.
    Exponent,
    /// As verl does: log-ratios at 20 (at 10 for a whole answer's), k3's exponent at 20 and
    /// k3 itself at 10, without any slope beyond.
    Verl,
}

/// The constants of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// The shape of the policy term.
    pub form: Form,
    /// Where the clip holds the ratio, low and high.
    pub ratio: (f64, f64),
    /// The second clip, for negative advantages; 0 for none.
    pub dual_clip: f32,
    /// The KL term.
    pub kl: Kl,
    /// The correction for the sampler.
    pub correction: Correction,
    /// Where exponents are cut off.
    pub bounds: Bounds,
    /// What the entropy of a token's distribution takes off its loss (verl, TRL). The updater
    /// adds it, since a log-probability does not say it.
    pub entropy_coef: f32,
}

/// One answer as the policies see it. All slices are (T,).
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// Log-probabilities under the weights that are being trained.
    pub logp: &'a [f32],
    /// The same when the step began.
    pub old: &'a [f32],
    /// The same under the frozen reference; without one the KL term is 0.
    pub reference: Option<&'a [f32]>,
    /// What the sampler reported; NaN where it could not say.
    pub sampled: &'a [f32],
    /// Which tokens count.
    pub mask: &'a [bool],
    /// The advantage of every token.
    pub advantage: f32,
}

impl Scored<'_> {
    /// Places of the tokens that count.
    pub(super) fn counted(&self) -> impl Iterator<Item = usize> + '_ {
        self.mask.iter().enumerate().filter_map(|(t, counts)| counts.then_some(t))
    }
}

/// A ratio, and whether it follows the log-probabilities or stands at a bound.
#[derive(Clone, Copy)]
struct Ratio {
    value: f64,
    moves: bool,
}

/// The policy term of one token and its derivatives.
struct Term {
    loss: f64,
    /// By the log of the ratio.
    by_ratio: f64,
    /// By the log-probability, the ratio held.
    by_logp: f64,
    clip: Clip,
}

impl Loss {
    /// d loss / d logp of every token, (T,), with the answer's sum divided by `divisor`.
    ///
    /// # Panics
    /// If the slices are not all of one length.
    pub fn answer(&self, answer: &Scored<'_>, divisor: f64, tally: &mut Tally) -> Vec<f32> {
        let len = answer.logp.len();
        let reference = answer.reference.unwrap_or(answer.logp);
        let lengths = [answer.old, reference, answer.sampled].map(<[f32]>::len);
        assert!(lengths == [len; 3] && answer.mask.len() == len, "one entry per token");
        let whole = self.whole_ratio(answer);
        let weights = self.correction.weights(answer);
        let coef = f64::from(self.kl.coef);
        // Derivatives by the log of the ratio, and by the log-probability itself.
        let (mut by_ratio, mut by_logp) = (vec![0.0; len], vec![0.0; len]);
        let mut loss = 0.0;
        for t in answer.counted() {
            let ratio = whole.unwrap_or_else(|| self.token_ratio(answer.logp[t] - answer.old[t]));
            let policy = self.policy(f64::from(answer.logp[t]), ratio.value, answer.advantage);
            let gap = f64::from(reference[t] - answer.logp[t]);
            let kl = self.kl.term(gap, ratio.value, self.bounds);
            loss += weights[t] * policy.loss + coef * kl.value;
            if ratio.moves {
                by_ratio[t] = weights[t] * policy.by_ratio + coef * kl.by_ratio;
            }
            by_logp[t] = weights[t] * policy.by_logp + coef * kl.by_logp;
            let mismatch = f64::from((answer.logp[t] - answer.sampled[t]).abs());
            tally.add(&Seen {
                kl: kl.value,
                drift: f64::from(answer.old[t] - answer.logp[t]),
                clip: policy.clip,
                ratio: ratio.value,
                mismatch: if mismatch.is_nan() { 0.0 } else { mismatch },
                weight: weights[t],
            });
        }
        tally.loss += loss / divisor;
        if whole.is_some() {
            spread(&mut by_ratio, answer);
        }
        by_ratio.iter().zip(&by_logp).map(|(r, l)| (r + l) as f32 / divisor as f32).collect()
    }

    /// The ratio of the whole answer, where the form asks for it.
    fn whole_ratio(&self, answer: &Scored<'_>) -> Option<Ratio> {
        if self.form != Form::Sequence {
            return None;
        }
        let tokens = answer.counted().count().max(1) as f64;
        let log = |t: usize| f64::from(answer.logp[t] - answer.old[t]);
        let mean = answer.counted().map(log).sum::<f64>() / tokens;
        Some(match self.bounds {
            Bounds::Verl => Ratio { value: mean.min(10.0).exp(), moves: mean <= 10.0 },
            Bounds::None | Bounds::Exponent => Ratio { value: mean.exp(), moves: true },
        })
    }

    fn token_ratio(&self, log: f32) -> Ratio {
        let log = f64::from(log);
        match self.bounds {
            Bounds::Verl => Ratio { value: log.clamp(-20.0, 20.0).exp(), moves: log.abs() <= 20.0 },
            Bounds::None | Bounds::Exponent => Ratio { value: log.exp(), moves: true },
        }
    }

    fn policy(&self, logp: f64, ratio: f64, advantage: f32) -> Term {
        let advantage = f64::from(advantage);
        match self.form {
            Form::Token | Form::Sequence => self.clipped(ratio, advantage),
            Form::Cispo => {
                let weight = -ratio.clamp(self.ratio.0, self.ratio.1) * advantage;
                let clip = self.side(ratio);
                Term { loss: weight * logp, by_ratio: 0.0, by_logp: weight, clip }
            }
            Form::Sapo { positive, negative } => {
                let tau = if advantage > 0.0 { positive } else { negative };
                let gate = 1.0 / (1.0 + (-tau * (ratio - 1.0)).exp());
                Term {
                    loss: -4.0 / tau * gate * advantage,
                    by_ratio: -4.0 * gate * (1.0 - gate) * ratio * advantage,
                    by_logp: 0.0,
                    clip: Clip::None,
                }
            }
        }
    }

    fn clipped(&self, ratio: f64, advantage: f64) -> Term {
        let bounded = ratio.clamp(self.ratio.0, self.ratio.1);
        let dual = -f64::from(self.dual_clip) * advantage;
        let (loss, by_ratio, clip) = if bounded * advantage < ratio * advantage {
            (-bounded * advantage, 0.0, self.side(ratio))
        } else if self.dual_clip > 0.0 && advantage < 0.0 && dual < -ratio * advantage {
            (dual, 0.0, Clip::Dual)
        } else {
            (-ratio * advantage, -ratio * advantage, Clip::None)
        };
        Term { loss, by_ratio, by_logp: 0.0, clip }
    }

    fn side(&self, ratio: f64) -> Clip {
        if ratio < self.ratio.0 {
            Clip::Low
        } else if ratio > self.ratio.1 {
            Clip::High
        } else {
            Clip::None
        }
    }
}

/// Every token moves the one ratio of its answer by 1 / T: it takes the mean of what
/// the answer's tokens ask of that ratio.
fn spread(by_ratio: &mut [f64], answer: &Scored<'_>) {
    let tokens = answer.counted().count().max(1) as f64;
    let mean = by_ratio.iter().sum::<f64>() / tokens;
    for t in answer.counted() {
        by_ratio[t] = mean;
    }
}
