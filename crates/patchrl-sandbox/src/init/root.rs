//! The new root of a sandbox with namespaces, and the process that is number 1 in it.
//!
//! As root the mounts are made with the host's rights and the command gets a
//! user namespace of its own whose only user is an unprivileged one outside. As
//! anyone else the user namespace comes first and holds only that user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Pid, Uid};

use super::mounts::{self, NODEV, NOSUID, RDONLY, bind};
use super::wire::Spec;
use super::{Step, confine};

/// Folders of the host that every command may read.
pub(super) const SYSTEM: [&str; 10] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix"];
/// Devices that every command may use.
pub(super) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Enter a mount namespace of our own, build the root in it and move there.
pub(super) fn build(spec: &Spec) -> Step<()> {
    if spec.uid.is_some() {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|e| format!("own mount namespace: {e}"))?;
    } else {
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
            .map_err(|e| format!("own user namespace: {e}"))?;
        map_users(Path::new("/proc/self"), uid.as_raw(), gid.as_raw())?;
        confine::die_with_parent();
    }
    let none: Option<&str> = None;
    nix::mount::mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|e| format!("making mounts private: {e}"))?;
    let at = spec.mount_point.display().to_string();
    mounts::mount("tmpfs", &at, MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "size=1m,mode=755")?;
    nix::unistd::chdir(&spec.mount_point).map_err(|e| format!("entering the root: {e}"))?;
    // What the new root is made of lies beside it and goes with the old one, in
    // one stroke: each unmounting waits for all processors.
    for name in ["root", "up", "lower"] {
        folder(name)?;
    }
    mounts::mount("tmpfs", "root", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "size=1m,mode=755")?;
    nix::unistd::chdir("root").map_err(|e| format!("entering the root: {e}"))?;
    show_system()?;
    show_devices()?;
    private_folders(spec)?;
    show_extra(spec)?;
    folder("proc")?;
    bind(Path::new("/proc"), Path::new("proc"), 0)?;
    nix::unistd::pivot_root(".", ".").map_err(|e| format!("changing the root: {e}"))?;
    mounts::unmount(".")?;
    nix::unistd::chdir("/").map_err(|e| format!("entering the root: {e}"))?;
    mounts::restrict(Path::new("/"), RDONLY | NOSUID | NODEV)
}

fn folder(path: &str) -> Step<()> {
    fs_err::create_dir_all(path).map_err(|e| e.to_string())
}

fn show_system() -> Step<()> {
    for name in SYSTEM {
        let host = Path::new("/").join(name);
        let Ok(meta) = fs_err::symlink_metadata(&host) else { continue };
        if meta.is_symlink() {
            let target = fs_err::read_link(&host).map_err(|e| e.to_string())?;
            symlink(target, name).map_err(|e| format!("linking `{name}`: {e}"))?;
        } else if meta.is_dir() {
            folder(name)?;
            bind(&host, Path::new(name), RDONLY | NOSUID | NODEV)?;
        }
    }
    Ok(())
}

fn show_devices() -> Step<()> {
    folder("dev/pts")?;
    for name in DEVICES {
        let inside = format!("dev/{name}");
        fs_err::write(&inside, "").map_err(|e| e.to_string())?;
        bind(&Path::new("/dev").join(name), Path::new(&inside), RDONLY | NOSUID)?;
    }
    let links = [
        ("dev/fd", "/proc/self/fd"),
        ("dev/stdin", "/proc/self/fd/0"),
        ("dev/stdout", "/proc/self/fd/1"),
        ("dev/stderr", "/proc/self/fd/2"),
        ("dev/ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        symlink(target, name).map_err(|e| format!("linking `{name}`: {e}"))?;
    }
    Ok(())
}

/// One memory file system holds all that the command can write. Its size is the
/// memory limit, and it is gone with the sandbox.
fn private_folders(spec: &Spec) -> Step<()> {
    let options = format!("size={},mode=755,nr_inodes=1000000", spec.limits.memory.0);
    mounts::mount("tmpfs", "../up", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, &options)?;
    for (name, mode) in
        [("../up/tmp", 0o1777), ("../up/shm", 0o1777), ("../up/out", 0o755), ("../up/w", 0o700)]
    {
        owned_folder(spec, name, mode)?;
    }
    for (from, to) in [("../up/tmp", "tmp"), ("../up/out", "out"), ("../up/shm", "dev/shm")] {
        folder(to)?;
        bind(Path::new(from), Path::new(to), NOSUID | NODEV)?;
    }
    folder("workspace")?;
    if overlay(spec).is_err() {
        // A file system that cannot be mapped or stacked: copy it instead.
        crate::scratch::copy_tree(&spec.base, Path::new("../up/copy"), spec.uid)
            .map_err(|e| format!("copying the tree: {e}"))?;
        bind(Path::new("../up/copy"), Path::new("workspace"), NOSUID | NODEV)?;
    }
    Ok(())
}

fn overlay(spec: &Spec) -> Step<()> {
    let lower = mounts::detach(&spec.base).map_err(|e| e.to_string())?;
    let meta = fs_err::metadata(&spec.base).map_err(|e| e.to_string())?;
    if let Some(uid) = spec.uid {
        let users = throwaway_users(meta.uid(), meta.gid(), uid)?;
        lower.map_owner(users.as_fd()).map_err(|e| format!("mapping owners: {e}"))?;
    }
    lower.set(RDONLY | NOSUID | NODEV).map_err(|e| e.to_string())?;
    lower.attach(Path::new("../lower")).map_err(|e| e.to_string())?;
    owned_folder(spec, "../up/u", meta.mode() & 0o777 | 0o700)?;
    // A user namespace may not set trusted.* attributes; without this, removing a
    // lower folder fails with EIO.
    let attributes = if spec.uid.is_none() { ",userxattr" } else { "" };
    let options = format!("lowerdir=../lower,upperdir=../up/u,workdir=../up/w{attributes}");
    mounts::mount("overlay", "workspace", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, &options)
}

fn owned_folder(spec: &Spec, name: &str, mode: u32) -> Step<()> {
    folder(name)?;
    fs_err::set_permissions(name, PermissionsExt::from_mode(mode)).map_err(|e| e.to_string())?;
    match spec.uid {
        Some(uid) => std::os::unix::fs::chown(name, Some(uid), Some(uid))
            .map_err(|e| format!("giving `{name}` away: {e}")),
        None => Ok(()),
    }
}

fn show_extra(spec: &Spec) -> Step<()> {
    for path in &spec.read_only {
        if super::confine::is_system(path) {
            continue;
        }
        let inside = path.strip_prefix("/").map_err(|e| e.to_string())?;
        if path.is_dir() {
            folder(&inside.display().to_string())?;
        } else {
            folder(&inside.parent().unwrap_or(Path::new(".")).display().to_string())?;
            fs_err::write(inside, "").map_err(|e| e.to_string())?;
        }
        bind(path, inside, RDONLY | NOSUID | NODEV)?;
    }
    Ok(())
}

/// A user namespace in which the files' owner stands for `uid`. It exists only
/// as long as the descriptor, and nothing runs in it.
fn throwaway_users(owner: u32, group: u32, uid: u32) -> Step<OwnedFd> {
    let (mut hold_r, hold_w) = pipe()?;
    let pid = raw_clone(libc::CLONE_NEWUSER)?;
    if pid == 0 {
        drop(hold_w);
        let _ = hold_r.read(&mut [0]);
        leave(0);
    }
    let proc = Path::new("/proc").join(pid.to_string());
    let mapped = fs_err::write(proc.join("uid_map"), format!("{owner} {uid} 1"))
        .and_then(|()| fs_err::write(proc.join("gid_map"), format!("{group} {uid} 1")))
        .and_then(|()| fs_err::File::open(proc.join("ns/user")));
    drop(hold_w);
    let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), None);
    let file = mapped.map_err(|e| format!("mapping owners: {e}"))?;
    Ok(file.into_parts().0.into())
}

/// The second process, seen from either side of the clone.
pub(super) struct Second {
    pid: i32,
    /// The child reads the word that its users are mapped, then sees the end of
    /// its parent here.
    lifeline_r: File,
    lifeline_w: Option<File>,
}

/// Start process 1 of the sandbox in namespaces of its own.
pub(super) fn clone_second(spec: &Spec) -> Step<Second> {
    let (lifeline_r, lifeline_w) = pipe()?;
    let mut flags = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    if spec.uid.is_some() {
        flags |= libc::CLONE_NEWUSER;
    }
    let pid = raw_clone(flags)?;
    Ok(Second { pid, lifeline_r, lifeline_w: (pid != 0).then_some(lifeline_w) })
}

impl Second {
    pub(super) fn is_child(&self) -> bool {
        self.pid == 0
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// In the parent: map the child's user and let it go on.
    pub(super) fn release(&mut self, spec: &Spec) -> Step<()> {
        if let Some(uid) = spec.uid {
            map_users(&Path::new("/proc").join(self.pid.to_string()), uid, uid)?;
        }
        let mut lifeline = self.lifeline_w.as_ref().ok_or("no lifeline")?;
        lifeline.write_all(b"g").map_err(|e| format!("starting process 1: {e}"))
    }

    /// In the child: become the only user and finish what needs the new namespaces.
    pub(super) fn settle(&mut self) -> Step<()> {
        let mut word = [0];
        self.lifeline_r.read_exact(&mut word).map_err(|e| format!("waiting to start: {e}"))?;
        let (root, group) = (Uid::from_raw(0), Gid::from_raw(0));
        // Refused where the map was made without privilege, and not needed there.
        let _ = nix::unistd::setgroups(&[]);
        nix::unistd::setresgid(group, group, group).map_err(|e| format!("becoming user 0: {e}"))?;
        nix::unistd::setresuid(root, root, root).map_err(|e| format!("becoming user 0: {e}"))?;
        confine::die_with_parent();
        nix::fcntl::fcntl(
            self.lifeline_r.as_fd(),
            nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
        )
        .map_err(|e| format!("lifeline: {e}"))?;
        let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mounts::mount("proc", "/proc", safe, "")?;
        // Pseudo terminals are a convenience; some kernels refuse them here.
        let terminals = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        let _ =
            mounts::mount("devpts", "/dev/pts", terminals, "newinstance,ptmxmode=0666,mode=620");
        mounts::restrict(Path::new("/dev/shm"), NOSUID | NODEV)?;
        nix::unistd::sethostname("sandbox").map_err(|e| format!("host name: {e}"))?;
        loopback_up();
        Ok(())
    }

    /// In the child: the parent's end of the lifeline is closed.
    pub(super) fn orphaned(&self) -> bool {
        matches!((&self.lifeline_r).read(&mut [0]), Ok(0))
    }
}

/// One user and one group inside, `uid` and `gid` outside.
fn map_users(proc: &Path, uid: u32, gid: u32) -> Step<()> {
    // Without privilege the group map is refused until this is given up.
    let _ = fs_err::write(proc.join("setgroups"), "deny");
    fs_err::write(proc.join("uid_map"), format!("0 {uid} 1"))
        .and_then(|()| fs_err::write(proc.join("gid_map"), format!("0 {gid} 1")))
        .map_err(|e| format!("mapping users: {e}"))
}

/// Test suites talk to themselves over 127.0.0.1. Failing is their loss only.
fn loopback_up() {
    #[expect(unsafe_code, reason = "a network ioctl")]
    // SAFETY: `ifreq` is plain data for which zero is valid, and outlives the call.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return;
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
    }
}

fn pipe() -> Step<(File, File)> {
    let (r, w) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| e.to_string())?;
    Ok((r.into(), w.into()))
}

fn raw_clone(flags: i32) -> Step<i32> {
    #[expect(unsafe_code, reason = "clone with namespaces and fork semantics")]
    // SAFETY: this process has one thread; no stack is given, so the child
    // continues on its copy of this one.
    let pid = unsafe {
        let flags = libc::c_long::from(flags | libc::SIGCHLD);
        libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize)
    };
    nix::errno::Errno::result(pid).map(|pid| pid as i32).map_err(|e| format!("own namespaces: {e}"))
}

fn leave(code: i32) -> ! {
    #[expect(unsafe_code, reason = "a clone must not run exit handlers")]
    // SAFETY: ends the process at once.
    unsafe {
        libc::_exit(code)
    }
}
