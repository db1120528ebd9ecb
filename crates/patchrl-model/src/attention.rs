//! Causal attention of a group over its shared prompt, forward and backward.
//!
//! Queries go in blocks of one segment; the keys of a block are the prompt's,
//! then the segment's own. A window hides the earlier ones; their products are made
//! all the same. Probabilities are not kept: the backward pass makes them again
//! from the log-sum-exp. Buffers hold one (T, D) matrix per head, so
//! that each job writes memory of its own.

use std::ops::Range;

use rayon::prelude::*;

use crate::Real;
use crate::kernels::cpu::{
    Mat, MatMut, Threads, Write, dot, exp_normalise, gemm, probability_gradient, vectorised,
};
use crate::packing::Block;

/// Heads and sizes. T rows, D head width.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    /// Rows before them that have keys and values, and no queries. Only a forward pass may have
    /// any.
    pub(crate) before: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Keys that a query sees at most, its own included.
    pub(crate) window: usize,
}

impl Shape {
    /// Query heads that share one key and value head.
    pub(crate) fn per_kv(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Queries (heads, T, D), keys and values (`kv_heads`, `before` + T, D) of one buffer.
    pub(crate) fn split<'a>(&self, qkv: &'a [Real]) -> (&'a [Real], &'a [Real], &'a [Real]) {
        let (q, kv) = qkv.split_at(self.heads * self.matrix());
        let (k, v) = kv.split_at(kv.len() / 2);
        (q, k, v)
    }

    /// Numbers in one head's matrix.
    pub(crate) fn matrix(&self) -> usize {
        self.rows * self.head_dim
    }

    fn scale(&self) -> Real {
        1.0 / (self.head_dim as Real).sqrt()
    }

    fn head<'a>(&self, of: &'a [Real], head: usize) -> Mat<'a> {
        Mat::new(&of[head * self.matrix()..(head + 1) * self.matrix()], self.rows, self.head_dim)
    }

    /// The same of keys or values.
    fn kv_head<'a>(&self, of: &'a [Real], head: usize) -> Mat<'a> {
        Self { rows: self.before + self.rows, ..*self }.head(of, head)
    }
}

/// Outputs (heads, T, D) and log-sum-exps (heads, T) from `qkv` (see [`Shape::split`]).
pub(crate) fn forward(
    shape: Shape,
    blocks: &[Block],
    qkv: &[Real],
    (out, lse): (&mut [Real], &mut [Real]),
) {
    let (q, k, v) = shape.split(qkv);
    let jobs = cut(shape, blocks, out, lse);
    let buffer = blocks.iter().map(|block| block.len * block.keys()).max().unwrap_or(0);
    jobs.into_par_iter().for_each_init(
        || vec![0.0; buffer],
        |scores, job| {
            let (block, kv) = (job.block, job.head / shape.per_kv());
            let scores = &mut scores[..block.len * block.keys()];
            let query = shape.head(q, job.head).rows(block.start - shape.before, block.len);
            let (keys, values) = (shape.kv_head(k, kv), shape.kv_head(v, kv));
            against_keys(block, scores, shape.scale(), (query, keys));
            for (at, row) in scores.chunks_exact_mut(block.keys()).enumerate() {
                let seen = block.visible(at, shape.window);
                job.lse[at] = exp_normalise(&mut row[seen.clone()]);
                hide(row, &seen);
            }
            over_keys(block, (job.out, shape.head_dim), (scores, values));
        },
    );
}

/// One head's share of one block.
struct Job<'a> {
    head: usize,
    block: Block,
    /// (`block.len`, D)
    out: &'a mut [Real],
    /// (`block.len`,)
    lse: &'a mut [Real],
}

fn cut<'a>(
    shape: Shape,
    blocks: &[Block],
    mut out: &'a mut [Real],
    mut lse: &'a mut [Real],
) -> Vec<Job<'a>> {
    let mut jobs = Vec::with_capacity(shape.heads * blocks.len());
    for head in 0..shape.heads {
        for &block in blocks {
            let (own_out, rest_out) = out.split_at_mut(block.len * shape.head_dim);
            let (own_lse, rest_lse) = lse.split_at_mut(block.len);
            (out, lse) = (rest_out, rest_lse);
            jobs.push(Job { head, block, out: own_out, lse: own_lse });
        }
    }
    jobs
}

/// Zero what a query does not see.
fn hide(row: &mut [Real], seen: &Range<usize>) {
    row[..seen.start].fill(0.0);
    row[seen.end..].fill(0.0);
}

/// `out = scale * rows · keysᵀ` over the keys that the block sees; (`block.len`, keys).
fn against_keys(block: Block, out: &mut [Real], scale: Real, (rows, keys): (Mat<'_>, Mat<'_>)) {
    let (len, width) = (block.len, block.keys());
    if block.prefix > 0 {
        let keys = keys.rows(0, block.prefix).t();
        let out = MatMut::strided(out, len, block.prefix, width);
        gemm(out, Write::Set, scale, (rows, keys), Threads::One);
    }
    let keys = keys.rows(block.segment, block.own()).t();
    let out = MatMut::strided(&mut out[block.prefix..], len, block.own(), width);
    gemm(out, Write::Set, scale, (rows, keys), Threads::One);
}

/// `out = weights · values` over the keys that the block sees; `out` is (`block.len`, D).
fn over_keys(
    block: Block,
    (out, head_dim): (&mut [Real], usize),
    (weights, values): (&[Real], Mat<'_>),
) {
    let (len, width) = (block.len, block.keys());
    let mut write = Write::Set;
    if block.prefix > 0 {
        let weights = Mat::strided(weights, len, block.prefix, width);
        let out = MatMut::new(out, len, head_dim);
        gemm(out, write, 1.0, (weights, values.rows(0, block.prefix)), Threads::One);
        write = Write::Add;
    }
    let weights = Mat::strided(&weights[block.prefix..], len, block.own(), width);
    let out = MatMut::new(out, len, head_dim);
    gemm(out, write, 1.0, (weights, values.rows(block.segment, block.own())), Threads::One);
}

/// What the backward pass of one layer reads.
pub(crate) struct Saved<'a> {
    /// See [`Shape::split`].
    pub(crate) qkv: &'a [Real],
    /// (heads, T)
    pub(crate) lse: &'a [Real],
    /// Output of the forward pass, (T, heads * D).
    pub(crate) out: &'a [Real],
    /// Gradient of the output, (T, heads * D).
    pub(crate) dout: &'a [Real],
    /// The same, (heads, T, D).
    pub(crate) dout_heads: &'a [Real],
}

/// Gradients per *query* head, each (heads, T, D): the caller sums keys and values over
/// the query heads that share them.
pub(crate) struct Gradients<'a> {
    pub(crate) dq: &'a mut [Real],
    pub(crate) dk: &'a mut [Real],
    pub(crate) dv: &'a mut [Real],
}

/// Overwrite `grads` with the gradients of [`forward`].
///
/// One job per query head goes through the blocks in order, so the sums into the
/// prompt's keys and values have one order.
pub(crate) fn backward(shape: Shape, blocks: &[Block], saved: &Saved<'_>, grads: Gradients<'_>) {
    let Gradients { dq, dk, dv } = grads;
    if shape.rows == 0 {
        return;
    }
    let buffer = blocks.iter().map(|block| block.len * block.keys()).max().unwrap_or(0);
    dq.par_chunks_exact_mut(shape.matrix())
        .zip(dk.par_chunks_exact_mut(shape.matrix()))
        .zip(dv.par_chunks_exact_mut(shape.matrix()))
        .enumerate()
        .for_each_init(
            || (vec![0.0; buffer], vec![0.0; buffer]),
            |(scores, dscores), (head, ((dq, dk), dv))| {
                dk.fill(0.0);
                dv.fill(0.0);
                for &block in blocks {
                    let area = block.len * block.keys();
                    let buffers = (&mut scores[..area], &mut dscores[..area]);
                    let grads = Gradients { dq, dk, dv };
                    backward_block(shape, (block, head), saved, buffers, grads);
                }
            },
        );
}

fn backward_block(
    shape: Shape,
    (block, head): (Block, usize),
    saved: &Saved<'_>,
    (scores, dscores): (&mut [Real], &mut [Real]),
    Gradients { dq, dk, dv }: Gradients<'_>,
) {
    let (q, k, v) = shape.split(saved.qkv);
    let kv = head / shape.per_kv();
    let query = shape.head(q, head).rows(block.start, block.len);
    let dout = shape.head(saved.dout_heads, head).rows(block.start, block.len);
    let (keys, values) = (shape.head(k, kv), shape.head(v, kv));
    against_keys(block, scores, shape.scale(), (query, keys));
    against_keys(block, dscores, 1.0, (dout, values));
    let rows = scores.chunks_exact_mut(block.keys()).zip(dscores.chunks_exact_mut(block.keys()));
    for (at, (score, dscore)) in rows.enumerate() {
        let row = block.start + at;
        let place = (row * shape.heads + head) * shape.head_dim;
        let place = place..place + shape.head_dim;
        let delta = vectorised!(dot(&saved.out[place.clone()], &saved.dout[place.clone()]));
        let seen = block.visible(at, shape.window);
        let lse = saved.lse[head * shape.rows + row];
        let rows = (&mut score[seen.clone()], &mut dscore[seen.clone()]);
        probability_gradient(rows.0, rows.1, (lse, delta, shape.scale()));
        hide(score, &seen);
        hide(dscore, &seen);
    }
    let place = block.start * shape.head_dim..(block.start + block.len) * shape.head_dim;
    over_keys(block, (&mut dq[place], shape.head_dim), (dscores, keys));
    into_keys(block, (dk, shape.head_dim), (dscores, query));
    into_keys(block, (dv, shape.head_dim), (scores, dout));
}

/// `out += weightsᵀ · rows` over the keys that the block sees; `out` is (T, D).
fn into_keys(
    block: Block,
    (out, head_dim): (&mut [Real], usize),
    (weights, rows): (&[Real], Mat<'_>),
) {
    let (len, width) = (block.len, block.keys());
    if block.prefix > 0 {
        let weights = Mat::strided(weights, len, block.prefix, width).t();
        let out = MatMut::new(out, block.prefix, head_dim);
        gemm(out, Write::Add, 1.0, (weights, rows), Threads::One);
    }
    let weights = Mat::strided(&weights[block.prefix..], len, block.own(), width).t();
    let out = MatMut::new(&mut out[block.segment * head_dim..], block.own(), head_dim);
    gemm(out, Write::Add, 1.0, (weights, rows), Threads::One);
}
