//! `train:` in a configuration: as written, with what serde cannot check. `grpo:` is in
//! [`crate::grpo`].

use patchrl_model::{Activations, LoraConfig};
use patchrl_reward::{Mode, Shaping};
use serde::{Deserialize, Serialize};

use crate::grpo::GrpoConfig;
use crate::optimizer::AdamWConfig;

/// Next-token training on text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PretrainConfig {
    /// Optimizer steps.
    pub steps: u64,
    /// Rows per optimizer step.
    pub rows_per_step: usize,
    /// Tokens of a row. Rows are cut out of the whole text, so that none is padded.
    pub row_tokens: usize,
    /// Peak learning rate.
    pub lr: f32,
    /// Steps of linear warm-up.
    pub warmup_steps: u64,
    /// Steps at the end in which the rate falls to 0.
    pub cooldown_steps: u64,
}

impl Default for PretrainConfig {
    fn default() -> Self {
        Self {
            steps: 200,
            rows_per_step: 16,
            row_tokens: 256,
            lr: 1e-3,
            warmup_steps: 20,
            cooldown_steps: 40,
        }
    }
}

/// What is held out of text and chats, and when its loss is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Share of the rows or chats; 0 holds nothing out.
    pub share: f64,
    /// Steps between two measurements; there is one before the first step and one at the end.
    pub every: u64,
    /// Tokens to measure on, at most.
    pub max_tokens: usize,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self { share: 0.02, every: 50, max_tokens: 20_000 }
    }
}

/// GRPO on problems of one function, with the constants of `grpo`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MbppConfig {
    /// GRPO steps.
    pub steps: u64,
    /// Seconds an answer may run.
    pub timeout: u64,
    /// What an answer is worth that does not pass.
    pub shaping: Shaping,
}

impl Default for MbppConfig {
    fn default() -> Self {
        Self { steps: 50, timeout: 5, shaping: Shaping::default() }
    }
}

/// Supervised training on gold answers or on chats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftConfig {
    /// Optimizer steps; 0 leaves the warm-up out.
    pub steps: u64,
    /// Tasks or chats per optimizer step.
    pub tasks_per_step: usize,
    /// Peak learning rate.
    pub lr: f32,
    /// Steps of linear warm-up.
    pub warmup_steps: u64,
    /// Tokens of a chat, at most; a longer one is left out. Prompts of tasks have
    /// `prompt.max_tokens`.
    pub max_tokens: usize,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self { steps: 0, tasks_per_step: 8, lr: 1e-4, warmup_steps: 4, max_tokens: 2048 }
    }
}

/// One part of the curriculum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseConfig {
    /// What the reward of this phase asks for.
    pub mode: Mode,
    /// GRPO steps.
    pub steps: u64,
}

/// Everything that decides what a run does to the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Seed of every draw and every order.
    pub seed: u64,
    /// Next-token training, for `train pretrain`.
    pub pretrain: PretrainConfig,
    /// Supervised training: before the curriculum, or alone for `train sft`.
    pub sft: SftConfig,
    /// What is held out of text and chats.
    pub validation: ValidationConfig,
    /// Problems of one function, for `train mbpp`.
    pub mbpp: MbppConfig,
    /// GRPO's constants.
    pub grpo: GrpoConfig,
    /// The phases, each from the last one's weights.
    pub curriculum: Vec<PhaseConfig>,
    /// The optimizer's constants.
    pub optimizer: AdamWConfig,
    /// Train adapters of low rank and leave the weights alone; without it, every weight. An
    /// adapter wants about ten times the learning rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// What a forward pass keeps for its backward pass: `recompute` trades time for memory.
    pub activations: Activations,
    /// Steps between checkpoints; one is written at each phase's end in any case.
    pub checkpoint_every: u64,
    /// Checkpoints kept, the newest first.
    pub keep_checkpoints: usize,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            pretrain: PretrainConfig::default(),
            sft: SftConfig::default(),
            validation: ValidationConfig::default(),
            mbpp: MbppConfig::default(),
            grpo: GrpoConfig::default(),
            curriculum: Vec::new(),
            optimizer: AdamWConfig::default(),
            lora: None,
            activations: Activations::default(),
            checkpoint_every: 10,
            keep_checkpoints: 2,
        }
    }
}

impl TrainConfig {
    /// What serde cannot check: the first thing that is wrong, by its key.
    pub fn check(&self) -> Result<(), String> {
        if let Some(lora) = &self.lora {
            lora.check().map_err(|why| format!("`lora`: {why}"))?;
        }
        self.mbpp.shaping.check().map_err(|why| why.replacen('`', "`mbpp.shaping.", 1))?;
        if !(0.0..0.5).contains(&self.validation.share) {
            let share = self.validation.share;
            return Err(format!("`validation.share` is {share}, not at least 0 and below 0.5"));
        }
        if self.pretrain.row_tokens < 2 {
            let tokens = self.pretrain.row_tokens;
            return Err(format!("`pretrain.row_tokens` is {tokens}, but a row has at least 2"));
        }
        let positive = [
            ("pretrain.lr", self.pretrain.lr),
            ("sft.lr", self.sft.lr),
            ("optimizer.max_grad_norm", self.optimizer.max_grad_norm),
        ];
        if let Some((key, value)) = positive.iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
            return Err(format!("`{key}` is {value}, but it must be above 0"));
        }
        let counts = [
            ("pretrain.rows_per_step", self.pretrain.rows_per_step as u64),
            ("sft.tasks_per_step", self.sft.tasks_per_step as u64),
            ("validation.every", self.validation.every),
            ("mbpp.timeout", self.mbpp.timeout),
            ("checkpoint_every", self.checkpoint_every),
            ("keep_checkpoints", self.keep_checkpoints as u64),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, v)| *v == 0) {
            return Err(format!("`{key}` is 0, but it must be at least 1"));
        }
        self.grpo.check()
    }
}
