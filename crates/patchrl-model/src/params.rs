//! All parameters of a model in one flat buffer, with the Hugging Face name of each tensor.
//!
//! Owns the order of the tensors and where each begins. Gradients and optimizer
//! moments use the same type, so that position `i` means the same in all of them.
//! Query, key and value (and gate and up) lie side by side: each group is one
//! matrix for the network, and separate tensors for everyone else. The parameters
//! of an adapter are a buffer of their own, in which the network's own matrices are empty.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::lora::{LayerAdapters, LowRank, Part, Target};
use crate::memory::zeros;
use crate::{Config, LoraConfig, Real};

/// Parameters (or gradients, or moments) of one model or adapter.
///
/// A clone shares the numbers until one of the two is changed.
#[derive(Clone, Debug)]
pub struct Params {
    data: Arc<Vec<Real>>,
    layout: Arc<Layout>,
}

impl Params {
    /// All zeros, in the layout that `config` asks for.
    pub fn zeros(config: &Config) -> Self {
        Self::of(Layout::of(config))
    }

    /// All zeros, for the adapter `lora` on a model of `config`.
    pub(crate) fn adapter(config: &Config, lora: &LoraConfig) -> Self {
        Self::of(Layout::adapter(config, lora))
    }

    pub(crate) fn of(layout: Layout) -> Self {
        Self { data: Arc::new(zeros(layout.total)), layout: Arc::new(layout) }
    }

    /// Zeros in the layout of `self`.
    #[must_use]
    pub fn zeros_like(&self) -> Self {
        Self { data: Arc::new(zeros(self.data.len())), layout: Arc::clone(&self.layout) }
    }

    /// Every parameter, tensor after tensor.
    pub fn data(&self) -> &[Real] {
        &self.data
    }

    /// Every parameter, tensor after tensor.
    pub fn data_mut(&mut self) -> &mut [Real] {
        Arc::make_mut(&mut self.data).as_mut_slice()
    }

    /// Name, range in [`Params::data`] and shape of each tensor, in order of place.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, Range<usize>, &[usize])> {
        self.layout
            .tensors
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor.range.clone(), tensor.shape.as_slice()))
    }

    /// The values of one tensor, row-major.
    pub fn tensor(&self, name: &str) -> Option<&[Real]> {
        let at = *self.layout.by_name.get(name)?;
        Some(&self.data[self.layout.tensors[at].range.clone()])
    }

    /// The values of one tensor, row-major.
    pub fn tensor_mut(&mut self, name: &str) -> Option<&mut [Real]> {
        let at = *self.layout.by_name.get(name)?;
        let range = self.layout.tensors[at].range.clone();
        Some(&mut self.data_mut()[range])
    }

    pub(crate) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    pub(crate) fn at(&self, range: &Range<usize>) -> &[Real] {
        &self.data[range.clone()]
    }

    pub(crate) fn at_mut(&mut self, range: &Range<usize>) -> &mut [Real] {
        &mut self.data_mut()[range.clone()]
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
#[derive(Debug, Default)]
pub(crate) struct Layout {
    tensors: Vec<Tensor>,
    by_name: BTreeMap<String, usize>,
    pub(crate) total: usize,
    pub(crate) embed: Range<usize>,
    pub(crate) layers: Vec<LayerRanges>,
    /// Per layer; without a part where this is no adapter.
    pub(crate) adapters: Vec<LayerAdapters>,
    pub(crate) norm: Range<usize>,
    /// The embedding's range where the head is tied.
    pub(crate) head: Range<usize>,
}

/// The matrices of one layer, as the network uses them.
#[derive(Debug, Default)]
pub(crate) struct LayerRanges {
    /// (hidden,)
    pub(crate) attn_norm: Range<usize>,
    /// (`heads * head_dim + 2 * kv_heads * head_dim`, hidden)
    pub(crate) qkv: Range<usize>,
    /// One entry per row of `qkv`; empty where the model has no bias.
    pub(crate) qkv_bias: Range<usize>,
    /// (`head_dim`,) for query, then for key; empty where the model has no such norms.
    pub(crate) q_norm: Range<usize>,
    pub(crate) k_norm: Range<usize>,
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
    pub(crate) fn of(config: &Config) -> Self {
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
        let adapters = (0..config.layers).map(|_| LayerAdapters::default()).collect();
        build.finish(Self { embed, layers, adapters, norm, head, ..Self::default() })
    }

    /// Whether a tensor has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn adapter(config: &Config, lora: &LoraConfig) -> Self {
        let mut build = Builder { tensors: Vec::new(), total: 0 };
        let adapters = (0..config.layers).map(|at| build.adapters((config, lora), at)).collect();
        let layers = (0..config.layers).map(|_| LayerRanges::default()).collect();
        build.finish(Self { layers, adapters, ..Self::default() })
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
        if config.qkv_bias() {
            self.add(name("self_attn.q_proj.bias"), &[q]);
            self.add(name("self_attn.k_proj.bias"), &[kv]);
            self.add(name("self_attn.v_proj.bias"), &[kv]);
        }
        let qkv_bias = qkv.end..self.total;
        let mut norm = |part: &str| {
            if !config.qk_norm() {
                return Range::default();
            }
            self.add(name(part), &[config.head_dim])
        };
        let (q_norm, k_norm) = (norm("self_attn.q_norm.weight"), norm("self_attn.k_norm.weight"));
        let out = self.add(name("self_attn.o_proj.weight"), &[hidden, q]);
        let mlp_norm = self.add(name("post_attention_layernorm.weight"), &[hidden]);
        let start = self.total;
        self.add(name("mlp.gate_proj.weight"), &[config.ffn, hidden]);
        self.add(name("mlp.up_proj.weight"), &[config.ffn, hidden]);
        let gate_up = start..self.total;
        let down = self.add(name("mlp.down_proj.weight"), &[hidden, config.ffn]);
        LayerRanges { attn_norm, qkv, qkv_bias, q_norm, k_norm, out, mlp_norm, gate_up, down }
    }

    fn adapters(&mut self, lora: (&Config, &LoraConfig), layer: usize) -> LayerAdapters {
        use Target::{DownProj, GateProj, KProj, OProj, QProj, UpProj, VProj};
        LayerAdapters {
            qkv: self.low_rank(lora, layer, &[QProj, KProj, VProj]),
            out: self.low_rank(lora, layer, &[OProj]),
            gate_up: self.low_rank(lora, layer, &[GateProj, UpProj]),
            down: self.low_rank(lora, layer, &[DownProj]),
        }
    }

    /// The adapters of tensors that are one matrix of the network.
    fn low_rank(
        &mut self,
        (config, lora): (&Config, &LoraConfig),
        layer: usize,
        tensors: &[Target],
    ) -> LowRank {
        let name = |target: &Target, leaf: &str| {
            format!("base_model.model.model.layers.{layer}.{}.{leaf}.weight", target.module())
        };
        let adapted = || tensors.iter().filter(|target| lora.targets.contains(target));
        let start = self.total;
        for target in adapted() {
            self.add(name(target, "lora_A"), &[lora.rank, target.shape(config).1]);
        }
        let a = start..self.total;
        let parts = adapted().map(|target| {
            let (outs, _) = target.shape(config);
            let before = tensors.iter().take_while(|tensor| *tensor != target);
            let first: usize = before.map(|tensor| tensor.shape(config).0).sum();
            let b = self.add(name(target, "lora_B"), &[outs, lora.rank]);
            Part { b, outs: first..first + outs }
        });
        LowRank { a, parts: parts.collect() }
    }

    fn finish(self, layout: Layout) -> Layout {
        let names = self.tensors.iter().enumerate();
        let by_name = names.map(|(at, tensor)| (tensor.name.clone(), at)).collect();
        Layout { tensors: self.tensors, by_name, total: self.total, ..layout }
    }
}
