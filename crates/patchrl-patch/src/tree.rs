//! Files as an edit sees them, and which paths an edit may name.
//!
//! Owns [`Entry`], [`Tree`], [`Changes`] and path safety. Reads no disk: a tree on disk
//! is another crate's implementation of [`Tree`]. Paths are UTF-8, relative, with `/`.

use std::collections::BTreeMap;
use std::io;

/// Longest path an edit may name, in bytes. Linux refuses longer ones too.
const MAX_PATH: usize = 4096;

/// What kind of file an entry is. Git knows no others besides submodules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// 100644
    Regular,
    /// 100755
    Executable,
    /// 120000, the bytes are the target
    Symlink,
}

impl Mode {
    /// The mode as git writes it in a diff.
    pub fn octal(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Regular => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Symlink => 0o120_000,
        }
    }

    /// Git keeps one permission bit; every type it does not know becomes a regular file.
    pub(crate) fn from_bits(bits: u32) -> Self {
        match bits {
            bits if bits & TYPE_BITS == 0o120_000 => Self::Symlink,
            bits if bits & 0o100 != 0 => Self::Executable,
            _ => Self::Regular,
        }
    }
}

/// The bits of a mode that say regular file, symbolic link or submodule.
pub(crate) const TYPE_BITS: u32 = 0o170_000;
/// The type of a submodule.
pub(crate) const SUBMODULE: u32 = 0o160_000;

/// One file as a tree holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the file.
    pub mode: Mode,
    /// Content; for a symbolic link its target.
    pub bytes: Vec<u8>,
}

/// Path to its new entry, or `None` if it is deleted or moved away. Only paths that changed.
pub type Changes = BTreeMap<String, Option<Entry>>;

/// Where an edit reads the old text from.
pub trait Tree {
    /// The file or symbolic link at `path`; `None` if there is none or it is a directory.
    /// An error is the tree's fault, never the edit's.
    fn entry(&self, path: &str) -> io::Result<Option<Entry>>;

    /// Is `path` a directory? Only asked before a file is put there.
    fn is_directory(&self, path: &str) -> io::Result<bool> {
        let _ = path;
        Ok(false)
    }
}

impl Tree for BTreeMap<String, Entry> {
    fn entry(&self, path: &str) -> io::Result<Option<Entry>> {
        Ok(self.get(path).cloned())
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        let inside = format!("{path}/");
        Ok(self.range(inside.clone()..).next().is_some_and(|(found, _)| found.starts_with(&inside)))
    }
}

/// May an edit name this path? The rules of git's `verify_path`: relative, no empty, `.`
/// or `..` component, and nothing that some file system reads as `.git`.
pub fn is_safe_path(path: &str) -> bool {
    path.len() <= MAX_PATH
        && !path.contains('\0')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !path.split(['/', '\\']).any(is_git_directory)
}

/// `.git` and `git~1`, in any case, followed by nothing but dots and spaces or a stream name.
fn is_git_directory(part: &str) -> bool {
    let part = part.split(':').next().unwrap_or(part).trim_end_matches(['.', ' ']);
    part.eq_ignore_ascii_case(".git") || part.eq_ignore_ascii_case("git~1")
}

/// The directories above `path`, deepest first.
pub(crate) fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_tree_or_reach_git_are_unsafe() {
        for path in ["", "/a", "a//b", "a/", "../a", "a/../b", "./a", "a/.", "a\0b"] {
            assert!(!is_safe_path(path), "{path:?}");
        }
        for path in [".git/config", "a/.GIT/x", ".git ./x", "GIT~1/x", "a\\.git\\x", ".git::$x/y"] {
            assert!(!is_safe_path(path), "{path:?}");
        }
        for path in ["a", "a/b.py", ".gitignore", "..a/b..", ".github/x", "a b/ü"] {
            assert!(is_safe_path(path), "{path:?}");
        }
        assert!(!is_safe_path(&"a/".repeat(3000)));
    }

    #[test]
    fn a_map_knows_its_directories() {
        let entry = Entry { mode: Mode::Regular, bytes: Vec::new() };
        let tree = BTreeMap::from([("a/b".to_owned(), entry)]);
        assert!(tree.is_directory("a").unwrap());
        assert!(!tree.is_directory("a/b").unwrap());
        assert_eq!(parents("a/b/c").collect::<Vec<_>>(), ["a/b", "a"]);
    }
}
