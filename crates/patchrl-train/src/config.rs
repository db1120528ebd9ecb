//! `sft:` and `grpo:` in a configuration: as written, with what serde cannot check.

use patchrl_model::LoraConfig;
use patchrl_reward::Mode;
use serde::{Deserialize, Serialize};

use crate::grpo::Scale;
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

/// GRPO's constants. Names and defaults of the flags are the mission's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpoConfig {
    /// Answers per task and step. At least 2: one answer has no group mean to beat.
    pub group_size: u32,
    /// Tasks per step.
    pub tasks_per_step: usize,
    /// Optimizer steps on each batch of answers. Above 1 the ratio leaves 1 and the clip acts.
    pub updates_per_step: u32,
    /// Peak learning rate.
    pub lr: f32,
    /// Steps of linear warm-up, in each phase.
    pub warmup_steps: u64,
    /// Weight of the KL term against the weights the phase began with; 0 keeps no reference.
    pub kl_coef: f32,
    /// The ratio's lower clip.
    pub clip_low: f32,
    /// The ratio's upper clip.
    pub clip_high: f32,
    /// What rewards are divided by after their group's mean is taken off.
    pub advantage_scale: Scale,
    /// Leave answers that ran into the token limit out of the loss. They stay in their group's mean.
    pub mask_truncated: bool,
}

impl Default for GrpoConfig {
    fn default() -> Self {
        Self {
            group_size: 4,
            tasks_per_step: 1,
            updates_per_step: 1,
            lr: 5e-6,
            warmup_steps: 0,
            kl_coef: 0.02,
            clip_low: 0.2,
            clip_high: 0.2,
            advantage_scale: Scale::None,
            mask_truncated: true,
        }
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
        let positive = [
            ("sft.lr", self.sft.lr),
            ("grpo.lr", self.grpo.lr),
            ("optimizer.max_grad_norm", self.optimizer.max_grad_norm),
        ];
        if let Some((key, value)) = positive.iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
            return Err(format!("`{key}` is {value}, but it must be above 0"));
        }
        let counts = [
            ("sft.tasks_per_step", self.sft.tasks_per_step as u64),
            ("grpo.tasks_per_step", self.grpo.tasks_per_step as u64),
            ("grpo.updates_per_step", u64::from(self.grpo.updates_per_step)),
            ("checkpoint_every", self.checkpoint_every),
            ("keep_checkpoints", self.keep_checkpoints as u64),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, v)| *v == 0) {
            return Err(format!("`{key}` is 0, but it must be at least 1"));
        }
        if self.grpo.group_size < 2 {
            return Err(format!(
                "`grpo.group_size` is {}, but a group needs at least 2 samples",
                self.grpo.group_size
            ));
        }
        if !(self.grpo.kl_coef.is_finite() && self.grpo.kl_coef >= 0.0) {
            return Err(format!(
                "`grpo.kl_coef` is {}, but it must be 0 or more",
                self.grpo.kl_coef
            ));
        }
        let high = self.grpo.clip_high;
        if !(0.0..1.0).contains(&self.grpo.clip_low) || high <= 0.0 || high.is_nan() {
            return Err("`grpo.clip_low` must be in 0 to 1 and `grpo.clip_high` above 0".into());
        }
        Ok(())
    }
}
