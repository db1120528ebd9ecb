//! One GRPO step on the weights: from judged groups to an optimizer step.
//!
//! Owns which tokens count, and the order of passes. Does not sample or judge, and
//! knows no formula: see [`super::loss`] and [`super::aggregation`].

use std::collections::BTreeMap;

use patchrl_model::{self as model, Activations, Model, Params};

use super::{Denominator, Extent, Health, Loss, Reject, Scored, Tally};
use crate::TrainError;
use crate::optimizer::{AdamW, matrices};

/// One group that is part of the step.
#[derive(Clone)]
pub struct Batch<'a> {
    /// The prompt's tokens, (P,).
    pub prompt: &'a [u32],
    /// The answers that are trained on.
    pub answers: Vec<Answer<'a>>,
    /// Counted tokens of answers that only count in denominators.
    pub idle: Vec<usize>,
    /// The group these answers are of. Those of one group may have several prompts: an agent's
    /// conversation that was read anew is an answer to what was read.
    pub group: usize,
}

/// One answer of a [`Batch`].
#[derive(Clone)]
pub struct Answer<'a> {
    /// Tokens as sampled, (T,).
    pub tokens: &'a [u32],
    /// Log-probabilities the sampler reported, (T,).
    pub sampled: &'a [f32],
    /// Which tokens were sampled and are trained, (T,); all of them where it is not given.
    pub mask: Option<&'a [bool]>,
    /// The advantage of every token.
    pub advantage: f32,
    /// Which of its group's answers it is. Parts of one episode are one answer to every mean.
    pub episode: usize,
}

impl<'a> Answer<'a> {
    /// A whole answer, of which every token was sampled.
    pub fn whole(tokens: &'a [u32], sampled: &'a [f32], advantage: f32, episode: usize) -> Self {
        Self { tokens, sampled, mask: None, advantage, episode }
    }

    /// The mask, token by token.
    fn counts(&self) -> Vec<bool> {
        self.mask.map_or_else(|| vec![true; self.tokens.len()], <[bool]>::to_vec)
    }

    /// Tokens that are trained.
    fn counted(&self) -> usize {
        self.mask.map_or(self.tokens.len(), |mask| mask.iter().filter(|m| **m).count())
    }
}

impl<'a> Batch<'a> {
    fn group(&self) -> model::Group<'a> {
        model::Group {
            prompt: self.prompt,
            answers: self.answers.iter().map(|a| a.tokens).collect(),
        }
    }
}

/// The divisors of every answer, by batch. The answers of a group count once each, in however
/// many batches their tokens are.
fn divisors(denominator: &Denominator, batch: &[Batch<'_>]) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<usize, (BTreeMap<usize, usize>, Vec<usize>)> = BTreeMap::new();
    for part in batch {
        let (lengths, idle) = groups.entry(part.group).or_default();
        idle.extend(&part.idle);
        for answer in &part.answers {
            *lengths.entry(answer.episode).or_default() += answer.counted();
        }
    }
    let extent = |(lengths, idle): &(BTreeMap<usize, usize>, Vec<usize>)| Extent {
        trained: lengths.values().copied().collect(),
        idle: idle.clone(),
    };
    let extents: Vec<Extent> = groups.values().map(extent).collect();
    let of_groups = denominator.divisors(&extents);
    let known: BTreeMap<(usize, usize), f64> = groups
        .iter()
        .zip(of_groups)
        .flat_map(|((group, (lengths, _)), divisors)| {
            lengths
                .keys()
                .zip(divisors)
                .map(move |(episode, divisor)| ((*group, *episode), divisor))
        })
        .collect();
    let of = |part: &Batch<'_>, answer: &Answer<'_>| known[&(part.group, answer.episode)];
    batch.iter().map(|part| part.answers.iter().map(|a| of(part, a)).collect()).collect()
}

/// What one update did, averaged over trained tokens. `loss` and what the ratio does are
/// of the last pass over the batch, the rest of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Update {
    /// The loss.
    pub loss: f64,
    /// L2 norm of the gradient before clipping.
    pub grad_norm: f32,
    /// Tokens trained on.
    pub tokens: usize,
    /// Entropy, in nats, of the distributions that the tokens were drawn from.
    pub entropy: f64,
    /// Answers that left the step because trainer and sampler disagree.
    pub rejected: usize,
    /// The rest.
    pub health: Health,
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
    /// What the loss is divided by.
    pub denominator: Denominator,
    /// The temperature answers were drawn at.
    pub temperature: f32,
    /// What a forward pass keeps.
    pub activations: Activations,
}

/// Log-probabilities by group, answer and token.
type LogProbs = Vec<Vec<Vec<f32>>>;

/// A batch, what is known of it before the first pass, and what it is divided by.
struct Plan<'a> {
    batch: Vec<Batch<'a>>,
    divisors: Vec<Vec<f64>>,
    references: Option<LogProbs>,
    /// Under the weights of the step's start, once a pass over the group has found them.
    old: Vec<Option<Vec<Vec<f32>>>>,
    rejected: usize,
}

impl Updater<'_> {
    /// `updates` optimizer steps on the same batch. Nothing happens to the
    /// weights where no token is trained on.
    pub fn run(
        &mut self,
        batch: Vec<Batch<'_>>,
        updates: u32,
        lr: f32,
    ) -> Result<Update, TrainError> {
        let mut plan = self.plan(batch)?;
        let mut report = Update { rejected: plan.rejected, ..Update::default() };
        report.tokens = plan.batch.iter().flat_map(|b| &b.answers).map(Answer::counted).sum();
        if report.tokens == 0 {
            return Ok(report);
        }
        for pass in 0..updates {
            let (tally, entropy) = self.pass(&mut plan)?;
            let decays = matrices(&self.model.params);
            let grad_norm = self.optimizer.step(
                self.model.params.data_mut(),
                self.grads.data(),
                &decays,
                lr,
            )?;
            let first = report.health;
            report.loss = tally.loss;
            report.health = tally.health();
            if pass == 0 {
                report.grad_norm = grad_norm;
                report.entropy = entropy / report.tokens as f64;
            } else {
                report.health.kl = first.kl;
                report.health.mismatch = first.mismatch;
                report.health.mismatch_max = first.mismatch_max;
            }
        }
        Ok(report)
    }

    fn plan<'a>(&self, mut batch: Vec<Batch<'a>>) -> Result<Plan<'a>, TrainError> {
        let mut old = vec![None; batch.len()];
        let mut rejected = 0;
        if self.loss.correction.reject != Reject::Off {
            let known = log_probs(self.model, &batch, self.temperature)?;
            for ((group, old), mut rows) in batch.iter_mut().zip(&mut old).zip(known) {
                rejected += self.reject(group, &mut rows);
                *old = Some(rows);
            }
        }
        let references =
            self.reference.map(|r| log_probs(r, &batch, self.temperature)).transpose()?;
        let divisors = divisors(&self.denominator, &batch);
        Ok(Plan { batch, divisors, references, old, rejected })
    }

    /// Take the answers out that the correction rejects: they become answers without a
    /// counted token. Returns their number.
    fn reject(&self, group: &mut Batch<'_>, old: &mut Vec<Vec<f32>>) -> usize {
        let keeps: Vec<bool> = group
            .answers
            .iter()
            .zip(&*old)
            .map(|(answer, old)| {
                let mask = answer.counts();
                self.loss.correction.keeps(&answer.scored(old, old, None, &mask))
            })
            .collect();
        let (mut answers, mut rows) = (keeps.iter(), keeps.iter());
        group.answers.retain(|_| answers.next() == Some(&true));
        old.retain(|_| rows.next() == Some(&true));
        let rejected = keeps.iter().filter(|kept| !**kept).count();
        group.idle.resize(group.idle.len() + rejected, 0);
        rejected
    }

    /// One pass over the batch: the gradient into `grads`, the sums, and the sum of entropies.
    fn pass(&mut self, plan: &mut Plan<'_>) -> Result<(Tally, f64), TrainError> {
        let (mut tally, mut entropy) = (Tally::default(), 0.0);
        self.grads.data_mut().fill(0.0);
        for (i, group) in plan.batch.iter().enumerate() {
            if group.answers.is_empty() {
                // Its prompt alone has nothing to teach.
                continue;
            }
            let forward = self.model.forward(&group.group(), self.temperature, self.activations)?;
            let masks: Vec<Vec<bool>> = group.answers.iter().map(Answer::counts).collect();
            let found = forward.entropy();
            let bonus = self.entropy_bonus((&found, &masks), &plan.divisors[i], &mut tally);
            entropy += found.iter().zip(&masks).map(|(found, mask)| sum(found, mask)).sum::<f64>();
            let logp = forward.log_probs();
            let old = plan.old[i].get_or_insert_with(|| logp.to_vec());
            let slopes: Vec<Vec<f32>> = group
                .answers
                .iter()
                .enumerate()
                .map(|(a, answer)| {
                    let reference = plan.references.as_ref().map(|r| r[i][a].as_slice());
                    let scored = answer.scored(&logp[a], &old[a], reference, &masks[a]);
                    self.loss.answer(&scored, plan.divisors[i][a], &mut tally)
                })
                .collect();
            forward.backward_with(&slopes, &bonus, self.grads)?;
        }
        Ok((tally, entropy))
    }

    /// The entropy bonus of a group's answers, taken off the loss, and its slopes; none where
    /// its weight is 0.
    fn entropy_bonus(
        &self,
        (entropy, masks): (&[Vec<f32>], &[Vec<bool>]),
        divisors: &[f64],
        tally: &mut Tally,
    ) -> Vec<Vec<f32>> {
        let weight = f64::from(self.loss.entropy_coef);
        if weight == 0.0 {
            return Vec::new();
        }
        let answers = entropy.iter().zip(masks).zip(divisors);
        let slopes = answers.map(|((entropy, mask), divisor)| {
            let slope = -weight / divisor;
            tally.loss += slope * sum(entropy, mask);
            mask.iter().map(|counts| if *counts { slope as f32 } else { 0.0 }).collect()
        });
        slopes.collect()
    }
}

/// The sum over the tokens that count.
fn sum(values: &[f32], mask: &[bool]) -> f64 {
    let counted = values.iter().zip(mask).filter(|(_, counts)| **counts);
    counted.map(|(&value, _)| f64::from(value)).sum()
}

impl Answer<'_> {
    fn scored<'a>(
        &'a self,
        logp: &'a [f32],
        old: &'a [f32],
        reference: Option<&'a [f32]>,
        mask: &'a [bool],
    ) -> Scored<'a> {
        Scored { logp, old, reference, sampled: self.sampled, mask, advantage: self.advantage }
    }
}

fn log_probs(model: &Model, batch: &[Batch<'_>], temperature: f32) -> Result<LogProbs, TrainError> {
    let of = |group: &Batch<'_>| Ok(model.log_probs(&group.group(), temperature)?);
    batch.iter().map(|g| if g.answers.is_empty() { Ok(Vec::new()) } else { of(g) }).collect()
}
