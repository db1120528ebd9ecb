//! Text to pretrain on: files and folders read within bounds, and rows cut out of them.
//!
//! Owns what is read and in which order (by path, so that two machines read the same), and the
//! packing. What is no text, too large or too much is left out and counted. Links are not
//! followed. Does not learn tokenizers (`patchrl_model` does).

use std::io::Read as _;
use std::path::{Path, PathBuf};

use patchrl_rollout::order;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::lessons::{Lessons, hold_out};
use crate::sft::Example;

/// `text:` in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextConfig {
    /// Files, and folders that are read with all below them.
    pub paths: Vec<PathBuf>,
    /// Ends of the names that are read in folders, such as `.py`; none takes every name.
    pub suffixes: Vec<String>,
    /// Bytes of one file, at most; a larger one is left out.
    pub max_file_bytes: u64,
    /// Bytes of all files together, at most; what comes later is left out.
    pub max_bytes: u64,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            suffixes: Vec::new(),
            max_file_bytes: 1 << 20,
            max_bytes: 64 << 20,
        }
    }
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// One text per file, in the order of their paths.
    pub documents: Vec<String>,
    /// Files left out: no UTF-8 or with a zero byte.
    pub binary: usize,
    /// Files left out: empty, or larger than one may be.
    pub too_large: usize,
    /// Files left out: the text was long enough.
    pub too_much: usize,
}

/// Folders in folders; a deeper one is no code.
const MAX_DEPTH: usize = 64;

impl Text {
    /// Read what `config` names.
    pub fn read(config: &TextConfig) -> Result<Self, TrainError> {
        let mut files = Vec::new();
        for path in &config.paths {
            let kind = fs_err::metadata(path).map_err(|e| TrainError::data(path, e.to_string()))?;
            if kind.is_dir() {
                below(path, &config.suffixes, 0, &mut files)?;
            } else if kind.is_file() {
                files.push(path.clone());
            } else {
                return Err(TrainError::data(path, "it is neither a file nor a folder".into()));
            }
        }
        let (mut text, mut left) = (Self::default(), config.max_bytes);
        for path in files {
            let failed = |e: std::io::Error| TrainError::data(&path, e.to_string());
            let mut bytes = Vec::new();
            let file = fs_err::File::open(&path).map_err(failed)?;
            file.take(config.max_file_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
            let size = bytes.len() as u64;
            match String::from_utf8(bytes) {
                _ if size == 0 || size > config.max_file_bytes => text.too_large += 1,
                Ok(document) if !document.contains('\0') => {
                    if size > left {
                        text.too_much += 1;
                        continue;
                    }
                    left -= size;
                    text.documents.push(document);
                }
                _ => text.binary += 1,
            }
        }
        if text.documents.is_empty() {
            let first = config.paths.first().map_or(Path::new("text.paths"), PathBuf::as_path);
            return Err(TrainError::data(first, "there is no text to train on".into()));
        }
        Ok(text)
    }

    /// The documents in a shuffled order, joined by `separator` and cut into rows of
    /// `row_tokens` (the last one is shorter). Every row is learnt as an answer to the separator
    /// alone, so that no token is padding and every token is predicted once. The last `share` of
    /// the rows is held out: documents that training does not see, but for one that is cut.
    pub(crate) fn lessons(
        &self,
        encode: &dyn Fn(&str) -> Vec<u32>,
        separator: u32,
        row_tokens: usize,
        (seed, share): (u64, f64),
    ) -> Lessons {
        let mut stream = Vec::new();
        for at in order(seed, 0, self.documents.len()) {
            stream.extend(encode(&self.documents[at]));
            stream.push(separator);
        }
        let row = |row: &[u32]| Example::whole(vec![separator], row.to_vec());
        let rows = stream.chunks(row_tokens).map(row).collect();
        let (trained, held_out) = hold_out(rows, share);
        Lessons { trained, held_out, too_long: 0 }
    }
}

fn below(
    folder: &Path,
    suffixes: &[String],
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), TrainError> {
    let failed = |e: std::io::Error| TrainError::data(folder, e.to_string());
    if depth > MAX_DEPTH {
        return Ok(());
    }
    let mut entries: Vec<_> =
        fs_err::read_dir(folder).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    entries.sort_by_key(fs_err::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !name.starts_with('.') {
            below(&entry.path(), suffixes, depth + 1, files)?;
        } else if kind.is_file()
            && (suffixes.is_empty() || suffixes.iter().any(|end| name.ends_with(end.as_str())))
        {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_in_order_and_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, bytes).unwrap();
        };
        write("b/two.py", b"two");
        write("a.py", b"one");
        write("image.py", b"\x89PNG\0");
        write("nul.py", b"a\0b");
        write("empty.py", b"");
        write("long.py", &[b'x'; 30]);
        write("z.py", b"does not fit");
        write("note.txt", b"no");
        write(".git/config.py", b"no");
        fs_err::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        let mut config = TextConfig {
            paths: vec![folder.path().into()],
            suffixes: vec![".py".into()],
            max_file_bytes: 20,
            max_bytes: 10,
        };
        let text = Text::read(&config).unwrap();
        assert_eq!(text.documents, ["one", "two"]);
        assert_eq!((text.binary, text.too_large, text.too_much), (2, 2, 1));
        config.suffixes = vec![".rs".into()];
        let why = Text::read(&config).unwrap_err().to_string();
        assert!(why.contains("no text"), "{why}");
        config.paths = vec![folder.path().join("nowhere")];
        assert!(Text::read(&config).unwrap_err().is_usage());
        config.paths = vec!["/dev/null".into()];
        assert!(Text::read(&config).unwrap_err().to_string().contains("neither"));
    }

    #[test]
    fn rows_hold_every_token_once_and_no_padding() {
        let documents: Vec<String> = (0..20).map(|n| "ab".repeat(n + 1)).collect();
        let text = Text { documents, ..Text::default() };
        let encode = |text: &str| text.bytes().map(u32::from).collect();
        let lessons = text.lessons(&encode, 7, 16, (1, 0.1));
        let rows: Vec<&Example> = lessons.trained.iter().chain(&lessons.held_out).collect();
        let total: usize = rows.iter().map(|row| row.answer.len()).sum();
        assert_eq!(total, 2 * 210 + 20);
        assert!(rows.iter().all(|row| row.prompt == [7]));
        let (last, whole) = rows.split_last().unwrap();
        assert!(whole.iter().all(|row| row.answer.len() == 16) && last.answer.len() == total % 16);
        assert_eq!(lessons.held_out.len(), 3);
        assert_eq!(text.lessons(&encode, 7, 16, (1, 0.0)).held_out.len(), 0);
    }
}
