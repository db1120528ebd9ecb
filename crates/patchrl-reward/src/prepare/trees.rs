//! Folders of prepared trees: each is whole or not there.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use patchrl_patch::{Changes, Mode};
use patchrl_sandbox::{SandboxError, copy_tree};

type Done = Result<(), SandboxError>;

/// `path` with a word after it.
pub(super) fn suffixed(path: &Path, word: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{word}"));
    path.with_file_name(name)
}

/// A tree at `dest`, unless it is there: `make` fills an empty folder.
pub(super) fn fill(dest: &Path, make: impl FnOnce(&Path) -> Done) -> Done {
    put(dest, |partial| {
        fs_err::create_dir(partial)?;
        make(partial)
    })
}

/// A tree at `dest`, unless it is there: a copy of `from` that `change` has changed.
pub(super) fn derive(from: &Path, dest: &Path, change: impl FnOnce(&Path) -> Done) -> Done {
    put(dest, |partial| {
        copy_tree(from, partial, None)?;
        change(partial)
    })
}

/// Make a folder under another name, then give it its own. Whatever fails leaves nothing.
fn put(dest: &Path, make: impl FnOnce(&Path) -> Done) -> Done {
    if dest.is_dir() {
        return Ok(());
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(dest.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let partial = dest.with_file_name(name);
    if partial.exists() {
        fs_err::remove_dir_all(&partial)?;
    }
    let done = make(&partial).and_then(|()| match fs_err::rename(&partial, dest) {
        // Another process was faster; its tree is as good.
        Err(_) if dest.is_dir() => Ok(()),
        other => Ok(other?),
    });
    if partial.exists() {
        fs_err::remove_dir_all(&partial)?;
    }
    done
}

/// Put text files into a tree.
pub(super) fn write_files(tree: &Path, files: &BTreeMap<String, String>) -> Done {
    for (path, text) in files {
        let path = tree.join(path);
        fs_err::create_dir_all(path.parent().unwrap_or(tree))?;
        fs_err::write(path, text)?;
    }
    Ok(())
}

/// Make a tree what a patch that applies to it makes of it.
pub(super) fn write_changes(tree: &Path, changes: &Changes) -> Done {
    for (path, entry) in changes {
        let path = tree.join(path);
        if fs_err::symlink_metadata(&path).is_ok() {
            fs_err::remove_file(&path)?;
        }
        let Some(entry) = entry else { continue };
        fs_err::create_dir_all(path.parent().unwrap_or(tree))?;
        match entry.mode {
            Mode::Symlink => symlink(String::from_utf8_lossy(&entry.bytes).as_ref(), &path)?,
            mode => {
                fs_err::write(&path, &entry.bytes)?;
                let bits = if mode == Mode::Executable { 0o755 } else { 0o644 };
                fs_err::set_permissions(&path, std::fs::Permissions::from_mode(bits))?;
            }
        }
    }
    Ok(())
}
