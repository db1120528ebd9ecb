//! What a run will hold in memory, from its shapes, before it begins.
//!
//! Owns the sum. What one pass holds `patchrl_model` says; what the machine has left is the
//! caller's to ask.

use patchrl_model::{Activations, Lengths, LoraConfig, Policy};
use patchrl_rollout::{SamplingConfig, function_prompt, prompt};

use crate::config::TrainConfig;
use crate::lessons::Lessons;
use crate::material::Material;
use crate::{Example, TrainError};

/// Bytes that a run needs beside the weights it begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Gradients, moments, and the frozen reference.
    pub training: u64,
    /// The forward and backward pass of the longest group, or its sampling if that is more.
    pub passing: u64,
    /// The same with `activations: recompute`.
    pub recomputing: u64,
    /// That group: its prompt and its answers if each is as long as it may be.
    pub longest: Lengths,
}

impl Need {
    /// All of it, and a quarter of the passes again for gaps between buffers.
    pub fn bytes(&self) -> u64 {
        self.training + self.passing / 4 * 5
    }
}

/// What a run on `material` will need. Every prompt is made once, to find the longest.
pub fn memory_needed(
    policy: &Policy,
    material: &Material<'_>,
    config: &TrainConfig,
    sampling: &SamplingConfig,
) -> Result<Need, TrainError> {
    let model = &policy.model;
    let weights = model.weight_bytes();
    let samples = match material {
        Material::Text(_) | Material::Chats(_) => false,
        Material::Functions { .. } => true,
        Material::Tasks { .. } => config.curriculum.iter().any(|phase| phase.steps > 0),
    };
    let with_reference = samples && config.grpo.kl_coef > 0.0;
    let training = match &config.lora {
        // The reference is the model without its adapter.
        Some(lora) => 4 * 4 * lora_parameters(lora, policy),
        None => weights * if with_reference { 4 } else { 3 },
    };
    let longest = longest(policy, material, config, sampling, samples)?;
    let cache =
        if samples { model.cache_bytes(&longest) * config.grpo.tasks_per_step as u64 } else { 0 };
    let pass = |activations| model.pass_bytes(&longest, activations).max(cache);
    Ok(Need {
        training,
        passing: pass(config.activations),
        recomputing: pass(Activations::Recompute),
        longest,
    })
}

fn lora_parameters(lora: &LoraConfig, policy: &Policy) -> u64 {
    lora.parameters(&policy.model.config) as u64
}

/// The lengths of the group that costs most.
fn longest(
    policy: &Policy,
    material: &Material<'_>,
    config: &TrainConfig,
    sampling: &SamplingConfig,
    samples: bool,
) -> Result<Lengths, TrainError> {
    let prompts: Vec<usize> = match material {
        Material::Text(_) => {
            return Ok(Lengths { prompt: 1, answers: vec![config.pretrain.row_tokens] });
        }
        Material::Tasks { agent: Some(agent), .. } if samples => {
            // All that an episode may read and say, in one row.
            let room = policy.model.config.max_positions;
            let tokens = agent.context_tokens.min(room);
            let group = config.grpo.group_size as usize;
            return Ok(Lengths { prompt: 1, answers: vec![tokens; group] });
        }
        Material::Tasks { ready, prompt: how, .. } if samples => {
            let tokens = |ready| Ok(prompt(policy, how, ready)?.tokens.len());
            ready.iter().map(tokens).collect::<Result<_, TrainError>>()?
        }
        Material::Functions { problems, .. } => {
            let tokens = |problem: &&_| Ok(function_prompt(policy, problem)?.tokens.len());
            problems.iter().map(tokens).collect::<Result<_, TrainError>>()?
        }
        Material::Chats(_) | Material::Tasks { .. } => {
            let lessons = Lessons::of(material, policy, config)?;
            let rows = |e: &&Example| e.prompt.len() + e.answer.len();
            let most = lessons.trained.iter().max_by_key(rows);
            let of =
                |e: &Example| Lengths { prompt: e.prompt.len(), answers: vec![e.answer.len()] };
            return most.map(of).ok_or(TrainError::NoExamples);
        }
    };
    let prompt = prompts.into_iter().max().ok_or(TrainError::NoTasks)?;
    let limit = model_limit(policy, prompt, sampling.budget().most());
    Ok(Lengths { prompt, answers: vec![limit; config.grpo.group_size as usize] })
}

/// Tokens that an answer may have after `prompt`.
fn model_limit(policy: &Policy, prompt: usize, most: usize) -> usize {
    most.min(policy.model.config.max_positions.saturating_sub(prompt))
}
