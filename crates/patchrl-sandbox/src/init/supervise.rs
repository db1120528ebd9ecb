//! Watching a command to its end, and ending it.
//!
//! Owns the deadline, the memory count where no control group does it, and the
//! killing of everything that the command started. In a process namespace that
//! is everyone but us; without one it is our descendants, of whom none gets
//! lost because their orphans come to us.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::Step;
use super::wire::{Ended, Spec};
use crate::{Ending, Tier};

/// How often limits are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long killing may take before it is left to the parent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Free bytes below which a command that writes to the disk is stopped.
const DISK_RESERVE: u64 = 256 << 20;

/// Wait for `command` or stop it; afterwards nothing that it started lives.
pub(super) fn watch(spec: &Spec, command: Pid, orphaned: &dyn Fn() -> bool) -> Ended {
    let start = Instant::now();
    let mut peak = 0;
    let ending = loop {
        let signal = wait_for_signal(TICK);
        if let Some(ending) = reap(command) {
            break ending;
        }
        if start.elapsed() >= spec.limits.wall {
            break Ending::TimedOut;
        }
        if signal == Some(libc::SIGTERM) || orphaned() || disk_is_full(spec) {
            break Ending::Signaled(libc::SIGKILL);
        }
        // Looking costs a few reads per process: at each tick, not at each child's end.
        if (spec.watch_memory || spec.watch_processes) && signal.is_none() {
            let seen = Usage::now(spec.tier);
            peak = peak.max(seen.memory);
            if spec.watch_memory && seen.memory > spec.limits.memory.0 {
                break Ending::OutOfMemory;
            }
            if seen.tasks > u64::from(spec.limits.processes) + 16 {
                break Ending::Signaled(libc::SIGKILL);
            }
        }
    };
    let wall = start.elapsed();
    end_all(spec.tier);
    Ended { ending, wall_micros: wall.as_micros() as u64, peak_memory: peak.max(largest_child()) }
}

/// The first process of a sandbox with namespaces: pass the order to stop on to
/// process 1 and end as it does.
pub(super) fn forward(second: Pid) -> Step<()> {
    loop {
        if wait_for_signal(Duration::from_hours(1)) == Some(libc::SIGTERM) {
            let _ = kill(second, Signal::SIGTERM);
        }
        match waitpid(second, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {}
            Ok(WaitStatus::Exited(_, _)) => return Ok(()),
            Ok(other) => return Err(format!("process 1 of the sandbox ended: {other:?}")),
            Err(e) => return Err(format!("waiting for the sandbox: {e}")),
        }
    }
}

/// Tasks of the user that runs this process, threads counted.
pub(super) fn tasks_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let me = nix::unistd::getuid().as_raw();
    processes()
        .filter(|pid| fs_err::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == me))
        .map(|pid| fs_err::read_dir(format!("/proc/{pid}/task")).map_or(1, |t| t.count() as u64))
        .sum()
}

fn wait_for_signal(limit: Duration) -> Option<i32> {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    };
    #[expect(unsafe_code, reason = "sigtimedwait has no wrapper")]
    // SAFETY: the set is initialised before it is read and both outlive the call.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        let signal = libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const limit);
        (signal > 0).then_some(signal)
    }
}

/// Collect every child that has ended; how `command` ended if it did.
fn reap(command: Pid) -> Option<Ending> {
    let mut ending = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == command => {
                ending = Some(Ending::Exited(code));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                ending = Some(Ending::Signaled(signal as i32));
            }
            Ok(WaitStatus::StillAlive) => return ending,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => return ending.or(Some(Ending::Signaled(libc::SIGKILL))),
            Err(_) => return ending,
        }
    }
}

fn end_all(tier: Tier) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if tier == Tier::Namespaces {
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        } else {
            stop_and_kill();
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return,
                Ok(WaitStatus::StillAlive) => break,
                _ => {}
            }
        }
        let _ = wait_for_signal(Duration::from_millis(2));
    }
}

/// A stopped process cannot fork, so stop all until no new one appears, then
/// kill all of them.
fn stop_and_kill() {
    let mut seen = BTreeSet::new();
    for _ in 0..64 {
        let now = descendants();
        let fresh: Vec<i32> = now.difference(&seen).copied().collect();
        if fresh.is_empty() {
            break;
        }
        for pid in &fresh {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
        }
        seen.extend(fresh);
    }
    for pid in seen {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

struct Usage {
    memory: u64,
    tasks: u64,
}

impl Usage {
    fn now(tier: Tier) -> Self {
        let me = std::process::id() as i32;
        let all: BTreeSet<i32> = match tier {
            Tier::Namespaces => processes().filter(|pid| *pid != me).collect(),
            _ => descendants(),
        };
        let mut usage = Self { memory: 0, tasks: 0 };
        for pid in all {
            let Ok(status) = fs_err::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            };
            usage.memory +=
                (field("RssAnon:").unwrap_or(0) + field("RssShmem:").unwrap_or(0)) << 10;
            usage.tasks += field("Threads:").unwrap_or(1);
        }
        usage
    }
}

fn largest_child() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| (usage.max_rss() as u64) << 10)
}

fn disk_is_full(spec: &Spec) -> bool {
    let Some(work) = &spec.work else { return false };
    nix::sys::statvfs::statvfs(work)
        .is_ok_and(|fs| fs.blocks_available() * fs.fragment_size() < DISK_RESERVE)
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs_err::read_dir("/proc").ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Everyone below this process, from the kernel's lists of children or, where
/// there are none, from the parents of all processes.
fn descendants() -> BTreeSet<i32> {
    let me = std::process::id() as i32;
    let mut all = BTreeSet::new();
    if !Path::new("/proc/thread-self/children").exists() {
        return descendants_by_parent(me);
    }
    let mut open = vec![me];
    while let Some(pid) = open.pop() {
        let tasks = fs_err::read_dir(format!("/proc/{pid}/task")).ok().into_iter().flatten();
        for task in tasks.flatten() {
            let Ok(list) = fs_err::read_to_string(task.path().join("children")) else { continue };
            for child in list.split_whitespace().filter_map(|word| word.parse().ok()) {
                if all.insert(child) {
                    open.push(child);
                }
            }
        }
    }
    all
}

fn descendants_by_parent(me: i32) -> BTreeSet<i32> {
    let parents: Vec<(i32, i32)> = processes()
        .filter_map(|pid| {
            let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold spaces and parentheses.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut all = BTreeSet::from([me]);
    loop {
        let before = all.len();
        all.extend(
            parents
                .iter()
                .filter(|(_, up)| all.contains(up))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if all.len() == before {
            all.remove(&me);
            return all;
        }
    }
}
