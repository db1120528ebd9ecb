//! Products with few rows, as decoding needs them.
//!
//! A general matrix product packs its operands first, which costs more than the
//! product itself when there are 1 to 64 rows. Here the weights are read once, in
//! place, as rows; every result is one inner product with the same order of
//! additions, so a row's result does not depend on how many other rows there are.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Rows of `x` in one register tile.
const TILE_X: usize = 4;
/// Rows of `w` in one register tile: 4 x 3 sums, 3 weights and 1 input are 16 registers.
const TILE_W: usize = 3;
/// Weight rows of one parallel job; a multiple of `TILE_W`.
const JOB_W: usize = 48;

/// `out = x · wᵀ + bias` on all threads. `out` (B, O), `x` (B, K), `w` (O, K), `bias` (O,) or empty.
pub(crate) fn linear(out: &mut [f32], x: &[f32], w: &[f32], bias: &[f32], inner: usize) {
    let (rows, outs) = (x.len() / inner, w.len() / inner);
    assert_eq!(out.len(), rows * outs, "a linear layer's output has the wrong size");
    let target = Columns(out.as_mut_ptr());
    w.par_chunks(JOB_W * inner).enumerate().for_each(|(job, w)| {
        let target = &target;
        let count = w.len() / inner;
        let mut part = [0.0_f32; 64 * JOB_W];
        for first in (0..rows).step_by(64) {
            let block = (rows - first).min(64);
            let part = &mut part[..block * count];
            dots(part, &x[first * inner..(first + block) * inner], w, inner);
            for (row, values) in part.chunks_exact_mut(count).enumerate() {
                if !bias.is_empty() {
                    for (value, bias) in values.iter_mut().zip(&bias[job * JOB_W..]) {
                        *value += bias;
                    }
                }
                target.write((first + row) * outs + job * JOB_W, values);
            }
        }
    });
}

/// `out = x · wᵀ` on this thread. `out` (B, O), `x` (B, K), `w` (O, K), all without gaps.
pub(crate) fn dots(out: &mut [f32], x: &[f32], w: &[f32], inner: usize) {
    let (rows, outs) = (x.len() / inner, w.len() / inner);
    assert_eq!(out.len(), rows * outs, "inner products: the output has the wrong size");
    pulp::Arch::new().dispatch(Dots { out, x, w, inner });
}

/// `out = p · v` on this thread. `out` (B, D), `p` (B, N) with rows `stride` apart, `v` (N, D).
pub(crate) fn weighted_sum(out: &mut [f32], (p, stride): (&[f32], usize), v: &[f32], width: usize) {
    pulp::Arch::new().dispatch(WeightedSum { out, p, stride, v, width });
}

/// A buffer that jobs write disjoint columns of.
struct Columns(*mut f32);

#[expect(unsafe_code, reason = "jobs write disjoint columns of one row-major buffer")]
// SAFETY: each job writes only the columns of its own weight rows (see `linear`).
unsafe impl Sync for Columns {}

impl Columns {
    fn write(&self, at: usize, values: &[f32]) {
        #[expect(unsafe_code, reason = "jobs write disjoint columns of one row-major buffer")]
        // SAFETY: `linear` checked the buffer's length, `at + values.len()` stays within
        // one row of it, and no other job touches these columns.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), self.0.add(at), values.len());
        }
    }
}

struct Dots<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    w: &'a [f32],
    inner: usize,
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, x, w, inner } = self;
        let outs = w.len() / inner;
        let mut column = 0;
        for w in w.chunks(TILE_W * inner) {
            let mut row = 0;
            for x in x.chunks(TILE_X * inner) {
                let place = (&mut *out, row * outs + column, outs);
                match (x.len() / inner, w.len() / inner) {
                    (4, 3) => tile::<S, 4, 3>(simd, place, x, w, inner),
                    (4, 2) => tile::<S, 4, 2>(simd, place, x, w, inner),
                    (4, _) => tile::<S, 4, 1>(simd, place, x, w, inner),
                    (3, 3) => tile::<S, 3, 3>(simd, place, x, w, inner),
                    (3, 2) => tile::<S, 3, 2>(simd, place, x, w, inner),
                    (3, _) => tile::<S, 3, 1>(simd, place, x, w, inner),
                    (2, 3) => tile::<S, 2, 3>(simd, place, x, w, inner),
                    (2, 2) => tile::<S, 2, 2>(simd, place, x, w, inner),
                    (2, _) => tile::<S, 2, 1>(simd, place, x, w, inner),
                    (_, 3) => tile::<S, 1, 3>(simd, place, x, w, inner),
                    (_, 2) => tile::<S, 1, 2>(simd, place, x, w, inner),
                    (_, _) => tile::<S, 1, 1>(simd, place, x, w, inner),
                }
                row += TILE_X;
            }
            column += TILE_W;
        }
    }
}

/// `X` rows of `x` against `W` rows of `w`.
#[inline(always)]
fn tile<S: Simd, const X: usize, const W: usize>(
    simd: S,
    (out, at, outs): (&mut [f32], usize, usize),
    x: &[f32],
    w: &[f32],
    inner: usize,
) {
    let x: [(&[S::f32s], &[f32]); X] =
        std::array::from_fn(|row| S::as_simd_f32s(&x[row * inner..(row + 1) * inner]));
    let w: [(&[S::f32s], &[f32]); W] =
        std::array::from_fn(|row| S::as_simd_f32s(&w[row * inner..(row + 1) * inner]));
    let steps = x[0].0.len();
    let xs: [&[S::f32s]; X] = std::array::from_fn(|row| &x[row].0[..steps]);
    let ws: [&[S::f32s]; W] = std::array::from_fn(|row| &w[row].0[..steps]);
    let mut sums = [[simd.splat_f32s(0.0); W]; X];
    for step in 0..steps {
        // No closure in this loop: one that is not inlined costs more than the product.
        let mut weights = [simd.splat_f32s(0.0); W];
        for col in 0..W {
            weights[col] = ws[col][step];
        }
        for row in 0..X {
            let value = xs[row][step];
            for col in 0..W {
                sums[row][col] = simd.mul_add_f32s(value, weights[col], sums[row][col]);
            }
        }
    }
    for row in 0..X {
        for col in 0..W {
            let mut sum = simd.reduce_sum_f32s(sums[row][col]);
            for (a, b) in x[row].1.iter().zip(w[col].1) {
                sum += a * b;
            }
            out[at + row * outs + col] = sum;
        }
    }
}

struct WeightedSum<'a> {
    out: &'a mut [f32],
    p: &'a [f32],
    stride: usize,
    v: &'a [f32],
    width: usize,
}

impl WithSimd for WeightedSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, p, stride, v, width } = self;
        let count = v.len() / width;
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let p = &p[row * stride..row * stride + count];
            let (targets, rest) = S::as_mut_simd_f32s(out);
            let vectors = targets.len();
            let lanes = (width - rest.len()).checked_div(vectors).unwrap_or(0);
            let mut at = 0;
            while at < vectors {
                let wide = (vectors - at).min(8);
                let mut sums = [simd.splat_f32s(0.0); 8];
                for (v, &p) in v.chunks_exact(width).zip(p) {
                    let (v, _) = S::as_simd_f32s(&v[at * lanes..]);
                    let p = simd.splat_f32s(p);
                    if wide == 8 {
                        for i in 0..8 {
                            sums[i] = simd.mul_add_f32s(p, v[i], sums[i]);
                        }
                    } else {
                        for i in 0..wide {
                            sums[i] = simd.mul_add_f32s(p, v[i], sums[i]);
                        }
                    }
                }
                targets[at..at + wide].copy_from_slice(&sums[..wide]);
                at += wide;
            }
            for (column, rest) in rest.iter_mut().enumerate() {
                let column = vectors * lanes + column;
                *rest = v.chunks_exact(width).zip(p).map(|(v, p)| p * v[column]).sum();
            }
        }
    }
}
