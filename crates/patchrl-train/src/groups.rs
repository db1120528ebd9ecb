//! The groups of one step: drawn, judged, and drawn again where they carry no signal.
//!
//! Owns which groups speak and what of them enters the update. Everything follows
//! from the step's coordinates and the weights, so a resumed run draws the same.

use patchrl_agent::Row;
use patchrl_model::Finish;
use patchrl_reward::{Mode, Outcome};
use patchrl_rollout::{At, Attempt, Drawer, Group, Origin, Spent, items_of_step, replacements};

use crate::TrainError;
use crate::grpo::{Advantages, Answer, Batch, Signal, Silent, advantages, overlong};
use crate::run::{Phase, Run};

/// What a step drew.
#[derive(Default)]
pub(crate) struct Drawn {
    /// Every group, those without signal included.
    pub(crate) groups: Vec<Group>,
    /// Of each group.
    pub(crate) advantages: Vec<Advantages>,
    /// On all of them.
    pub(crate) spent: Spent,
    /// Groups drawn in place of others.
    pub(crate) resampled: u64,
}

impl Run<'_> {
    /// Draw the step's tasks, and others in place of those that turn out silent, each task
    /// once at most.
    pub(crate) fn draw(
        &self,
        policy: &dyn Drawer,
        phase: Phase,
        step: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Drawn, TrainError> {
        let (c, run, len) = (&self.config.grpo, self.config.seed, self.material.len());
        let at = At { run, step, group_size: c.group_size };
        let mut tried = items_of_step(run, step, c.tasks_per_step, len);
        let wanted = tried.len();
        let mut drawn = Drawn::default();
        for attempt in 0..=c.resample_attempts {
            let items = &tried[drawn.groups.len()..];
            let answers = items.len() as u64 * u64::from(c.group_size);
            let total = answers * self.material.answer_tokens(self.sampling) as u64;
            let mut tokens_drawn = 0;
            let who = (policy, self.sampling);
            let (groups, spent) =
                self.material.roll(who, (items, phase.mode()), at, &mut |tokens| {
                    tokens_drawn += tokens as u64;
                    progress(tokens_drawn, total);
                })?;
            drawn.groups.extend(groups);
            drawn.spent.sampling += spent.sampling;
            drawn.spent.judging += spent.judging;
            drawn.spent.tokens += spent.tokens;
            drawn.advantages = self.advantages(&drawn.groups, phase);
            let missing = wanted - drawn.advantages.iter().flatten().count();
            if missing == 0 || attempt == c.resample_attempts {
                break;
            }
            tried.extend(replacements(run, step, len, &tried).into_iter().take(missing));
            if tried.len() == drawn.groups.len() {
                break;
            }
        }
        drawn.resampled = (drawn.groups.len() - wanted) as u64;
        Ok(drawn)
    }

    /// The advantages of groups, from rewards that answers near the limit have paid from.
    fn advantages(&self, groups: &[Group], phase: Phase) -> Vec<Advantages> {
        let c = &self.config.grpo;
        let limit = self.material.answer_tokens(self.sampling);
        let paid = |tokens: usize| overlong(tokens, limit, c.overlong_buffer, c.overlong_penalty);
        let reward = |a: &Attempt| a.judgement.reward.map(|r| (r + paid(a.sample.count())) as f32);
        let rewards: Vec<Vec<Option<f32>>> =
            groups.iter().map(|g| g.attempts.iter().map(reward).collect()).collect();
        let gated = c.signal == Signal::Outcome
            && matches!(phase, Phase::Grpo(Mode::Tests | Mode::Resolved));
        advantages(&rewards, c.advantage_scale, c.advantage_eps)
            .into_iter()
            .zip(groups)
            .map(|(advantages, group)| {
                let judged = group.attempts.iter().filter(|a| a.judgement.reward.is_some());
                let resolved = judged.map(|a| a.judgement.outcome == Outcome::Resolved);
                advantages.filter(|_| !gated || mixed(resolved))
            })
            .collect()
    }

    /// What of group number `number` is part of the step: nothing, or a batch, and with agents
    /// one more for each conversation that was read anew. Lost answers never are, nor those whose
    /// tokens nobody knows.
    pub(crate) fn batch<'g>(
        &self,
        number: usize,
        group: &'g Group,
        advantages: Option<&Vec<Option<f32>>>,
    ) -> Vec<Batch<'g>> {
        let c = &self.config.grpo;
        if advantages.is_none() && c.silent_groups == Silent::Drop {
            return Vec::new();
        }
        let prompt = group.prompt.tokens.as_slice();
        let mut batch = Batch { prompt, answers: Vec::new(), idle: Vec::new(), group: number };
        let mut anew = Vec::new();
        for (i, attempt) in group.attempts.iter().enumerate() {
            if attempt.judgement.reward.is_none() || attempt.origin == Origin::Unknown {
                continue;
            }
            let sample = &attempt.sample;
            if sample.finish == Finish::Length && c.mask_truncated {
                batch.idle.push(0);
            } else if advantages.is_none() && c.kl_coef == 0.0 && c.entropy_coef == 0.0 {
                batch.idle.push(sample.count());
            } else {
                let advantage = advantages.and_then(|a| a[i]).unwrap_or(0.0);
                match &attempt.played {
                    None => batch.answers.push(Answer {
                        tokens: &sample.tokens,
                        sampled: &sample.log_probs,
                        mask: Some(&sample.mask),
                        advantage,
                        episode: i,
                    }),
                    Some(played) => {
                        for row in &played.rows {
                            let shared = row.tokens.starts_with(prompt);
                            let from = if shared { prompt.len() } else { row.prompt_len() };
                            let answer = part(row, from, advantage, i);
                            if shared {
                                batch.answers.push(answer);
                            } else {
                                anew.push(Batch {
                                    prompt: &row.tokens[..from],
                                    answers: vec![answer],
                                    idle: Vec::new(),
                                    group: number,
                                });
                            }
                        }
                    }
                }
            }
        }
        let mut all = vec![batch];
        all.extend(anew);
        all
    }
}

/// What follows the first `from` tokens of a row, with what was read masked.
fn part(row: &Row, from: usize, advantage: f32, episode: usize) -> Answer<'_> {
    Answer {
        tokens: &row.tokens[from..],
        sampled: &row.log_probs[from..],
        mask: Some(&row.mask[from..]),
        advantage,
        episode,
    }
}

/// Whether some resolve the task and some do not.
fn mixed(mut resolved: impl Iterator<Item = bool>) -> bool {
    let first = resolved.next();
    resolved.any(|r| Some(r) != first)
}

#[cfg(test)]
mod tests {
    use super::mixed;

    #[test]
    fn outcomes_speak_only_where_both_are_there() {
        for (resolved, speaks) in
            [(&[][..], false), (&[true], false), (&[false, false], false), (&[false, true], true)]
        {
            assert_eq!(mixed(resolved.iter().copied()), speaks, "{resolved:?}");
        }
    }
}
