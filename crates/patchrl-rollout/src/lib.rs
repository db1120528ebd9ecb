//! Many episodes: which tasks a step takes, groups of answers from weights here or a server, how new
//! weights reach a server, and the record on disk.

mod config;
mod drawer;
mod embedded;
mod environment;
mod episode;
mod episodes;
mod function;
mod gold;
mod handover;
mod harvest;
pub mod openai;
mod record;
mod remote;
mod sampling;
mod seed;

pub use config::{Api, Engine, HandoverKind, RolloutConfig, Server};
pub use drawer::{Drawer, Drawn, Origin, Player};
pub use embedded::Embedded;
pub use environment::{Action, Environment, Info, Observation, Step};
pub use episode::{Ask, At, Attempt, Group, JudgeGroups, Prompt, Roller, Spent, chat, prompt};
pub use episodes::{EpisodeRoller, ground};
pub use function::{FunctionRoller, function_prompt};
pub use gold::{GoldFile, gold_files, gold_script};
pub use handover::Handover;
pub use harvest::{Counts, Harvest, Harvested, Keep, Provenance, list_path};
pub use record::{Record, forget_after, records_path, write_records};
pub use remote::Remote;
pub use sampling::SamplingConfig;
pub use seed::{items_of_step, order, replacements, sample_seed};

use patchrl_agent::PolicyFault;

/// Why a batch of rollouts could not be made. Never the model's fault.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The engine refused.
    #[error(transparent)]
    Model(#[from] patchrl_model::ModelError),
    /// The task's files could not be read, or a record not written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A policy will never answer until something is changed.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
    /// A problem of one function whose id cannot name anything.
    #[error("the id of problem `{0}` is not made of letters, digits, `_`, `.`, `-`, `+` and `/`")]
    ProblemId(String),
}

impl RolloutError {
    /// Whether the user must change something, as opposed to us or the machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Policy(PolicyFault::Fatal { .. }) | Self::ProblemId(_))
    }

    /// What the user can do now.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Policy(PolicyFault::Fatal { hint, .. }) => Some(hint.clone()),
            Self::Model(error) => error.hint(),
            Self::File(_) | Self::ProblemId(_) | Self::Policy(_) => None,
        }
    }
}
