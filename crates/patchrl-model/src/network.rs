//! The decoder: forward with and without a tape, and the explicit backward pass.
//!
//! Owns the order of operations in a layer and what the forward pass must keep.
//! A group's prompt is computed once, forward and backward. Nothing here samples.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::attention::{self, Gradients, Saved, Shape};
use crate::head::{Head, Scores, Slopes};
use crate::kernels::cpu::{
    Heads, Mat, MatMut, Rotation, Threads, Write, add_bias, bias_gradient, gemm, in_pool,
    merge_heads, rms_apply, rms_backward, rms_heads, rms_heads_backward, rms_norm, split_heads,
    swiglu, swiglu_backward,
};
use crate::lora::{LayerAdapters, LowRank};
use crate::packing::Packed;
use crate::params::{LayerRanges, Layout};
use crate::{Base, Config, ModelError, Params, Real};

/// A network: its shape and its weights.
#[derive(Clone, Debug)]
pub struct Model {
    /// Sizes and constants.
    pub config: Config,
    /// What training changes: every weight, in the layout of `config`, or those of the adapter.
    pub params: Params,
    /// With an adapter, the weights that it stands on.
    pub base: Option<Base>,
}

/// One prompt and the answers that were given to it.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// At least one token.
    pub prompt: &'a [u32],
    /// Any number of answers of any length.
    pub answers: Vec<&'a [u32]>,
}

/// What a forward pass keeps for its backward pass. The gradients are the same, bit for bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activations {
    /// All that the backward pass reads.
    #[default]
    Keep,
    /// Each layer's input; a layer is computed again when its backward pass comes. A third more
    /// time for about a tenth of the memory.
    Recompute,
}

impl Model {
    /// Log-probabilities of the answers, keeping what [`Forward::backward`] needs.
    ///
    /// Temperature divides the logits; it must be positive.
    pub fn forward(
        &self,
        group: &Group<'_>,
        temperature: Real,
        activations: Activations,
    ) -> Result<Forward<'_>, ModelError> {
        check_temperature(temperature)?;
        let packed = Packed::new(&self.config, group)?;
        Ok(in_pool(|| self.record(packed, temperature, activations)))
    }

    /// Log-probabilities of the answers, per answer and token. Keeps no activations.
    pub fn log_probs(
        &self,
        group: &Group<'_>,
        temperature: Real,
    ) -> Result<Vec<Vec<Real>>, ModelError> {
        check_temperature(temperature)?;
        let packed = Packed::new(&self.config, group)?;
        let scores = in_pool(|| {
            let x = self.hidden(&packed);
            let first = packed.first_head_row() * self.config.hidden;
            let top = Top::new(self, x[first..].to_vec());
            top.head(self, &packed, temperature).forward(false)
        });
        Ok(packed.per_answer(&scores.log_probs))
    }

    /// Logits of every position, (tokens, vocab). For comparing engines; large.
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<Real>, ModelError> {
        let packed = Packed::new(&self.config, &Group { prompt: tokens, answers: Vec::new() })?;
        let mut logits = vec![0.0; packed.rows() * self.config.vocab];
        in_pool(|| {
            let top = Top::new(self, self.hidden(&packed));
            let weight = self.weights().at(&self.weights().layout().head);
            linear(&mut logits, Write::Set, (&top.normed, weight), packed.rows());
        });
        Ok(logits)
    }

    /// Keys and values of a prompt, and the last row of the residual stream, (hidden,). Those of
    /// its first rows may be known, see [`Known`].
    pub(crate) fn prefill(
        &self,
        prompt: &[u32],
        known: Known<'_>,
    ) -> Result<(Vec<PromptKeys>, Vec<Real>), ModelError> {
        let packed = Packed::new(&self.config, &Group { prompt, answers: Vec::new() })?;
        let packed = packed.after(known.rows);
        let mut run = Run::new(self, &packed);
        (run.shape.before, run.known) = (known.rows, known);
        let mut cache = Vec::with_capacity(self.config.layers);
        let mut x = in_pool(|| {
            let mut x = run.embed();
            for layer in 0..self.config.layers {
                let kept = run.layer(layer, &mut x);
                let (_, keys, values) = run.shape.split(&kept.qkv);
                cache.push(PromptKeys { keys: keys.to_vec(), values: values.to_vec() });
            }
            x
        });
        let last = x.split_off(x.len() - self.config.hidden);
        Ok((cache, last))
    }

    fn record(&self, packed: Packed, temperature: Real, activations: Activations) -> Forward<'_> {
        let run = Run::new(self, &packed);
        let mut x = run.embed();
        let mut tape = Vec::with_capacity(self.config.layers);
        for layer in 0..self.config.layers {
            let kept = run.layer(layer, &mut x);
            tape.push(match activations {
                Activations::Keep => Taped::Whole(Box::new(kept)),
                Activations::Recompute => Taped::Input(kept.x),
            });
        }
        let first = packed.first_head_row() * self.config.hidden;
        let top = Top::new(self, x[first..].to_vec());
        let keep = activations == Activations::Keep;
        let scores = top.head(self, &packed, temperature).forward(keep);
        let log_probs = packed.per_answer(&scores.log_probs);
        Forward { model: self, packed, temperature, tape, top, scores, log_probs }
    }

    /// The residual stream after the last layer, (T, hidden).
    fn hidden(&self, packed: &Packed) -> Vec<Real> {
        let run = Run::new(self, packed);
        let mut x = run.embed();
        for layer in 0..self.config.layers {
            run.layer(layer, &mut x);
        }
        x
    }
}

/// One layer's keys and values of a prompt, each (`kv_heads`, P, D).
pub(crate) struct PromptKeys {
    pub(crate) keys: Vec<Real>,
    pub(crate) values: Vec<Real>,
}

/// What another prompt that begins alike has of this one: its keys per layer, of which the first
/// `rows` are this one's too. Whole blocks of queries: a row's sums depend on how its block ends.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    pub(crate) keys: &'a [PromptKeys],
    pub(crate) rows: usize,
}

/// A forward pass with everything that its backward pass reads.
pub struct Forward<'m> {
    model: &'m Model,
    packed: Packed,
    temperature: Real,
    tape: Vec<Taped>,
    top: Top,
    scores: Scores,
    log_probs: Vec<Vec<Real>>,
}

impl Forward<'_> {
    /// Log-probability of each answer token, per answer.
    pub fn log_probs(&self) -> &[Vec<Real>] {
        &self.log_probs
    }

    /// Entropy, in nats, of the distribution that each answer token was drawn from.
    pub fn entropy(&self) -> Vec<Vec<Real>> {
        self.packed.per_answer(&self.scores.entropy)
    }

    /// Add to `grads` the gradient of a loss whose derivative by each log-probability is `dlogp`.
    pub fn backward(self, dlogp: &[Vec<Real>], grads: &mut Params) -> Result<(), ModelError> {
        self.backward_with(dlogp, &[], grads)
    }

    /// The same for a loss that depends on the entropies too: by `dentropy`, unless it is empty.
    pub fn backward_with(
        self,
        dlogp: &[Vec<Real>],
        dentropy: &[Vec<Real>],
        grads: &mut Params,
    ) -> Result<(), ModelError> {
        if grads.data().len() != self.model.params.data().len() {
            let (want, got) = (self.model.params.data().len(), grads.data().len());
            return Err(ModelError::Shape { what: "gradients", want, got });
        }
        let logp = self.flatten(dlogp)?;
        let entropy = if dentropy.is_empty() { Vec::new() } else { self.flatten(dentropy)? };
        if logp.iter().chain(&entropy).all(|&d| d == 0.0) {
            return Ok(());
        }
        in_pool(|| self.propagate(Slopes { logp: &logp, entropy: &entropy }, grads));
        Ok(())
    }

    fn propagate(self, slopes: Slopes<'_>, grads: &mut Params) {
        let Self { model, packed, temperature, mut tape, top, scores, .. } = self;
        let run = Run::new(model, &packed);
        let mut dx = vec![0.0; packed.rows() * model.config.hidden];
        let head = top.head(model, &packed, temperature);
        top.backward((model, head), (scores, slopes), grads, &mut dx);
        let mut scratch = Scratch::new(model, run.shape);
        for layer in (0..model.config.layers).rev() {
            let kept = match tape.pop() {
                Some(Taped::Whole(kept)) => *kept,
                Some(Taped::Input(mut x)) => run.layer(layer, &mut x),
                None => return,
            };
            run.layer_backward(layer, kept, &mut scratch, (&mut dx, grads));
        }
        let hidden = model.config.hidden;
        let embed = grads.at_mut(&model.params.layout().embed);
        if embed.is_empty() {
            return;
        }
        for (&token, dx) in packed.tokens.iter().zip(dx.chunks_exact(hidden)) {
            let at = token as usize * hidden;
            for (sum, d) in embed[at..at + hidden].iter_mut().zip(dx) {
                *sum += d;
            }
        }
    }

    /// One number per answer token, as one row.
    fn flatten(&self, slopes: &[Vec<Real>]) -> Result<Vec<Real>, ModelError> {
        let shape = |what, want, got| Err(ModelError::Shape { what, want, got });
        if slopes.len() != self.log_probs.len() {
            return shape("answers in the slopes", self.log_probs.len(), slopes.len());
        }
        for (given, own) in slopes.iter().zip(&self.log_probs) {
            if given.len() != own.len() {
                return shape("tokens of an answer in the slopes", own.len(), given.len());
            }
        }
        Ok(slopes.concat())
    }
}

/// The rows that reach the head. N rows.
struct Top {
    /// Residual stream, (N, hidden).
    x: Vec<Real>,
    /// (N,)
    inverse: Vec<Real>,
    /// (N, hidden)
    normed: Vec<Real>,
}

impl Top {
    fn new(model: &Model, x: Vec<Real>) -> Self {
        let norm = model.weights().at(&model.weights().layout().norm);
        let mut inverse = vec![0.0; x.len() / model.config.hidden];
        let mut normed = vec![0.0; x.len()];
        rms_norm(&mut normed, &mut inverse, &x, norm, model.config.eps());
        Self { x, inverse, normed }
    }

    fn head<'a>(&'a self, model: &'a Model, packed: &'a Packed, temperature: Real) -> Head<'a> {
        Head {
            rows: &self.normed,
            weight: model.weights().at(&model.weights().layout().head),
            hidden: model.config.hidden,
            temperature,
            targets: &packed.targets,
            first_row: packed.first_head_row(),
        }
    }

    /// Head and last norm: `dx` (T, hidden) gets the gradient of the rows that reach the head.
    fn backward(
        &self,
        (model, head): (&Model, Head<'_>),
        (scores, slopes): (Scores, Slopes<'_>),
        grads: &mut Params,
        dx: &mut [Real],
    ) {
        let layout = model.params.layout();
        let mut drows = vec![0.0; self.normed.len()];
        head.backward(scores, slopes, (&mut drows, grads.at_mut(&layout.head)));
        let first = dx.len() - self.x.len();
        rms_backward(
            (&mut dx[first..], grads.at_mut(&layout.norm)),
            &drows,
            (&self.inverse, &self.x),
            model.weights().at(&model.weights().layout().norm),
        );
    }
}

/// What the tape holds of one layer.
enum Taped {
    Whole(Box<Kept>),
    /// The layer's input, (T, hidden).
    Input(Vec<Real>),
}

/// What one layer keeps for its backward pass. Normalised rows are made again.
struct Kept {
    /// Input of the layer, (T, hidden).
    x: Vec<Real>,
    /// (T,)
    attn_inverse: Vec<Real>,
    /// Queries and keys before their norms, where the model has those.
    q_heads: Heads,
    k_heads: Heads,
    /// Rotated queries, rotated keys, values: see [`Shape::split`].
    qkv: Vec<Real>,
    /// (heads, T)
    lse: Vec<Real>,
    /// Attention's output before the output projection, (T, heads * D).
    attn: Vec<Real>,
    /// Residual stream after attention, (T, hidden).
    middle: Vec<Real>,
    /// (T,)
    mlp_inverse: Vec<Real>,
    /// (T, 2 * ffn)
    gate_up: Vec<Real>,
}

/// Buffers that the layers of one backward pass share.
struct Scratch {
    /// (T, hidden)
    normed: Vec<Real>,
    /// (T, hidden)
    dnormed: Vec<Real>,
    /// (T, ffn)
    act: Vec<Real>,
    /// (T, heads * D)
    dattn: Vec<Real>,
    /// (heads, T, D) each
    dattn_heads: Vec<Real>,
    dq: Vec<Real>,
    dk: Vec<Real>,
    dv: Vec<Real>,
    /// (T, rows of the qkv matrix)
    dqkv: Vec<Real>,
}

impl Scratch {
    fn new(model: &Model, shape: Shape) -> Self {
        let config = &model.config;
        let heads = shape.heads * shape.matrix();
        Self {
            normed: vec![0.0; shape.rows * config.hidden],
            dnormed: vec![0.0; shape.rows * config.hidden],
            act: vec![0.0; shape.rows * config.ffn],
            dattn: vec![0.0; heads],
            dattn_heads: vec![0.0; heads],
            dq: vec![0.0; heads],
            dk: vec![0.0; heads],
            dv: vec![0.0; heads],
            dqkv: vec![0.0; heads + 2 * shape.kv_heads * shape.matrix()],
        }
    }
}

/// One packed group going through one model.
struct Run<'a> {
    model: &'a Model,
    weights: Arc<Layout>,
    /// Where the gradients go. Ranges of what is frozen are empty.
    trained: Arc<Layout>,
    packed: &'a Packed,
    known: Known<'a>,
    shape: Shape,
    rotation: Rotation,
}

/// One layer: its weights, its adapters, and where its gradients go.
struct Layer<'a> {
    at: &'a LayerRanges,
    low: &'a LayerAdapters,
    to: &'a LayerRanges,
    /// Of its attention.
    shape: Shape,
}

impl<'a> Run<'a> {
    fn new(model: &'a Model, packed: &'a Packed) -> Self {
        let config = &model.config;
        let positions = packed.positions.iter().max().map_or(0, |last| last + 1);
        Self {
            model,
            weights: model.weights().layout(),
            trained: model.params.layout(),
            packed,
            known: Known::default(),
            shape: Shape {
                rows: packed.rows(),
                before: 0,
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
                window: usize::MAX,
            },
            rotation: Rotation::new(positions, &config.frequencies()),
        }
    }

    fn weight(&self, range: &Range<usize>) -> &'a [Real] {
        self.model.weights().at(range)
    }

    fn at(&self, layer: usize) -> Layer<'_> {
        Layer {
            at: &self.weights.layers[layer],
            low: &self.trained.adapters[layer],
            to: &self.trained.layers[layer],
            shape: Shape { window: self.model.config.window_of(layer), ..self.shape },
        }
    }

    /// `y = x · wᵀ` (or added to), with what the adapters of `w` say.
    fn linear(
        &self,
        (y, write): (&mut [Real], Write),
        x: &[Real],
        (w, low): (&Range<usize>, &LowRank),
    ) {
        linear(y, write, (x, self.weight(w)), self.shape.rows);
        low.forward(self.model.adapter(), y, x, self.shape.rows);
    }

    fn embed(&self) -> Vec<Real> {
        let hidden = self.model.config.hidden;
        let table = self.weight(&self.weights.embed);
        let rows = self.packed.tokens.iter();
        rows.flat_map(|&token| &table[token as usize * hidden..][..hidden]).copied().collect()
    }

    /// One layer: `x` (T, hidden) becomes the next layer's input.
    fn layer(&self, layer: usize, x: &mut Vec<Real>) -> Kept {
        let (config, rows, Layer { at, low, shape, .. }) =
            (&self.model.config, self.shape.rows, self.at(layer));
        let attn_width = config.heads * config.head_dim;
        let mut normed = vec![0.0; x.len()];
        let (mut attn_inverse, mut mlp_inverse) = (vec![0.0; rows], vec![0.0; rows]);

        rms_norm(&mut normed, &mut attn_inverse, x, self.weight(&at.attn_norm), config.eps());
        let (qkv, q_heads, k_heads) = self.qkv(at, &low.qkv, &normed);
        let qkv = if self.known.rows > 0 { self.with_known(layer, &qkv) } else { qkv };
        let mut attn_heads = vec![0.0; rows * attn_width];
        let mut lse = vec![0.0; config.heads * rows];
        attention::forward(shape, &self.packed.blocks, &qkv, (&mut attn_heads, &mut lse));
        let mut attn = vec![0.0; rows * attn_width];
        let from = (attn_heads.as_slice(), config.head_dim, 1);
        merge_heads(&mut attn, (attn_width, 0), from, None);
        drop(attn_heads);
        let mut middle = x.clone();
        self.linear((&mut middle, Write::Add), &attn, (&at.out, &low.out));

        rms_norm(&mut normed, &mut mlp_inverse, &middle, self.weight(&at.mlp_norm), config.eps());
        let mut gate_up = vec![0.0; rows * 2 * config.ffn];
        self.linear((&mut gate_up, Write::Set), &normed, (&at.gate_up, &low.gate_up));
        let mut act = vec![0.0; rows * config.ffn];
        swiglu(&mut act, &gate_up, config.ffn);
        let mut next = middle.clone();
        self.linear((&mut next, Write::Add), &act, (&at.down, &low.down));
        let x = std::mem::replace(x, next);
        Kept { x, attn_inverse, q_heads, k_heads, qkv, lse, attn, middle, mlp_inverse, gate_up }
    }

    /// Queries, keys and values (see [`Shape::split`]) of normalised rows, rotated; and what the
    /// norms of queries and keys replaced.
    fn qkv(&self, at: &LayerRanges, low: &LowRank, normed: &[Real]) -> (Vec<Real>, Heads, Heads) {
        let config = &self.model.config;
        let (turned, heads) = (config.heads + config.kv_heads, config.heads + 2 * config.kv_heads);
        let width = heads * config.head_dim;
        let mut rows = vec![0.0; self.shape.rows * width];
        self.linear((&mut rows, Write::Set), normed, (&at.qkv, low));
        add_bias(&mut rows, self.weight(&at.qkv_bias));
        let (q, k) = config.query_and_key();
        let q_heads = rms_heads(&mut rows, (width, q), self.weight(&at.q_norm), config.eps());
        let k_heads = rms_heads(&mut rows, (width, k), self.weight(&at.k_norm), config.eps());
        let mut qkv = vec![0.0; rows.len()];
        let rotate = (&self.rotation, self.packed.positions.as_slice(), turned);
        split_heads(&mut qkv, &rows, heads, rotate);
        (qkv, q_heads, k_heads)
    }

    /// `qkv` with the known keys and values before its own.
    fn with_known(&self, layer: usize, qkv: &[Real]) -> Vec<Real> {
        let (heads, size) = (self.shape.kv_heads, self.shape.matrix());
        let (queries, own) = qkv.split_at(self.shape.heads * size);
        let PromptKeys { keys, values } = &self.known.keys[layer];
        let known = keys.chunks(keys.len() / heads).chain(values.chunks(values.len() / heads));
        let mut all = queries.to_vec();
        for (known, own) in known.zip(own.chunks(size)) {
            all.extend_from_slice(&known[..self.known.rows * self.shape.head_dim]);
            all.extend_from_slice(own);
        }
        all
    }

    /// `dx` (T, hidden) comes in as the gradient of the layer's output and leaves as its input's.
    fn layer_backward(
        &self,
        layer: usize,
        mut kept: Kept,
        scratch: &mut Scratch,
        (dx, grads): (&mut [Real], &mut Params),
    ) {
        let layer = self.at(layer);
        self.mlp_backward(&layer, &mut kept, scratch, (dx, grads));
        self.attention_backward(&layer, &kept, scratch, (dx, grads));
    }

    fn mlp_backward(
        &self,
        Layer { at, low, to, .. }: &Layer<'_>,
        kept: &mut Kept,
        scratch: &mut Scratch,
        (dx, grads): (&mut [Real], &mut Params),
    ) {
        let (ffn, rows, adapter) = (self.model.config.ffn, self.shape.rows, self.model.adapter());
        let Scratch { normed, dnormed, act, .. } = scratch;
        input_gradient(act, (dx, self.weight(&at.down)), rows);
        let dinner = low.down.input_gradient(adapter, act, dx, rows);
        swiglu_backward(act, &mut kept.gate_up, ffn);
        weight_gradient(grads.at_mut(&to.down), (dx, act), rows);
        low.down.gradient(adapter, grads, (&dinner, dx, act), rows);
        let norm = self.weight(&at.mlp_norm);
        rms_apply(normed, &kept.mlp_inverse, &kept.middle, norm);
        weight_gradient(grads.at_mut(&to.gate_up), (&kept.gate_up, normed), rows);
        input_gradient(dnormed, (&kept.gate_up, self.weight(&at.gate_up)), rows);
        let dinner = low.gate_up.input_gradient(adapter, dnormed, &kept.gate_up, rows);
        low.gate_up.gradient(adapter, grads, (&dinner, &kept.gate_up, normed), rows);
        let into = (&mut *dx, grads.at_mut(&to.mlp_norm));
        rms_backward(into, dnormed, (&kept.mlp_inverse, &kept.middle), norm);
    }

    fn attention_backward(
        &self,
        layer: &Layer<'_>,
        kept: &Kept,
        scratch: &mut Scratch,
        (dx, grads): (&mut [Real], &mut Params),
    ) {
        let Layer { at, low, to, shape } = *layer;
        let (rows, adapter) = (shape.rows, self.model.adapter());
        let positions = self.packed.positions.as_slice();
        let Scratch { normed, dnormed, dattn, dattn_heads, dq, dk, dv, dqkv, .. } = scratch;
        input_gradient(dattn, (dx, self.weight(&at.out)), rows);
        let dinner = low.out.input_gradient(adapter, dattn, dx, rows);
        weight_gradient(grads.at_mut(&to.out), (dx, &kept.attn), rows);
        low.out.gradient(adapter, grads, (&dinner, dx, &kept.attn), rows);
        split_heads(dattn_heads, dattn, shape.heads, (&self.rotation, positions, 0));
        let saved = Saved {
            qkv: &kept.qkv,
            lse: &kept.lse,
            out: &kept.attn,
            dout: dattn,
            dout_heads: dattn_heads,
        };
        attention::backward(shape, &self.packed.blocks, &saved, Gradients { dq, dk, dv });
        self.merge_qkv(layer, kept, (dq, dk, dv), (dqkv, grads));
        bias_gradient(grads.at_mut(&to.qkv_bias), dqkv);
        let norm = self.weight(&at.attn_norm);
        rms_apply(normed, &kept.attn_inverse, &kept.x, norm);
        weight_gradient(grads.at_mut(&to.qkv), (dqkv, normed), rows);
        input_gradient(dnormed, (dqkv, self.weight(&at.qkv)), rows);
        let dinner = low.qkv.input_gradient(adapter, dnormed, dqkv, rows);
        low.qkv.gradient(adapter, grads, (&dinner, dqkv, normed), rows);
        let into = (&mut *dx, grads.at_mut(&to.attn_norm));
        rms_backward(into, dnormed, (&kept.attn_inverse, &kept.x), norm);
    }

    /// `dqkv` (T, rows of the qkv matrix) from the gradients per query head: [`Run::qkv`] back to
    /// its bias.
    fn merge_qkv(
        &self,
        Layer { at, to, shape, .. }: &Layer<'_>,
        kept: &Kept,
        (dq, dk, dv): (&[Real], &[Real], &[Real]),
        (dqkv, grads): (&mut [Real], &mut Params),
    ) {
        let (q, k) = self.model.config.query_and_key();
        let (width, per) = (k.end + k.len(), shape.per_kv());
        let back = Some((&self.rotation, self.packed.positions.as_slice()));
        merge_heads(dqkv, (width, 0), (dq, shape.head_dim, 1), back);
        merge_heads(dqkv, (width, k.start), (dk, shape.head_dim, per), back);
        merge_heads(dqkv, (width, k.end), (dv, shape.head_dim, per), None);
        let into = (&mut *dqkv, grads.at_mut(&to.q_norm));
        rms_heads_backward(into, (width, q), &kept.q_heads, self.weight(&at.q_norm));
        let into = (&mut *dqkv, grads.at_mut(&to.k_norm));
        rms_heads_backward(into, (width, k), &kept.k_heads, self.weight(&at.k_norm));
    }
}

/// `y = x · wᵀ` (or added to): `x` (rows, in), `w` (out, in).
fn linear(y: &mut [Real], write: Write, (x, w): (&[Real], &[Real]), rows: usize) {
    let (outs, ins) = (y.len() / rows, x.len() / rows);
    let product = (Mat::new(x, rows, ins), Mat::new(w, outs, ins).t());
    gemm(MatMut::new(y, rows, outs), write, 1.0, product, Threads::All);
}

/// `dx = dy · w`.
fn input_gradient(dx: &mut [Real], (dy, w): (&[Real], &[Real]), rows: usize) {
    let (outs, ins) = (dy.len() / rows, dx.len() / rows);
    let product = (Mat::new(dy, rows, outs), Mat::new(w, outs, ins));
    gemm(MatMut::new(dx, rows, ins), Write::Set, 1.0, product, Threads::All);
}

/// `dw += dyᵀ · x`; an empty `dw` is frozen.
fn weight_gradient(dw: &mut [Real], (dy, x): (&[Real], &[Real]), rows: usize) {
    if dw.is_empty() {
        return;
    }
    let (outs, ins) = (dy.len() / rows, x.len() / rows);
    let product = (Mat::new(dy, rows, outs).t(), Mat::new(x, rows, ins));
    gemm(MatMut::new(dw, outs, ins), Write::Add, 1.0, product, Threads::All);
}

fn check_temperature(temperature: Real) -> Result<(), ModelError> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(());
    }
    Err(ModelError::BadSampling {
        name: "temperature",
        value: f64::from(temperature),
        want: "a positive number",
    })
}
