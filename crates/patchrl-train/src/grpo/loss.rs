//! The GRPO loss of one token and its derivative.
//!
//! Owns the clipped ratio and the KL term. Does not know about models: it reads
//! log-probabilities and writes the derivative with respect to them.
//! Source of the formulas: DeepSeekMath (arXiv 2402.03300) equations 3 and 4;
//! the token mean over the whole step is DAPO's (arXiv 2503.14476).

/// The constants of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// A ratio may fall to `1 - clip_low` before its gradient stops.
    pub clip_low: f32,
    /// A ratio may rise to `1 + clip_high` before its gradient stops.
    pub clip_high: f32,
    /// Weight of the k3 estimate of KL(policy || reference).
    pub kl_coef: f32,
}

/// One token as the three policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Log-probability under the weights that are being trained.
    pub logp: f32,
    /// The same when the step began.
    pub old: f32,
    /// The same under the frozen reference.
    pub reference: f32,
    /// The sample's advantage.
    pub advantage: f32,
}

/// What one token adds to the step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Term {
    /// Loss before the division by the step's token count.
    pub loss: f64,
    /// d loss / d logp, before the same division.
    pub slope: f32,
    /// k3 estimate of the divergence from the reference.
    pub kl: f64,
    /// Whether the clip stopped the gradient.
    pub clipped: bool,
}

impl Loss {
    /// `-min(r A, clip(r) A) + kl_coef * k3` with `r = exp(logp - old)` and
    /// `k3 = exp(ref - logp) - (ref - logp) - 1`.
    pub fn term(&self, token: Token) -> Term {
        let ratio = f64::from(token.logp - token.old).exp();
        let advantage = f64::from(token.advantage);
        let bounded = ratio.clamp(1.0 - f64::from(self.clip_low), 1.0 + f64::from(self.clip_high));
        let clipped = bounded * advantage < ratio * advantage;
        let (policy, slope) = if clipped {
            (-bounded * advantage, 0.0)
        } else {
            (-ratio * advantage, -ratio * advantage)
        };
        // The exponent is bounded as verl bounds it, so that one token on which
        // the policies disagree completely cannot make the step infinite.
        let gap = f64::from(token.reference - token.logp).clamp(-20.0, 20.0);
        let kl = gap.exp() - gap - 1.0;
        let coef = f64::from(self.kl_coef);
        Term {
            loss: policy + coef * kl,
            slope: (slope + coef * (1.0 - gap.exp())) as f32,
            kl,
            clipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Loss = Loss { clip_low: 0.2, clip_high: 0.2, kl_coef: 0.02 };

    fn token(logp: f32, old: f32, reference: f32, advantage: f32) -> Token {
        Token { logp, old, reference, advantage }
    }

    #[test]
    fn golden_terms() {
        // Python, float64 (the clip here is float32's 0.2, 3e-9 away): r = exp(lp-old); -min(r*A, clip(r,.8,1.2)*A) + .02*(exp(ref-lp)-(ref-lp)-1)
        for (t, loss) in [
            (token(-1.0, -1.0, -1.0, 0.5), -0.5),
            (token(-1.0, -1.5, -1.0, 0.5), -0.6),
            (token(-1.0, -1.5, -1.0, -0.5), 0.824_360_635_350_064),
            (token(-2.0, -1.5, -1.0, 0.5), -0.288_899_693_261_186_2),
            (token(-2.0, -1.5, -1.0, -0.5), 0.414_365_636_569_181),
        ] {
            let got = LOSS.term(t).loss;
            assert!((got - loss).abs() < 1e-7, "{t:?}: {got} is not {loss}");
        }
    }

    #[test]
    fn the_slope_is_the_derivative() {
        for (lp, old, reference, advantage) in [
            (-1.0_f32, -1.1_f32, -0.7_f32, 0.8_f32),
            (-1.0, -0.9, -1.3, -0.8),
            (-0.5, -1.5, -0.7, 0.8),
            (-2.5, -1.5, -0.7, -0.8),
        ] {
            let h = 1.0 / 1024.0;
            let up = LOSS.term(token(lp + h, old, reference, advantage)).loss;
            let down = LOSS.term(token(lp - h, old, reference, advantage)).loss;
            let slope = LOSS.term(token(lp, old, reference, advantage)).slope;
            let numeric = (up - down) / f64::from(2.0 * h);
            assert!((numeric - f64::from(slope)).abs() < 1e-4, "{numeric} is not {slope}");
        }
    }

    #[test]
    fn the_clip_stops_only_gains() {
        assert!(LOSS.term(token(-1.0, -2.0, -1.0, 1.0)).clipped);
        assert!(!LOSS.term(token(-1.0, -2.0, -1.0, -1.0)).clipped);
        assert!(LOSS.term(token(-2.0, -1.0, -1.0, -1.0)).clipped);
        assert!(!LOSS.term(token(-1.0, -1.0, -1.0, 1.0)).clipped);
    }
}
