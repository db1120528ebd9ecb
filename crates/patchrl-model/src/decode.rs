//! One token further for many sequences at once.
//!
//! Owns the key and value caches: one per prompt, shared by its samples, and one
//! per sequence for its own tokens. Every row is computed with the same order of
//! additions whatever the other rows are.

use rayon::prelude::*;

use crate::kernels::cpu::{
    Rotation, dots, exp_shifted, in_pool, linear, max, rms_heads, rms_norm, swiglu, weighted_sum,
};
use crate::network::PromptKeys;
use crate::{Config, Model, ModelError};

/// Sequences that one attention job handles.
const SEQUENCES_PER_JOB: usize = 8;

/// One answer in the making.
pub(crate) struct Sequence {
    /// From [`Decoder::prefill`].
    pub(crate) prompt: usize,
    /// The token to go on from.
    pub(crate) token: u32,
    /// Its position, prompt included.
    pub(crate) position: usize,
    /// Keys and values of its own tokens; (tokens, D) for each layer and head.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Sequence {
    /// A sequence that has only its prompt.
    pub(crate) fn new(config: &Config, prompt: usize, prompt_len: usize) -> Self {
        let caches = vec![Vec::new(); config.layers * config.kv_heads];
        Self { prompt, token: 0, position: prompt_len, keys: caches.clone(), values: caches }
    }
}

/// A model with the caches of its prompts.
pub(crate) struct Decoder<'m> {
    model: &'m Model,
    rotation: Rotation,
    /// Per prompt and layer.
    prompts: Vec<Vec<PromptKeys>>,
}

impl<'m> Decoder<'m> {
    /// `positions` is the longest sequence that will be asked for.
    pub(crate) fn new(model: &'m Model, positions: usize) -> Self {
        let config = &model.config;
        let rotation = Rotation::new(positions, &config.frequencies());
        Self { model, rotation, prompts: Vec::new() }
    }

    /// Compute a prompt; its number, and the logits after its last token, (vocab,).
    pub(crate) fn prefill(&mut self, prompt: &[u32]) -> Result<(usize, Vec<f32>), ModelError> {
        let (keys, last) = self.model.prefill(prompt)?;
        self.prompts.push(keys);
        Ok((self.prompts.len() - 1, self.logits(&last)))
    }

    /// Logits after each sequence's token, (B, vocab). Sequences of one prompt stand together.
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
            .flat_map(|sequence| &embed[sequence.token as usize * hidden..][..hidden])
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
        rms_norm(&mut normed, &mut inverse, x, weight, self.model.config.rms_eps);
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
        let mut qkv = vec![0.0; sequences.len() * (q + 2 * kv)];
        let bias = params.at(&layer.qkv_bias);
        linear(&mut qkv, &normed, params.at(&layer.qkv), bias, config.hidden);
        low.qkv.forward_rows(self.model.adapter(), &mut qkv, &normed, sequences.len());
        let (queries, keys) = config.query_and_key();
        for (place, norm) in [(queries, &layer.q_norm), (keys, &layer.k_norm)] {
            rms_heads(&mut qkv, (q + 2 * kv, place), params.at(norm), config.rms_eps);
        }
        for (row, sequence) in qkv.chunks_exact_mut(q + 2 * kv).zip(&mut *sequences) {
            for head in row[..q + kv].chunks_exact_mut(config.head_dim) {
                self.rotation.turn(head, sequence.position);
            }
            let caches = at * config.kv_heads..(at + 1) * config.kv_heads;
            let (keys, values) = row[q..].split_at(kv);
            for (cache, key) in caches.clone().zip(keys.chunks_exact(config.head_dim)) {
                sequence.keys[cache].extend_from_slice(key);
            }
            for (cache, value) in caches.zip(values.chunks_exact(config.head_dim)) {
                sequence.values[cache].extend_from_slice(value);
            }
        }
        let mut out = vec![0.0; sequences.len() * q];
        self.attend(at, sequences, (&qkv, q + 2 * kv), &mut out);
        let mut change = normed;
        linear(&mut change, &out, params.at(&layer.out), &[], q);
        low.out.forward_rows(self.model.adapter(), &mut change, &out, sequences.len());
        add(x, &change);
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
        let jobs: Vec<(usize, &[Sequence], usize)> = blocks(sequences)
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

    /// One key and value head for sequences of one prompt. Queries and result are
    /// (sequences, heads per key head, D).
    fn attend_head(
        &self,
        (layer, head): (usize, usize),
        sequences: &[Sequence],
        mut queries: Vec<f32>,
    ) -> Vec<f32> {
        let config = &self.model.config;
        let width = config.head_dim;
        let per = config.heads / config.kv_heads;
        let scale = 1.0 / (width as f32).sqrt();
        for q in &mut queries {
            *q *= scale;
        }
        let prompt = &self.prompts[sequences[0].prompt][layer];
        let size = prompt.keys.len() / config.kv_heads;
        let place = head * size..(head + 1) * size;
        let shared = size / width;
        let rows = queries.len() / width;
        let mut scores = vec![0.0; rows * shared];
        dots(&mut scores, &queries, &prompt.keys[place.clone()], width);
        let mut sums = vec![0.0_f32; rows];
        let mut own_out = vec![0.0; queries.len()];
        for (at, sequence) in sequences.iter().enumerate() {
            let cache = layer * config.kv_heads + head;
            let count = sequence.keys[cache].len() / width;
            let mine = at * per * width..(at + 1) * per * width;
            let mut own = vec![0.0; per * count];
            dots(&mut own, &queries[mine.clone()], &sequence.keys[cache], width);
            let unseen = (shared + count).saturating_sub(config.window_of(layer));
            for (row, own) in own.chunks_exact_mut(count).enumerate() {
                let row = at * per + row;
                let shared = &mut scores[row * shared..(row + 1) * shared];
                let (hidden, shared) = shared.split_at_mut(unseen.min(shared.len()));
                let (own_hidden, own) = own.split_at_mut(unseen - hidden.len());
                let top = max(shared).max(max(own));
                sums[row] = exp_shifted(shared, top) + exp_shifted(own, top);
                hidden.fill(0.0);
                own_hidden.fill(0.0);
            }
            weighted_sum(&mut own_out[mine], (&own, count), &sequence.values[cache], width);
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

/// Runs of one prompt, cut to [`SEQUENCES_PER_JOB`], each with the index of its first sequence.
fn blocks(sequences: &[Sequence]) -> impl Iterator<Item = (usize, &[Sequence])> {
    let mut first = 0;
    sequences
        .chunk_by(|a, b| a.prompt == b.prompt)
        .flat_map(|run| run.chunks(SEQUENCES_PER_JOB))
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
