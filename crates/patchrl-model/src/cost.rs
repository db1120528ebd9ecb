//! What one update costs: floating-point operations and bytes, from shapes alone.
//!
//! Operations are the useful ones, as a floor for the time: the prompt once, the head on answer
//! tokens only, a multiply-add as 2, backward as twice forward (attention as 2.5 times, since it
//! needs its scores again). Bytes are the highest that the passes hold at a time.

use crate::head::KEPT;
use crate::packing::BLOCK;
use crate::{Activations, Config, Model};

/// A prompt and its answers, in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// At least one.
    pub prompt: usize,
    /// Of each answer.
    pub answers: Vec<usize>,
}

impl Lengths {
    /// Rows of the network: an answer's last token is predicted and not read.
    fn rows(&self) -> usize {
        self.prompt + self.answers.iter().map(|len| len.saturating_sub(1)).sum::<usize>()
    }
}

/// Useful operations of the forward and backward pass with all weights in training.
pub fn update_flops(config: &Config, lengths: &Lengths) -> f64 {
    let prompt = lengths.prompt as f64;
    let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let per_row = config.hidden as f64 * (2 * q + 2 * kv + 3 * config.ffn) as f64;
    let layers = config.layers as f64;
    let linear = 2.0 * layers * per_row * lengths.rows() as f64;
    let own = |len: &usize| len.saturating_sub(1) as f64;
    let pairs = prompt * prompt / 2.0
        + lengths.answers.iter().map(|len| own(len) * (prompt + own(len) / 2.0)).sum::<f64>();
    let attention = 4.0 * layers * q as f64 * pairs;
    let scored = lengths.answers.iter().map(own).sum::<f64>() + 1.0;
    let head = 2.0 * (config.hidden * config.vocab) as f64 * scored;
    3.0 * (linear + head) + 3.5 * attention
}

impl Model {
    /// Bytes of the weights, of the adapter too where there is one.
    pub fn weight_bytes(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |base| base.params.data().len());
        4 * (base + self.params.data().len()) as u64
    }

    /// The most that a forward and backward pass hold beside weights and gradients, in bytes.
    pub fn pass_bytes(&self, lengths: &Lengths, activations: Activations) -> u64 {
        let c = &self.config;
        let rows = lengths.rows();
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let before_norms = if c.qk_norm() { q + kv + c.heads + c.kv_heads } else { 0 };
        let kept = 2 * c.hidden + 2 + before_norms + 2 * q + 2 * kv + c.heads + 2 * c.ffn;
        let tape = match activations {
            Activations::Keep => c.layers * kept,
            Activations::Recompute => c.layers * c.hidden + kept,
        };
        // The larger of what one layer makes on its way forward and backward.
        let passing = 3 * c.hidden + c.ffn + 6 * q + 2 * kv;
        let longest = lengths.prompt + lengths.answers.iter().max().unwrap_or(&0);
        let scores = 2 * BLOCK * longest * rayon::current_num_threads();
        let scored = rows + 1 - lengths.prompt;
        let logits = match activations {
            Activations::Keep if scored * c.vocab <= KEPT => scored * c.vocab,
            _ => 512 * 1024,
        };
        4 * (rows * (tape + passing) + scores + scored * 3 * c.hidden + logits) as u64
    }

    /// Bytes of the keys and values of a group while it is drawn.
    pub fn cache_bytes(&self, lengths: &Lengths) -> u64 {
        let c = &self.config;
        let tokens = lengths.prompt + lengths.answers.iter().sum::<usize>();
        (8 * c.layers * c.kv_heads * c.head_dim * tokens) as u64
    }
}
