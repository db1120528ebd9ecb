//! Log-probabilities of given tokens, streamed over tiles of the vocabulary.
//!
//! The forward pass keeps one log-sum-exp per row, and the logits themselves only where they
//! are few; else the backward pass makes each tile again. Only rows that predict an answer
//! token come here. Temperature divides the logits.

use rayon::prelude::*;

use crate::Real;
use crate::kernels::cpu::{Mat, MatMut, Threads, Write, gemm, tile_gradient, tile_update};
use crate::packing::Target;

/// Rows handled at once.
const ROWS: usize = 512;
/// Tokens of the vocabulary in one tile: 512 rows of 1024 logits are 2 MiB.
const TILE: usize = 1024;
/// Logits that a forward pass may keep: 256 MiB of them.
pub(crate) const KEPT: usize = 1 << 26;

/// Hidden rows, the head's matrix, and what is asked of them.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    /// (N, hidden), normalised.
    pub(crate) rows: &'a [Real],
    /// (vocab, hidden)
    pub(crate) weight: &'a [Real],
    pub(crate) hidden: usize,
    pub(crate) temperature: Real,
    /// Rows counted from `first_row`.
    pub(crate) targets: &'a [Target],
    pub(crate) first_row: usize,
}

/// What the forward pass found.
pub(crate) struct Scores {
    /// Per target.
    pub(crate) log_probs: Vec<Real>,
    /// Entropy of the distribution that each target was drawn from, per target.
    pub(crate) entropy: Vec<Real>,
    /// (N,)
    lse: Vec<Real>,
    logits: Logits,
}

/// Scaled logits: all tiles one after the other, or room for one.
struct Logits {
    tiles: Vec<Real>,
    whole: bool,
    made: bool,
}

/// The derivatives of a loss, per target.
#[derive(Clone, Copy)]
pub(crate) struct Slopes<'a> {
    /// By the log-probability.
    pub(crate) logp: &'a [Real],
    /// By the entropy; empty for none.
    pub(crate) entropy: &'a [Real],
}

impl Head<'_> {
    /// Log-probability of every target. With `keep`, few logits stay for the backward pass.
    pub(crate) fn forward(&self, keep: bool) -> Scores {
        let count = self.rows.len() / self.hidden;
        let vocab = self.weight.len() / self.hidden;
        let whole = keep && count * vocab <= KEPT;
        let room = if whole { count * vocab } else { count.min(ROWS) * TILE.min(vocab) };
        let mut logits = Logits { tiles: vec![0.0; room], whole, made: false };
        let mut state = vec![(Real::NEG_INFINITY, 0.0 as Real, 0.0 as Real); count];
        let mut picked = vec![0.0; self.targets.len()];
        self.each_tile(&mut logits, |tile, first_row, first_token, width| {
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
        let lse: Vec<Real> = state.iter().map(|(top, sum, _)| top + sum.ln()).collect();
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
        Scores { log_probs, entropy, lse, logits }
    }

    /// Gradients from `slopes`: `drows` is overwritten, `dweight` is added to; an empty one
    /// takes no gradient. The logits that `scores` kept are used up.
    pub(crate) fn backward(
        &self,
        Scores { entropy, lse, mut logits, .. }: Scores,
        slopes: Slopes<'_>,
        (drows, dweight): (&mut [Real], &mut [Real]),
    ) {
        // Entropy, and the derivatives by log-sum-exp and entropy, of each row.
        let mut by_row = vec![(0.0 as Real, (0.0 as Real, 0.0 as Real)); lse.len()];
        for (at, (target, d)) in self.targets.iter().zip(slopes.logp).enumerate() {
            let (own, (pull, swing)) = &mut by_row[target.row - self.first_row];
            *own = entropy[at];
            *pull -= d;
            *swing += slopes.entropy.get(at).unwrap_or(&0.0);
        }
        drows.fill(0.0);
        let hidden = self.hidden;
        self.each_tile(&mut logits, |tile, first_row, first_token, width| {
            let rows = tile.len() / width;
            tile.par_chunks_exact_mut(width)
                .zip(&lse[first_row..first_row + rows])
                .zip(&by_row[first_row..first_row + rows])
                .with_min_len(8)
                .for_each(|((tile, &lse), &(own, by))| tile_gradient(tile, (lse, own), by));
            for (target, d) in self.targets.iter().zip(slopes.logp) {
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
    /// What `logits` holds already is not made again.
    fn each_tile(
        &self,
        logits: &mut Logits,
        mut visit: impl FnMut(&mut [Real], usize, usize, usize),
    ) {
        let count = self.rows.len() / self.hidden;
        let vocab = self.weight.len() / self.hidden;
        let mut start = 0;
        for first_row in (0..count).step_by(ROWS) {
            let rows = (count - first_row).min(ROWS);
            let hidden = Mat::new(&self.rows[first_row * self.hidden..], rows, self.hidden);
            for first_token in (0..vocab).step_by(TILE) {
                let width = (vocab - first_token).min(TILE);
                let tile = &mut logits.tiles[start..start + rows * width];
                if logits.whole {
                    start += tile.len();
                }
                if !logits.made {
                    let weight =
                        Mat::new(&self.weight[first_token * self.hidden..], width, self.hidden);
                    let product = (hidden, weight.t());
                    let out = MatMut::new(tile, rows, width);
                    gemm(out, Write::Set, 1.0 / self.temperature, product, Threads::All);
                }
                visit(tile, first_row, first_token, width);
            }
        }
        logits.made = logits.whole;
    }
}
