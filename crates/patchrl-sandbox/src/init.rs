//! The process that stands between this program and an untrusted command.
//!
//! [`init_main`] turns a fresh start of the same binary into that process. It
//! is single-threaded, so it may fork; the process that asks for a sandbox
//! never does. It builds the walls, starts the command, watches it, and reports
//! over its standard error. Everything it reads comes from its parent.

mod confine;
mod filter;
mod mounts;
mod root;
mod supervise;
pub(crate) mod wire;
mod workspace;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

pub(crate) use filter::landlock_version;
pub(crate) use workspace::split;

use crate::Tier;
use wire::{Frame, Spec};

/// The word that makes a process an init.
pub(crate) const WORD: &str = "sandbox-init";

/// Why a step failed, with the step's name.
pub(crate) type Step<T> = Result<T, String>;

/// If this process was started as a sandbox's init, be one and return its exit
/// code. To be called before anything else in `main`: it needs a process
/// without threads.
pub fn init_main() -> Option<i32> {
    if std::env::args_os().nth(1)? != WORD {
        return None;
    }
    let Ok(mut fds) = Fds::take() else { return Some(125) };
    match be_init(&mut fds) {
        Ok(()) => Some(0),
        Err(why) => {
            fds.send(&Frame::Failed(why));
            Some(125)
        }
    }
}

/// Where the command sees its folders.
pub(crate) struct Places {
    pub(crate) workspace: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) tmp: PathBuf,
}

impl Places {
    pub(crate) fn of(work: Option<&Path>) -> Self {
        let root = work.unwrap_or(Path::new("/"));
        Self { workspace: root.join("workspace"), out: root.join("out"), tmp: root.join("tmp") }
    }
}

/// What is left of the descriptors that the parent gave: reports go to
/// `control`, the command prints to `output`.
pub(crate) struct Fds {
    control: File,
    output: OwnedFd,
    spec: Vec<u8>,
}

impl Fds {
    fn take() -> std::io::Result<Self> {
        let mut spec = Vec::new();
        std::io::stdin().lock().read_to_end(&mut spec)?;
        #[expect(unsafe_code, reason = "moves the three standard descriptors away")]
        // SAFETY: runs once, before anything else in this process holds a descriptor;
        // 3 and 4 are owned by the two values made here, all above is closed.
        unsafe {
            if libc::dup3(2, 3, libc::O_CLOEXEC) < 0 || libc::dup3(1, 4, libc::O_CLOEXEC) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if libc::syscall(libc::SYS_close_range, 5, u32::MAX, 0) < 0 {
                for fd in 5..4096 {
                    libc::close(fd);
                }
            }
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            for fd in 0..3 {
                libc::dup2(null, fd);
            }
            Ok(Self { control: File::from_raw_fd(3), output: OwnedFd::from_raw_fd(4), spec })
        }
    }

    /// Nobody is left to tell if the parent's end is gone, so errors end here.
    pub(crate) fn send(&mut self, frame: &Frame) {
        let _ = frame.write(&mut self.control);
    }
}

fn be_init(fds: &mut Fds) -> Step<()> {
    let (spec, blob) = wire::decode(&fds.spec).map_err(|e| format!("reading the job: {e}"))?;
    fds.spec = Vec::new();
    let mut waited = SigSet::empty();
    waited.add(Signal::SIGCHLD);
    waited.add(Signal::SIGTERM);
    waited.thread_block().map_err(|e| format!("blocking signals: {e}"))?;
    for dir in &spec.cgroups {
        let procs = dir.join("cgroup.procs");
        fs_err::write(&procs, "0").map_err(|e| format!("joining the control group: {e}"))?;
    }
    if spec.tier == Tier::Namespaces {
        namespaces(&spec, &blob, fds)
    } else {
        let work = spec.work.clone().ok_or("no work folder given")?;
        let places = Places::of(Some(&work));
        workspace::copy(&spec, &places).map_err(|e| format!("copying the tree: {e}"))?;
        workspace::write(&spec, &blob, &places)?;
        confine::become_subreaper()?;
        let parent = Pid::from_raw(spec.parent);
        run_command(&spec, fds, &places, &move || nix::unistd::getppid() != parent)
    }
}

/// The first of two processes: it builds the root and waits for the second,
/// which is process 1 of the sandbox.
fn namespaces(spec: &Spec, blob: &[u8], fds: &mut Fds) -> Step<()> {
    confine::die_with_parent();
    if nix::unistd::getppid() != Pid::from_raw(spec.parent) {
        return Err("the parent is gone".to_owned());
    }
    root::build(spec)?;
    let mut second = root::clone_second(spec)?;
    if second.is_child() {
        second.settle()?;
        let places = Places::of(None);
        workspace::write(spec, blob, &places)?;
        return run_command(spec, fds, &places, &|| second.orphaned());
    }
    second.release(spec)?;
    supervise::forward(second.pid())
}

/// Start the command, watch it to its end and tell the parent.
fn run_command(
    spec: &Spec,
    fds: &mut Fds,
    places: &Places,
    orphaned: &dyn Fn() -> bool,
) -> Step<()> {
    let plan = confine::Plan::of(spec, places)?;
    fds.send(&Frame::Started);
    let me = std::process::id().cast_signed();
    #[expect(unsafe_code, reason = "fork")]
    // SAFETY: this process has one thread.
    let pid = match unsafe { nix::unistd::fork() }.map_err(|e| format!("fork: {e}"))? {
        nix::unistd::ForkResult::Child => plan.exec(fds.output.as_raw_fd(), me),
        nix::unistd::ForkResult::Parent { child } => child,
    };
    confine::hide();
    let ended = supervise::watch(spec, pid, orphaned);
    if orphaned() {
        // The parent cannot clean up any more.
        if let Some(work) = &spec.work {
            let _ = crate::scratch::remove_tree(work);
        }
        return Ok(());
    }
    for (name, bytes) in workspace::collect(spec, places) {
        fds.send(&Frame::Collected(name, bytes));
    }
    fds.send(&Frame::Ended(ended));
    Ok(())
}
