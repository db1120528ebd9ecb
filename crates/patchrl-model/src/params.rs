//! All parameters of a model in one flat buffer, with the Hugging Face name of each tensor.
//!
//! Owns the order of the tensors and where each begins. Gradients and optimizer
//! moments use the same type, so that position `i` means the same in all of them.
//! Query, key and value (and gate and up) lie side by side: each group is one
//! matrix for the network, and separate tensors for everyone else.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::Config;

/// Parameters (or gradients, or moments) of one model.
#[derive(Clone, Debug)]
pub struct Params {
    data: Vec<f32>,
    layout: Arc<Layout>,
}

impl Params {
    /// All zeros, in the layout that `config` asks for.
    pub fn zeros(config: &Config) -> Self {
        let layout = Layout::of(config);
        Self { data: vec![0.0; layout.total], layout: Arc::new(layout) }
    }

    /// Zeros in the layout of `self`.
    #[must_use]
    pub fn zeros_like(&self) -> Self {
        Self { data: vec![0.0; self.data.len()], layout: Arc::clone(&self.layout) }
    }

    /// Every parameter, tensor after tensor.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Every parameter, tensor after tensor.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// Name, range in [`Params::data`] and shape of each tensor, in order of place.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, Range<usize>, &[usize])> {
        self.layout
            .tensors
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor.range.clone(), tensor.shape.as_slice()))
    }

    /// The values of one tensor, row-major.
    pub fn tensor(&self, name: &str) -> Option<&[f32]> {
        let at = *self.layout.by_name.get(name)?;
        Some(&self.data[self.layout.tensors[at].range.clone()])
    }

    /// The values of one tensor, row-major.
    pub fn tensor_mut(&mut self, name: &str) -> Option<&mut [f32]> {
        let at = *self.layout.by_name.get(name)?;
        Some(&mut self.data[self.layout.tensors[at].range.clone()])
    }

    pub(crate) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    pub(crate) fn at(&self, range: &Range<usize>) -> &[f32] {
        &self.data[range.clone()]
    }

    pub(crate) fn at_mut(&mut self, range: &Range<usize>) -> &mut [f32] {
        &mut self.data[range.clone()]
    }
}

/// One named tensor.
#[derive(Debug)]
struct Tensor {
    name: String,
    range: Range<usize>,
    shape: Vec<usize>,
}

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Layout {
    tensors: Vec<Tensor>,
    by_name: BTreeMap<String, usize>,
    total: usize,
    pub(crate) embed: Range<usize>,
    pub(crate) layers: Vec<LayerRanges>,
    pub(crate) norm: Range<usize>,
    /// The embedding's range where the head is tied.
    pub(crate) head: Range<usize>,
}

/// The matrices of one layer, as the network uses them.
#[derive(Debug)]
pub(crate) struct LayerRanges {
    /// (hidden,)
    pub(crate) attn_norm: Range<usize>,
    /// (`heads * head_dim + 2 * kv_heads * head_dim`, hidden)
    pub(crate) qkv: Range<usize>,
    /// One entry per row of `qkv`; empty where the model has no bias.
    pub(crate) qkv_bias: Range<usize>,
    /// (hidden, `heads * head_dim`)
    pub(crate) out: Range<usize>,
    /// (hidden,)
    pub(crate) mlp_norm: Range<usize>,
    /// (`2 * ffn`, hidden)
    pub(crate) gate_up: Range<usize>,
    /// (hidden, ffn)
    pub(crate) down: Range<usize>,
}

impl Layout {
    fn of(config: &Config) -> Self {
        let mut build = Builder { tensors: Vec::new(), total: 0 };
        let hidden = config.hidden;
        let embed = build.add("model.embed_tokens.weight".to_owned(), &[config.vocab, hidden]);
        let layers = (0..config.layers).map(|at| build.layer(config, at)).collect();
        let norm = build.add("model.norm.weight".to_owned(), &[hidden]);
        let head = if config.tied {
            embed.clone()
        } else {
            build.add("lm_head.weight".to_owned(), &[config.vocab, hidden])
        };
        let by_name = build
            .tensors
            .iter()
            .enumerate()
            .map(|(at, tensor)| (tensor.name.clone(), at))
            .collect();
        Self { tensors: build.tensors, by_name, total: build.total, embed, layers, norm, head }
    }
}

struct Builder {
    tensors: Vec<Tensor>,
    total: usize,
}

impl Builder {
    fn add(&mut self, name: String, shape: &[usize]) -> Range<usize> {
        let range = self.total..self.total + shape.iter().product::<usize>();
        self.total = range.end;
        self.tensors.push(Tensor { name, range: range.clone(), shape: shape.to_vec() });
        range
    }

    fn layer(&mut self, config: &Config, at: usize) -> LayerRanges {
        let hidden = config.hidden;
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let name = |part: &str| format!("model.layers.{at}.{part}");
        let attn_norm = self.add(name("input_layernorm.weight"), &[hidden]);
        let start = self.total;
        self.add(name("self_attn.q_proj.weight"), &[q, hidden]);
        self.add(name("self_attn.k_proj.weight"), &[kv, hidden]);
        self.add(name("self_attn.v_proj.weight"), &[kv, hidden]);
        let qkv = start..self.total;
        if config.qkv_bias {
            self.add(name("self_attn.q_proj.bias"), &[q]);
            self.add(name("self_attn.k_proj.bias"), &[kv]);
            self.add(name("self_attn.v_proj.bias"), &[kv]);
        }
        let qkv_bias = qkv.end..self.total;
        let out = self.add(name("self_attn.o_proj.weight"), &[hidden, q]);
        let mlp_norm = self.add(name("post_attention_layernorm.weight"), &[hidden]);
        let start = self.total;
        self.add(name("mlp.gate_proj.weight"), &[config.ffn, hidden]);
        self.add(name("mlp.up_proj.weight"), &[config.ffn, hidden]);
        let gate_up = start..self.total;
        let down = self.add(name("mlp.down_proj.weight"), &[hidden, config.ffn]);
        LayerRanges { attn_norm, qkv, qkv_bias, out, mlp_norm, gate_up, down }
    }
}
