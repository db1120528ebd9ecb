//! Change the weights: pretraining, supervised training, GRPO, the optimizer, checkpoints, and a
//! whole run.

mod chats;
mod checkpoint;
mod config;
mod groups;
pub mod grpo;
mod lessons;
mod material;
mod optimizer;
mod run;
mod schedule;
mod sft;
mod text;

use std::io;
use std::path::{Path, PathBuf};

pub use chats::Chats;
pub use checkpoint::{Checkpoints, State};
pub use config::{
    MbppConfig, PhaseConfig, PretrainConfig, SftConfig, TrainConfig, ValidationConfig,
};
pub use grpo::GrpoConfig;
pub use lessons::{HeldOutLoss, held_out_loss};
pub use material::Material;
pub use optimizer::{AdamW, AdamWConfig};
pub use run::{Listener, Run, Start};
pub use schedule::linear_warmup;
pub use sft::{Example, SftUpdate, sft_loss, sft_step};
pub use text::{Text, TextConfig};

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
    /// Text or chats that cannot be used.
    #[error("`{path}`: {why}")]
    Data {
        /// File or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The tokenizer has no token that ends anything.
    #[error("the model's tokenizer has no end-of-text token to put between documents")]
    NoSeparator,
    /// Nothing to train on.
    #[error("no task is left to train on")]
    NoTasks,
    /// Supervised training asked for, and no gold patch can be said as an answer, or no chat fits.
    #[error(
        "nothing can be learnt by SFT: no task has a gold patch that can be written as an answer, \
         or every chat is longer than `sft.max_tokens`"
    )]
    NoExamples,
}

impl TrainError {
    pub(crate) fn data(path: &Path, why: String) -> Self {
        Self::Data { path: path.to_owned(), why }
    }

    pub(crate) fn checkpoint(path: &Path, source: io::Error) -> Self {
        Self::Checkpoint { path: path.to_owned(), source }
    }

    /// Whether the user must change something, as opposed to us or the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::OtherConfig(_)
                | Self::NoTasks
                | Self::NoExamples
                | Self::NoSeparator
                | Self::Data { .. }
        )
    }

    /// What the user can do now.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Checkpoint { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, then run the same command with `--resume`: the last whole checkpoint is untouched".into())
            }
            Self::Rollout(error) => error.hint().map(str::to_owned),
            Self::NotFinite(_) => Some("lower `--lr`, then `--resume` from the last checkpoint".into()),
            Self::OtherConfig(_) => {
                Some("use the settings in the run's config.yaml, or another `--run`".into())
            }
            Self::NoTasks => Some("run `patchrl task stats` to see what the file holds".into()),
            Self::NoExamples => Some("set `train.sft.steps: 0`, or raise `train.sft.max_tokens`".into()),
            Self::NoSeparator => {
                Some("start `--from-scratch`, or take a model whose tokenizer has an `eos_token`".into())
            }
            Self::Data { .. } => Some(
                "check the path; text is files and folders of UTF-8 (`text.suffixes` says which); chats are JSON \
                 lines {\"messages\": [{\"role\", \"content\"}]}"
                    .into(),
            ),
            _ => None,
        }
    }
}
