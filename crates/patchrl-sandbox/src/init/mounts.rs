//! The mount calls that the C library does not wrap, and the ones it does, by name.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};

use super::Step;

pub(super) const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(super) const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(super) const NODEV: u64 = libc::MOUNT_ATTR_NODEV;

/// A copy of a mount that is attached nowhere yet.
pub(super) struct Detached(OwnedFd);

/// Copy what is mounted at `path`, everything below included.
pub(super) fn detach(path: &Path) -> Result<Detached, Errno> {
    let name = c_path(path)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
    #[expect(unsafe_code, reason = "open_tree has no wrapper")]
    // SAFETY: `name` is a C string that outlives the call; a new descriptor comes back.
    let fd = unsafe {
        let fd = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, name.as_ptr(), flags);
        OwnedFd::from_raw_fd(Errno::result(fd)? as i32)
    };
    Ok(Detached(fd))
}

impl Detached {
    /// Add attributes to every mount of the copy.
    pub(super) fn set(&self, attributes: u64) -> Result<(), Errno> {
        set_attributes(self.0.as_raw_fd(), c"", attributes, None, libc::AT_RECURSIVE)
    }

    /// Show the owner of the files as somebody else, by the map of a user namespace.
    pub(super) fn map_owner(&self, users: BorrowedFd<'_>) -> Result<(), Errno> {
        set_attributes(self.0.as_raw_fd(), c"", libc::MOUNT_ATTR_IDMAP, Some(users), 0)
    }

    /// Attach it.
    pub(super) fn attach(self, to: &Path) -> Result<(), Errno> {
        let name = c_path(to)?;
        #[expect(unsafe_code, reason = "move_mount has no wrapper")]
        // SAFETY: both strings are C strings that outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                self.0.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_FDCWD,
                name.as_ptr(),
                libc::MOVE_MOUNT_F_EMPTY_PATH,
            )
        };
        Errno::result(result).map(drop)
    }
}

/// Show the host's `from` at `to`.
pub(super) fn bind(from: &Path, to: &Path, attributes: u64) -> Step<()> {
    let bound = || {
        let copy = detach(from)?;
        if attributes != 0 {
            copy.set(attributes)?;
        }
        copy.attach(to)
    };
    bound().map_err(|e| format!("showing `{}`: {e}", from.display()))
}

/// Add attributes to one mount.
pub(super) fn restrict(path: &Path, attributes: u64) -> Step<()> {
    let name = c_path(path).map_err(|e| e.to_string())?;
    set_attributes(libc::AT_FDCWD, &name, attributes, None, 0)
        .map_err(|e| format!("restricting `{}`: {e}", path.display()))
}

/// Mount a file system without a device.
pub(super) fn mount(kind: &str, to: &str, flags: MsFlags, options: &str) -> Step<()> {
    nix::mount::mount(Some(kind), to, Some(kind), flags, Some(options))
        .map_err(|e| format!("mounting {kind} at `{to}`: {e}"))
}

/// Take a mount out of sight; what uses it keeps it.
pub(super) fn unmount(path: &str) -> Step<()> {
    nix::mount::umount2(path, MntFlags::MNT_DETACH).map_err(|e| format!("unmounting `{path}`: {e}"))
}

fn set_attributes(
    dir: i32,
    name: &std::ffi::CStr,
    attributes: u64,
    users: Option<BorrowedFd<'_>>,
    flags: i32,
) -> Result<(), Errno> {
    let wanted = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    let empty = if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    #[expect(unsafe_code, reason = "mount_setattr has no wrapper")]
    // SAFETY: `name` and `wanted` outlive the call and the size is that of `wanted`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir,
            name.as_ptr(),
            flags | empty,
            &raw const wanted,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(result).map(drop)
}

fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)
}
