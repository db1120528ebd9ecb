//! Files that a stopped run goes on from: one JSON object a line, each whole.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// It cannot be read or written.
    #[error("cannot use `{path}`")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A whole line of it is none of ours.
    #[error("`{path}`, line {line}, was not written by this command: {why}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// The file, at its end.
pub(crate) struct Lines {
    path: PathBuf,
    file: fs_err::File,
}

impl Lines {
    /// Open or begin a file, and read its lines. One that was cut off when a run was killed is
    /// dropped.
    pub(crate) fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<T>), LinesError> {
        let fail = |source| LinesError::File { path: path.to_owned(), source };
        let mut options = fs_err::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(fail)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(fail)?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let mut this = Self { path: path.to_owned(), file };
        let parse = |(at, line)| {
            serde_json::from_str(line).map_err(|e: serde_json::Error| this.bad(at + 1, e))
        };
        let known = text[..whole].lines().enumerate().map(parse).collect::<Result<_, _>>()?;
        this.file.set_len(whole as u64).map_err(fail)?;
        this.file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok((this, known))
    }

    /// Write lines down; they are on the disk afterwards.
    pub(crate) fn add<T: Serialize>(&mut self, lines: &[T]) -> Result<(), LinesError> {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line).map_err(|e| self.fail(e.into()))?;
            bytes.push(b'\n');
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        written.map_err(|source| self.fail(source))
    }

    /// A fault of one line, from 1.
    pub(crate) fn bad(&self, line: usize, why: impl std::fmt::Display) -> LinesError {
        LinesError::Line { path: self.path.clone(), line, why: format!("{why}") }
    }

    fn fail(&self, source: std::io::Error) -> LinesError {
        LinesError::File { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_off_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        let (mut lines, known) = Lines::open::<u32>(&path).unwrap();
        assert!(known.is_empty());
        lines.add(&[1, 2]).unwrap();
        let whole = fs_err::read_to_string(&path).unwrap();
        fs_err::write(&path, format!("{whole}34")).unwrap();
        let (mut lines, known) = Lines::open::<u32>(&path).unwrap();
        assert_eq!(known, [1, 2]);
        lines.add(&[5]).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "1\n2\n5\n");
        fs_err::write(&path, "1\nx\n").unwrap();
        let fault = Lines::open::<u32>(&path).err().unwrap().to_string();
        assert!(fault.contains("line 2, was not written by this command: expected"), "{fault}");
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "1\nx\n", "it is left alone");
    }
}
