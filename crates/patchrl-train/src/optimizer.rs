//! AdamW with clipping by the global norm, over one flat buffer of parameters.
//!
//! Owns the moments. Does not own the parameters or the gradients.
//! Formula: Loshchilov and Hutter (arXiv 1711.05101), decay decoupled.

use std::ops::Range;

use patchrl_model::Params;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Constants of AdamW. The learning rate comes with each step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Decoupled decay, applied to matrices; norms are left alone.
    pub weight_decay: f32,
    /// Gradients longer than this (L2 over all tensors) are scaled down to it.
    pub max_grad_norm: f32,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, max_grad_norm: 1.0 }
    }
}

/// AdamW's memory: two moments per parameter and the number of steps taken.
pub struct AdamW {
    config: AdamWConfig,
    /// First moments, (N,).
    pub(crate) first: Vec<f32>,
    /// Second moments, (N,).
    pub(crate) second: Vec<f32>,
    /// Steps taken; the bias correction needs it.
    pub(crate) steps: u64,
}

/// Elements handled by one task. Sums are taken per chunk and then in order, so
/// the norm has the same bits whatever the thread count.
const CHUNK: usize = 1 << 16;

impl AdamW {
    /// Moments of zero for `parameters` parameters.
    pub fn new(config: AdamWConfig, parameters: usize) -> Self {
        Self { config, first: vec![0.0; parameters], second: vec![0.0; parameters], steps: 0 }
    }

    /// One step. All slices are (N,); `decays` says which parameters decay.
    /// Returns the gradient's norm before clipping. The gradient is left as it
    /// is for the caller to clear.
    ///
    /// # Errors
    /// A norm that is not finite changes nothing and is returned as an error.
    ///
    /// # Panics
    /// If the slices are not all as long as the moments.
    pub fn step(
        &mut self,
        params: &mut [f32],
        grads: &[f32],
        decays: &[Range<usize>],
        lr: f32,
    ) -> Result<f32, NotFinite> {
        assert_eq!(params.len(), self.first.len(), "the moments belong to these parameters");
        assert_eq!(params.len(), grads.len(), "one gradient per parameter");
        let norm = norm(grads);
        if !norm.is_finite() {
            return Err(NotFinite);
        }
        let c = self.config;
        let scale = if norm > c.max_grad_norm { c.max_grad_norm / norm } else { 1.0 };
        self.steps += 1;
        let t = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let correction1 = 1.0 - c.beta1.powi(t);
        let correction2 = 1.0 - c.beta2.powi(t);
        if c.weight_decay > 0.0 {
            for range in decays {
                params[range.clone()].par_iter_mut().for_each(|w| *w -= lr * c.weight_decay * *w);
            }
        }
        params
            .par_chunks_mut(CHUNK)
            .zip(grads.par_chunks(CHUNK))
            .zip(self.first.par_chunks_mut(CHUNK))
            .zip(self.second.par_chunks_mut(CHUNK))
            .for_each(|(((w, g), m), v)| {
                for i in 0..w.len() {
                    let g = g[i] * scale;
                    m[i] = c.beta1 * m[i] + (1.0 - c.beta1) * g;
                    v[i] = c.beta2 * v[i] + (1.0 - c.beta2) * g * g;
                    let step = (m[i] / correction1) / ((v[i] / correction2).sqrt() + c.eps);
                    w[i] -= lr * step;
                }
            });
        Ok(norm)
    }
}

/// The gradient holds an infinity or a NaN, so no step was taken.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the gradient is not finite, so the step was not taken")]
pub struct NotFinite;

/// Where the matrices lie: what weight decay applies to. Norms and biases are left alone.
pub(crate) fn matrices(params: &Params) -> Vec<Range<usize>> {
    params.tensors().filter(|(_, _, shape)| shape.len() > 1).map(|(_, range, _)| range).collect()
}

/// L2 norm over all gradients, summed in float64 in a fixed order.
fn norm(grads: &[f32]) -> f32 {
    let sums: Vec<f64> = grads
        .par_chunks(CHUNK)
        .map(|chunk| chunk.iter().map(|&g| f64::from(g) * f64::from(g)).sum())
        .collect();
    sums.iter().sum::<f64>().sqrt() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_steps_match_torch() {
        // torch.optim.AdamW([1., -2.], lr=0.1, weight_decay=0.01) on gradients [0.5, -1.0],
        // [0.1, 0.2], [-0.3, 0.4] without clipping, float64, rounded.
        let config = AdamWConfig { weight_decay: 0.01, max_grad_norm: 1e9, ..Default::default() };
        let mut adam = AdamW::new(config, 2);
        let mut w = [1.0_f32, -2.0];
        let whole = vec![Range { start: 0, end: 2 }];
        for g in [[0.5_f32, -1.0], [0.1, 0.2], [-0.3, 0.4]] {
            adam.step(&mut w, &g, &whole, 0.1).expect("finite");
        }
        let want = [0.795_908, -1.829_73];
        for (got, want) in w.iter().zip(want) {
            assert!((got - want).abs() < 2e-5, "{got} is not {want}");
        }
    }

    #[test]
    fn a_long_gradient_is_scaled_to_the_limit() {
        let mut a = AdamW::new(AdamWConfig::default(), 2);
        let mut b = AdamW::new(AdamWConfig::default(), 2);
        let (mut wa, mut wb) = ([1.0_f32, 1.0], [1.0_f32, 1.0]);
        let norm = a.step(&mut wa, &[30.0, 40.0], &[], 0.1).expect("finite");
        b.step(&mut wb, &[0.6, 0.8], &[], 0.1).expect("finite");
        assert!((norm - 50.0).abs() < 1e-4);
        assert!((a.first[0] - b.first[0]).abs() < 1e-7, "moments see the clipped gradient");
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let mut adam = AdamW::new(AdamWConfig::default(), 1);
        let mut w = [1.0_f32];
        assert!(adam.step(&mut w, &[f32::NAN], &[], 0.1).is_err());
        assert_eq!((w, adam.steps), ([1.0], 0));
    }
}
