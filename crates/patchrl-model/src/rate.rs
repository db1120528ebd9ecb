//! How fast this machine multiplies matrices: what an update's speed is a share of.

use std::time::{Duration, Instant};

use crate::Real;
use crate::kernels::cpu::{Mat, MatMut, Threads, Write, gemm, in_pool};

/// Floating-point operations a second of an f32 product of two square matrices on all threads:
/// the best of the products of `side` that fit in `time`, and of three at least.
pub fn product_rate(side: usize, time: Duration) -> f64 {
    let a: Vec<Real> = (0..side * side).map(|i| (i % 7) as Real - 3.0).collect();
    let mut out = vec![0.0; side * side];
    let (begun, mut best, mut rounds) = (Instant::now(), f64::INFINITY, 0);
    while rounds < 3 || begun.elapsed() < time {
        let start = Instant::now();
        let square = Mat::new(&a, side, side);
        in_pool(|| {
            let out = MatMut::new(&mut out, side, side);
            gemm(out, Write::Set, 1.0, (square, square), Threads::All);
        });
        best = best.min(start.elapsed().as_secs_f64());
        rounds += 1;
    }
    2.0 * (side as f64).powi(3) / best
}
