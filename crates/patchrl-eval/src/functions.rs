//! Answers to problems of one function, counted.

use std::time::Instant;

use patchrl_reward::{Outcome, Problem};
use patchrl_rollout::{At, FunctionRoller, RolloutError};

/// Shares of the answers that could be judged, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FunctionShares {
    /// Answers whose code Python can read.
    pub compiles: f64,
    /// Answers whose code comes to its end.
    pub runs: f64,
    /// Answers that pass every assertion.
    pub passes: f64,
    /// Answers judged: the denominator.
    pub samples: u64,
    /// Answers lost by our own fault.
    pub lost: u64,
    /// Wall time.
    pub seconds: f64,
}

/// Problems sampled in one batch: bounds the memory of their key-value caches.
const BATCH: usize = 32;

/// Ask every problem `samples` times and count. `on_token` hears the tokens drawn so far.
pub fn function_shares(
    roller: &FunctionRoller<'_>,
    problems: &[&Problem],
    (seed, samples): (u64, u32),
    on_token: &mut dyn FnMut(u64),
) -> Result<FunctionShares, RolloutError> {
    let started = Instant::now();
    let (mut counts, mut lost, mut judged, mut drawn) = ([0_u64; 3], 0, 0, 0);
    // No training step has this number, so no evaluation repeats a rollout's seeds.
    let at = At { run: seed, step: u64::MAX, group_size: samples };
    for batch in problems.chunks(BATCH) {
        let (groups, _) = roller.roll(batch, at, &mut |tokens| {
            drawn += tokens as u64;
            on_token(drawn);
        })?;
        for attempt in groups.iter().flat_map(|group| &group.attempts) {
            let judgement = &attempt.judgement;
            if judgement.reward.is_none() {
                lost += 1;
                continue;
            }
            judged += 1;
            counts[0] += u64::from(judgement.parts.valid_diff);
            counts[1] += u64::from(judgement.parts.applied);
            counts[2] += u64::from(judgement.outcome == Outcome::Resolved);
        }
    }
    let [compiles, runs, passes] = counts.map(|count| count as f64 / judged.max(1) as f64);
    let seconds = started.elapsed().as_secs_f64();
    Ok(FunctionShares { compiles, runs, passes, samples: judged, lost, seconds })
}
