//! Files on their way in and out of a sandbox.
//!
//! Writes happen before the command starts, reads after everything it started
//! is dead. Neither follows a symbolic link, whoever made it: each step goes
//! from an open folder to a name in it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, symlinkat, unlinkat};

use super::wire::{Spec, Write1};
use super::{Places, Step};
use crate::{Tier, scratch};

/// Larger files are not read back.
const COLLECT_CAP: u64 = 4 << 20;

/// Without an overlay: a copy of the tree, and folders for output and scratch.
pub(super) fn copy(spec: &Spec, places: &Places) -> std::io::Result<()> {
    scratch::copy_tree(&spec.base, &places.workspace, spec.uid)?;
    for dir in [&places.out, &places.tmp] {
        fs_err::create_dir(dir)?;
        if let Some(uid) = spec.uid {
            std::os::unix::fs::chown(dir, Some(uid), Some(uid))?;
        }
    }
    Ok(())
}

/// Put the job's files in place: deletions first, so that a file may become a folder.
pub(super) fn write(spec: &Spec, blob: &[u8], places: &Places) -> Step<()> {
    let owner = spec.uid.filter(|_| spec.tier != Tier::Namespaces);
    let root = open_dir(&places.workspace).map_err(|e| format!("opening the workspace: {e}"))?;
    for write in spec.writes.iter().filter(|w| w.span.is_none()) {
        delete(&root, &write.path).map_err(|e| format!("deleting `{}`: {e}", write.path))?;
    }
    for write in &spec.writes {
        let Some((start, end)) = write.span else { continue };
        let bytes = blob.get(start..end).ok_or("a file's content is missing")?;
        put(&root, write, bytes, owner).map_err(|e| format!("writing `{}`: {e}", write.path))?;
    }
    Ok(())
}

/// Read back what the job asked for and is there.
pub(super) fn collect(spec: &Spec, places: &Places) -> Vec<(String, Vec<u8>)> {
    let Ok(root) = open_dir(&places.out) else { return Vec::new() };
    spec.collect.iter().filter_map(|path| Some((path.clone(), read(&root, path)?))).collect()
}

fn read(root: &OwnedFd, path: &str) -> Option<Vec<u8>> {
    let (folders, name) = split(path)?;
    let dir = walk(root, &folders, Missing::Refuse).ok()?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(&dir, name, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok()?;
    // A hard link may lead to a file that the command could not have written.
    if !meta.is_file() || meta.len() > COLLECT_CAP || meta.nlink() != 1 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(COLLECT_CAP).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn delete(root: &OwnedFd, path: &str) -> Result<(), Errno> {
    let (mut folders, name) = split(path).ok_or(Errno::EINVAL)?;
    let dir = match walk(root, &folders, Missing::Refuse) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
        other => other?,
    };
    match unlinkat(&dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    // Folders that are empty now go too, as git has it.
    while let Some(name) = folders.pop() {
        let dir = walk(root, &folders, Missing::Refuse)?;
        if unlinkat(&dir, name, UnlinkatFlags::RemoveDir).is_err() {
            break;
        }
    }
    Ok(())
}

fn put(root: &OwnedFd, write: &Write1, bytes: &[u8], owner: Option<u32>) -> Result<(), Errno> {
    let (folders, name) = split(&write.path).ok_or(Errno::EINVAL)?;
    let dir = walk(root, &folders, Missing::Make(owner))?;
    match unlinkat(&dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    let ids = owner.map(|id| (Uid::from_raw(id), Gid::from_raw(id)));
    if write.symlink {
        symlinkat(bytes, &dir, name)?;
        if let Some((uid, gid)) = ids {
            fchownat(&dir, name, Some(uid), Some(gid), nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        return Ok(());
    }
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(&dir, name, flags, Mode::from_bits_truncate(0o600))?);
    file.write_all(bytes).map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)))?;
    if let Some((uid, gid)) = ids {
        fchown(file.as_fd(), Some(uid), Some(gid))?;
    }
    fchmod(file.as_fd(), Mode::from_bits_truncate(write.mode & 0o777))
}

/// Folders and last name of a relative path without `..`.
pub(crate) fn split(path: &str) -> Option<(Vec<&str>, &str)> {
    let mut names = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    let name = names.pop()?;
    (!path.contains('\0')).then_some((names, name))
}

/// What to do about a folder that is not there.
#[derive(Clone, Copy)]
enum Missing {
    Refuse,
    /// Make it, for that owner.
    Make(Option<u32>),
}

/// Go down from `root`.
fn walk(root: &OwnedFd, folders: &[&str], missing: Missing) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut dir = root.try_clone().map_err(|_| Errno::EMFILE)?;
    for name in folders {
        let next = match (openat(&dir, *name, flags, Mode::empty()), missing) {
            (Err(Errno::ENOENT), Missing::Make(owner)) => {
                mkdirat(&dir, *name, Mode::from_bits_truncate(0o755))?;
                let made = openat(&dir, *name, flags, Mode::empty())?;
                if let Some(id) = owner {
                    fchown(made.as_fd(), Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?;
                }
                made
            }
            (other, _) => other?,
        };
        dir = next;
    }
    Ok(dir)
}

fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    openat(AT_FDCWD, path, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Write1 {
        Write1 { path: path.to_owned(), mode: 0o644, symlink: false, span: Some((0, 1)) }
    }

    #[test]
    fn paths_stay_inside() {
        assert_eq!(split("a/./b/c"), Some((vec!["a", "b"], "c")));
        for bad in ["", ".", "/a", "../a", "a/../../b", "a\0b"] {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn links_are_not_followed_either_way() {
        let temp = tempfile::tempdir().unwrap();
        let (tree, secret) = (temp.path().join("tree"), temp.path().join("secret"));
        fs_err::create_dir(&tree).unwrap();
        fs_err::create_dir(&secret).unwrap();
        fs_err::write(secret.join("f"), "s").unwrap();
        std::os::unix::fs::symlink(&secret, tree.join("dir")).unwrap();
        std::os::unix::fs::symlink(secret.join("f"), tree.join("link")).unwrap();
        let root = open_dir(&tree).unwrap();
        assert!(put(&root, &file("dir/new"), b"x", None).is_err());
        assert_eq!(read(&root, "dir/f"), None);
        assert_eq!(read(&root, "link"), None);
        put(&root, &file("link"), b"x", None).unwrap();
        assert_eq!(fs_err::read(secret.join("f")).unwrap(), b"s");
        assert_eq!(read(&root, "link").unwrap(), b"x");
    }

    #[test]
    fn deleting_takes_empty_folders_along() {
        let temp = tempfile::tempdir().unwrap();
        let root = open_dir(temp.path()).unwrap();
        put(&root, &file("a/b/c"), b"x", None).unwrap();
        delete(&root, "a/b/c").unwrap();
        delete(&root, "a/b/c").unwrap();
        assert!(!temp.path().join("a").exists());
    }
}
