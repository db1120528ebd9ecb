//! `train:` in a configuration: as written, with what serde cannot check. `grpo:` is in
//! [`crate::grpo`].

use patchrl_model::LoraConfig;
use patchrl_reward::Mode;
use serde::{Deserialize, Serialize};

use crate::grpo::GrpoConfig;
use crate::optimizer::AdamWConfig;

/// Supervised warm-up on gold answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftConfig {
    /// Optimizer steps; 0 leaves the warm-up out.
    pub steps: u64,
    /// Tasks per optimizer step.
    pub tasks_per_step: usize,
    /// Peak learning rate.
    pub lr: f32,
    /// Steps of linear warm-up.
    pub warmup_steps: u64,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self { steps: 0, tasks_per_step: 8, lr: 1e-4, warmup_steps: 4 }
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
    /// Supervised warm-up.
    pub sft: SftConfig,
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
    /// Steps between checkpoints; one is written at each phase's end in any case.
    pub checkpoint_every: u64,
    /// Checkpoints kept, the newest first.
    pub keep_checkpoints: usize,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            sft: SftConfig::default(),
            grpo: GrpoConfig::default(),
            curriculum: Vec::new(),
            optimizer: AdamWConfig::default(),
            lora: None,
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
        let positive =
            [("sft.lr", self.sft.lr), ("optimizer.max_grad_norm", self.optimizer.max_grad_norm)];
        if let Some((key, value)) = positive.iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
            return Err(format!("`{key}` is {value}, but it must be above 0"));
        }
        let counts = [
            ("sft.tasks_per_step", self.sft.tasks_per_step as u64),
            ("checkpoint_every", self.checkpoint_every),
            ("keep_checkpoints", self.keep_checkpoints as u64),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, v)| *v == 0) {
            return Err(format!("`{key}` is 0, but it must be at least 1"));
        }
        self.grpo.check()
    }
}
