//! What a supervised phase learns from, and what is held out of it.
//!
//! Owns the split and the measurement on its smaller part. The loss is in `sft`.

use patchrl_agent::{AgentConfig, Calling, End, Scripted};
use patchrl_model::{Message, Policy};
use patchrl_reward::{Judge, Ready};
use patchrl_rollout::{EpisodeRoller, gold_script};

use crate::TrainError;
use crate::chats::Chats;
use crate::config::TrainConfig;
use crate::material::Material;
use crate::sft::{self, Example, sft_loss};

/// Examples to learn and examples to measure on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lessons {
    pub(crate) trained: Vec<Example>,
    pub(crate) held_out: Vec<Example>,
    /// Turns of chats that are longer than they may be.
    pub(crate) too_long: usize,
}

/// A loss, and the tokens it is the mean of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOutLoss {
    /// Mean cross entropy per token, in nats.
    pub loss: f64,
    /// Tokens.
    pub tokens: u64,
}

impl Lessons {
    /// The lessons of `material` for `policy`; none where it is for GRPO alone.
    pub(crate) fn of(
        material: &Material<'_>,
        policy: &Policy,
        c: &TrainConfig,
    ) -> Result<Self, TrainError> {
        let held_out = (c.seed, c.validation.share);
        let lessons = match material {
            Material::Text(text) => {
                let separator = policy.tokenizer.separator().ok_or(TrainError::NoSeparator)?;
                let encode = |text: &str| policy.tokenizer.encode(text);
                text.lessons(&encode, separator, c.pretrain.row_tokens, held_out)
            }
            Material::Chats(chats) => chats.lessons(policy, c.sft.max_tokens, held_out)?,
            Material::Tasks { ready, judge, agent: Some(agent), .. } => {
                let mut chats = Vec::new();
                for ready in *ready {
                    chats.extend(gold_episode(ready, judge, agent)?);
                }
                // Tasks are shuffled step by step.
                let whole = (c.seed, 0.0);
                Chats(chats).lessons(policy, c.sft.max_tokens, whole)?
            }
            Material::Tasks { ready, prompt, .. } => {
                let mut lessons = Self::default();
                for ready in *ready {
                    lessons.trained.extend(sft::example(policy, prompt, ready)?);
                }
                lessons
            }
            Material::Functions { .. } => Self::default(),
        };
        if lessons.trained.is_empty() { Err(TrainError::NoExamples) } else { Ok(lessons) }
    }

    /// The loss on what is held out, on about `max_tokens` at most; nothing where nothing is.
    pub(crate) fn measure(
        &self,
        policy: &Policy,
        max_tokens: usize,
    ) -> Result<Option<HeldOutLoss>, TrainError> {
        let (mut tokens, mut taken) = (0, Vec::new());
        for example in &self.held_out {
            if tokens > 0 && tokens + example.counted() > max_tokens {
                break;
            }
            tokens += example.counted();
            taken.push(example);
        }
        if tokens == 0 {
            return Ok(None);
        }
        let loss = sft_loss(&policy.model, &taken)?;
        Ok(Some(HeldOutLoss { loss, tokens: tokens as u64 }))
    }
}

/// The conversation of an agent that knows the answer, or nothing where it does not come through
/// within its budgets. No command runs in it.
fn gold_episode(
    ready: &Ready,
    judge: &Judge,
    config: &AgentConfig,
) -> Result<Option<Vec<Message>>, TrainError> {
    let Some(script) = gold_script(ready)? else { return Ok(None) };
    let policy = Scripted::new(script);
    let roller = EpisodeRoller {
        policy: &policy,
        voice: None,
        config,
        calling: Calling::Text,
        max_new_tokens: usize::MAX,
        judge,
    };
    let played = roller.play(&[(ready, vec![0])], &mut |_| {})?.into_iter().flatten().next();
    let done = played.filter(|it| it.trajectory.end == End::Submitted);
    Ok(done.map(|it| it.trajectory.messages()))
}

/// The loss of `policy` on what a run with `config` holds out of `material`.
pub fn held_out_loss(
    policy: &Policy,
    material: &Material<'_>,
    config: &TrainConfig,
) -> Result<Option<HeldOutLoss>, TrainError> {
    Lessons::of(material, policy, config)?.measure(policy, config.validation.max_tokens)
}

/// The items, and the last `share` of them: one at least, if there are two and `share` is not 0.
pub(crate) fn hold_out<T>(mut items: Vec<T>, share: f64) -> (Vec<T>, Vec<T>) {
    let count = (items.len() as f64 * share).ceil() as usize;
    let held_out = items.split_off(items.len() - count.min(items.len() / 2));
    (items, held_out)
}

#[cfg(test)]
mod tests {
    use super::hold_out;

    #[test]
    fn what_is_held_out_is_the_end_and_never_everything() {
        let split = |n: u32, share| hold_out((0..n).collect(), share);
        assert_eq!(split(10, 0.11), ((0..8).collect(), vec![8, 9]));
        assert_eq!(split(10, 0.0), ((0..10).collect(), vec![]));
        assert_eq!(split(2, 0.01), (vec![0], vec![1]));
        assert_eq!(split(1, 0.4), (vec![0], vec![]));
        assert_eq!(split(0, 0.4), (vec![], vec![]));
    }
}
