//! The decoder: forward with and without a tape, and the explicit backward pass.
//!
//! Owns the order of operations in a layer and what the forward pass must keep.
//! A group's prompt is computed once, forward and backward. Nothing here samples.

use std::ops::Range;

use crate::attention::{self, Gradients, Saved, Shape};
use crate::head::{Head, Scores};
use crate::kernels::cpu::{
    Mat, MatMut, Rotation, Threads, Write, add_bias, bias_gradient, gemm, in_pool, merge_heads,
    rms_apply, rms_backward, rms_norm, split_heads, swiglu, swiglu_backward,
};
use crate::packing::{self, Packed};
use crate::params::LayerRanges;
use crate::{Config, ModelError, Params};

/// A network: its shape and its weights.
#[derive(Clone, Debug)]
pub struct Model {
    /// Sizes and constants.
    pub config: Config,
    /// Weights, in the layout of `config`.
    pub params: Params,
}

/// One prompt and the answers that were given to it.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// At least one token.
    pub prompt: &'a [u32],
    /// Any number of answers of any length.
    pub answers: Vec<&'a [u32]>,
}

impl Model {
    /// Log-probabilities of the answers, keeping what [`Forward::backward`] needs.
    ///
    /// Temperature divides the logits; it must be positive.
    pub fn forward(&self, group: &Group<'_>, temperature: f32) -> Result<Forward<'_>, ModelError> {
        check_temperature(temperature)?;
        let packed = Packed::new(&self.config, group)?;
        Ok(in_pool(|| self.record(packed, temperature)))
    }

    /// Log-probabilities of the answers, per answer and token. Keeps no activations.
    pub fn log_probs(
        &self,
        group: &Group<'_>,
        temperature: f32,
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        check_temperature(temperature)?;
        let packed = Packed::new(&self.config, group)?;
        let scores = in_pool(|| {
            let x = self.hidden(&packed, |_| {});
            let first = packed.first_head_row() * self.config.hidden;
            let top = Top::new(self, x[first..].to_vec());
            top.head(self, &packed, temperature).forward()
        });
        Ok(packed.per_answer(&scores.log_probs))
    }

    /// Logits of every position, (tokens, vocab). For comparing engines; large.
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        let packed = Packed::new(&self.config, &Group { prompt: tokens, answers: Vec::new() })?;
        let mut logits = vec![0.0; packed.rows() * self.config.vocab];
        in_pool(|| {
            let top = Top::new(self, self.hidden(&packed, |_| {}));
            let weight = self.params.at(&self.params.layout().head);
            linear(&mut logits, Write::Set, (&top.normed, weight), packed.rows());
        });
        Ok(logits)
    }

    /// Keys and values of a prompt, and the last row of the residual stream, (hidden,).
    pub(crate) fn prefill(
        &self,
        prompt: &[u32],
    ) -> Result<(Vec<PromptKeys>, Vec<f32>), ModelError> {
        packing::check(&self.config, prompt)?;
        let packed = Packed::new(&self.config, &Group { prompt, answers: Vec::new() })?;
        let shape = Run::new(self, &packed).shape;
        let mut cache = Vec::with_capacity(self.config.layers);
        let mut x = in_pool(|| {
            self.hidden(&packed, |kept| {
                let (_, keys, values) = shape.split(&kept.qkv);
                cache.push(PromptKeys { keys: keys.to_vec(), values: values.to_vec() });
            })
        });
        let last = x.split_off(x.len() - self.config.hidden);
        Ok((cache, last))
    }

    fn record(&self, packed: Packed, temperature: f32) -> Forward<'_> {
        let run = Run::new(self, &packed);
        let mut x = run.embed();
        let mut tape = Vec::with_capacity(self.config.layers);
        for layer in &self.params.layout().layers {
            tape.push(run.layer(layer, &mut x));
        }
        let first = packed.first_head_row() * self.config.hidden;
        let top = Top::new(self, x[first..].to_vec());
        let scores = top.head(self, &packed, temperature).forward();
        let log_probs = packed.per_answer(&scores.log_probs);
        Forward { model: self, packed, temperature, tape, top, scores, log_probs }
    }

    /// The residual stream after the last layer, (T, hidden), showing each layer's tape to `visit`.
    fn hidden(&self, packed: &Packed, mut visit: impl FnMut(&Kept)) -> Vec<f32> {
        let run = Run::new(self, packed);
        let mut x = run.embed();
        for layer in &self.params.layout().layers {
            visit(&run.layer(layer, &mut x));
        }
        x
    }
}

/// One layer's keys and values of a prompt, each (`kv_heads`, P, D).
pub(crate) struct PromptKeys {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// A forward pass with everything that its backward pass reads.
pub struct Forward<'m> {
    model: &'m Model,
    packed: Packed,
    temperature: f32,
    tape: Vec<Kept>,
    top: Top,
    scores: Scores,
    log_probs: Vec<Vec<f32>>,
}

impl Forward<'_> {
    /// Log-probability of each answer token, per answer.
    pub fn log_probs(&self) -> &[Vec<f32>] {
        &self.log_probs
    }

    /// Entropy, in nats, of the distribution that each answer token was drawn from.
    pub fn entropy(&self) -> Vec<Vec<f32>> {
        self.packed.per_answer(&self.scores.entropy)
    }

    /// Add to `grads` the gradient of a loss whose derivative by each log-probability is `dlogp`.
    pub fn backward(self, dlogp: &[Vec<f32>], grads: &mut Params) -> Result<(), ModelError> {
        let dlogp = self.flatten(dlogp, grads)?;
        if dlogp.iter().all(|&d| d == 0.0) {
            return Ok(());
        }
        in_pool(|| self.propagate(&dlogp, grads));
        Ok(())
    }

    fn propagate(mut self, dlogp: &[f32], grads: &mut Params) {
        let model = self.model;
        let layout = model.params.layout();
        let run = Run::new(model, &self.packed);
        let mut dx = vec![0.0; self.packed.rows() * model.config.hidden];
        self.top_backward(dlogp, grads, &mut dx);
        let mut scratch = Scratch::new(model, run.shape);
        for layer in layout.layers.iter().rev() {
            if let Some(kept) = self.tape.pop() {
                run.layer_backward(layer, kept, &mut scratch, (&mut dx, grads));
            }
        }
        let hidden = model.config.hidden;
        let embed = grads.at_mut(&layout.embed);
        for (&token, dx) in self.packed.tokens.iter().zip(dx.chunks_exact(hidden)) {
            let at = token as usize * hidden;
            for (sum, d) in embed[at..at + hidden].iter_mut().zip(dx) {
                *sum += d;
            }
        }
    }

    fn flatten(&self, dlogp: &[Vec<f32>], grads: &Params) -> Result<Vec<f32>, ModelError> {
        let shape = |what, want, got| Err(ModelError::Shape { what, want, got });
        if grads.data().len() != self.model.params.data().len() {
            return shape("gradients", self.model.params.data().len(), grads.data().len());
        }
        if dlogp.len() != self.log_probs.len() {
            return shape("answers in `dlogp`", self.log_probs.len(), dlogp.len());
        }
        for (given, own) in dlogp.iter().zip(&self.log_probs) {
            if given.len() != own.len() {
                return shape("tokens of an answer in `dlogp`", own.len(), given.len());
            }
        }
        Ok(dlogp.concat())
    }

    /// Head and last norm.
    fn top_backward(&self, dlogp: &[f32], grads: &mut Params, dx: &mut [f32]) {
        let (model, hidden) = (self.model, self.model.config.hidden);
        let layout = model.params.layout();
        let mut drows = vec![0.0; self.top.normed.len()];
        self.top.head(model, &self.packed, self.temperature).backward(
            &self.scores.lse,
            dlogp,
            (&mut drows, grads.at_mut(&layout.head)),
        );
        rms_backward(
            (&mut dx[self.packed.first_head_row() * hidden..], grads.at_mut(&layout.norm)),
            &drows,
            (&self.top.inverse, &self.top.x),
            model.params.at(&layout.norm),
        );
    }
}

/// The rows that reach the head. N rows.
struct Top {
    /// Residual stream, (N, hidden).
    x: Vec<f32>,
    /// (N,)
    inverse: Vec<f32>,
    /// (N, hidden)
    normed: Vec<f32>,
}

impl Top {
    fn new(model: &Model, x: Vec<f32>) -> Self {
        let norm = model.params.at(&model.params.layout().norm).to_vec();
        let mut inverse = vec![0.0; x.len() / model.config.hidden];
        let mut normed = vec![0.0; x.len()];
        rms_norm(&mut normed, &mut inverse, &x, &norm, model.config.rms_eps);
        Self { x, inverse, normed }
    }

    fn head<'a>(&'a self, model: &'a Model, packed: &'a Packed, temperature: f32) -> Head<'a> {
        Head {
            rows: &self.normed,
            weight: model.params.at(&model.params.layout().head),
            hidden: model.config.hidden,
            temperature,
            targets: &packed.targets,
            first_row: packed.first_head_row(),
        }
    }
}

/// What one layer keeps for its backward pass. Normalised rows are made again.
struct Kept {
    /// Input of the layer, (T, hidden).
    x: Vec<f32>,
    /// (T,)
    attn_inverse: Vec<f32>,
    /// Rotated queries, rotated keys, values: see [`Shape::split`].
    qkv: Vec<f32>,
    /// (heads, T)
    lse: Vec<f32>,
    /// Attention's output before the output projection, (T, heads * D).
    attn: Vec<f32>,
    /// Residual stream after attention, (T, hidden).
    middle: Vec<f32>,
    /// (T,)
    mlp_inverse: Vec<f32>,
    /// (T, 2 * ffn)
    gate_up: Vec<f32>,
}

/// Buffers that the layers of one backward pass share.
struct Scratch {
    /// (T, hidden)
    normed: Vec<f32>,
    /// (T, hidden)
    dnormed: Vec<f32>,
    /// (T, ffn)
    act: Vec<f32>,
    /// (T, heads * D)
    dattn: Vec<f32>,
    /// (heads, T, D) each
    dattn_heads: Vec<f32>,
    dq: Vec<f32>,
    dk: Vec<f32>,
    dv: Vec<f32>,
    /// (T, rows of the qkv matrix)
    dqkv: Vec<f32>,
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
    packed: &'a Packed,
    shape: Shape,
    rotation: Rotation,
}

impl<'a> Run<'a> {
    fn new(model: &'a Model, packed: &'a Packed) -> Self {
        let config = &model.config;
        let positions = packed.positions.iter().max().map_or(0, |last| last + 1);
        Self {
            model,
            packed,
            shape: Shape {
                rows: packed.rows(),
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
            },
            rotation: Rotation::new(positions, config.head_dim, config.rope_theta),
        }
    }

    fn weight(&self, range: &Range<usize>) -> &'a [f32] {
        self.model.params.at(range)
    }

    fn embed(&self) -> Vec<f32> {
        let hidden = self.model.config.hidden;
        let table = self.weight(&self.model.params.layout().embed);
        let rows = self.packed.tokens.iter();
        rows.flat_map(|&token| &table[token as usize * hidden..][..hidden]).copied().collect()
    }

    /// One layer: `x` (T, hidden) becomes the next layer's input.
    fn layer(&self, at: &LayerRanges, x: &mut Vec<f32>) -> Kept {
        let (config, shape, rows) = (&self.model.config, self.shape, self.shape.rows);
        let width = (config.heads + 2 * config.kv_heads) * config.head_dim;
        let attn_width = config.heads * config.head_dim;
        let mut normed = vec![0.0; x.len()];
        let (mut attn_inverse, mut mlp_inverse) = (vec![0.0; rows], vec![0.0; rows]);

        rms_norm(&mut normed, &mut attn_inverse, x, self.weight(&at.attn_norm), config.rms_eps);
        let mut qkv_rows = vec![0.0; rows * width];
        linear(&mut qkv_rows, Write::Set, (&normed, self.weight(&at.qkv)), rows);
        add_bias(&mut qkv_rows, self.weight(&at.qkv_bias));
        let mut qkv = vec![0.0; rows * width];
        let turned = config.heads + config.kv_heads;
        let heads = config.heads + 2 * config.kv_heads;
        let rotate = (&self.rotation, self.packed.positions.as_slice(), turned);
        split_heads(&mut qkv, &qkv_rows, heads, rotate);
        drop(qkv_rows);

        let mut attn_heads = vec![0.0; rows * attn_width];
        let mut lse = vec![0.0; config.heads * rows];
        attention::forward(shape, &self.packed.blocks, &qkv, (&mut attn_heads, &mut lse));
        let mut attn = vec![0.0; rows * attn_width];
        let from = (attn_heads.as_slice(), config.head_dim, 1);
        merge_heads(&mut attn, (attn_width, 0), from, None);
        drop(attn_heads);
        let mut middle = x.clone();
        linear(&mut middle, Write::Add, (&attn, self.weight(&at.out)), rows);

        rms_norm(&mut normed, &mut mlp_inverse, &middle, self.weight(&at.mlp_norm), config.rms_eps);
        let mut gate_up = vec![0.0; rows * 2 * config.ffn];
        linear(&mut gate_up, Write::Set, (&normed, self.weight(&at.gate_up)), rows);
        let mut act = vec![0.0; rows * config.ffn];
        swiglu(&mut act, &gate_up, config.ffn);
        let mut next = middle.clone();
        linear(&mut next, Write::Add, (&act, self.weight(&at.down)), rows);
        let x = std::mem::replace(x, next);
        Kept { x, attn_inverse, qkv, lse, attn, middle, mlp_inverse, gate_up }
    }

    /// `dx` (T, hidden) comes in as the gradient of the layer's output and leaves as its input's.
    fn layer_backward(
        &self,
        at: &LayerRanges,
        mut kept: Kept,
        scratch: &mut Scratch,
        (dx, grads): (&mut [f32], &mut Params),
    ) {
        self.mlp_backward(at, &mut kept, scratch, (dx, grads));
        self.attention_backward(at, &kept, scratch, (dx, grads));
    }

    fn mlp_backward(
        &self,
        at: &LayerRanges,
        kept: &mut Kept,
        scratch: &mut Scratch,
        (dx, grads): (&mut [f32], &mut Params),
    ) {
        let (ffn, rows) = (self.model.config.ffn, self.shape.rows);
        let Scratch { normed, dnormed, act, .. } = scratch;
        input_gradient(act, (dx, self.weight(&at.down)), rows);
        swiglu_backward(act, &mut kept.gate_up, ffn);
        weight_gradient(grads.at_mut(&at.down), (dx, act), rows);
        let norm = self.weight(&at.mlp_norm);
        rms_apply(normed, &kept.mlp_inverse, &kept.middle, norm);
        weight_gradient(grads.at_mut(&at.gate_up), (&kept.gate_up, normed), rows);
        input_gradient(dnormed, (&kept.gate_up, self.weight(&at.gate_up)), rows);
        let into = (&mut *dx, grads.at_mut(&at.mlp_norm));
        rms_backward(into, dnormed, (&kept.mlp_inverse, &kept.middle), norm);
    }

    fn attention_backward(
        &self,
        at: &LayerRanges,
        kept: &Kept,
        scratch: &mut Scratch,
        (dx, grads): (&mut [f32], &mut Params),
    ) {
        let (shape, rows) = (self.shape, self.shape.rows);
        let positions = self.packed.positions.as_slice();
        let Scratch { normed, dnormed, dattn, dattn_heads, dq, dk, dv, dqkv, .. } = scratch;
        input_gradient(dattn, (dx, self.weight(&at.out)), rows);
        weight_gradient(grads.at_mut(&at.out), (dx, &kept.attn), rows);
        split_heads(dattn_heads, dattn, shape.heads, (&self.rotation, positions, 0));
        let saved = Saved {
            qkv: &kept.qkv,
            lse: &kept.lse,
            out: &kept.attn,
            dout: dattn,
            dout_heads: dattn_heads,
        };
        attention::backward(shape, &self.packed.blocks, &saved, Gradients { dq, dk, dv });

        let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let (width, per) = (q + 2 * kv, shape.per_kv());
        let back = Some((&self.rotation, positions));
        merge_heads(dqkv, (width, 0), (dq, shape.head_dim, 1), back);
        merge_heads(dqkv, (width, q), (dk, shape.head_dim, per), back);
        merge_heads(dqkv, (width, q + kv), (dv, shape.head_dim, per), None);
        bias_gradient(grads.at_mut(&at.qkv_bias), dqkv);
        let norm = self.weight(&at.attn_norm);
        rms_apply(normed, &kept.attn_inverse, &kept.x, norm);
        weight_gradient(grads.at_mut(&at.qkv), (dqkv, normed), rows);
        input_gradient(dnormed, (dqkv, self.weight(&at.qkv)), rows);
        let into = (&mut *dx, grads.at_mut(&at.attn_norm));
        rms_backward(into, dnormed, (&kept.attn_inverse, &kept.x), norm);
    }
}

/// `y = x · wᵀ` (or added to): `x` (rows, in), `w` (out, in).
fn linear(y: &mut [f32], write: Write, (x, w): (&[f32], &[f32]), rows: usize) {
    let (outs, ins) = (y.len() / rows, x.len() / rows);
    let product = (Mat::new(x, rows, ins), Mat::new(w, outs, ins).t());
    gemm(MatMut::new(y, rows, outs), write, 1.0, product, Threads::All);
}

/// `dx = dy · w`.
fn input_gradient(dx: &mut [f32], (dy, w): (&[f32], &[f32]), rows: usize) {
    let (outs, ins) = (dy.len() / rows, dx.len() / rows);
    let product = (Mat::new(dy, rows, outs), Mat::new(w, outs, ins));
    gemm(MatMut::new(dx, rows, ins), Write::Set, 1.0, product, Threads::All);
}

/// `dw += dyᵀ · x`.
fn weight_gradient(dw: &mut [f32], (dy, x): (&[f32], &[f32]), rows: usize) {
    let (outs, ins) = (dy.len() / rows, x.len() / rows);
    let product = (Mat::new(dy, rows, outs).t(), Mat::new(x, rows, ins));
    gemm(MatMut::new(dw, outs, ins), Write::Add, 1.0, product, Threads::All);
}

fn check_temperature(temperature: f32) -> Result<(), ModelError> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(());
    }
    Err(ModelError::BadSampling {
        name: "temperature",
        value: f64::from(temperature),
        want: "a positive number",
    })
}
