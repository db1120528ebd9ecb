//! From a patch to a number and its reasons.
//!
//! Open [`Preparer`] to make a task ready, [`Judge`] to judge answers to it, [`swerl`]
//! for the reward of the SWE-RL paper, [`score`] for rewards that need no task.

mod chain;
mod combine;
mod error;
mod guard;
mod judge;
mod outcome;
mod prepare;
pub mod score;
mod suite;
pub mod swerl;
mod tree;
mod validate;

pub use chain::{Blob, Chain, ChainError, Chained, Step};
pub use combine::{Mode, UnknownMode, Weights};
pub use error::PrepareError;
pub use guard::Guard;
pub use judge::{Answer, Judge, Settings};
pub use outcome::{Evidence, Judgement, Outcome, Parts};
pub use prepare::{Preparer, Ready};
pub use tree::FsTree;
pub use validate::{Validation, validate};
