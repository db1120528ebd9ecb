//! Answers for every task, counted.
//!
//! Owns the sampling of an evaluation and its counts. Does not train, and uses
//! the same prompts and the same judge as training does.

use std::time::Instant;

use patchrl_reward::{Mode, Outcome, Ready};
use patchrl_rollout::{At, Group, Roller, RolloutError};
use serde::{Deserialize, Serialize};

/// `eval:` in a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvalConfig {
    /// Answers per task.
    pub samples: u32,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f32,
    /// Tasks to measure on, at most; 0 takes all.
    pub limit: usize,
}

impl Default for EvalConfig {
    fn default() -> Self {
        Self { samples: 1, temperature: 0.0, limit: 0 }
    }
}

/// Shares of the answers that could be judged, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Answers that hold a well-formed patch.
    pub valid_diff: f64,
    /// Answers whose patch applies and changes the tree.
    pub applied: f64,
    /// Answers after which all required tests pass.
    pub resolved: f64,
    /// Answers judged: the denominator.
    pub samples: u64,
    /// Answers lost by our own fault.
    pub lost: u64,
    /// Tasks asked.
    pub tasks: u64,
    /// Wall time.
    pub seconds: f64,
}

/// Tasks sampled in one batch: bounds the memory of their key-value caches.
const TASKS_PER_BATCH: usize = 16;

/// Draws and counts.
pub struct Evaluator<'a> {
    /// Who answers and who judges.
    pub roller: Roller<'a>,
    /// Answers per task.
    pub samples: u32,
    /// Seed of the draws.
    pub seed: u64,
}

impl Evaluator<'_> {
    /// Ask every task and count. `on_token` hears the tokens drawn so far;
    /// `on_groups` gets the judged groups of each batch.
    pub fn run(
        &self,
        tasks: &[Ready],
        on_token: &mut dyn FnMut(u64),
        on_groups: &mut dyn FnMut(&[Group]),
    ) -> Result<Shares, RolloutError> {
        let started = Instant::now();
        let mut shares = Shares { tasks: tasks.len() as u64, ..Shares::default() };
        let (mut valid, mut applied, mut resolved, mut drawn) = (0_u64, 0_u64, 0_u64, 0_u64);
        // No training step has this number, so no evaluation repeats a rollout's seeds.
        let at = At { run: self.seed, step: u64::MAX, group_size: self.samples };
        for batch in tasks.chunks(TASKS_PER_BATCH) {
            let batch: Vec<&Ready> = batch.iter().collect();
            let (groups, _) = self.roller.roll(&batch, Mode::Tests, at, &mut |tokens| {
                drawn += tokens as u64;
                on_token(drawn);
            })?;
            for attempt in groups.iter().flat_map(|g| &g.attempts) {
                let judgement = &attempt.judgement;
                if judgement.reward.is_none() {
                    shares.lost += 1;
                    continue;
                }
                shares.samples += 1;
                valid += u64::from(judgement.parts.valid_diff);
                applied += u64::from(judgement.parts.applied);
                resolved += u64::from(judgement.outcome == Outcome::Resolved);
            }
            on_groups(&groups);
        }
        let n = shares.samples.max(1) as f64;
        shares.valid_diff = valid as f64 / n;
        shares.applied = applied as f64 / n;
        shares.resolved = resolved as f64 / n;
        shares.seconds = started.elapsed().as_secs_f64();
        Ok(shares)
    }
}
