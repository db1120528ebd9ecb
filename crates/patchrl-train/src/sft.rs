//! Supervised warm-up: the gold answer's tokens made more likely.
//!
//! Owns the loss (mean negative log-probability over answer tokens) and its
//! step. Does not make the gold answers (`patchrl_agent::gold_answer` does).

use patchrl_agent::{Change, PromptConfig, gold_answer};
use patchrl_model::{Group, Model, Params, Policy};
use patchrl_patch::{Edit, Patch, Tree as _};
use patchrl_reward::{FsTree, Ready};
use patchrl_rollout::RolloutError;

use crate::TrainError;
use crate::optimizer::{AdamW, matrices};

/// A prompt and the answer to learn, as tokens; the answer ends in its stop token.
#[derive(Clone, Debug)]
pub struct Example {
    /// The prompt, (P,).
    pub prompt: Vec<u32>,
    /// The answer, (T,).
    pub answer: Vec<u32>,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SftUpdate {
    /// Mean negative log-probability over the step's answer tokens.
    pub loss: f64,
    /// L2 norm of the gradient before clipping.
    pub grad_norm: f32,
    /// Tokens that counted.
    pub tokens: usize,
}

/// One optimizer step on `examples`.
pub fn sft_step(
    model: &mut Model,
    optimizer: &mut AdamW,
    grads: &mut Params,
    examples: &[&Example],
    lr: f32,
) -> Result<SftUpdate, TrainError> {
    let tokens: usize = examples.iter().map(|e| e.answer.len()).sum();
    let mut loss = 0.0;
    grads.data_mut().fill(0.0);
    for example in examples {
        let group = Group { prompt: &example.prompt, answers: vec![&example.answer] };
        let forward = model.forward(&group, 1.0)?;
        loss -= forward.log_probs()[0].iter().map(|&lp| f64::from(lp)).sum::<f64>();
        let slope = vec![vec![-1.0 / tokens.max(1) as f32; example.answer.len()]];
        forward.backward(&slope, grads)?;
    }
    let decays = matrices(&model.params);
    let grad_norm = optimizer.step(model.params.data_mut(), grads.data(), &decays, lr)?;
    Ok(SftUpdate { loss: loss / tokens.max(1) as f64, grad_norm, tokens })
}

/// The example of one task: its prompt and the gold answer, or nothing where the
/// gold patch cannot be said in the prompt's form.
pub(crate) fn example(
    policy: &Policy,
    prompt: &PromptConfig,
    ready: &Ready,
) -> Result<Option<Example>, TrainError> {
    let Some(files) = gold_files(ready)? else { return Ok(None) };
    let changes: Vec<Change<'_>> =
        files.iter().map(|(path, old, new)| Change { path, old, new }).collect();
    let Some(answer) = gold_answer(&changes, &ready.task.patch, prompt.format) else {
        return Ok(None);
    };
    let mut tokens = policy.tokenizer.encode(&answer);
    tokens.extend(policy.tokenizer.eos().first());
    let prompt = patchrl_rollout::prompt(policy, prompt, ready)?.tokens;
    Ok(Some(Example { prompt, answer: tokens }))
}

/// Path, old text and new text of each file of the gold patch; nothing where the
/// patch does not apply, deletes a file, or touches one that is not text.
#[expect(clippy::type_complexity, reason = "three strings that are read two lines further up")]
fn gold_files(ready: &Ready) -> Result<Option<Vec<(String, String, String)>>, TrainError> {
    let tree = FsTree::new(&ready.base);
    let Ok(patch) = Patch::parse(&ready.task.patch) else { return Ok(None) };
    let Ok(changes) = Edit::Diff(patch).apply(&tree) else { return Ok(None) };
    let mut files = Vec::new();
    for (path, entry) in changes {
        let old = tree.entry(&path).map_err(RolloutError::from)?.map(|e| e.bytes);
        let old = String::from_utf8(old.unwrap_or_default());
        let (Some(new), Ok(old)) = (entry, old) else { return Ok(None) };
        let Ok(new) = String::from_utf8(new.bytes) else { return Ok(None) };
        files.push((path, old, new));
    }
    Ok(Some(files))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use patchrl_model::{Config, LoraConfig};
    use serde_json::json;

    use super::*;
    use crate::optimizer::AdamWConfig;

    fn tiny() -> Model {
        let json = json!({
            "model_type": "qwen2", "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 24,
            "num_hidden_layers": 2, "intermediate_size": 24, "max_position_embeddings": 64,
        });
        let config = Config::from_hf(&json, Path::new("config.json")).unwrap();
        let mut params = Params::zeros(&config);
        for (at, x) in params.data_mut().iter_mut().enumerate() {
            *x = ((at * 7919 % 1013) as f32 / 1013.0 - 0.4) * 0.5;
        }
        Model::new(config, params)
    }

    fn steps(model: &mut Model, optimizer: &mut AdamW, count: usize) -> Vec<f64> {
        let example = Example { prompt: vec![1, 5, 9], answer: vec![4, 20, 7, 2] };
        let mut grads = model.params.zeros_like();
        (0..count)
            .map(|_| sft_step(model, optimizer, &mut grads, &[&example], 1e-2).unwrap().loss)
            .collect()
    }

    #[test]
    fn an_adapter_learns_alone_and_goes_on_to_the_same_bits() {
        let base = tiny();
        let adam = |model: &Model| AdamW::new(AdamWConfig::default(), model.params.data().len());
        let lora = LoraConfig { rank: 2, ..LoraConfig::default() };
        let mut whole = base.clone().with_adapter(lora, 1).unwrap();
        let mut cut = whole.clone();
        let mut optimizer = adam(&whole);
        let losses = steps(&mut whole, &mut optimizer, 20);
        assert!(losses[18] < losses[0], "{losses:?}");
        assert_eq!(whole.without_adapter().params.data(), base.params.data());

        let mut optimizer = adam(&cut);
        let mut again = steps(&mut cut, &mut optimizer, 9);
        let folder = tempfile::tempdir().unwrap();
        cut.save_adapter(&folder.path().join("adapter"), None).unwrap();
        let mut cut = base.load_adapter(&folder.path().join("adapter")).unwrap();
        again.extend(steps(&mut cut, &mut optimizer, 11));
        assert_eq!(again, losses);
        assert_eq!(cut.params.data(), whole.params.data());
    }
}
