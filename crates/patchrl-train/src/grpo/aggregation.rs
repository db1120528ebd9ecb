//! From the losses of tokens to one number: what each answer's sum is divided by.
//!
//! Owns the denominators. Every aggregation of the trainers is a sum over all
//! counted tokens in which each answer has a divisor of its own, so the loss and
//! its derivative need nothing else (see [`super::loss`]). The divisors are of the
//! whole step: they do not depend on how the step is cut into forward passes.

use serde::{Deserialize, Serialize};

/// Over what the losses of tokens are averaged. N answers, T counted tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Over all tokens of the step (DAPO; verl's `token-mean`).
    TokenMean,
    /// Over the tokens of each group, then over groups (TRL's `bnpo` with one group per local batch).
    GroupTokenMean,
    /// Over the tokens of each answer, then over answers (GRPO; verl's `seq-mean-token-mean`).
    SequenceMean,
    /// Summed over the tokens of each answer, averaged over answers (verl's `seq-mean-token-sum`).
    SequenceSum,
    /// As `sequence-sum`, over a constant length (Dr. GRPO; verl's `seq-mean-token-sum-norm`).
    Constant,
    /// Summed over all tokens of the step (verl's `token-sum`).
    TokenSum,
}

/// Whether an answer without a counted token is one of the answers of a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Empty {
    /// It is not (verl).
    Leave,
    /// It is, with a loss of 0 (TRL).
    Count,
}

/// How long the answers of one group are, in counted tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Answers that are computed.
    pub trained: Vec<usize>,
    /// Answers that have no derivative, and so are not computed, but count.
    pub idle: Vec<usize>,
}

impl Extent {
    fn tokens(&self) -> usize {
        self.lengths().sum()
    }

    fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.trained.iter().chain(&self.idle).copied()
    }
}

/// The denominators of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Denominator {
    /// Over what is averaged.
    pub over: Aggregation,
    /// What answers without a counted token are.
    pub empty: Empty,
    /// The length of [`Aggregation::Constant`], in tokens.
    pub length: usize,
}

impl Denominator {
    /// The divisor of each trained answer, by group. Never 0.
    pub fn divisors(&self, groups: &[Extent]) -> Vec<Vec<f64>> {
        let counts = |length: usize| length > 0 || self.empty == Empty::Count;
        let answers = groups.iter().flat_map(Extent::lengths).filter(|&l| counts(l)).count().max(1);
        let tokens = groups.iter().map(Extent::tokens).sum::<usize>().max(1);
        let filled = groups.iter().filter(|g| g.lengths().any(counts)).count().max(1);
        let divisor = |group: &Extent, length: usize| match self.over {
            Aggregation::TokenMean => tokens,
            Aggregation::GroupTokenMean => filled * group.tokens().max(1),
            Aggregation::SequenceMean => answers * length.max(1),
            Aggregation::SequenceSum => answers,
            Aggregation::Constant => answers * self.length.max(1),
            Aggregation::TokenSum => 1,
        };
        groups.iter().map(|g| g.trained.iter().map(|&l| divisor(g, l) as f64).collect()).collect()
    }
}
