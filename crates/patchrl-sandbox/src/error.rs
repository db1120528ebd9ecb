//! Everything that can go wrong in this room that is not the command's own fault.
//!
//! A command that fails, crashes or is stopped is an [`crate::Output`], not an error.

use std::io;
use std::path::PathBuf;

use crate::Tier;

/// Our failure or the machine's; never a verdict on what was run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A tier that this machine does not give.
    #[error("the `{tier}` sandbox does not work here: {why}")]
    TierMissing {
        /// What was asked for.
        tier: Tier,
        /// What refused it.
        why: String,
    },
    /// No tier with walls works.
    #[error("no sandbox works here: {why}")]
    NoTier {
        /// What refused each of them.
        why: String,
    },
    /// A job that cannot be run anywhere.
    #[error("the job cannot be run: {0}")]
    BadJob(String),
    /// The sandbox could not be set up.
    #[error("cannot set up the sandbox: {0}")]
    Setup(String),
    /// The init process ended without a word.
    #[error("the sandbox's init process ended without a report ({0})")]
    Vanished(String),
    /// A file operation on the host.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A trusted program that could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A trusted program that did not end in time.
    #[error("`{command}` did not end within {seconds} s and was stopped")]
    Deadline {
        /// The command line.
        command: String,
        /// The deadline.
        seconds: u64,
    },
    /// A trusted program that failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Failed {
        /// The command line.
        command: String,
        /// Exit code or signal.
        status: String,
        /// The last lines it wrote.
        stderr: String,
    },
    /// No clone of a repository.
    #[error("no clone of `{repo}` in `{repos}`")]
    NoMirror {
        /// `owner/name`.
        repo: String,
        /// The folder that was searched.
        repos: PathBuf,
    },
    /// A commit that a clone does not hold.
    #[error("`{mirror}` holds no commit `{commit}`")]
    NoCommit {
        /// The clone.
        mirror: PathBuf,
        /// The commit.
        commit: String,
    },
    /// No interpreter of the wanted version.
    #[error("no Python {wanted} on this machine (found: {found})")]
    NoPython {
        /// The version, or `3`.
        wanted: String,
        /// What there is.
        found: String,
    },
}

impl SandboxError {
    /// What the user can do now.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TierMissing { .. } | Self::NoTier { .. } => {
                "run `patchrl doctor` to see what is missing; `--sandbox none` runs without walls"
                    .to_owned()
            }
            Self::Start { program, .. } => format!("install `{program}` or put it on PATH"),
            Self::NoMirror { repo, repos } => format!(
                "git clone --bare https://github.com/{repo} {}/{}.git",
                repos.display(),
                repo.replace('/', "__")
            ),
            Self::NoCommit { mirror, .. } => {
                format!("git -C {} fetch origin", mirror.display())
            }
            Self::NoPython { wanted, .. } => format!(
                "install it with `pyenv install {wanted}`, `uv python install {wanted}` or the \
                 system's packages"
            ),
            Self::Deadline { .. } => "give it more time, or look at what it waits for".to_owned(),
            _ => return None,
        })
    }
}
