//! Many episodes: which tasks a step takes, groups of answers, and their record on disk.

mod embedded;
mod environment;
mod episode;
mod episodes;
mod function;
mod gold;
mod harvest;
mod record;
mod sampling;
mod seed;

pub use embedded::Embedded;
pub use environment::{Action, Environment, Info, Observation, Step};
pub use episode::{Ask, At, Attempt, Group, JudgeGroups, Prompt, Roller, Spent, chat, prompt};
pub use episodes::{EpisodeRoller, ground};
pub use function::{FunctionRoller, function_prompt};
pub use gold::{GoldFile, gold_files, gold_script};
pub use harvest::{Counts, Harvest, Harvested, Keep, Provenance, list_path};
pub use record::{Record, forget_after, records_path, write_records};
pub use sampling::SamplingConfig;
pub use seed::{items_of_step, order, replacements, sample_seed};

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
    Policy(#[from] patchrl_agent::PolicyFault),
    /// A problem of one function whose id cannot name anything.
    #[error("the id of problem `{0}` is not made of letters, digits, `_`, `.`, `-`, `+` and `/`")]
    ProblemId(String),
}

impl RolloutError {
    /// What the user can do now, where only they can.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Policy(patchrl_agent::PolicyFault::Fatal { hint, .. }) => Some(hint),
            _ => None,
        }
    }
}
