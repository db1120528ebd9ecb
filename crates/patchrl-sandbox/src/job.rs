//! What a sandbox is asked to run, and what it says afterwards.
//!
//! Plain data: no process, no file system. What an exit code means is the
//! caller's business.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ImageName;

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` times 1024 * 1024 bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b if b >= 1 << 30 => write!(f, "{:.1} GiB", b as f64 / f64::from(1 << 30)),
            b if b >= 1 << 20 => write!(f, "{:.1} MiB", b as f64 / f64::from(1 << 20)),
            b => write!(f, "{b} B"),
        }
    }
}

/// How much one command may use before it is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall clock from the start of the command; the whole tree dies with it.
    pub wall: Duration,
    /// Memory of all processes together, files in memory included.
    pub memory: Bytes,
    /// Processes and threads alive at once.
    pub processes: u32,
    /// Bytes of output that are kept. More is read and thrown away, and a
    /// command that prints 64 times as much is stopped.
    pub output: Bytes,
    /// Largest file that the command may write.
    pub file_size: Bytes,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_mins(5),
            memory: Bytes::mib(2048),
            processes: 128,
            output: Bytes::mib(1),
            file_size: Bytes::mib(256),
        }
    }
}

/// A file to put into the workspace before the command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    /// Permission bits, as in `0o644`. Ignored for a symbolic link.
    pub mode: u32,
    /// The content, or the target of a symbolic link.
    pub bytes: Vec<u8>,
    /// Make a symbolic link instead of a file.
    pub symlink: bool,
}

impl FileWrite {
    /// An ordinary file with mode 644.
    pub fn regular(bytes: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o644, bytes: bytes.into(), symlink: false }
    }
}

/// One command on a throw-away copy of a tree.
///
/// In `argv` and in the values of `env` the words `{workspace}`, `{out}` and
/// `{tmp}` stand for the paths that the command sees; without namespaces they
/// differ from run to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The tree to start from. Never changed. The command sees a writable copy
    /// of it at `{workspace}`, which is also its working directory.
    pub base: PathBuf,
    /// Paths relative to the workspace: what to put there first; `None` deletes.
    pub writes: BTreeMap<String, Option<FileWrite>>,
    /// Program and arguments. A program without a slash is looked up in `PATH`.
    pub argv: Vec<String>,
    /// Environment of the command, on top of `PATH`, `HOME`, `TMPDIR`, `LANG`
    /// and `PATCHRL_OUT`. Nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// Host paths that the command may read, at the same path: a virtual
    /// environment, the prefix of an interpreter.
    pub read_only: Vec<PathBuf>,
    /// Paths under `{out}` to read back. Regular files up to 4 MiB each; one
    /// that is missing or something else is left out.
    pub collect: Vec<String>,
    /// When to stop it.
    pub limits: Limits,
    /// Run it in a container of this image instead, on the image's own tree: `base` and
    /// `read_only` are not used. For [`crate::Places`].
    pub image: Option<ImagePlace>,
}

/// A folder of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePlace {
    /// The image.
    pub image: ImageName,
    /// The folder, absolute.
    pub workdir: String,
    /// It has a `.git` folder, which jobs must not see: it holds what came after.
    pub hides_git: bool,
}

impl ImagePlace {
    /// A folder that is empty for jobs.
    pub(crate) fn hidden(&self) -> Option<String> {
        self.hides_git.then(|| format!("{}/.git", self.workdir.trim_end_matches('/')))
    }
}

impl Job {
    /// A job with default limits, no writes and nothing extra visible.
    pub fn new<S: Into<String>>(
        base: impl Into<PathBuf>,
        argv: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            base: base.into(),
            writes: BTreeMap::new(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            read_only: Vec::new(),
            collect: Vec::new(),
            limits: Limits::default(),
            image: None,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// Killed by this signal: its own crash, or stopped here because it printed
    /// without end or started too many processes.
    Signaled(i32),
    /// Stopped at the wall-clock limit.
    TimedOut,
    /// Stopped at the memory limit.
    OutOfMemory,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signaled(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

/// What came out of a [`Job`].
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub ending: Ending,
    /// Standard output and standard error in the order they were written.
    pub output: Vec<u8>,
    /// More was printed than `output` holds.
    pub output_truncated: bool,
    /// The files of [`Job::collect`] that exist.
    pub collected: BTreeMap<String, Vec<u8>>,
    /// From the start of the command to its end; set-up is not counted.
    pub wall: Duration,
    /// Highest memory use seen, if it could be measured.
    pub peak_memory: Option<Bytes>,
}

impl Output {
    /// The command ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.ending == Ending::Exited(0)
    }
}

/// How strong the walls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Own user, mount, process, network, IPC and host-name namespaces.
    Namespaces,
    /// Landlock, a system-call filter that refuses sockets, and a copied tree.
    Landlock,
    /// A copied tree, resource limits and the deadline; no walls.
    None,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::None => "none",
        })
    }
}

/// Which tier to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierChoice {
    /// The strongest that works here, but never [`Tier::None`].
    Auto,
    /// [`Tier::None`], because the user asked for it by name.
    NoneByName,
    /// This one or an error.
    Exactly(Tier),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(Bytes::mib(2048).to_string(), "2.0 GiB");
        assert_eq!(Bytes(12).to_string(), "12 B");
        assert_eq!(Ending::Signaled(9).to_string(), "killed by signal 9");
    }
}
