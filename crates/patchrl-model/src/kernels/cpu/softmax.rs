//! Exponentials and the row operations of softmax, forward and backward.
//!
//! Everything here is `inline(always)` or a single row: callers choose the
//! instruction set (`vectorised!`) and the threads.

use super::vectorised;
use crate::Real;

/// `e^x` to about 2 units in the last place, in straight-line code that vectorises.
///
/// Clamped to the range of normal numbers: below -87 it gives about 1e-38.
#[cfg(not(feature = "double"))]
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // 1.5 * 2^23: adding it rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let whole = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    // ln 2 in two parts, so that the remainder keeps its bits.
    let r = x - whole * 0.693_359_4;
    let r = r - whole * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    f32::from_bits(((whole as i32 + 127) << 23) as u32) * p
}

/// `e^x`.
#[cfg(feature = "double")]
pub(super) fn exp(x: Real) -> Real {
    x.exp()
}

/// Inner product with 32 running sums.
#[inline(always)]
pub(crate) fn dot(a: &[Real], b: &[Real]) -> Real {
    let mut lanes = [0.0 as Real; 32];
    let whole = a.len().min(b.len()) / 32 * 32;
    for at in (0..whole).step_by(32) {
        let (a, b) = (&a[at..at + 32], &b[at..at + 32]);
        for lane in 0..32 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let rest: Real = a[whole..].iter().zip(&b[whole..]).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<Real>() + rest
}

/// The largest entry; `-inf` for none.
pub(crate) fn max(row: &[Real]) -> Real {
    vectorised!(max_lanes(row))
}

#[inline(always)]
fn max_lanes(row: &[Real]) -> Real {
    let mut lanes = [Real::NEG_INFINITY; 32];
    let (chunks, rest) = row.as_chunks::<32>();
    for chunk in chunks {
        for lane in 0..32 {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(rest).fold(Real::NEG_INFINITY, |a, &b| if b > a { b } else { a })
}

/// `row = e^(row - shift)`; the sum of the result.
pub(crate) fn exp_shifted(row: &mut [Real], shift: Real) -> Real {
    vectorised!(exp_sum(row, shift))
}

#[inline(always)]
fn exp_sum(row: &mut [Real], shift: Real) -> Real {
    let mut lanes = [0.0 as Real; 32];
    let (chunks, rest) = row.as_chunks_mut::<32>();
    for chunk in chunks {
        for lane in 0..32 {
            chunk[lane] = exp(chunk[lane] - shift);
            lanes[lane] += chunk[lane];
        }
    }
    let mut sum: Real = lanes.iter().sum();
    for x in rest {
        *x = exp(*x - shift);
        sum += *x;
    }
    sum
}

/// Softmax of the row in place; its log-sum-exp.
pub(crate) fn exp_normalise(row: &mut [Real]) -> Real {
    vectorised!({
        let top = max_lanes(row);
        let sum = exp_sum(row, top);
        let scale = 1.0 / sum;
        for x in row.iter_mut() {
            *x *= scale;
        }
        top + sum.ln()
    })
}

/// Attention's backward row: `scores` become probabilities, `grad` the gradient of the scores.
///
/// `grad` comes in as the gradient of the probabilities; `delta` is the inner
/// product of the output and its gradient; `scale` is the scores' factor.
pub(crate) fn probability_gradient(
    scores: &mut [Real],
    grad: &mut [Real],
    (lse, delta, scale): (Real, Real, Real),
) {
    vectorised!(for (score, grad) in scores.iter_mut().zip(grad) {
        let p = exp(*score - lse);
        *score = p;
        *grad = p * (*grad - delta) * scale;
    });
}

/// Fold one tile of logits into a running maximum, sum of exponentials and
/// sum of `e^(z - max) * (z - max)`.
pub(crate) fn tile_update(
    tile: &[Real],
    (top, sum, weighted): (Real, Real, Real),
) -> (Real, Real, Real) {
    vectorised!({
        let new_top = max_lanes(tile).max(top);
        let (mut sums, mut weights) = ([0.0 as Real; 16], [0.0 as Real; 16]);
        let (chunks, rest) = tile.as_chunks::<16>();
        for chunk in chunks {
            for lane in 0..16 {
                let z = chunk[lane] - new_top;
                let e = exp(z);
                sums[lane] += e;
                weights[lane] += e * z;
            }
        }
        let (mut tile_sum, mut tile_weight): (Real, Real) =
            (sums.iter().sum(), weights.iter().sum());
        for z in rest {
            let z = z - new_top;
            let e = exp(z);
            tile_sum += e;
            tile_weight += e * z;
        }
        if sum == 0.0 {
            (new_top, tile_sum, tile_weight)
        } else {
            let fall = top - new_top;
            let shrink = fall.exp();
            (new_top, sum * shrink + tile_sum, (weighted + sum * fall) * shrink + tile_weight)
        }
    })
}

/// A tile of one row's logits to their gradient: `pull` is that of the row's log-sum-exp, `swing`
/// that of its `entropy`, whose derivative by a logit is `-p (ln p + entropy)`.
pub(crate) fn tile_gradient(
    tile: &mut [Real],
    (lse, entropy): (Real, Real),
    (pull, swing): (Real, Real),
) {
    vectorised!(for z in tile.iter_mut() {
        let log = *z - lse;
        *z = (pull - swing * (log + entropy)) * exp(log);
    });
}
