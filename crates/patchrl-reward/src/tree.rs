//! A prepared base tree on disk, as the patch crate reads it.
//!
//! Owns the way from a path in a patch to a file: relative, inside the base
//! folder, never through a symbolic link. Read-only.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use patchrl_patch::{Entry, Mode, Tree};

/// Largest file read for a patch. A patch that edits a larger one does not apply.
const LARGEST: u64 = 64 << 20;

/// The files under one folder.
#[derive(Clone, Debug)]
pub struct FsTree {
    root: PathBuf,
}

impl FsTree {
    /// A tree over `root`, which must exist and be a folder that nobody else writes.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Is `path` a folder of this tree (not a link to one)?
    pub fn is_dir(&self, path: &str) -> bool {
        self.locate(path).ok().flatten().is_some_and(|(_, meta)| meta.is_dir())
    }

    /// Paths of all files and links, without what lies in folders of these names.
    pub fn files(&self, without: &[&str]) -> io::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs_err::read_dir(self.root.join(&folder))? {
                let entry = entry?;
                // A name that is not UTF-8 cannot stand in a patch of ours.
                let Ok(name) = entry.file_name().into_string() else { continue };
                if without.contains(&name.as_str()) {
                    continue;
                }
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                match entry.file_type()? {
                    kind if kind.is_dir() => folders.push(path),
                    kind if kind.is_file() || kind.is_symlink() => {
                        found.insert(path);
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// The file behind `path` and what it is; nothing where a parent is missing,
    /// a link or a file, or where the path leads outside.
    fn locate(&self, path: &str) -> io::Result<Option<(PathBuf, std::fs::Metadata)>> {
        if !is_inside(path) {
            return Ok(None);
        }
        let mut at = self.root.clone();
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            let meta = match fs_err::symlink_metadata(&at) {
                Ok(meta) => meta,
                Err(e) if is_absence(&e) => return Ok(None),
                Err(e) => return Err(e),
            };
            if parts.peek().is_none() {
                return Ok(Some((at, meta)));
            }
            if !meta.is_dir() {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

impl Tree for FsTree {
    fn entry(&self, path: &str) -> io::Result<Option<Entry>> {
        let Some((file, meta)) = self.locate(path)? else {
            return Ok(None);
        };
        if meta.is_symlink() {
            let target = fs_err::read_link(&file)?;
            return Ok(Some(Entry { mode: Mode::Symlink, bytes: link_bytes(&target) }));
        }
        if !meta.is_file() || meta.len() > LARGEST {
            return Ok(None);
        }
        let mode = if is_executable(&meta) { Mode::Executable } else { Mode::Regular };
        Ok(Some(Entry { mode, bytes: fs_err::read(&file)? }))
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        Ok(self.locate(path)?.is_some_and(|(_, meta)| meta.is_dir()))
    }
}

/// Relative, without empty, `.` or `..` parts, and free of NUL.
pub(crate) fn is_inside(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Missing, too long to exist, or below something that is not a folder.
fn is_absence(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}

fn link_bytes(target: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    target.as_os_str().as_bytes().to_vec()
}

fn is_executable(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o100 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_nothing_outside_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs_err::create_dir_all(root.join("sub")).unwrap();
        fs_err::write(dir.path().join("secret"), "s").unwrap();
        fs_err::write(root.join("sub/a.txt"), "a").unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        let tree = FsTree::new(&root);
        assert_eq!(tree.entry("sub/a.txt").unwrap().unwrap().bytes, b"a");
        assert_eq!(tree.entry("up").unwrap().unwrap().mode, Mode::Symlink);
        for outside in [
            "../secret",
            "up/secret",
            "/etc/passwd",
            "sub/../../secret",
            "",
            "a\0b",
            "sub",
            "sub/a.txt/x",
        ] {
            assert!(tree.entry(outside).unwrap().is_none(), "{outside}");
        }
        assert!(tree.entry(&"x".repeat(5000)).unwrap().is_none());
        assert!(tree.is_dir("sub") && !tree.is_dir("up") && !tree.is_dir("sub/a.txt"));
    }
}
