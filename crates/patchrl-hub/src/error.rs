//! Why a file did not come, or could not be read or written.

use std::io;
use std::path::PathBuf;

/// A failure that another place to ask would only hide.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// A file could not be read or written. The message of `fs_err` names the path.
    #[error("{action}")]
    Io {
        /// What was being done, with the path.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The disk filled up while a download was written.
    #[error("the disk is full: cannot write `{}`", path.display())]
    DiskFull {
        /// The file that could not be written whole.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// A downloaded file is not the file that was announced.
    #[error("`{file}` was fetched, but its {what} is {got}, not {want}; it was removed")]
    WrongDigest {
        /// File name.
        file: String,
        /// `SHA-256` or `size`.
        what: &'static str,
        /// As announced or pinned.
        want: String,
        /// As received.
        got: String,
    },
}

impl HubError {
    /// What the user can do now.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DiskFull { .. } => {
                Some("free some space and run the same command again; nothing was lost".to_owned())
            }
            Self::WrongDigest { .. } => Some(
                "run the command again; if it happens twice, the source is not to be trusted"
                    .to_owned(),
            ),
            Self::Io { .. } => None,
        }
    }

    /// An error of reading.
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }

    /// A write error: a full disk is told apart, since the user can act on it.
    pub fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, source }
            }
            _ => Self::Io { action: format!("cannot write `{}`", path.display()), source },
        }
    }
}

/// Why the hub gave nothing.
#[derive(Debug)]
pub enum Miss {
    /// It does not have the thing, or cannot be reached: one line for the user.
    Absent(String),
    /// Going on would only hide the failure.
    Fatal(HubError),
}

impl From<HubError> for Miss {
    fn from(error: HubError) -> Self {
        Self::Fatal(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart_and_names_the_file() {
        let error = HubError::write("runs/a/model.safetensors", io::ErrorKind::StorageFull.into());
        assert_eq!(error.to_string(), "the disk is full: cannot write `runs/a/model.safetensors`");
        assert!(error.hint().is_some());
        let error = HubError::write("x", io::ErrorKind::PermissionDenied.into());
        assert!(matches!(error, HubError::Io { .. }));
    }
}
