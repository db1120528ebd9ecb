//! Kernels on the processor, f32.
//!
//! Loops are compiled once per instruction set and chosen at run time, so that a
//! build for plain x86-64 uses AVX2 or AVX-512 where the machine has it.

#![expect(
    clippy::inline_always,
    reason = "a kernel must be inlined into each instruction set's copy"
)]

mod activation;
mod gemm;
mod norm;
mod rope;
#[cfg(not(feature = "double"))]
mod skinny;
mod softmax;

pub(crate) use activation::{add_bias, bias_gradient, swiglu, swiglu_backward};
pub(crate) use gemm::{Mat, MatMut, Threads, Write, gemm};
pub(crate) use norm::{Heads, rms_apply, rms_backward, rms_heads, rms_heads_backward, rms_norm};
pub(crate) use rope::{Rotation, merge_heads, split_heads};
#[cfg(not(feature = "double"))]
pub(crate) use skinny::{dots, linear, weighted_sum};
pub(crate) use softmax::{
    dot, exp_normalise, exp_shifted, max, probability_gradient, tile_gradient, tile_update,
};

/// Compile `body` for each instruction set and run the best one here.
macro_rules! vectorised {
    ($body:expr) => {
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || $body,
        )
    };
}
pub(crate) use vectorised;

/// Run `work` on a thread of the pool, so that the many small parallel loops inside it
/// start without waking one.
pub(crate) fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}

/// Rows handled by one parallel job of a row-wise kernel. A constant, not a share
/// of the threads: reductions over jobs then have one order on every machine.
const ROWS_PER_JOB: usize = 32;
