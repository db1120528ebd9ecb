//! Supervised training: known tokens made more likely.
//!
//! Owns the loss (mean negative log-probability over answer tokens), and its step.
//! Examples come from gold patches (here, and
//! `patchrl_agent::gold_answer`), from text (`text`) and from chats (`chats`).

use patchrl_agent::{Change, PromptConfig, gold_answer};
use patchrl_model::{Activations, Group, Model, Params, Policy};
use patchrl_reward::Ready;
use patchrl_rollout::gold_files;

use crate::TrainError;
use crate::optimizer::{AdamW, matrices};

/// Answer tokens of one pass through the model, unless one answer alone has more.
const PASS: usize = 4096;

/// A prompt and the answer to learn, as tokens; the answer ends in its stop token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The prompt, (P,).
    pub prompt: Vec<u32>,
    /// The answer, (T,); of a conversation everything after the prompt.
    pub answer: Vec<u32>,
    /// Which of its tokens are learnt, (T,); the others are read.
    pub mask: Vec<bool>,
}

impl Example {
    /// An answer of which every token is learnt.
    pub fn whole(prompt: Vec<u32>, answer: Vec<u32>) -> Self {
        let mask = vec![true; answer.len()];
        Self { prompt, answer, mask }
    }

    /// Tokens that are learnt.
    pub fn counted(&self) -> usize {
        self.mask.iter().filter(|learnt| **learnt).count()
    }
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
    (lr, activations): (f32, Activations),
) -> Result<SftUpdate, TrainError> {
    let tokens = count(examples);
    let loss = gradient(model, grads, examples, (PASS, activations))?;
    let decays = matrices(&model.params);
    let grad_norm = optimizer.step(model.params.data_mut(), grads.data(), &decays, lr)?;
    Ok(SftUpdate { loss, grad_norm, tokens })
}

/// The mean loss per token of `examples`, without a gradient.
pub fn sft_loss(model: &Model, examples: &[&Example]) -> Result<f64, TrainError> {
    let mut loss = 0.0;
    for pass in passes(examples, PASS) {
        loss -= pass.sum(&model.log_probs(&pass.group, 1.0)?);
    }
    Ok(loss / count(examples).max(1) as f64)
}

/// The gradient of the mean loss per token into `grads`, and this loss. The denominator is the
/// step's, so how it is cut into passes of `most` tokens decides nothing but rounding.
fn gradient(
    model: &Model,
    grads: &mut Params,
    examples: &[&Example],
    (most, activations): (usize, Activations),
) -> Result<f64, TrainError> {
    let tokens = count(examples).max(1);
    let mut loss = 0.0;
    grads.data_mut().fill(0.0);
    for pass in passes(examples, most) {
        let forward = model.forward(&pass.group, 1.0, activations)?;
        loss -= pass.sum(forward.log_probs());
        let of = |learnt: &bool| if *learnt { -1.0 / tokens as f32 } else { 0.0 };
        let slope = |mask: &&[bool]| mask.iter().map(of).collect();
        let slopes: Vec<Vec<f32>> = pass.masks.iter().map(slope).collect();
        forward.backward(&slopes, grads)?;
    }
    Ok(loss / tokens as f64)
}

/// Examples that go through the model together.
struct Pass<'e> {
    group: Group<'e>,
    masks: Vec<&'e [bool]>,
}

impl Pass<'_> {
    /// The sum over what is learnt.
    fn sum(&self, log_probs: &[Vec<f32>]) -> f64 {
        let rows = log_probs.iter().zip(&self.masks);
        let learnt = rows.flat_map(|(row, mask)| row.iter().zip(*mask).filter(|(_, m)| **m));
        learnt.map(|(&lp, _)| f64::from(lp)).sum()
    }
}

/// Neighbours with one prompt share its computation, up to `most` answer tokens.
fn passes<'e>(examples: &[&'e Example], most: usize) -> Vec<Pass<'e>> {
    let mut found: Vec<(usize, Pass<'e>)> = Vec::new();
    for example in examples {
        let Example { prompt, answer, mask } = *example;
        match found.last_mut() {
            Some((tokens, pass))
                if pass.group.prompt == prompt && *tokens + answer.len() <= most =>
            {
                *tokens += answer.len();
                pass.group.answers.push(answer);
                pass.masks.push(mask);
            }
            _ => {
                let group = Group { prompt, answers: vec![answer] };
                found.push((answer.len(), Pass { group, masks: vec![mask] }));
            }
        }
    }
    found.into_iter().map(|(_, pass)| pass).collect()
}

fn count(examples: &[&Example]) -> usize {
    examples.iter().map(|example| example.counted()).sum()
}

/// The example of one task: its prompt and the gold answer, or nothing where the
/// gold patch cannot be said in the prompt's form.
pub(crate) fn example(
    policy: &Policy,
    prompt: &PromptConfig,
    ready: &Ready,
) -> Result<Option<Example>, TrainError> {
    let Some(files) = gold_files(ready)? else { return Ok(None) };
    let changes: Vec<Change<'_>> = files
        .iter()
        .map(|file| Change { path: &file.path, old: &file.old, new: &file.new })
        .collect();
    let Some(answer) = gold_answer(&changes, &ready.task.patch, prompt.format) else {
        return Ok(None);
    };
    let mut tokens = policy.tokenizer.encode(&answer);
    tokens.extend(policy.tokenizer.eos().first());
    let prompt = patchrl_rollout::prompt(policy, prompt, ready)?.tokens;
    Ok(Some(Example::whole(prompt, tokens)))
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
        let example = Example::whole(vec![1, 5, 9], vec![4, 20, 7, 2]);
        let mut grads = model.params.zeros_like();
        (0..count)
            .map(|_| {
                sft_step(model, optimizer, &mut grads, &[&example], (1e-2, Activations::Keep))
                    .unwrap()
                    .loss
            })
            .collect()
    }

    #[test]
    fn a_step_does_not_depend_on_how_it_is_cut() {
        let model = tiny();
        let row = |prompt: u32, answer: &[u32]| Example::whole(vec![prompt], answer.to_vec());
        let rows = [
            row(1, &[4, 20, 7, 2]),
            row(1, &[9, 9]),
            row(1, &[3, 1, 22, 5, 6]),
            row(2, &[8, 7]),
            row(1, &[11]),
        ];
        let examples: Vec<&Example> = rows.iter().collect();
        let run = |most: usize| {
            let mut grads = model.params.zeros_like();
            let loss = gradient(&model, &mut grads, &examples, (most, Activations::Keep)).unwrap();
            (loss, grads)
        };
        let (whole, grads) = run(1000);
        let norm = grads.data().iter().map(|g| g * g).sum::<f32>().sqrt();
        for most in [1, 5, 6] {
            let (loss, cut) = run(most);
            let apart = grads.data().iter().zip(cut.data()).map(|(a, b)| (a - b).powi(2));
            assert!(apart.sum::<f32>().sqrt() / norm < 1e-6 && (loss - whole).abs() < 1e-6);
        }
        assert!((sft_loss(&model, &examples).unwrap() - whole).abs() < 1e-6);
        assert_eq!([1, 5, 6, 1000].map(|most| passes(&examples, most).len()), [5, 5, 4, 3]);
    }

    #[test]
    fn a_conversation_in_one_row_is_its_turns_one_by_one() {
        let model = tiny();
        let turns = [
            Example::whole(vec![1, 5], vec![4, 20]),
            Example::whole(vec![1, 5, 4, 20, 9, 8], vec![7, 3, 2]),
        ];
        let row = Example {
            prompt: vec![1, 5],
            answer: vec![4, 20, 9, 8, 7, 3, 2],
            mask: vec![true, true, false, false, true, true, true],
        };
        let run = |examples: &[&Example]| {
            let mut grads = model.params.zeros_like();
            let loss = gradient(&model, &mut grads, examples, (PASS, Activations::Keep)).unwrap();
            (loss, grads.data().to_vec())
        };
        let (whole, (loss, parts)) = (run(&[&row]), run(&[&turns[0], &turns[1]]));
        let norm = parts.iter().map(|g| g * g).sum::<f32>().sqrt();
        let apart = whole.1.iter().zip(&parts).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt();
        assert!(apart / norm < 1e-5 && (whole.0 - loss).abs() < 1e-5, "{apart} of {norm}");
        assert!((sft_loss(&model, &[&row]).unwrap() - loss).abs() < 1e-5);
        assert_eq!((row.counted(), count(&[&row])), (5, 5));
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
