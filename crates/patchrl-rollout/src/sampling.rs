//! `sampling:` in a configuration, and its resolved form.

use patchrl_agent::Budget;
use patchrl_model::Sampling;
use serde::{Deserialize, Serialize};

/// How answers are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingConfig {
    /// 0 is greedy. The same temperature divides the logits in the update.
    pub temperature: f32,
    /// Probability mass kept. Below 1 the policy that samples is not the policy
    /// that is trained, so leave it at 1 while training.
    pub top_p: f32,
    /// Tokens kept; 0 keeps all. The same caution holds.
    pub top_k: usize,
    /// Tokens of one answer.
    pub max_new_tokens: usize,
    /// Tokens of an answer's `<think>` part before it is closed by force; what follows has
    /// `max_new_tokens` of its own. 0 sets it no limit of its own. The closing tokens are not the
    /// model's, and are not trained on. Of answers of one turn: agents have
    /// `agent.thinking_tokens`.
    pub thinking_tokens: usize,
}

impl Default for SamplingConfig {
    fn default() -> Self {
        Self { temperature: 0.7, top_p: 1.0, top_k: 0, max_new_tokens: 1024, thinking_tokens: 0 }
    }
}

impl SamplingConfig {
    /// Tokens of an answer of one turn.
    pub fn budget(&self) -> Budget {
        let Self { thinking_tokens, max_new_tokens, .. } = *self;
        Budget { thinking_tokens, max_new_tokens }
    }

    /// The form the model's sampler takes; `stop` ends an answer.
    pub fn resolve(&self, stop: Vec<u32>) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            max_new_tokens: self.budget().most(),
            stop,
        }
    }

    /// What serde cannot check.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=10.0).contains(&self.temperature) {
            return Err(format!("`sampling.temperature` is {}, not in 0 to 10", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(format!("`sampling.top_p` is {}, not above 0 and at most 1", self.top_p));
        }
        if self.max_new_tokens == 0 {
            return Err("`sampling.max_new_tokens` is 0, so no answer could be given".into());
        }
        Ok(())
    }
}
