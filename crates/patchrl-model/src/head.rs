//! Log-probabilities of given tokens, streamed over tiles of the vocabulary.
//!
//! Logits never exist as a whole: the forward pass keeps one log-sum-exp per row,
//! and the backward pass makes each tile again. Only rows that predict an answer
//! token come here. Temperature divides the logits.

use rayon::prelude::*;

use crate::kernels::cpu::{Mat, MatMut, Threads, Write, gemm, tile_gradient, tile_update};
use crate::packing::Target;

/// Rows handled at once.
const ROWS: usize = 512;
/// Tokens of the vocabulary in one tile: 512 rows of 1024 logits are 2 MiB.
const TILE: usize = 1024;

/// Hidden rows, the head's matrix, and what is asked of them.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    /// (N, hidden), normalised.
    pub(crate) rows: &'a [f32],
    /// (vocab, hidden)
    pub(crate) weight: &'a [f32],
    pub(crate) hidden: usize,
    pub(crate) temperature: f32,
    /// Rows counted from `first_row`.
    pub(crate) targets: &'a [Target],
    pub(crate) first_row: usize,
}

/// What the forward pass found.
pub(crate) struct Scores {
    /// Per target.
    pub(crate) log_probs: Vec<f32>,
    /// Entropy of the distribution that each target was drawn from, per target.
    pub(crate) entropy: Vec<f32>,
    /// (N,)
    pub(crate) lse: Vec<f32>,
}

impl Head<'_> {
    /// Log-probability of every target.
    pub(crate) fn forward(&self) -> Scores {
        let count = self.rows.len() / self.hidden;
        let mut state = vec![(f32::NEG_INFINITY, 0.0_f32, 0.0_f32); count];
        let mut picked = vec![0.0; self.targets.len()];
        self.each_tile(|tile, first_row, first_token, width| {
            for (at, target) in self.targets.iter().enumerate() {
                let token = (target.token as usize).wrapping_sub(first_token);
                let row = (target.row - self.first_row).wrapping_sub(first_row);
                if token < width && row < tile.len() / width {
                    picked[at] = tile[row * width + token];
                }
            }
            let rows = tile.len() / width;
            state[first_row..first_row + rows]
                .par_iter_mut()
                .zip(tile.par_chunks_exact(width))
                .with_min_len(8)
                .for_each(|(state, tile)| *state = tile_update(tile, *state));
        });
        let lse: Vec<f32> = state.iter().map(|(top, sum, _)| top + sum.ln()).collect();
        let row = |target: &Target| target.row - self.first_row;
        let log_probs =
            self.targets.iter().zip(&picked).map(|(target, z)| z - lse[row(target)]).collect();
        let entropy = self
            .targets
            .iter()
            .map(|target| {
                let (_, sum, weighted) = state[row(target)];
                sum.ln() - weighted / sum
            })
            .collect();
        Scores { log_probs, entropy, lse }
    }

    /// Gradients from `dlogp` (per target): `drows` is overwritten, `dweight` is added to; an
    /// empty one takes no gradient.
    pub(crate) fn backward(
        &self,
        lse: &[f32],
        dlogp: &[f32],
        (drows, dweight): (&mut [f32], &mut [f32]),
    ) {
        let mut pull = vec![0.0_f32; lse.len()];
        for (target, d) in self.targets.iter().zip(dlogp) {
            pull[target.row - self.first_row] += d;
        }
        drows.fill(0.0);
        let hidden = self.hidden;
        self.each_tile(|tile, first_row, first_token, width| {
            let rows = tile.len() / width;
            tile.par_chunks_exact_mut(width)
                .zip(&lse[first_row..first_row + rows])
                .zip(&pull[first_row..first_row + rows])
                .with_min_len(8)
                .for_each(|((tile, &lse), &pull)| tile_gradient(tile, lse, -pull));
            for (target, d) in self.targets.iter().zip(dlogp) {
                let token = (target.token as usize).wrapping_sub(first_token);
                let row = (target.row - self.first_row).wrapping_sub(first_row);
                if token < width && row < rows {
                    tile[row * width + token] += d;
                }
            }
            let scale = 1.0 / self.temperature;
            let place = first_token * hidden..(first_token + width) * hidden;
            let gradient = Mat::new(tile, rows, width);
            gemm(
                MatMut::new(
                    &mut drows[first_row * hidden..(first_row + rows) * hidden],
                    rows,
                    hidden,
                ),
                Write::Add,
                scale,
                (gradient, Mat::new(&self.weight[place.clone()], width, hidden)),
                Threads::All,
            );
            if dweight.is_empty() {
                return;
            }
            gemm(
                MatMut::new(&mut dweight[place], width, hidden),
                Write::Add,
                scale,
                (gradient.t(), Mat::new(&self.rows[first_row * hidden..], rows, hidden)),
                Threads::All,
            );
        });
    }

    /// Call `visit(tile, first_row, first_token, width)` for each tile of scaled logits.
    fn each_tile(&self, mut visit: impl FnMut(&mut [f32], usize, usize, usize)) {
        let count = self.rows.len() / self.hidden;
        let vocab = self.weight.len() / self.hidden;
        let mut buffer = vec![0.0; count.min(ROWS) * TILE.min(vocab)];
        for first_row in (0..count).step_by(ROWS) {
            let rows = (count - first_row).min(ROWS);
            let hidden = Mat::new(&self.rows[first_row * self.hidden..], rows, self.hidden);
            for first_token in (0..vocab).step_by(TILE) {
                let width = (vocab - first_token).min(TILE);
                let tile = &mut buffer[..rows * width];
                let weight =
                    Mat::new(&self.weight[first_token * self.hidden..], width, self.hidden);
                let out = MatMut::new(tile, rows, width);
                gemm(out, Write::Set, 1.0 / self.temperature, (hidden, weight.t()), Threads::All);
                visit(tile, first_row, first_token, width);
            }
        }
    }
}
