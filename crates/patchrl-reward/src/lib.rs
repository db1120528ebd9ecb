//! From a patch to a number and its reasons.
//!
//! Open [`Preparer`] to make a task ready, [`Judge`] to judge answers to it, [`preset`] for
//! the rewards and their formulas, [`swerl`] for the reward of the SWE-RL paper on texts,
//! [`score`] for rewards that need no task, [`Checker`] for problems of one function,
//! [`harness`] for the SWE-bench harness's verdict.

mod component;
mod config;
mod error;
mod functions;
mod guard;
pub mod harness;
mod judge;
mod outcome;
mod prepare;
pub mod preset;
mod python;
pub mod score;
mod suite;
pub mod swerl;
mod tree;
mod validate;

pub use component::{ComponentConfig, Form, Function};
pub use config::{Reward, RewardConfig, RewardFault};
pub use error::PrepareError;
pub use functions::{Checked, Checker, NoProblem, Problem, Shaping, code_of};
pub use guard::{CodePolicy, FilePolicy, Guard, GuardConfig, PresetGuard};
pub use judge::{Answer, Judge, Settings, Work};
pub use outcome::{Component, Evidence, Judgement, Outcome, Parts};
pub use prepare::{Preparer, Ready};
pub use preset::{Mode, UnknownMode};
pub use tree::FsTree;
pub use validate::{Fitness, Validation, validate};
