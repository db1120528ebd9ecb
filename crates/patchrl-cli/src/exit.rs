//! Exit codes, and what an error tells the user: the chain of causes and the way out.

use patchrl_model::ModelError;
use patchrl_reward::PrepareError;
use patchrl_rollout::RolloutError;
use patchrl_sandbox::SandboxError;
use patchrl_task::TaskError;
use patchrl_train::TrainError;

use crate::settings::SettingsError;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Did what was asked.
    Success = 0,
    /// Ran, and the answer is no: a task is invalid, a check failed.
    Negative = 1,
    /// The user must change something: flags, configuration, a missing file or tool.
    Usage = 2,
    /// Our fault or the machine's.
    Internal = 3,
}

/// An error that names its own way out; for what only this crate knows.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Usage {
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: String,
}

/// A usage error with its hint.
pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Usage { message: message.into(), hint: hint.into() }.into()
}

/// The exit code of an error and the hint printed under it.
pub(crate) fn explain(error: &anyhow::Error) -> (Exit, Option<String>) {
    let mut exit = Exit::Internal;
    let mut hint = None;
    for cause in error.chain() {
        if let Some(e) = cause.downcast_ref::<Usage>() {
            return (Exit::Usage, Some(e.hint.clone()));
        }
        if let Some(e) = cause.downcast_ref::<SettingsError>() {
            return (Exit::Usage, e.hint());
        }
        if let Some(e) = cause.downcast_ref::<TaskError>() {
            (exit, hint) = (Exit::Usage, hint.or_else(|| e.hint()));
        }
        if let Some(e) = cause.downcast_ref::<PrepareError>() {
            (exit, hint) = (Exit::Usage, hint.or_else(|| e.hint()));
        }
        if let Some(e) = cause.downcast_ref::<SandboxError>() {
            if sandbox_usage(e) {
                exit = Exit::Usage;
            }
            hint = hint.or_else(|| e.hint());
        }
        if let Some(e) = cause.downcast_ref::<ModelError>() {
            if model_usage(e) {
                exit = Exit::Usage;
            }
            hint = hint.or_else(|| e.hint());
        }
        if let Some(e) = cause.downcast_ref::<RolloutError>() {
            hint = hint.or_else(|| e.hint().map(str::to_owned));
        }
        if let Some(e) = cause.downcast_ref::<TrainError>() {
            if e.is_usage() {
                exit = Exit::Usage;
            }
            hint = hint.or_else(|| e.hint());
        }
    }
    (exit, hint)
}

/// Whether the user can mend it: a missing clone, interpreter, engine, image or feature.
fn sandbox_usage(error: &SandboxError) -> bool {
    matches!(
        error,
        SandboxError::NoMirror { .. }
            | SandboxError::NoCommit { .. }
            | SandboxError::NoPython { .. }
            | SandboxError::TierMissing { .. }
            | SandboxError::NoTier { .. }
            | SandboxError::EngineMissing { .. }
            | SandboxError::BadImageName { .. }
            | SandboxError::ImageMissing { .. }
            | SandboxError::ImageDenied { .. }
            | SandboxError::NoShell { .. }
    )
}

/// Whether the user can mend it: a model that is not there or not of our family.
fn model_usage(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::NotFound { .. }
            | ModelError::Unsupported { .. }
            | ModelError::MissingFile { .. }
            | ModelError::MissingTensor { .. }
            | ModelError::WrongShape { .. }
            | ModelError::Damaged { .. }
    )
}
