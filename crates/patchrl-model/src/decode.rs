//! Some tokens further for many sequences at once.
//!
//! Owns the key and value caches: one per prompt, shared by its samples, and one
//! per sequence for its own tokens. Every row is computed with the same order of
//! additions whatever the other rows are, those of the same sequence included.

use std::sync::Arc;

use rayon::prelude::*;

use crate::kept::Read;
use crate::kernels::cpu::{
    Rotation, dots, exp_shifted, in_pool, linear, max, rms_heads, rms_norm, swiglu, weighted_sum,
};
use crate::{Config, Model};

/// Rows that one attention job handles.
const ROWS_PER_JOB: usize = 8;

/// One answer in the making.
pub(crate) struct Sequence {
    /// From [`Decoder::add`].
    pub(crate) prompt: usize,
    /// What a step computes: the token to go on from, then what may follow it. Empty at first:
    /// the prompt has been computed.
    pub(crate) tokens: Vec<u32>,
    /// Position of the first of them, prompt included.
    position: usize,
    /// Keys and values of its own tokens; (tokens, D) for each layer and head.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Sequence {
    /// A sequence that has only its prompt.
    pub(crate) fn new(config: &Config, prompt: usize, prompt_len: usize) -> Self {
        let caches = vec![Vec::new(); config.layers * config.kv_heads];
        Self {
            prompt,
            tokens: Vec::new(),
            position: prompt_len,
            keys: caches.clone(),
            values: caches,
        }
    }

    /// Keep the first `kept` of the tokens that were computed, and go on from `next`.
    pub(crate) fn go_on(&mut self, config: &Config, kept: usize, next: u32) {
        let forgotten = self.tokens.len().saturating_sub(kept) * config.head_dim;
        for cache in self.keys.iter_mut().chain(&mut self.values) {
            cache.truncate(cache.len() - forgotten);
        }
        self.position += kept.min(self.tokens.len());
        self.tokens = vec![next];
    }
}

/// One token of one sequence.
#[derive(Clone, Copy)]
struct Row<'a> {
    sequence: &'a Sequence,
    /// Its place among the sequence's tokens.
    place: usize,
}

impl Row<'_> {
    fn all(sequences: &[Sequence]) -> Vec<Row<'_>> {
        let of = |sequence| move |place| Row { sequence, place };
        sequences.iter().flat_map(|one| (0..one.tokens.len()).map(of(one))).collect()
    }

    /// Keys of the sequence, out of `count`, that the row sees.
    fn visible(&self, count: usize) -> usize {
        count - self.sequence.tokens.len() + self.place + 1
    }
}

/// A model with the caches of its prompts.
pub(crate) struct Decoder<'m> {
    model: &'m Model,
    rotation: Rotation,
    prompts: Vec<Arc<Read>>,
}

impl<'m> Decoder<'m> {
    /// `positions` is the longest sequence that will be asked for.
    pub(crate) fn new(model: &'m Model, positions: usize) -> Self {
        let config = &model.config;
        let rotation = Rotation::new(positions, &config.frequencies());
        Self { model, rotation, prompts: Vec::new() }
    }

    /// Take a prompt that was read; its number, and the logits after its last token, (vocab,).
    pub(crate) fn add(&mut self, prompt: Arc<Read>) -> (usize, Vec<f32>) {
        let logits = self.logits(&prompt.last);
        self.prompts.push(prompt);
        (self.prompts.len() - 1, logits)
    }

    /// Logits after each token of each sequence, (B, vocab). Sequences of one prompt stand
    /// together.
    pub(crate) fn step(&self, sequences: &mut [Sequence]) -> Vec<f32> {
        in_pool(|| self.step_here(sequences))
    }

    fn step_here(&self, sequences: &mut [Sequence]) -> Vec<f32> {
        let params = self.model.weights();
        let layout = params.layout();
        let hidden = self.model.config.hidden;
        let embed = params.at(&layout.embed);
        let mut x: Vec<f32> = sequences
            .iter()
            .flat_map(|sequence| &sequence.tokens)
            .flat_map(|&token| &embed[token as usize * hidden..][..hidden])
            .copied()
            .collect();
        for at in 0..layout.layers.len() {
            self.attention(at, sequences, &mut x);
            self.mlp(at, &mut x);
        }
        self.logits(&x)
    }

    fn logits(&self, x: &[f32]) -> Vec<f32> {
        let (params, config) = (self.model.weights(), &self.model.config);
        let layout = params.layout();
        let normed = self.normed(x, params.at(&layout.norm));
        let mut logits = vec![0.0; x.len() / config.hidden * config.vocab];
        linear(&mut logits, &normed, params.at(&layout.head), &[], config.hidden);
        logits
    }

    fn normed(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let mut normed = vec![0.0; x.len()];
        let mut inverse = vec![0.0; x.len() / weight.len()];
        rms_norm(&mut normed, &mut inverse, x, weight, self.model.config.eps());
        normed
    }

    fn mlp(&self, at: usize, x: &mut [f32]) {
        let (weights, trained) = (self.model.weights().layout(), self.model.params.layout());
        let (layer, low) = (&weights.layers[at], &trained.adapters[at]);
        let (params, config) = (self.model.weights(), &self.model.config);
        let rows = x.len() / config.hidden;
        let normed = self.normed(x, params.at(&layer.mlp_norm));
        let mut gate_up = vec![0.0; rows * 2 * config.ffn];
        linear(&mut gate_up, &normed, params.at(&layer.gate_up), &[], config.hidden);
        low.gate_up.forward_rows(self.model.adapter(), &mut gate_up, &normed, rows);
        let mut act = vec![0.0; rows * config.ffn];
        swiglu(&mut act, &gate_up, config.ffn);
        let mut change = normed;
        linear(&mut change, &act, params.at(&layer.down), &[], config.ffn);
        low.down.forward_rows(self.model.adapter(), &mut change, &act, rows);
        add(x, &change);
    }

    fn attention(&self, at: usize, sequences: &mut [Sequence], x: &mut [f32]) {
        let (weights, trained) = (self.model.weights().layout(), self.model.params.layout());
        let (layer, low) = (&weights.layers[at], &trained.adapters[at]);
        let (params, config) = (self.model.weights(), &self.model.config);
        let normed = self.normed(x, params.at(&layer.attn_norm));
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let rows = x.len() / config.hidden;
        let mut qkv = vec![0.0; rows * (q + 2 * kv)];
        let bias = params.at(&layer.qkv_bias);
        linear(&mut qkv, &normed, params.at(&layer.qkv), bias, config.hidden);
        low.qkv.forward_rows(self.model.adapter(), &mut qkv, &normed, rows);
        let (queries, keys) = config.query_and_key();
        for (place, norm) in [(queries, &layer.q_norm), (keys, &layer.k_norm)] {
            rms_heads(&mut qkv, (q + 2 * kv, place), params.at(norm), config.eps());
        }
        let mut rest = qkv.as_mut_slice();
        for sequence in &mut *sequences {
            let (own, others) = rest.split_at_mut(sequence.tokens.len() * (q + 2 * kv));
            self.remember(at, sequence, own);
            rest = others;
        }
        let mut out = vec![0.0; rows * q];
        self.attend(at, sequences, (&qkv, q + 2 * kv), &mut out);
        let mut change = normed;
        linear(&mut change, &out, params.at(&layer.out), &[], q);
        low.out.forward_rows(self.model.adapter(), &mut change, &out, rows);
        add(x, &change);
    }

    /// Rotate the rows of a sequence's tokens and append their keys and values to its caches.
    fn remember(&self, layer: usize, sequence: &mut Sequence, rows: &mut [f32]) {
        let config = &self.model.config;
        let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        for (place, row) in rows.chunks_exact_mut(q + 2 * kv).enumerate() {
            for head in row[..q + kv].chunks_exact_mut(config.head_dim) {
                self.rotation.turn(head, sequence.position + place);
            }
            let caches = layer * config.kv_heads..(layer + 1) * config.kv_heads;
            let (keys, values) = row[q..].split_at(kv);
            for (cache, key) in caches.clone().zip(keys.chunks_exact(config.head_dim)) {
                sequence.keys[cache].extend_from_slice(key);
            }
            for (cache, value) in caches.zip(values.chunks_exact(config.head_dim)) {
                sequence.values[cache].extend_from_slice(value);
            }
        }
    }

    /// `out` (B, heads * D) from the queries in `qkv`, whose rows are `width` long.
    fn attend(
        &self,
        layer: usize,
        sequences: &[Sequence],
        (qkv, width): (&[f32], usize),
        out: &mut [f32],
    ) {
        let config = &self.model.config;
        let per = config.heads / config.kv_heads * config.head_dim;
        let rows = Row::all(sequences);
        let jobs: Vec<(usize, &[Row<'_>], usize)> = blocks(&rows)
            .flat_map(|(first, block)| (0..config.kv_heads).map(move |head| (first, block, head)))
            .collect();
        let parts: Vec<Vec<f32>> = jobs
            .par_iter()
            .map(|&(first, block, head)| {
                let rows = qkv[first * width..].chunks_exact(width).take(block.len());
                let queries = rows.flat_map(|row| &row[head * per..(head + 1) * per]).copied();
                self.attend_head((layer, head), block, queries.collect())
            })
            .collect();
        let stride = config.heads * config.head_dim;
        for (&(first, _, head), part) in jobs.iter().zip(&parts) {
            for (row, part) in part.chunks_exact(per).enumerate() {
                out[(first + row) * stride + head * per..][..per].copy_from_slice(part);
            }
        }
    }

    /// One key and value head for rows of one prompt. Queries and result are
    /// (rows, heads per key head, D).
    fn attend_head(
        &self,
        (layer, head): (usize, usize),
        asking: &[Row<'_>],
        mut queries: Vec<f32>,
    ) -> Vec<f32> {
        let config = &self.model.config;
        let width = config.head_dim;
        let per = config.heads / config.kv_heads;
        let scale = 1.0 / (width as f32).sqrt();
        for q in &mut queries {
            *q *= scale;
        }
        let prompt = &self.prompts[asking[0].sequence.prompt].keys[layer];
        let size = prompt.keys.len() / config.kv_heads;
        let place = head * size..(head + 1) * size;
        let shared = size / width;
        let mut scores = vec![0.0; queries.len() / width * shared];
        dots(&mut scores, &queries, &prompt.keys[place.clone()], width);
        let mut sums = Vec::with_capacity(queries.len() / width);
        let mut own_out = vec![0.0; queries.len()];
        let mut first = 0;
        for rows in asking.chunk_by(|a, b| std::ptr::eq(a.sequence, b.sequence)) {
            let mine = first * per..(first + rows.len()) * per;
            first += rows.len();
            let cache = layer * config.kv_heads + head;
            let keys = &rows[0].sequence.keys[cache];
            let count = keys.len() / width;
            let mut own = vec![0.0; mine.len() * count];
            dots(&mut own, &queries[mine.start * width..mine.end * width], keys, width);
            let scores = scores[mine.start * shared..mine.end * shared].chunks_exact_mut(shared);
            for (at, (own, shared)) in own.chunks_exact_mut(count).zip(scores).enumerate() {
                let (own, later) = own.split_at_mut(rows[at / per].visible(count));
                later.fill(0.0);
                sums.push(weigh(shared, own, config.window_of(layer)));
            }
            let own_out = &mut own_out[mine.start * width..mine.end * width];
            weighted_sum(own_out, (&own, count), &rows[0].sequence.values[cache], width);
        }
        let mut out = vec![0.0; queries.len()];
        weighted_sum(&mut out, (&scores, shared), &prompt.values[place], width);
        for ((out, own), sum) in
            out.chunks_exact_mut(width).zip(own_out.chunks_exact(width)).zip(&sums)
        {
            for (out, own) in out.iter_mut().zip(own) {
                *out = (*out + own) / sum;
            }
        }
        out
    }
}

/// Scores of one query against its prompt and its own text become weights; their sum.
///
/// The last `window` of them count, the others become 0.
fn weigh(shared: &mut [f32], own: &mut [f32], window: usize) -> f32 {
    let unseen = (shared.len() + own.len()).saturating_sub(window);
    let (hidden, shared) = shared.split_at_mut(unseen.min(shared.len()));
    let (own_hidden, own) = own.split_at_mut(unseen - hidden.len());
    let top = max(shared).max(max(own));
    let sum = exp_shifted(shared, top) + exp_shifted(own, top);
    hidden.fill(0.0);
    own_hidden.fill(0.0);
    sum
}

/// Runs of one prompt, cut to [`ROWS_PER_JOB`], each with the index of its first row.
fn blocks<'a, 'r>(rows: &'a [Row<'r>]) -> impl Iterator<Item = (usize, &'a [Row<'r>])> {
    let mut first = 0;
    rows.chunk_by(|a, b| a.sequence.prompt == b.sequence.prompt)
        .flat_map(|run| run.chunks(ROWS_PER_JOB))
        .map(move |block| {
            first += block.len();
            (first - block.len(), block)
        })
}

fn add(x: &mut [f32], change: &[f32]) {
    for (x, change) in x.iter_mut().zip(change) {
        *x += change;
    }
}
