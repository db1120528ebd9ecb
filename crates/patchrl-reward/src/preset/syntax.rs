//! # `syntax`: is there a patch?
//!
//! The first phase of a curriculum: a model that never writes a patch learns nothing
//! from tests.
//!
//! | | |
//! |---|---|
//! | formula | `apply` if the answer holds a well-formed unified diff or edit blocks with at least one change, else `malformed` |
//! | range | {`malformed`, `apply`} |
//! | defaults | `apply: 0.3`, `malformed: 0` |
//! | looks at | the answer's text alone |
//! | source | phase 1 of the training recipe `syntax`, `apply-only`, `docker` |
//!
//! A bare rename or mode change is no change here. Whether the patch fits the repository
//! is not asked: a diff of invented lines earns the same.
//!
//! ```
//! use patchrl_reward::{Mode, Outcome, Parts, RewardConfig};
//! let reward = RewardConfig::default().resolve()?;
//! let read = Parts { valid_diff: true, ..Parts::default() };
//! assert_eq!(reward.of(Mode::Syntax, &Outcome::WellFormed, &read, &[]), Some(0.3));
//! let prose = Outcome::Malformed { why: "no diff and no edit block".into() };
//! assert_eq!(reward.of(Mode::Syntax, &prose, &Parts::default(), &[]), Some(0.0));
//! # Ok::<(), patchrl_reward::RewardFault>(())
//! ```

use crate::config::Reward;
use crate::outcome::Parts;

pub(crate) fn value(reward: &Reward, parts: &Parts) -> f64 {
    if parts.valid_diff { reward.apply } else { reward.malformed }
}
