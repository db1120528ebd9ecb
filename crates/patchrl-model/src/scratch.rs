//! A model that nobody has trained: a tokenizer learnt from text, and random weights.
//!
//! Owns the sizes a user may choose and how weights begin: normal with deviation 0.02, the
//! matrices that write into the residual stream smaller by `sqrt(2 L)` as in GPT-2, norms at 1.

use std::f64::consts::TAU;
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::tokenizer::{END_OF_TEXT, END_OF_TURN, SMALLEST};
use crate::uniform::uniform;
use crate::{
    ChatTemplate, Config, Family, Model, ModelError, Params, Policy, RopeScaling, Tokenizer,
};

/// Standard deviation of the weights.
const DEVIATION: f64 = 0.02;
/// With their gradients and moments these take 16 GiB.
const MAX_PARAMETERS: u64 = 1 << 30;

/// `from_scratch:` in a configuration: the sizes of a new model of the Llama family, whose head
/// is its embedding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scratch {
    /// Tokens of the vocabulary, at most; a short text gives fewer.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Decoder blocks.
    pub layers: usize,
    /// Query heads; their size is `hidden / heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Inner width of the feed-forward part.
    pub ffn: usize,
    /// Longest sequence, in tokens.
    pub max_positions: usize,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            vocab: 4096,
            hidden: 256,
            layers: 6,
            heads: 4,
            kv_heads: 2,
            ffn: 704,
            max_positions: 2048,
        }
    }
}

impl Scratch {
    /// What serde cannot check: the first thing that is wrong, by its key.
    pub fn check(&self) -> Result<(), String> {
        if self.vocab < SMALLEST {
            return Err(format!(
                "`vocab` is {}, but bytes and special tokens alone are {SMALLEST}",
                self.vocab
            ));
        }
        if self.heads == 0 || !self.hidden.is_multiple_of(self.heads) {
            return Err(format!("`hidden` is {}, not a multiple of `heads`", self.hidden));
        }
        if self.max_positions < 2 {
            return Err(format!("`max_positions` is {}, but 2 are needed", self.max_positions));
        }
        let config = self.config(self.vocab, Vec::new());
        config.check(Path::new("from_scratch")).map_err(|e| e.to_string())?;
        match config.parameters() {
            n if n > MAX_PARAMETERS => {
                Err(format!("its {n} parameters are more than {MAX_PARAMETERS}"))
            }
            _ => Ok(()),
        }
    }

    fn config(&self, vocab: usize, eos: Vec<u32>) -> Config {
        Config {
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.hidden / self.heads.max(1),
            ffn: self.ffn,
            vocab,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            rms_eps: 1e-5,
            tied: true,
            family: Family::Llama,
            window: None,
            max_positions: self.max_positions,
            bos: None,
            eos,
            pad: None,
        }
    }
}

impl Model {
    /// A new model of these sizes without a tokenizer, its weights drawn from `seed`.
    pub fn from_scratch(sizes: &Scratch, seed: u64) -> Result<Self, ModelError> {
        sizes.check().map_err(impossible)?;
        let config = sizes.config(sizes.vocab, Vec::new());
        let params = weights(&config, seed);
        Ok(Self::new(config, params))
    }
}

fn impossible(why: String) -> ModelError {
    ModelError::Damaged { path: "from_scratch".into(), why }
}

impl Policy {
    /// A new model: its tokenizer learnt from `texts`, its weights drawn from `seed`.
    pub fn from_scratch(sizes: &Scratch, texts: &[&str], seed: u64) -> Result<Self, ModelError> {
        sizes.check().map_err(impossible)?;
        let mut tokenizer = Tokenizer::learn(texts, sizes.vocab)?;
        let eos: Vec<u32> =
            [END_OF_TURN, END_OF_TEXT].iter().filter_map(|text| tokenizer.id(text)).collect();
        tokenizer.also_end_at(&eos);
        let chat = ChatTemplate::of(&tokenizer)?;
        let config = sizes.config(tokenizer.vocab(), eos);
        let params = weights(&config, seed);
        Ok(Self { model: Model::new(config, params), tokenizer, chat })
    }
}

fn weights(config: &Config, seed: u64) -> Params {
    let mut params = Params::zeros(config);
    let residual = DEVIATION / (2.0 * config.layers as f64).sqrt();
    let tensors: Vec<_> = params
        .tensors()
        .map(|(name, range, shape)| {
            let into_stream = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
            let deviation = if into_stream { residual } else { DEVIATION };
            (range, (shape.len() > 1).then_some(deviation))
        })
        .collect();
    for (range, deviation) in tensors {
        let start = range.start;
        params.data_mut()[range].par_iter_mut().enumerate().for_each(|(at, x)| {
            let normal = || normal(seed, (start + at) as u64);
            *x = deviation.map_or(1.0, |deviation| (deviation * normal()) as f32);
        });
    }
    params
}

/// A standard normal number from a seed and a counter (Box and Muller).
fn normal(seed: u64, counter: u64) -> f64 {
    let (u, v) = (1.0 - uniform(seed, 2 * counter), uniform(seed, 2 * counter + 1));
    (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
}
