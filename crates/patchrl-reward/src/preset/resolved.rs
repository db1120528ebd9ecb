//! # `resolved`: all or nothing
//!
//! What a benchmark counts, as a reward.
//!
//! | | |
//! |---|---|
//! | formula | 1 if every `FAIL_TO_PASS` and every `PASS_TO_PASS` test passes; `malformed` if the answer holds no patch; else `0 - regression_penalty * p2p_broken / p2p_total` |
//! | range | from `min(malformed, -regression_penalty)` to 1 |
//! | defaults | `malformed: 0` (-1 is common), `regression_penalty: 0` |
//! | looks at | the answer, the files, and one run of the task's tests in the sandbox |
//! | source | what most trainers on software tasks use: outcome only, with -1 for a format error in some |
//!
//! Gives no signal on a task that no answer of the group solves.
//!
//! ```
//! use patchrl_reward::{Mode, Outcome, Parts, RewardConfig};
//! let reward = RewardConfig { malformed: Some(-1.0), ..RewardConfig::default() }.resolve()?;
//! let parts = Parts { valid_diff: true, applied: true, ..Parts::default() };
//! assert_eq!(reward.of(Mode::Resolved, &Outcome::Resolved, &parts, &[]), Some(1.0));
//! assert_eq!(reward.of(Mode::Resolved, &Outcome::Failed, &parts, &[]), Some(0.0));
//! let prose = Outcome::Malformed { why: "no diff and no edit block".into() };
//! assert_eq!(reward.of(Mode::Resolved, &prose, &Parts::default(), &[]), Some(-1.0));
//! # Ok::<(), patchrl_reward::RewardFault>(())
//! ```

use crate::config::Reward;
use crate::outcome::{Outcome, Parts};

pub(crate) fn value(reward: &Reward, outcome: &Outcome, parts: &Parts) -> f64 {
    match outcome {
        Outcome::Resolved => 1.0,
        _ if !parts.applied => reward.without_patch(outcome),
        _ => 0.0 - reward.regression_penalty * parts.p2p_broken(),
    }
}
