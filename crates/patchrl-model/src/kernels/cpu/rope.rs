//! Rotary positions in Hugging Face's rotate-half convention, and the way between
//! rows of all heads and one matrix per head.

use crate::Real;
use rayon::prelude::*;

use super::{ROWS_PER_JOB, vectorised};

/// Cosines and sines of every position up to a limit.
pub(crate) struct Rotation {
    half: usize,
    /// (positions, half)
    cos: Vec<Real>,
    /// (positions, half)
    sin: Vec<Real>,
}

impl Rotation {
    /// Angles as transformers computes them: f32 frequencies, (`head_dim` / 2,), times f32
    /// positions.
    pub(crate) fn new(positions: usize, frequencies: &[f32]) -> Self {
        let half = frequencies.len();
        let angles: Vec<f64> = (0..positions)
            .flat_map(|position| {
                frequencies.iter().map(move |frequency| f64::from(position as f32 * frequency))
            })
            .collect();
        Self {
            half,
            cos: angles.iter().map(|angle| angle.cos() as Real).collect(),
            sin: angles.iter().map(|angle| angle.sin() as Real).collect(),
        }
    }

    /// Turn one head (`head_dim`,) forward.
    pub(crate) fn turn(&self, head: &mut [Real], position: usize) {
        vectorised!(self.turn_by(head, position, 1.0));
    }

    /// `direction` is 1 for forward and -1 for the gradient.
    #[inline(always)]
    fn turn_by(&self, head: &mut [Real], position: usize, direction: Real) {
        let at = position * self.half;
        let (cos, sin) = (&self.cos[at..at + self.half], &self.sin[at..at + self.half]);
        let (low, high) = head.split_at_mut(self.half);
        for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
            let s = s * direction;
            let (x, y) = (*a, *b);
            *a = x * c - y * s;
            *b = y * c + x * s;
        }
    }
}

/// Rows (T, heads * D) to one (T, D) matrix per head; the first `turned` heads are rotated.
pub(crate) fn split_heads(
    out: &mut [Real],
    rows: &[Real],
    heads: usize,
    (rotation, positions, turned): (&Rotation, &[usize], usize),
) {
    let count = positions.len();
    if count == 0 {
        return;
    }
    let head_dim = out.len() / (heads * count);
    let width = heads * head_dim;
    out.par_chunks_exact_mut(count * head_dim).enumerate().for_each(|(head, out)| {
        vectorised!(for ((out, row), &position) in
            out.chunks_exact_mut(head_dim).zip(rows.chunks_exact(width)).zip(positions)
        {
            out.copy_from_slice(&row[head * head_dim..(head + 1) * head_dim]);
            if head < turned {
                rotation.turn_by(out, position, 1.0);
            }
        });
    });
}

/// The gradient of [`split_heads`] for one family of heads: `per` consecutive matrices of
/// `from` are summed into each head of `rows`, which starts `offset` into a row of `width`.
///
/// With a rotation, the sum is turned back.
pub(crate) fn merge_heads(
    rows: &mut [Real],
    (width, offset): (usize, usize),
    (from, head_dim, per): (&[Real], usize, usize),
    turn_back: Option<(&Rotation, &[usize])>,
) {
    let count = rows.len() / width;
    if count == 0 {
        return;
    }
    let heads = from.len() / (count * head_dim * per);
    rows.par_chunks_exact_mut(width).enumerate().with_min_len(ROWS_PER_JOB).for_each(
        |(row, out)| {
            vectorised!(for head in 0..heads {
                let out = &mut out[offset + head * head_dim..][..head_dim];
                out.fill(0.0);
                for part in 0..per {
                    let at = ((head * per + part) * count + row) * head_dim;
                    for (sum, x) in out.iter_mut().zip(&from[at..at + head_dim]) {
                        *sum += x;
                    }
                }
                if let Some((rotation, positions)) = turn_back {
                    rotation.turn_by(out, positions[row], -1.0);
                }
            });
        },
    );
}
