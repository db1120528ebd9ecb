//! Folders that become visible whole or not at all, and folders that must go.
//!
//! Owns temporary names and the removal of trees whose permissions a stranger chose.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::SandboxError;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that is removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A fresh folder in the parent of `dest`, on the same file system.
    pub(crate) fn beside(dest: &Path) -> Result<Self, SandboxError> {
        let parent = dest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs_err::create_dir_all(parent)?;
        // git gets these paths with another working directory.
        let parent = fs_err::canonicalize(parent)?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!(".partial-{}-{n}", std::process::id()));
        if path.exists() {
            remove_tree(&path)?; // left by a process that had this number before
        }
        fs_err::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_tree(&self.0);
    }
}

/// Rename `from`, a part of a [`Scratch`], to `dest`. Somebody else having put
/// it there first is fine.
pub(crate) fn rename_into_place(from: &Path, dest: &Path) -> Result<(), SandboxError> {
    match fs_err::rename(from, dest) {
        Err(_) if dest.is_dir() => Ok(()),
        other => Ok(other?),
    }
}

/// Remove a tree even if some of its folders are closed to us.
pub(crate) fn remove_tree(path: &Path) -> std::io::Result<()> {
    if fs_err::remove_dir_all(path).is_ok() || !path.exists() {
        return Ok(());
    }
    open_up(path);
    fs_err::remove_dir_all(path)
}

fn open_up(dir: &Path) {
    let _ = fs_err::set_permissions(dir, PermissionsExt::from_mode(0o700));
    let Ok(entries) = fs_err::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Copy a tree with modes, times and symbolic links, for the user `owner` if given.
/// Sockets, devices and pipes are left out.
pub fn copy_tree(from: &Path, to: &Path, owner: Option<u32>) -> std::io::Result<()> {
    let meta = fs_err::symlink_metadata(from)?;
    if meta.is_dir() {
        fs_err::create_dir(to)?;
        for entry in fs_err::read_dir(from)? {
            let entry = entry?;
            copy_tree(&entry.path(), &to.join(entry.file_name()), owner)?;
        }
        fs_err::set_permissions(to, PermissionsExt::from_mode(meta.mode() & 0o777 | 0o700))?;
    } else if meta.is_symlink() {
        std::os::unix::fs::symlink(fs_err::read_link(from)?, to)?;
    } else if meta.is_file() {
        fs_err::copy(from, to)?;
        // Compiled Python files are valid only for the exact time of their source.
        std::fs::File::open(to)?
            .set_times(std::fs::FileTimes::new().set_modified(meta.modified()?))?;
    } else {
        return Ok(());
    }
    if let Some(owner) = owner {
        std::os::unix::fs::lchown(to, Some(owner), Some(owner))?;
    }
    Ok(())
}
