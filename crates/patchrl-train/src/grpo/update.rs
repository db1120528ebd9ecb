//! One GRPO step on the weights: from judged groups to an optimizer step.
//!
//! Owns which tokens count and by what they are divided. Does not sample or judge.
//!
//! The loss is the mean over all counted tokens of the step, whatever group they
//! are in: one denominator, so a token's weight does not depend on its neighbours.
//! Groups without signal are left out of the sum and of the denominator.

use patchrl_model::{self as model, Model, Params};

use super::{Loss, Token};
use crate::TrainError;
use crate::optimizer::{AdamW, matrices};

/// One group that carries signal.
pub struct Batch<'a> {
    /// The prompt's tokens, (P,).
    pub prompt: &'a [u32],
    /// The answers that count, each with its tokens, the sampler's
    /// log-probabilities of them, and its advantage.
    pub answers: Vec<Answer<'a>>,
}

/// One answer of a [`Batch`].
pub struct Answer<'a> {
    /// Tokens as sampled, (T,).
    pub tokens: &'a [u32],
    /// Log-probabilities the sampler reported, (T,).
    pub sampled: &'a [f32],
    /// The advantage of every token.
    pub advantage: f32,
}

impl<'a> Batch<'a> {
    fn group(&self) -> model::Group<'a> {
        model::Group {
            prompt: self.prompt,
            answers: self.answers.iter().map(|a| a.tokens).collect(),
        }
    }

    fn tokens(&self) -> usize {
        self.answers.iter().map(|a| a.tokens.len()).sum()
    }
}

/// What one update did, averaged over counted tokens. From the first pass over
/// the batch where there are several, `loss` from the last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Update {
    /// The loss.
    pub loss: f64,
    /// k3 estimate of KL(policy || reference).
    pub kl: f64,
    /// Share of tokens whose gradient the clip stopped.
    pub clipped: f64,
    /// L2 norm of the gradient before clipping.
    pub grad_norm: f32,
    /// Mean |trainer's - sampler's log-probability|: how far the two engines are apart.
    pub mismatch: f64,
    /// Tokens counted.
    pub tokens: usize,
}

/// The parts an update works on.
pub struct Updater<'a> {
    /// The weights that are trained.
    pub model: &'a mut Model,
    /// The frozen reference; without one there is no KL term.
    pub reference: Option<&'a Model>,
    /// The optimizer's memory.
    pub optimizer: &'a mut AdamW,
    /// A gradient buffer to reuse; cleared here.
    pub grads: &'a mut Params,
    /// The loss's constants.
    pub loss: Loss,
    /// The temperature answers were drawn at.
    pub temperature: f32,
}

impl Updater<'_> {
    /// `updates` optimizer steps on the same batch. Nothing happens to the
    /// weights where no token counts.
    pub fn run(
        &mut self,
        batch: &[Batch<'_>],
        updates: u32,
        lr: f32,
    ) -> Result<Update, TrainError> {
        let tokens: usize = batch.iter().map(Batch::tokens).sum();
        if tokens == 0 {
            return Ok(Update::default());
        }
        let references = batch
            .iter()
            .map(|b| match self.reference {
                Some(r) => Ok(Some(r.log_probs(&b.group(), self.temperature)?)),
                None => Ok(None),
            })
            .collect::<Result<Vec<_>, TrainError>>()?;
        let mut old: Vec<Vec<Vec<f32>>> = Vec::new();
        let mut report = Update::default();
        for pass in 0..updates {
            let mut sums = Sums::default();
            self.grads.data_mut().fill(0.0);
            for (i, group) in batch.iter().enumerate() {
                let forward = self.model.forward(&group.group(), self.temperature)?;
                let logp = forward.log_probs().to_vec();
                if pass == 0 {
                    old.push(logp.clone());
                }
                let slopes =
                    self.slopes(group, &logp, &old[i], references[i].as_deref(), tokens, &mut sums);
                forward.backward(&slopes, self.grads)?;
            }
            let decays = matrices(&self.model.params);
            let grad_norm = self.optimizer.step(
                self.model.params.data_mut(),
                self.grads.data(),
                &decays,
                lr,
            )?;
            let n = tokens as f64;
            if pass == 0 {
                report = Update {
                    kl: sums.kl / n,
                    mismatch: sums.mismatch / n,
                    grad_norm,
                    tokens,
                    ..Update::default()
                };
            }
            report.loss = sums.loss / n;
            report.clipped = sums.clipped as f64 / n;
        }
        Ok(report)
    }

    /// d loss / d logp of every token of one group, divided by the step's tokens.
    fn slopes(
        &self,
        group: &Batch<'_>,
        logp: &[Vec<f32>],
        old: &[Vec<f32>],
        reference: Option<&[Vec<f32>]>,
        tokens: usize,
        sums: &mut Sums,
    ) -> Vec<Vec<f32>> {
        let mut slopes = Vec::with_capacity(group.answers.len());
        for (a, answer) in group.answers.iter().enumerate() {
            let mut row = Vec::with_capacity(answer.tokens.len());
            for t in 0..answer.tokens.len() {
                let lp = logp[a][t];
                let term = self.loss.term(Token {
                    logp: lp,
                    old: old[a][t],
                    reference: reference.map_or(lp, |r| r[a][t]),
                    advantage: answer.advantage,
                });
                sums.loss += term.loss;
                sums.kl += term.kl;
                sums.clipped += usize::from(term.clipped);
                sums.mismatch += f64::from((lp - answer.sampled[t]).abs());
                row.push(term.slope / tokens as f32);
            }
            slopes.push(row);
        }
        slopes
    }
}

#[derive(Default)]
struct Sums {
    loss: f64,
    kl: f64,
    clipped: usize,
    mismatch: f64,
}
