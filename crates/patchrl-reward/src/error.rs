//! Why a task cannot be made ready. What becomes of an answer is an
//! [`Outcome`](crate::Outcome), never an error.

use std::io;
use std::path::PathBuf;

use patchrl_sandbox::SandboxError;

/// Everything that can go wrong before the first answer is judged.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Neither the row nor the table says how to run the tests.
    #[error("task `{task}`: nothing says how to run the tests of `{repo}` at version `{version}`")]
    NoEnvironment {
        /// The task.
        task: String,
        /// `owner/name`.
        repo: String,
        /// The row's version, or `?`.
        version: String,
    },
    /// A repository is needed and no folder of clones was named.
    #[error("task `{task}` needs a clone of `{repo}`, and no folder of clones was named")]
    NoRepos {
        /// The task.
        task: String,
        /// `owner/name`.
        repo: String,
    },
    /// Clone, commit, interpreter, virtual environment or git.
    #[error("task `{task}` cannot be made ready")]
    Sandbox {
        /// The task.
        task: String,
        /// What the sandbox room said.
        source: SandboxError,
    },
    /// A patch of the task's own does not fit its base commit.
    #[error("task `{task}`: its `{column}` does not apply at `{commit}`: {why}")]
    OwnPatch {
        /// The task.
        task: String,
        /// `test_patch` or `bug_patch`.
        column: &'static str,
        /// The base commit.
        commit: String,
        /// What does not fit.
        why: String,
    },
    /// The folder of prepared trees cannot be written.
    #[error("cannot write `{path}`")]
    Cache {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl PrepareError {
    /// What the user can do now.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoEnvironment { .. } => Some(
                "give the task an `environment` object: python, requirements, test_command, runner"
                    .to_owned(),
            ),
            Self::NoRepos { repo, .. } => Some(format!(
                "git clone --bare https://github.com/{repo} repos/{}.git, then add `--repos repos`",
                repo.replace('/', "__")
            )),
            Self::Sandbox { source, .. } => source.hint(),
            Self::OwnPatch { column, .. } => {
                Some(format!("check `base_commit` and `{column}` of the task's row"))
            }
            Self::Cache { .. } => Some("free some space or choose another cache folder".to_owned()),
        }
    }
}
