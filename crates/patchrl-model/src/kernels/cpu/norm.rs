//! `RMSNorm` over rows of one width, forward and backward.

use rayon::prelude::*;

use super::{ROWS_PER_JOB, dot, vectorised};

/// `out = x / rms(x) * weight` per row; `inverse` receives `1 / rms(x)` per row.
///
/// `out` and `x` are (rows, width), `weight` is (width,), `inverse` is (rows,).
pub(crate) fn rms_norm(out: &mut [f32], inverse: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    let width = weight.len();
    inverse.par_iter_mut().zip(x.par_chunks_exact(width)).with_min_len(ROWS_PER_JOB).for_each(
        |(inverse, x)| {
            let square = vectorised!(dot(x, x));
            *inverse = 1.0 / (square / width as f32 + eps).sqrt();
        },
    );
    rms_apply(out, inverse, x, weight);
}

/// `out = x * inverse * weight`: the norm again, from what the forward pass kept.
pub(crate) fn rms_apply(out: &mut [f32], inverse: &[f32], x: &[f32], weight: &[f32]) {
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
/// `dx`, `dy` and `x` are (rows, width), `inverse` is (rows,), the rest (width,).
pub(crate) fn rms_backward(
    (dx, dweight): (&mut [f32], &mut [f32]),
    dy: &[f32],
    (inverse, x): (&[f32], &[f32]),
    weight: &[f32],
) {
    let width = weight.len();
    let block = ROWS_PER_JOB * width;
    let partial: Vec<Vec<f32>> = dx
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
    (dx, dweight): (&mut [f32], &mut [f32]),
    dy: &[f32],
    (inverse, x): (f32, &[f32]),
    weight: &[f32],
) {
    let mut lanes = [0.0_f32; 16];
    let whole = x.len() / 16 * 16;
    for at in (0..whole).step_by(16) {
        let (dy, w, x) = (&dy[at..at + 16], &weight[at..at + 16], &x[at..at + 16]);
        for lane in 0..16 {
            lanes[lane] += dy[lane] * w[lane] * x[lane];
        }
    }
    let mut along: f32 = lanes.iter().sum();
    for at in whole..x.len() {
        along += dy[at] * weight[at] * x[at];
    }
    let shrink = along * inverse * inverse * inverse / x.len() as f32;
    for ((((dx, dw), dy), x), w) in dx.iter_mut().zip(dweight).zip(dy).zip(x).zip(weight) {
        *dw += dy * x * inverse;
        *dx += dy * w * inverse - shrink * x;
    }
}
