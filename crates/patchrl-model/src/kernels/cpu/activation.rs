//! `SwiGLU` and biases, forward and backward.

use crate::Real;
use rayon::prelude::*;

use super::softmax::exp;
use super::{ROWS_PER_JOB, vectorised};

/// `out = silu(gate) * up`; a row of `gate_up` is gate, then up. `out` is (rows, `ffn`).
pub(crate) fn swiglu(out: &mut [Real], gate_up: &[Real], ffn: usize) {
    out.par_chunks_exact_mut(ffn).zip(gate_up.par_chunks_exact(2 * ffn)).with_min_len(4).for_each(
        |(out, row)| {
            let (gate, up) = row.split_at(ffn);
            vectorised!(for ((out, g), u) in out.iter_mut().zip(gate).zip(up) {
                *out = g / (1.0 + exp(-g)) * u;
            });
        },
    );
}

/// The gradient of [`swiglu`], and its output again.
///
/// `act` (rows, `ffn`) comes in as the gradient of the output and leaves as the
/// output; `gate_up` (rows, 2 `ffn`) leaves as its own gradient.
pub(crate) fn swiglu_backward(act: &mut [Real], gate_up: &mut [Real], ffn: usize) {
    act.par_chunks_exact_mut(ffn)
        .zip(gate_up.par_chunks_exact_mut(2 * ffn))
        .with_min_len(4)
        .for_each(|(act, row)| {
            let (gate, up) = row.split_at_mut(ffn);
            vectorised!(for ((act, gate), up) in act.iter_mut().zip(gate).zip(up) {
                let (g, u, dy) = (*gate, *up, *act);
                let sigmoid = 1.0 / (1.0 + exp(-g));
                let silu = g * sigmoid;
                *act = silu * u;
                *gate = dy * u * sigmoid * (1.0 + g * (1.0 - sigmoid));
                *up = dy * silu;
            });
        });
}

/// Add `bias` to every row. An empty bias is none.
pub(crate) fn add_bias(rows: &mut [Real], bias: &[Real]) {
    if bias.is_empty() {
        return;
    }
    rows.par_chunks_exact_mut(bias.len()).with_min_len(ROWS_PER_JOB).for_each(|row| {
        vectorised!(for (x, b) in row.iter_mut().zip(bias) {
            *x += b;
        });
    });
}

/// Add the sum over rows of `drows` to `dbias`.
pub(crate) fn bias_gradient(dbias: &mut [Real], drows: &[Real]) {
    if dbias.is_empty() {
        return;
    }
    for row in drows.chunks_exact(dbias.len()) {
        vectorised!(for (sum, d) in dbias.iter_mut().zip(row) {
            *sum += d;
        });
    }
}
