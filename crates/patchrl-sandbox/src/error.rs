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
    /// No container engine answers.
    #[error("no container engine answers at {tried}: {why}")]
    EngineMissing {
        /// The address, or all of them.
        tried: String,
        /// What the last one said.
        why: String,
    },
    /// The engine went away, was started anew or does not answer any more.
    #[error("the container engine is gone ({what}): {why}")]
    EngineGone {
        /// What was being done.
        what: String,
        /// What was seen.
        why: String,
    },
    /// The engine answered, but not as asked.
    #[error("the container engine refused {what}: {why}")]
    EngineRefused {
        /// What was being done.
        what: String,
        /// The status of the answer.
        status: u16,
        /// The engine's words.
        why: String,
    },
    /// The disk of the engine is full.
    #[error("the container engine has no disk space left: {why}")]
    EngineFull {
        /// How much there is, or the engine's words.
        why: String,
    },
    /// A text that cannot name an image.
    #[error("`{name}` is not the name of an image")]
    BadImageName {
        /// The text.
        name: String,
    },
    /// An image that the engine does not have, nor the registry.
    #[error("no image `{image}`")]
    ImageMissing {
        /// Its name.
        image: String,
    },
    /// An image that the registry does not give us.
    #[error("no access to the image `{image}`: {why}")]
    ImageDenied {
        /// Its name.
        image: String,
        /// The registry's words.
        why: String,
    },
    /// The registry wants us to wait.
    #[error("the registry limits pulls of `{image}`: {why}")]
    RateLimited {
        /// The image that was asked for.
        image: String,
        /// The registry's words.
        why: String,
        /// Seconds to wait, if it says so.
        wait: Option<u64>,
    },
    /// An image in which nothing can be started.
    #[error("the image `{image}` has no `/bin/sh`")]
    NoShell {
        /// Its name.
        image: String,
    },
}

impl SandboxError {
    /// The same call may succeed later with nothing changed by the user.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::EngineGone { .. }
            | Self::EngineFull { .. }
            | Self::RateLimited { .. }
            | Self::Deadline { .. }
            | Self::Vanished(_) => true,
            Self::EngineRefused { status, .. } => *status >= 500,
            _ => false,
        }
    }

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
            Self::EngineMissing { .. } => {
                "start Docker or Podman (`docker info` must work), or name \
                                           its socket in DOCKER_HOST"
                    .to_owned()
            }
            Self::EngineGone { .. } => {
                "see if `docker info` works; `patchrl sandbox reap` removes \
                                        what was left behind"
                    .to_owned()
            }
            Self::EngineFull { .. } => {
                "make room: `patchrl image prune`, `docker system df`".to_owned()
            }
            Self::BadImageName { .. } => "names look like `registry/name:tag`".to_owned(),
            Self::ImageMissing { image } => {
                format!("check the name; `patchrl image prepare {image}` pulls it")
            }
            Self::ImageDenied { image, .. } => {
                format!("check the name; pull it by hand with your account: `docker pull {image}`")
            }
            Self::RateLimited { .. } => "wait, or pull with an account: `docker login`, then \
                                         `docker pull`; images that are there are not pulled again"
                .to_owned(),
            Self::NoShell { .. } => "use an image with a shell".to_owned(),
            Self::Deadline { .. } => "give it more time, or look at what it waits for".to_owned(),
            _ => return None,
        })
    }
}
