//! Low-rank adapters: `W x + alpha / R · B (A x)`, with W frozen (Hu et al., arXiv 2106.09685).
//!
//! Owns what is adapted, the two thin products in every direction, and merging. W + B A never
//! exists while training or sampling. Files are in `peft`.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::kernels::cpu::{self, Mat, MatMut, Threads, Write, gemm};
use crate::params::Layout;
use crate::uniform::uniform;
use crate::{Config, Model, ModelError, Params, Real};

/// Largest rank that is taken from a file; adapters of this kind have 1 to 512.
const MAX_RANK: usize = 1 << 13;

/// A matrix of every layer that may be adapted, under PEFT's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Query.
    QProj,
    /// Key.
    KProj,
    /// Value.
    VProj,
    /// Attention's output.
    OProj,
    /// The gate of `SwiGLU`.
    GateProj,
    /// Its linear half.
    UpProj,
    /// Its output.
    DownProj,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::QProj,
        Self::KProj,
        Self::VProj,
        Self::OProj,
        Self::GateProj,
        Self::UpProj,
        Self::DownProj,
    ];

    /// PEFT's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QProj => "q_proj",
            Self::KProj => "k_proj",
            Self::VProj => "v_proj",
            Self::OProj => "o_proj",
            Self::GateProj => "gate_proj",
            Self::UpProj => "up_proj",
            Self::DownProj => "down_proj",
        }
    }

    /// The matrix's place in its layer, under transformers' name.
    pub(crate) fn module(self) -> String {
        let part = if self <= Self::OProj { "self_attn" } else { "mlp" };
        format!("{part}.{}", self.as_str())
    }

    /// (out, in)
    pub(crate) fn shape(self, config: &Config) -> (usize, usize) {
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        match self {
            Self::QProj => (q, config.hidden),
            Self::KProj | Self::VProj => (kv, config.hidden),
            Self::OProj => (config.hidden, q),
            Self::GateProj | Self::UpProj => (config.ffn, config.hidden),
            Self::DownProj => (config.hidden, config.ffn),
        }
    }
}

/// Which matrices are adapted, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoraConfig {
    /// Inner size (R) of each pair.
    pub rank: usize,
    /// The pairs' product counts `alpha / rank` times.
    pub alpha: f32,
    /// Adapted in every layer.
    pub targets: BTreeSet<Target>,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0, targets: Target::ALL.into() }
    }
}

impl LoraConfig {
    /// Scalars of an adapter on a model of `config`.
    pub fn parameters(&self, config: &Config) -> usize {
        Layout::adapter(config, self).total
    }

    /// What serde cannot check: the first thing that is wrong, by its field.
    pub fn check(&self) -> Result<(), String> {
        if self.rank == 0 || self.rank > MAX_RANK {
            return Err(format!("`rank` is {}, not between 1 and {MAX_RANK}", self.rank));
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return Err(format!("`alpha` is {}, but it must be above 0", self.alpha));
        }
        if self.targets.is_empty() {
            let names = Target::ALL.map(Target::as_str).join(", ");
            return Err(format!("`targets` is empty; it takes some of {names}"));
        }
        Ok(())
    }
}

/// What an adapter stands on: weights that training leaves alone.
#[derive(Clone, Debug)]
pub struct Base {
    /// The weights.
    pub params: Params,
    /// What the adapter on them is.
    pub lora: LoraConfig,
}

impl Model {
    /// A model with all of its weights in training.
    pub fn new(config: Config, params: Params) -> Self {
        Self { config, params, base: None }
    }

    /// Freeze the weights under a new adapter. It changes nothing yet: A is drawn from `seed`
    /// as PEFT draws it, uniform within `1 / sqrt(in)`, and B is zero.
    pub fn with_adapter(self, lora: LoraConfig, seed: u64) -> Result<Self, ModelError> {
        lora.check().map_err(ModelError::Adapter)?;
        let mut params = Params::adapter(&self.config, &lora);
        let tensors: Vec<(Range<usize>, usize)> = params
            .tensors()
            .filter(|(name, ..)| name.contains("lora_A"))
            .map(|(_, range, shape)| (range, shape[1]))
            .collect();
        for (range, inner) in tensors {
            let bound = 1.0 / (inner as f64).sqrt();
            for at in range {
                params.data_mut()[at] = ((2.0 * uniform(seed, at as u64) - 1.0) * bound) as Real;
            }
        }
        self.under(lora, params)
    }

    /// The same with an adapter's own numbers.
    pub(crate) fn under(self, lora: LoraConfig, params: Params) -> Result<Self, ModelError> {
        if self.base.is_some() {
            return Err(ModelError::Adapter("the model has an adapter already; merge it".into()));
        }
        Ok(Self { config: self.config, params, base: Some(Base { params: self.params, lora }) })
    }

    /// The model with its adapter off. Shares the weights; costs nothing.
    #[must_use]
    pub fn without_adapter(&self) -> Self {
        Self::new(self.config.clone(), self.weights().clone())
    }

    /// The model with its adapter added into the weights.
    #[must_use]
    pub fn merged(&self) -> Self {
        let mut merged = self.without_adapter();
        let Some(scale) = self.adapter_scale() else { return merged };
        let (weights, adapter) = (self.weights().layout(), self.params.layout());
        for (at, low) in weights.layers.iter().zip(&adapter.adapters) {
            let pairs = [
                (&at.qkv, &low.qkv),
                (&at.out, &low.out),
                (&at.gate_up, &low.gate_up),
                (&at.down, &low.down),
            ];
            for (weight, low) in pairs {
                low.merge((&self.params, scale), merged.params.at_mut(weight));
            }
        }
        merged
    }

    /// Every weight of the network, adapter aside.
    pub(crate) fn weights(&self) -> &Params {
        self.base.as_ref().map_or(&self.params, |base| &base.params)
    }

    fn adapter_scale(&self) -> Option<Real> {
        self.base.as_ref().map(|base| base.lora.alpha as Real / base.lora.rank as Real)
    }

    /// The adapter's numbers and their factor; the factor means nothing without an adapter.
    pub(crate) fn adapter(&self) -> Adapter<'_> {
        (&self.params, self.adapter_scale().unwrap_or(0.0))
    }
}

/// Numbers that [`LowRank`] points into, and `alpha / rank`.
pub(crate) type Adapter<'a> = (&'a Params, Real);

/// The adapters of one layer.
#[derive(Debug, Default)]
pub(crate) struct LayerAdapters {
    pub(crate) qkv: LowRank,
    pub(crate) out: LowRank,
    pub(crate) gate_up: LowRank,
    pub(crate) down: LowRank,
}

/// The adapters on one matrix of the network, which may be several tensors. N parts, R each.
#[derive(Debug, Default)]
pub(crate) struct LowRank {
    /// (N R, in): the A of each part under one another, so that one product serves all.
    pub(crate) a: Range<usize>,
    pub(crate) parts: Vec<Part>,
}

/// One adapted tensor.
#[derive(Debug)]
pub(crate) struct Part {
    /// (out, R)
    pub(crate) b: Range<usize>,
    /// Its rows of the network's matrix, which are columns of the output.
    pub(crate) outs: Range<usize>,
}

impl LowRank {
    /// `y += scale · x Aᵀ Bᵀ`: `x` (rows, in), `y` (rows, out).
    pub(crate) fn forward(
        &self,
        (params, scale): Adapter<'_>,
        y: &mut [Real],
        x: &[Real],
        rows: usize,
    ) {
        if self.parts.is_empty() {
            return;
        }
        let (inner, width) = (self.inner(params, x.len() / rows, rows, x), y.len() / rows);
        let rank = inner.len() / rows / self.parts.len();
        for (at, part) in self.parts.iter().enumerate() {
            let narrow = Mat::strided(&inner[at * rank..], rows, rank, rank * self.parts.len());
            let b = Mat::new(params.at(&part.b), part.outs.len(), rank).t();
            let out = MatMut::strided(&mut y[part.outs.start..], rows, part.outs.len(), width);
            gemm(out, Write::Add, scale, (narrow, b), Threads::All);
        }
    }

    /// As [`LowRank::forward`], each row by itself whatever the others are.
    #[cfg(not(feature = "double"))]
    pub(crate) fn forward_rows(
        &self,
        (params, scale): Adapter<'_>,
        y: &mut [Real],
        x: &[Real],
        rows: usize,
    ) {
        if self.parts.is_empty() {
            return;
        }
        let (a, ins, width) = (params.at(&self.a), x.len() / rows, y.len() / rows);
        let mut inner = vec![0.0; a.len() / ins * rows];
        cpu::linear(&mut inner, x, a, &[], ins);
        let all = inner.len() / rows;
        let rank = all / self.parts.len();
        for (at, part) in self.parts.iter().enumerate() {
            let narrow = inner.chunks_exact(all).flat_map(|row| &row[at * rank..(at + 1) * rank]);
            let narrow: Vec<Real> = narrow.copied().collect();
            let mut change = vec![0.0; rows * part.outs.len()];
            cpu::linear(&mut change, &narrow, params.at(&part.b), &[], rank);
            for (y, change) in y.chunks_exact_mut(width).zip(change.chunks_exact(part.outs.len())) {
                for (y, change) in y[part.outs.clone()].iter_mut().zip(change) {
                    *y += scale * change;
                }
            }
        }
    }

    /// Add the adapters' share to `dx` (rows, in) from `dy` (rows, out); returns the gradient of
    /// `x Aᵀ`, (rows, N R), for [`LowRank::gradient`].
    pub(crate) fn input_gradient(
        &self,
        (params, scale): Adapter<'_>,
        dx: &mut [Real],
        dy: &[Real],
        rows: usize,
    ) -> Vec<Real> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let (ins, width) = (dx.len() / rows, dy.len() / rows);
        let all = self.a.len() / ins;
        let rank = all / self.parts.len();
        let mut dinner = vec![0.0; rows * all];
        for (at, part) in self.parts.iter().enumerate() {
            let dy = Mat::strided(&dy[part.outs.start..], rows, part.outs.len(), width);
            let b = Mat::new(params.at(&part.b), part.outs.len(), rank);
            let out = MatMut::strided(&mut dinner[at * rank..], rows, rank, all);
            gemm(out, Write::Set, scale, (dy, b), Threads::All);
        }
        let product = (Mat::new(&dinner, rows, all), Mat::new(params.at(&self.a), all, ins));
        gemm(MatMut::new(dx, rows, ins), Write::Add, 1.0, product, Threads::All);
        dinner
    }

    /// Add the gradients of every A and B to `grads`.
    pub(crate) fn gradient(
        &self,
        (params, scale): Adapter<'_>,
        grads: &mut Params,
        (dinner, dy, x): (&[Real], &[Real], &[Real]),
        rows: usize,
    ) {
        if self.parts.is_empty() {
            return;
        }
        let (ins, width) = (x.len() / rows, dy.len() / rows);
        let all = self.a.len() / ins;
        let rank = all / self.parts.len();
        let product = (Mat::new(dinner, rows, all).t(), Mat::new(x, rows, ins));
        let da = MatMut::new(grads.at_mut(&self.a), all, ins);
        gemm(da, Write::Add, 1.0, product, Threads::All);
        let inner = self.inner(params, ins, rows, x);
        for (at, part) in self.parts.iter().enumerate() {
            let dy = Mat::strided(&dy[part.outs.start..], rows, part.outs.len(), width).t();
            let narrow = Mat::strided(&inner[at * rank..], rows, rank, all);
            let db = MatMut::new(grads.at_mut(&part.b), part.outs.len(), rank);
            gemm(db, Write::Add, scale, (dy, narrow), Threads::All);
        }
    }

    /// `x Aᵀ`, (rows, N R).
    fn inner(&self, params: &Params, ins: usize, rows: usize, x: &[Real]) -> Vec<Real> {
        let all = self.a.len() / ins;
        let mut inner = vec![0.0; rows * all];
        let product = (Mat::new(x, rows, ins), Mat::new(params.at(&self.a), all, ins).t());
        gemm(MatMut::new(&mut inner, rows, all), Write::Set, 1.0, product, Threads::All);
        inner
    }

    /// `w += scale · B A` for the network's matrix `w` (out, in).
    fn merge(&self, (params, scale): Adapter<'_>, w: &mut [Real]) {
        let Some(first) = self.parts.first() else { return };
        let rank = first.b.len() / first.outs.len();
        let a = params.at(&self.a);
        let ins = a.len() / (rank * self.parts.len());
        for (part, a) in self.parts.iter().zip(a.chunks_exact(rank * ins)) {
            let w = &mut w[part.outs.start * ins..part.outs.end * ins];
            let b = Mat::new(params.at(&part.b), part.outs.len(), rank);
            let out = MatMut::new(w, part.outs.len(), ins);
            gemm(out, Write::Add, scale, (b, Mat::new(a, rank, ins)), Threads::All);
        }
    }
}
