//! # `tests` (also `docker`): how many tests pass?
//!
//! The third phase of a curriculum: applying still earns a part, and each required test
//! earns its share.
//!
//! | | |
//! |---|---|
//! | formula | `apply * applied + tests * f2p_passed / f2p_total - regression_penalty * p2p_broken / p2p_total`; `malformed` if the answer holds no patch, 0 if it does not apply or changes nothing |
//! | range | from -`regression_penalty` to `apply + tests` |
//! | defaults | `apply: 0.3`, `tests: 0.7`, `regression_penalty: 0`, `malformed: 0` |
//! | looks at | the answer, the files, and one run of the task's tests in the sandbox |
//! | source | phase 3 of the training recipe `syntax`, `apply-only`, `docker` |
//!
//! With the defaults: 0 for no patch, 0.3 applies only, 0.65 half of the tests, 1.0 all.
//! A broken `PASS_TO_PASS` test keeps the outcome from `resolved`; it costs something
//! only with a penalty. A time-out counts as applied with no test passed and every
//! `PASS_TO_PASS` test broken. An answer that works on the judge instead of the problem
//! (`cheated`) gets 0, or `malformed` where that is below 0.
//!
//! ```
//! use patchrl_reward::{Mode, Outcome, Parts, RewardConfig};
//! let half = Parts {
//!     valid_diff: true, applied: true,
//!     f2p_passed: 1, f2p_total: 2, p2p_passed: 3, p2p_total: 4,
//! };
//! let reward = RewardConfig::default().resolve()?;
//! let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
//! assert!(close(reward.of(Mode::Tests, &Outcome::Failed, &half, &[]), 0.65));
//! let strict = RewardConfig { regression_penalty: 0.4, ..RewardConfig::default() }.resolve()?;
//! assert!(close(strict.of(Mode::Tests, &Outcome::Failed, &half, &[]), 0.55));
//! let lost = Outcome::Lost { why: "no space left".into() };
//! assert_eq!(reward.of(Mode::Tests, &lost, &half, &[]), None);
//! # Ok::<(), patchrl_reward::RewardFault>(())
//! ```

use crate::config::Reward;
use crate::outcome::{Outcome, Parts};

pub(crate) fn value(reward: &Reward, outcome: &Outcome, parts: &Parts) -> f64 {
    if !parts.applied {
        return reward.without_patch(outcome);
    }
    reward.apply + reward.tests * parts.f2p_share() - reward.regression_penalty * parts.p2p_broken()
}
