//! What can go wrong while telling: files that cannot be written or read.
//!
//! Every message names the file, because `fs_err` puts it into the source.

use std::io;
use std::path::PathBuf;

/// Why an event could not be kept or a report not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The journal could not be opened, cut or appended to.
    #[error("cannot write the journal `{path}`")]
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The journal or a rollout file could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line in the middle of the journal is not an event.
    #[error("line {line} of the journal `{path}` is not an event")]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// Another process is writing the same run.
    #[error("another process is writing the run of `{path}`")]
    Busy {
        /// The journal both wanted.
        path: PathBuf,
    },
    /// An event has no form on disk.
    #[error("cannot encode an event")]
    Encode(#[source] serde_json::Error),
    /// The `TensorBoard` file could not be written.
    #[error("cannot write TensorBoard data to `{path}`")]
    TensorBoard {
        /// The file or its folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The report could not be written.
    #[error("cannot write the report `{path}`")]
    Report {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl TelemetryError {
    /// What the user can do now, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy { .. } => {
                Some("wait for it to end, or choose another name with `--run`".into())
            }
            Self::Journal { source, .. }
            | Self::TensorBoard { source, .. }
            | Self::Report { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Some("free some disk space, then run the same command with `--resume`".into())
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Some("choose a folder you can write to with `--run`".into())
                }
                _ => None,
            },
            Self::BadLine { .. } => {
                Some("move the journal aside; a report is drawn from whole journals only".into())
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("check that this is the folder of a run: it holds `journal.jsonl`".into())
            }
            Self::Read { .. } | Self::Encode(_) => None,
        }
    }
}
