//! What goes between a sandbox's init and its parent.
//!
//! The job travels as a JSON head and a blob of file contents in a memory file;
//! reports come back as tagged frames. Both ends are the same binary, so there
//! is no versioning.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Ending, Limits, Tier};

/// Frames above this are not ours.
const FRAME_CAP: usize = 64 << 20;

/// A job as the init gets it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) tier: Tier,
    /// Process id of the parent; the sandbox does not outlive it.
    pub(crate) parent: i32,
    pub(crate) base: PathBuf,
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) collect: Vec<String>,
    pub(crate) limits: Limits,
    /// The user to become; `None` stays who we are.
    pub(crate) uid: Option<u32>,
    /// An empty folder to build the root on.
    pub(crate) mount_point: PathBuf,
    /// Without namespaces: the folder that holds workspace, out and tmp.
    pub(crate) work: Option<PathBuf>,
    /// Control groups to join.
    pub(crate) cgroups: Vec<PathBuf>,
    /// No control group counts memory, so the init does.
    pub(crate) watch_memory: bool,
    /// The same for processes.
    pub(crate) watch_processes: bool,
    pub(crate) writes: Vec<Write1>,
}

/// One entry of `Job::writes`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Write1 {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) symlink: bool,
    /// Start and end in the blob; `None` deletes.
    pub(crate) span: Option<(usize, usize)>,
}

/// How the command ended, as the init saw it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) wall_micros: u64,
    pub(crate) peak_memory: u64,
}

/// A word from the init.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The walls stand, the command starts.
    Started,
    /// A file of `Job::collect`.
    Collected(String, Vec<u8>),
    /// The last word of a command.
    Ended(Ended),
    /// The last word where there was none.
    Failed(String),
}

pub(crate) fn encode(spec: &Spec, blob: &[u8]) -> Vec<u8> {
    let head = serde_json::to_vec(spec).expect("a job is plain data");
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(blob);
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> io::Result<(Spec, Vec<u8>)> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = u64::from_le_bytes(*length) as usize;
    let (head, blob) = rest.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((serde_json::from_slice(head)?, blob.to_vec()))
}

impl Frame {
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (tag, payload) = match self {
            Self::Started => (b'S', Vec::new()),
            Self::Collected(name, bytes) => {
                let mut payload = (name.len() as u32).to_le_bytes().to_vec();
                payload.extend_from_slice(name.as_bytes());
                payload.extend_from_slice(bytes);
                (b'C', payload)
            }
            Self::Ended(ended) => (b'R', serde_json::to_vec(ended)?),
            Self::Failed(why) => (b'F', why.as_bytes().to_vec()),
        };
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&payload);
        to.write_all(&bytes)
    }

    /// Take one frame from the front of `buffer`; `None` if it is not there yet
    /// or is no frame.
    pub(crate) fn take(buffer: &mut Vec<u8>) -> Option<Self> {
        let head = buffer.get(..5)?;
        let tag = head[0];
        let length = u32::from_le_bytes(head[1..5].try_into().ok()?) as usize;
        if length > FRAME_CAP || buffer.len() < 5 + length {
            return None;
        }
        let payload: Vec<u8> = buffer.drain(..5 + length).skip(5).collect();
        match tag {
            b'S' => Some(Self::Started),
            b'R' => serde_json::from_slice(&payload).ok().map(Self::Ended),
            b'F' => Some(Self::Failed(String::from_utf8_lossy(&payload).into_owned())),
            b'C' => {
                let (length, rest) = payload.split_first_chunk::<4>()?;
                let (name, bytes) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                Some(Self::Collected(String::from_utf8_lossy(name).into_owned(), bytes.to_vec()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_being_cut() {
        let mut bytes = Vec::new();
        Frame::Started.write(&mut bytes).unwrap();
        Frame::Collected("a".into(), b"xyz".to_vec()).write(&mut bytes).unwrap();
        let mut buffer = Vec::new();
        let mut seen = Vec::new();
        for byte in bytes {
            buffer.push(byte);
            seen.extend(Frame::take(&mut buffer));
        }
        assert!(
            matches!(&seen[..], [Frame::Started, Frame::Collected(n, b)] if n == "a" && b == b"xyz")
        );
    }
}
