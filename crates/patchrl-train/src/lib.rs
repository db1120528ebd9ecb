//! Change the weights: supervised warm-up, GRPO, the optimizer, checkpoints, and a whole run.

mod checkpoint;
mod config;
mod groups;
pub mod grpo;
mod optimizer;
mod run;
mod schedule;
mod sft;

use std::io;
use std::path::{Path, PathBuf};

pub use checkpoint::{Checkpoints, State};
pub use config::{PhaseConfig, SftConfig, TrainConfig};
pub use grpo::GrpoConfig;
pub use optimizer::{AdamW, AdamWConfig};
pub use run::{Listener, Run, Start};
pub use schedule::linear_warmup;
pub use sft::{Example, SftUpdate, sft_step};

/// Why a run stopped. The last whole checkpoint is always still there.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The engine or a model file.
    #[error(transparent)]
    Model(#[from] patchrl_model::ModelError),
    /// Sampling, prompts or rollout records.
    #[error(transparent)]
    Rollout(#[from] patchrl_rollout::RolloutError),
    /// Journal or metrics.
    #[error(transparent)]
    Telemetry(#[from] patchrl_telemetry::TelemetryError),
    /// The step would have destroyed the weights.
    #[error(transparent)]
    NotFinite(#[from] optimizer::NotFinite),
    /// A checkpoint could not be written or read.
    #[error("cannot write or read the checkpoint `{path}`")]
    Checkpoint {
        /// Which one.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// `--resume` under other settings.
    #[error("the checkpoint `{0}` belongs to another configuration")]
    OtherConfig(PathBuf),
    /// Nothing to train on.
    #[error("no task is left to train on")]
    NoTasks,
    /// Warm-up asked for, and no gold patch can be said as an answer.
    #[error(
        "no task has a gold patch that can be written as an answer, so nothing can be learnt by SFT"
    )]
    NoExamples,
}

impl TrainError {
    pub(crate) fn checkpoint(path: &Path, source: io::Error) -> Self {
        Self::Checkpoint { path: path.to_owned(), source }
    }

    /// Whether the user must change something, as opposed to us or the machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::OtherConfig(_) | Self::NoTasks | Self::NoExamples)
    }

    /// What the user can do now.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Checkpoint { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, then run the same command with `--resume`: the last whole checkpoint is untouched".into())
            }
            Self::NotFinite(_) => Some("lower `--lr`, then `--resume` from the last checkpoint".into()),
            Self::OtherConfig(_) => {
                Some("use the settings in the run's config.yaml, or another `--run`".into())
            }
            Self::NoTasks => Some("run `patchrl task stats` to see what the file holds".into()),
            Self::NoExamples => Some("set `sft.steps: 0`".into()),
            _ => None,
        }
    }
}
