//! What the losses of a step's tokens add up to: the health of an update.
//!
//! Owns the sums and what they mean per token. Their names as curves are in
//! `patchrl_telemetry::metric`.

/// Where a clip stopped a token's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clip {
    /// Nowhere.
    None,
    /// At the lower end of the ratio.
    Low,
    /// At the upper end of the ratio.
    High,
    /// At the second clip, for negative advantages.
    Dual,
}

/// Sums over counted tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// The loss: every token's over its answer's divisor.
    pub loss: f64,
    /// Tokens counted.
    pub tokens: usize,
    kl: f64,
    drift: f64,
    clipped: [usize; 3],
    ratio: f64,
    ratio_max: f64,
    mismatch: f64,
    mismatch_max: f64,
    weight: f64,
    weight_squares: f64,
    weightless: usize,
}

/// What one token adds to a [`Tally`].
pub(super) struct Seen {
    pub(super) kl: f64,
    /// `old - logp`.
    pub(super) drift: f64,
    pub(super) clip: Clip,
    pub(super) ratio: f64,
    /// |logp - sampled|, 0 where the sampler did not say.
    pub(super) mismatch: f64,
    pub(super) weight: f64,
}

/// Means over counted tokens, unless they say otherwise. All 0 where no token counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Health {
    /// Estimate of KL(policy || reference).
    pub kl: f64,
    /// Estimate (k1) of KL(start of the step || policy): how far this update's passes went.
    pub drift: f64,
    /// Share of tokens whose gradient stopped at the lower clip.
    pub clipped_low: f64,
    /// Share of tokens whose gradient stopped at the upper clip.
    pub clipped_high: f64,
    /// Share of tokens whose gradient stopped at the second clip.
    pub clipped_dual: f64,
    /// Ratio to the weights of the step's start.
    pub ratio_mean: f64,
    /// The largest of these ratios.
    pub ratio_max: f64,
    /// |trainer's - sampler's log-probability|: how far the two engines are apart.
    pub mismatch: f64,
    /// The largest of these differences.
    pub mismatch_max: f64,
    /// Weight of the correction for the sampler.
    pub weight_mean: f64,
    /// Effective share of tokens under these weights: `(sum w)^2 / (n sum w^2)`; 1 where all are equal.
    pub effective: f64,
    /// Share of tokens whose weight is 0.
    pub weightless: f64,
}

impl Tally {
    pub(super) fn add(&mut self, seen: &Seen) {
        self.tokens += 1;
        self.kl += seen.kl;
        self.drift += seen.drift;
        match seen.clip {
            Clip::None => {}
            Clip::Low => self.clipped[0] += 1,
            Clip::High => self.clipped[1] += 1,
            Clip::Dual => self.clipped[2] += 1,
        }
        self.ratio += seen.ratio;
        self.ratio_max = self.ratio_max.max(seen.ratio);
        self.mismatch += seen.mismatch;
        self.mismatch_max = self.mismatch_max.max(seen.mismatch);
        self.weight += seen.weight;
        self.weight_squares += seen.weight * seen.weight;
        self.weightless += usize::from(seen.weight == 0.0);
    }

    /// The sums per token.
    pub fn health(&self) -> Health {
        if self.tokens == 0 {
            return Health::default();
        }
        let n = self.tokens as f64;
        let [low, high, dual] = self.clipped.map(|count| count as f64 / n);
        let squares = n * self.weight_squares;
        Health {
            kl: self.kl / n,
            drift: self.drift / n,
            clipped_low: low,
            clipped_high: high,
            clipped_dual: dual,
            ratio_mean: self.ratio / n,
            ratio_max: self.ratio_max,
            mismatch: self.mismatch / n,
            mismatch_max: self.mismatch_max,
            weight_mean: self.weight / n,
            effective: if squares > 0.0 { self.weight * self.weight / squares } else { 0.0 },
            weightless: self.weightless as f64 / n,
        }
    }
}
