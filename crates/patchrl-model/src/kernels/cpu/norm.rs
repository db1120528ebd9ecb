//! `RMSNorm` over rows of one width, forward and backward.

use crate::Real;
use std::ops::Range;

use rayon::prelude::*;

use super::{ROWS_PER_JOB, dot, vectorised};

/// `out = x / rms(x) * weight` per row; `inverse` receives `1 / rms(x)` per row.
///
/// `out` and `x` are (rows, width), `weight` is (width,), `inverse` is (rows,).
pub(crate) fn rms_norm(
    out: &mut [Real],
    inverse: &mut [Real],
    x: &[Real],
    weight: &[Real],
    eps: Real,
) {
    let width = weight.len();
    inverse.par_iter_mut().zip(x.par_chunks_exact(width)).with_min_len(ROWS_PER_JOB).for_each(
        |(inverse, x)| {
            let square = vectorised!(dot(x, x));
            *inverse = 1.0 / (square / width as Real + eps).sqrt();
        },
    );
    rms_apply(out, inverse, x, weight);
}

/// `out = x * inverse * weight`: the norm again, from what the forward pass kept.
pub(crate) fn rms_apply(out: &mut [Real], inverse: &[Real], x: &[Real], weight: &[Real]) {
    let width = weight.len();
    out.par_chunks_exact_mut(width)
        .zip(x.par_chunks_exact(width))
        .zip(inverse)
        .with_min_len(ROWS_PER_JOB)
        .for_each(|((out, x), &inverse)| {
            vectorised!(for ((out, x), w) in out.iter_mut().zip(x).zip(weight) {
                *out = x * inverse * w;
            });
        });
}

/// Add the gradient of [`rms_norm`] to `dx` and `dweight`.
///
/// `dx`, `dy` and `x` are (rows, width), `inverse` is (rows,), the rest (width,). An empty
/// `dweight` takes no gradient.
pub(crate) fn rms_backward(
    (dx, dweight): (&mut [Real], &mut [Real]),
    dy: &[Real],
    (inverse, x): (&[Real], &[Real]),
    weight: &[Real],
) {
    let width = weight.len();
    let block = ROWS_PER_JOB * width;
    let partial: Vec<Vec<Real>> = dx
        .par_chunks_mut(block)
        .zip(dy.par_chunks(block))
        .zip(x.par_chunks(block))
        .zip(inverse.par_chunks(ROWS_PER_JOB))
        .map(|(((dx, dy), x), inverse)| {
            let mut dweight = vec![0.0; width];
            let rows = dx.chunks_exact_mut(width).zip(dy.chunks_exact(width));
            for (((dx, dy), x), &inverse) in rows.zip(x.chunks_exact(width)).zip(inverse) {
                vectorised!(backward_row((dx, &mut dweight), dy, (inverse, x), weight));
            }
            dweight
        })
        .collect();
    for part in partial {
        vectorised!(for (sum, part) in dweight.iter_mut().zip(&part) {
            *sum += part;
        });
    }
}

#[inline(always)]
fn backward_row(
    (dx, dweight): (&mut [Real], &mut [Real]),
    dy: &[Real],
    (inverse, x): (Real, &[Real]),
    weight: &[Real],
) {
    let mut lanes = [0.0 as Real; 16];
    let whole = x.len() / 16 * 16;
    for at in (0..whole).step_by(16) {
        let (dy, w, x) = (&dy[at..at + 16], &weight[at..at + 16], &x[at..at + 16]);
        for lane in 0..16 {
            lanes[lane] += dy[lane] * w[lane] * x[lane];
        }
    }
    let mut along: Real = lanes.iter().sum();
    for at in whole..x.len() {
        along += dy[at] * weight[at] * x[at];
    }
    let shrink = along * inverse * inverse * inverse / x.len() as Real;
    for ((((dx, dw), dy), x), w) in dx.iter_mut().zip(dweight).zip(dy).zip(x).zip(weight) {
        *dw += dy * x * inverse;
        *dx += dy * w * inverse - shrink * x;
    }
}

/// What [`rms_heads`] replaced.
#[derive(Default)]
pub(crate) struct Heads {
    /// (rows * heads, width of a head)
    x: Vec<Real>,
    /// (rows * heads,)
    inverse: Vec<Real>,
}

/// [`rms_norm`] in place over each head in columns `place` of `rows`, which are `width` long.
///
/// `weight` is (width of a head,); an empty one is no norm.
pub(crate) fn rms_heads(
    rows: &mut [Real],
    (width, place): (usize, Range<usize>),
    weight: &[Real],
    eps: Real,
) -> Heads {
    if weight.is_empty() {
        return Heads::default();
    }
    let x: Vec<Real> =
        rows.chunks_exact(width).flat_map(|row| &row[place.clone()]).copied().collect();
    let mut inverse = vec![0.0; x.len() / weight.len()];
    let mut normed = vec![0.0; x.len()];
    rms_norm(&mut normed, &mut inverse, &x, weight, eps);
    for (row, normed) in rows.chunks_exact_mut(width).zip(normed.chunks_exact(place.len())) {
        row[place.clone()].copy_from_slice(normed);
    }
    Heads { x, inverse }
}

/// The gradient of [`rms_heads`]: `drows` is overwritten in `place`, `dweight` is added to.
pub(crate) fn rms_heads_backward(
    (drows, dweight): (&mut [Real], &mut [Real]),
    (width, place): (usize, Range<usize>),
    heads: &Heads,
    weight: &[Real],
) {
    if weight.is_empty() {
        return;
    }
    let dy: Vec<Real> =
        drows.chunks_exact(width).flat_map(|row| &row[place.clone()]).copied().collect();
    let mut dx = vec![0.0; dy.len()];
    rms_backward((&mut dx, dweight), &dy, (&heads.inverse, &heads.x), weight);
    for (row, dx) in drows.chunks_exact_mut(width).zip(dx.chunks_exact(place.len())) {
        row[place.clone()].copy_from_slice(dx);
    }
}
