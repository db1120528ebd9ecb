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
/// Input numbers kept in the first cache: 20 KiB of 32.
const L1_FLOATS: usize = 5 << 10;
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
        if x.len() == inner {
            // One input takes no longer than memory does, which is fastest read as one stream.
            for (at, w) in w.chunks_exact(inner).enumerate() {
                tile::<S, 1, 1>(simd, (out, at, outs), x, w, inner);
            }
            return;
        }
        // Inputs stay in the first cache while the weights pass by.
        let block = (L1_FLOATS / inner / TILE_X).max(1) * TILE_X;
        for (first, x) in x.chunks(block * inner).enumerate() {
            let rows = x.len() / inner;
            for (column, own) in w.chunks(TILE_W * inner).enumerate() {
                // The first block brings the weights in, for the others too.
                let next = if first == 0 { &w[column * TILE_W * inner + own.len()..] } else { &[] };
                let next = &next[..next.len().min(own.len())];
                let mut shares = next.chunks(next.len().div_ceil(rows.div_ceil(TILE_X)).max(1));
                let mut row = 0;
                while row < rows {
                    fetch(shares.next().unwrap_or(&[]));
                    let place = (&mut *out, (first * block + row) * outs + column * TILE_W, outs);
                    let x = &x[row * inner..];
                    row += match (rows - row, own.len() / inner) {
                        (TILE_X.., TILE_W) => tile::<S, TILE_X, TILE_W>(simd, place, x, own, inner),
                        (2.., TILE_W) => tile::<S, 2, TILE_W>(simd, place, x, own, inner),
                        (_, TILE_W) => tile::<S, 1, TILE_W>(simd, place, x, own, inner),
                        (TILE_X.., _) => narrow::<S, TILE_X>(simd, place, x, own, inner),
                        _ => narrow::<S, 1>(simd, place, x, own, inner),
                    };
                }
            }
        }
    }
}

/// Ask for numbers that will be read soon, a line of 64 bytes at a time.
///
/// Left alone, the processor fetches ahead only while it reads new weights, and memory rests
/// while the rows after the first few are computed.
#[inline(always)]
fn fetch(data: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in data.chunks(16) {
        #[expect(unsafe_code, reason = "the instruction takes a raw pointer")]
        // SAFETY: the pointer comes from a slice, and a prefetch reads nothing that can be seen.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
}

/// Weight rows that do not fill a tile, one by one. Each sum has the order of a whole tile's.
#[inline(always)]
fn narrow<S: Simd, const X: usize>(
    simd: S,
    (out, at, outs): (&mut [f32], usize, usize),
    x: &[f32],
    w: &[f32],
    inner: usize,
) -> usize {
    for (column, w) in w.chunks_exact(inner).enumerate() {
        tile::<S, X, 1>(simd, (out, at + column, outs), x, w, inner);
    }
    X
}

/// The first `X` rows of `x` against `W` rows of `w`; X.
///
/// Loops count up to constants and the inner one calls no closure, so that they unroll
/// and the sums stay in registers.
#[inline(always)]
fn tile<S: Simd, const X: usize, const W: usize>(
    simd: S,
    (out, at, outs): (&mut [f32], usize, usize),
    x: &[f32],
    w: &[f32],
    inner: usize,
) -> usize {
    let whole = inner / lanes::<S>() * lanes::<S>();
    let steps = whole / lanes::<S>();
    let mut xs: [&[S::f32s]; X] = [&[]; X];
    let mut ws: [&[S::f32s]; W] = [&[]; W];
    for row in 0..X {
        xs[row] = &S::as_simd_f32s(&x[row * inner..row * inner + whole]).0[..steps];
    }
    for col in 0..W {
        ws[col] = &S::as_simd_f32s(&w[col * inner..col * inner + whole]).0[..steps];
    }
    let mut sums = [[simd.splat_f32s(0.0); W]; X];
    for step in 0..steps {
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
        let out = &mut out[at + row * outs..at + row * outs + W];
        for col in 0..W {
            out[col] = simd.reduce_sum_f32s(sums[row][col]);
        }
    }
    if whole < inner {
        for row in 0..X {
            for col in 0..W {
                let (x, w) =
                    (&x[row * inner..(row + 1) * inner], &w[col * inner..(col + 1) * inner]);
                out[at + row * outs + col] += plain(&x[whole..], &w[whole..]);
            }
        }
    }
    X
}

/// Numbers in one register.
#[inline(always)]
fn lanes<S: Simd>() -> usize {
    size_of::<S::f32s>() / size_of::<f32>()
}

/// The rest of an inner product that does not fill a register. Out of line, to keep tiles small.
#[inline(never)]
fn plain(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
        // The weights of four rows side by side, (N, 4).
        let mut side_by_side = vec![[0.0_f32; 4]; count];
        let mut row = 0;
        for out in out.chunks_mut(4 * width) {
            for (lane, p) in p[row * stride..].chunks(stride).take(out.len() / width).enumerate() {
                for (four, p) in side_by_side.iter_mut().zip(p) {
                    four[lane] = *p;
                }
            }
            match out.len() / width {
                4 => blend::<S, 4>(simd, out, &side_by_side, v, width),
                3 => blend::<S, 3>(simd, out, &side_by_side, v, width),
                2 => blend::<S, 2>(simd, out, &side_by_side, v, width),
                _ => blend::<S, 1>(simd, out, &side_by_side, v, width),
            }
            row += 4;
        }
    }
}

/// `R` rows of a weighted sum, two registers of columns at a time.
///
/// Leaves the loop where it could panic: a panic would move the sums to memory.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops up to a constant unroll, iterators do not")]
fn blend<S: Simd, const R: usize>(
    simd: S,
    out: &mut [f32],
    p: &[[f32; 4]],
    v: &[f32],
    width: usize,
) {
    let pair = 2 * lanes::<S>();
    let whole = width / pair * pair;
    for column in (0..whole).step_by(pair) {
        let mut sums = [[simd.splat_f32s(0.0); 2]; R];
        for (v, p) in v.chunks_exact(width).zip(p) {
            let Some(v) = v.get(column..column + pair) else { break };
            let ([low, high, ..], _) = S::as_simd_f32s(v) else { break };
            for row in 0..R {
                let p = simd.splat_f32s(p[row]);
                sums[row][0] = simd.mul_add_f32s(p, *low, sums[row][0]);
                sums[row][1] = simd.mul_add_f32s(p, *high, sums[row][1]);
            }
        }
        for row in 0..R {
            let place = row * width + column;
            let (out, _) = S::as_mut_simd_f32s(&mut out[place..place + pair]);
            out[0] = sums[row][0];
            out[1] = sums[row][1];
        }
    }
    for (row, out) in out.chunks_exact_mut(width).enumerate() {
        for (column, out) in out.iter_mut().enumerate().skip(whole) {
            *out = v.chunks_exact(width).zip(p).map(|(v, p)| p[row] * v[column]).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(count: usize, step: f32) -> Vec<f32> {
        (0..count).map(|at| ((at as f32 * step).sin() * 8.0).round() / 8.0).collect()
    }

    #[test]
    fn products_match_plain_loops_at_every_size() {
        // Entries are eighths, so every order of additions gives the same sum.
        for (rows, outs, inner) in [(1, 1, 1), (4, 3, 8), (5, 7, 33), (70, 100, 19), (3, 50, 64)] {
            let (x, w) = (ramp(rows * inner, 0.7), ramp(outs * inner, 1.3));
            let bias = ramp(outs, 2.1);
            let mut got = vec![0.0; rows * outs];
            linear(&mut got, &x, &w, &bias, inner);
            for (at, got) in got.iter().enumerate() {
                let (x, w) = (&x[at / outs * inner..][..inner], &w[at % outs * inner..][..inner]);
                let want: f32 = x.iter().zip(w).map(|(x, w)| x * w).sum();
                assert!((got - want - bias[at % outs]).abs() < 1e-6);
            }
        }
        for (rows, count, width, stride) in [(1, 3, 5, 3), (4, 7, 16, 9), (7, 31, 41, 31)] {
            let (p, v) = (ramp(rows * stride, 0.9), ramp(count * width, 1.7));
            let mut got = vec![0.0; rows * width];
            weighted_sum(&mut got, (&p, stride), &v, width);
            for (at, got) in got.iter().enumerate() {
                let (row, column) = (at / width, at % width);
                let terms = (0..count).map(|key| p[row * stride + key] * v[key * width + column]);
                assert!((got - terms.sum::<f32>()).abs() < 1e-6);
            }
        }
    }
}
