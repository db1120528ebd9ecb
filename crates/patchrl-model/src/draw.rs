//! One token out of one row of logits.
//!
//! Owns temperature, top-k and top-p. A draw is a function of
//! the row, the seed and the token's place in its answer, and of nothing else.

use crate::Sampling;
use crate::kernels::cpu::{exp_shifted, max};

/// Entries whose sum is looked at as one when a draw is located.
const STRIDE: usize = 256;

/// A token and its log-probability under the whole distribution.
pub(crate) struct Drawn {
    pub(crate) token: u32,
    pub(crate) log_prob: f32,
}

/// Draw from `logits` (vocab,), which are overwritten. `None` if they are not finite.
pub(crate) fn draw(logits: &mut [f32], sampling: &Sampling, uniform: f64) -> Option<Drawn> {
    if sampling.temperature == 0.0 {
        return most_likely(logits);
    }
    let scale = 1.0 / sampling.temperature;
    for z in logits.iter_mut() {
        *z *= scale;
    }
    let sum = exp_shifted(logits, max(logits));
    if !sum.is_finite() {
        return None;
    }
    let weights = &*logits;
    let truncated = (sampling.top_k > 0 && sampling.top_k < weights.len()) || sampling.top_p < 1.0;
    let token = if truncated {
        let kept = nucleus(weights, sampling);
        let total: f64 = kept.iter().map(|&at| f64::from(weights[at as usize])).sum();
        locate(kept.iter().map(|&at| (at, f64::from(weights[at as usize]))), uniform * total)?
    } else {
        anywhere(weights, uniform)?
    };
    Some(Drawn { token, log_prob: (weights[token as usize] / sum).ln() })
}

/// The first of the largest logits, with its log-probability at temperature 1.
fn most_likely(logits: &mut [f32]) -> Option<Drawn> {
    let top = max(logits);
    let token = logits.iter().position(|&z| z >= top)?;
    let sum = exp_shifted(logits, top);
    sum.is_finite().then(|| Drawn { token: token as u32, log_prob: -sum.ln() })
}

/// Tokens that top-k and then top-p keep, most likely first; equals go by their id.
fn nucleus(weights: &[f32], sampling: &Sampling) -> Vec<u32> {
    let order = |a: &u32, b: &u32| {
        weights[*b as usize].total_cmp(&weights[*a as usize]).then_with(|| a.cmp(b))
    };
    let mut kept: Vec<u32>;
    if sampling.top_k > 0 && sampling.top_k < weights.len() {
        kept = (0..weights.len() as u32).collect();
        kept.select_nth_unstable_by(sampling.top_k - 1, order);
        kept.truncate(sampling.top_k);
    } else {
        // Entries below (1 - p) / vocab of the whole add up to less than 1 - p, so the set
        // that reaches p is among the others. Half of it leaves room for rounding.
        let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let least = 0.5 * (1.0 - f64::from(sampling.top_p)) * sum / weights.len() as f64;
        let likely = |at: &u32| f64::from(weights[*at as usize]) >= least;
        kept = (0..weights.len() as u32).filter(likely).collect();
    }
    kept.sort_unstable_by(order);
    if sampling.top_p < 1.0 {
        let total: f64 = if sampling.top_k > 0 {
            kept.iter().map(|&at| f64::from(weights[at as usize])).sum()
        } else {
            weights.iter().map(|&w| f64::from(w)).sum()
        };
        let mut reached = 0.0;
        let enough = kept.iter().position(|&at| {
            reached += f64::from(weights[at as usize]);
            reached >= f64::from(sampling.top_p) * total
        });
        kept.truncate(enough.map_or(kept.len(), |at| at + 1));
    }
    kept
}

/// A draw from all of the weights, by id.
fn anywhere(weights: &[f32], uniform: f64) -> Option<u32> {
    let sums: Vec<f64> =
        weights.chunks(STRIDE).map(|chunk| f64::from(chunk.iter().sum::<f32>())).collect();
    let mut left = uniform * sums.iter().sum::<f64>();
    let mut chunk = 0;
    while chunk + 1 < sums.len() && left >= sums[chunk] {
        left -= sums[chunk];
        chunk += 1;
    }
    let first = chunk * STRIDE;
    let inside = weights[first..].iter().take(STRIDE).enumerate();
    locate(inside.map(|(at, &w)| ((first + at) as u32, f64::from(w))), left)
}

/// The entry in which the running sum passes `point`; the last one if rounding hides it.
fn locate(entries: impl Iterator<Item = (u32, f64)>, point: f64) -> Option<u32> {
    let mut reached = 0.0;
    let mut last = None;
    for (token, weight) in entries {
        reached += weight;
        last = Some(token);
        if reached > point {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniform::uniform;

    fn sampling(temperature: f32, top_k: usize, top_p: f32) -> Sampling {
        Sampling { temperature, top_p, top_k, max_new_tokens: 1, stop: Vec::new() }
    }

    #[test]
    fn truncation_keeps_the_smallest_set_that_reaches_top_p() {
        let weights = [0.05, 0.5, 0.1, 0.3, 0.05];
        assert_eq!(nucleus(&weights, &sampling(1.0, 0, 0.75)), [1, 3]);
        assert_eq!(nucleus(&weights, &sampling(1.0, 3, 1.0)), [1, 3, 2]);
        assert_eq!(nucleus(&weights, &sampling(1.0, 2, 0.6)), [1]);
        assert_eq!(nucleus(&weights, &sampling(1.0, 4, 1.0)), [1, 3, 2, 0]);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let logits: Vec<f32> = (0..600).map(|at| ((at * 37) % 11) as f32 * 0.3).collect();
        let total: f64 = logits.iter().map(|z| f64::from(z / 0.7).exp()).sum();
        let mut counts = vec![0_u32; logits.len()];
        let draws = 20_000;
        for at in 0..draws {
            let drawn = draw(&mut logits.clone(), &sampling(0.7, 0, 1.0), uniform(9, at)).unwrap();
            let log_prob = f64::from(logits[drawn.token as usize] / 0.7) - total.ln();
            assert!((f64::from(drawn.log_prob) - log_prob).abs() < 1e-4);
            counts[drawn.token as usize] += 1;
        }
        // Chi-square with 599 degrees of freedom: mean 599, deviation 35.
        let chi: f64 = counts
            .iter()
            .zip(&logits)
            .map(|(&count, z)| {
                let want = f64::from(z / 0.7).exp() / total * draws as f64;
                (f64::from(count) - want).powi(2) / want
            })
            .sum();
        assert!(chi < 599.0 + 5.0 * 35.0, "chi-square {chi}");
    }

    #[test]
    fn logits_that_are_not_finite_are_refused() {
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(draw(&mut [0.0, bad, 1.0], &sampling(1.0, 0, 1.0), 0.5).is_none());
        }
        assert!(draw(&mut [f32::NAN; 3], &sampling(0.0, 0, 1.0), 0.5).is_none());
    }
}
