//! # `apply-only`: does the patch fit?
//!
//! The second phase of a curriculum: the model must copy the lines it changes exactly.
//!
//! | | |
//! |---|---|
//! | formula | `apply` if the patch applies at the base commit *and changes the tree*; `malformed` if the answer holds no patch; else 0 |
//! | range | {`malformed`, 0, `apply`} |
//! | defaults | `apply: 0.3`, `malformed: 0` |
//! | looks at | the files that the patch names; no sandbox |
//! | source | phase 2 of the training recipe `syntax`, `apply-only`, `docker` |
//!
//! "Applies" means what `git apply` means by it: every hunk, or none. A patch that
//! leaves every file as it was earns nothing.
//!
//! ```
//! use patchrl_reward::{Mode, Outcome, Parts, RewardConfig};
//! let reward = RewardConfig::default().resolve()?;
//! let mut parts = Parts { valid_diff: true, applied: true, ..Parts::default() };
//! assert_eq!(reward.of(Mode::ApplyOnly, &Outcome::Applied, &parts, &[]), Some(0.3));
//! parts.applied = false;
//! assert_eq!(reward.of(Mode::ApplyOnly, &Outcome::Unchanged, &parts, &[]), Some(0.0));
//! # Ok::<(), patchrl_reward::RewardFault>(())
//! ```

use crate::config::Reward;
use crate::outcome::{Outcome, Parts};

pub(crate) fn value(reward: &Reward, outcome: &Outcome, parts: &Parts) -> f64 {
    if parts.applied { reward.apply } else { reward.without_patch(outcome) }
}
