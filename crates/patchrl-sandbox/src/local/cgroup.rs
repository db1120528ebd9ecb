//! Control groups of either version, where this process may make them.
//!
//! A group is made per job below the group this process is in (version 1), or
//! beside it where the controllers are handed down (version 2). Where that is
//! refused the init counts memory itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Limits, SandboxError};

const PREFIX: &str = "patchrl-";

/// Where groups can be made.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    memory_v1: Option<PathBuf>,
    pids_v1: Option<PathBuf>,
    unified: Option<PathBuf>,
}

impl Groups {
    /// Try, and keep what works.
    pub(crate) fn find() -> Self {
        let own = own_groups();
        let v1 = |name: &str, file: &str| {
            let (_, dir) =
                own.iter().find(|(controllers, _)| controllers.split(',').any(|c| c == name))?;
            usable(dir, &[file]).then(|| dir.clone())
        };
        let mut groups = Self {
            memory_v1: v1("memory", "memory.limit_in_bytes"),
            pids_v1: v1("pids", "pids.max"),
            unified: None,
        };
        if groups.memory_v1.is_none() {
            let unified = own.iter().find(|(controllers, _)| controllers.is_empty());
            let beside = unified.iter().filter_map(|(_, dir)| dir.parent().map(Path::to_owned));
            let below = unified.iter().map(|(_, dir)| dir.clone());
            let wanted = ["memory.max", "pids.max"];
            groups.unified = beside.chain(below).find(|dir| usable(dir, &wanted));
        }
        groups
    }

    /// Memory is limited by the kernel.
    pub(crate) fn memory(&self) -> bool {
        self.memory_v1.is_some() || self.unified.is_some()
    }

    /// Processes are limited by the kernel.
    pub(crate) fn processes(&self) -> bool {
        self.pids_v1.is_some() || self.unified.is_some()
    }

    /// The folders of a job's groups.
    pub(crate) fn paths(&self, id: &str) -> Vec<PathBuf> {
        [&self.memory_v1, &self.pids_v1, &self.unified]
            .into_iter()
            .flatten()
            .map(|dir| dir.join(format!("{PREFIX}{id}")))
            .collect()
    }

    /// Make a job's groups with their limits.
    pub(crate) fn create(&self, id: &str, limits: &Limits) -> Result<(), SandboxError> {
        let memory = limits.memory.0.to_string();
        // The init is one or two processes more.
        let processes = (u64::from(limits.processes) + 2).to_string();
        let name = format!("{PREFIX}{id}");
        if let Some(dir) = self.memory_v1.as_ref().map(|dir| dir.join(&name)) {
            fs_err::create_dir(&dir)?;
            fs_err::write(dir.join("memory.limit_in_bytes"), &memory)?;
            // Absent where swap is not counted.
            let _ = fs_err::write(dir.join("memory.memsw.limit_in_bytes"), &memory);
        }
        if let Some(dir) = self.pids_v1.as_ref().map(|dir| dir.join(&name)) {
            fs_err::create_dir(&dir)?;
            fs_err::write(dir.join("pids.max"), &processes)?;
        }
        if let Some(dir) = self.unified.as_ref().map(|dir| dir.join(&name)) {
            fs_err::create_dir(&dir)?;
            fs_err::write(dir.join("memory.max"), &memory)?;
            let _ = fs_err::write(dir.join("memory.swap.max"), "0");
            fs_err::write(dir.join("pids.max"), &processes)?;
        }
        Ok(())
    }
}

/// What the kernel counted.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) peak: Option<u64>,
    /// It killed for lack of memory.
    pub(crate) out_of_memory: bool,
}

impl Measured {
    pub(crate) fn read(dirs: &[PathBuf]) -> Self {
        let mut measured = Self::default();
        for dir in dirs {
            for file in ["memory.max_usage_in_bytes", "memory.peak"] {
                let text = fs_err::read_to_string(dir.join(file)).unwrap_or_default();
                measured.peak = measured.peak.or(text.trim().parse().ok());
            }
            for file in ["memory.oom_control", "memory.events"] {
                let text = fs_err::read_to_string(dir.join(file)).unwrap_or_default();
                let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
                measured.out_of_memory |= kills.is_some_and(|n| n.trim() != "0");
            }
        }
        measured
    }
}

/// Processes in the groups.
pub(crate) fn members(dirs: &[PathBuf]) -> Vec<i32> {
    let lists = dirs.iter().filter_map(|dir| fs_err::read_to_string(dir.join("cgroup.procs")).ok());
    let mut all: Vec<i32> = lists
        .flat_map(|text| text.lines().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The folder is one that [`Groups::paths`] could have named.
pub(crate) fn is_ours(dir: &Path) -> bool {
    dir.starts_with("/sys/fs/cgroup")
        && !dir.components().any(|c| c == std::path::Component::ParentDir)
        && dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Remove the groups; whoever is still in them is killed.
pub(crate) fn remove(dirs: &[PathBuf]) -> std::io::Result<()> {
    let until = Instant::now() + Duration::from_secs(3);
    for dir in dirs {
        // The kernel may take a moment to let go of a group whose last process has ended.
        while let Err(error) = fs_err::remove_dir(dir) {
            if error.kind() == std::io::ErrorKind::NotFound {
                break;
            }
            if Instant::now() >= until {
                return Err(error);
            }
            for pid in members(std::slice::from_ref(dir)) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    Ok(())
}

/// A group can be made in `dir`, has these files, and can be removed.
fn usable(dir: &Path, files: &[&str]) -> bool {
    let trial = dir.join(format!("{PREFIX}trial-{}", std::process::id()));
    if fs_err::create_dir(&trial).is_err() {
        return false;
    }
    let good = files.iter().all(|file| trial.join(file).exists());
    fs_err::remove_dir(&trial).is_ok() && good
}

/// Controllers and folder of each group that this process is in; the unified
/// hierarchy has no controllers in its name.
fn own_groups() -> Vec<(String, PathBuf)> {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let memberships = fs_err::read_to_string("/proc/self/cgroup").unwrap_or_default();
    parse(&mounts, &memberships)
}

fn parse(mounts: &str, memberships: &str) -> Vec<(String, PathBuf)> {
    let mut groups = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let Some((root, point)) = mounts.lines().find_map(|line| mount_of(line, controllers))
        else {
            continue;
        };
        // Seen from inside a container, the mount's root is the container's group.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        groups.push((controllers.to_owned(), Path::new(point).join(below)));
    }
    groups
}

/// Root and mount point, if the line is the hierarchy of these controllers.
fn mount_of<'a>(line: &'a str, controllers: &str) -> Option<(&'a str, &'a str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut kinds = right.split(' ');
    let (kind, options) = (kinds.next()?, kinds.nth(1)?);
    let first = controllers.split(',').next()?;
    let fits = match kind {
        "cgroup2" => controllers.is_empty(),
        "cgroup" => !controllers.is_empty() && options.split(',').any(|option| option == first),
        _ => false,
    };
    let mut fields = left.split(' ');
    let (root, point) = (fields.nth(3)?, fields.next()?);
    fits.then_some((root, point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            31 24 0:27 /docker/ab /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
            32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/job/x\n8:pids:/docker/ab\n1:cpu:/\n0::/user.slice/s\n";
        let dirs: Vec<(String, PathBuf)> = parse(mounts, own);
        let expected = [
            ("memory", "/sys/fs/cgroup/memory/job/x"),
            ("pids", "/sys/fs/cgroup/pids"),
            ("", "/sys/fs/cgroup/unified/user.slice/s"),
        ];
        let expected: Vec<(String, PathBuf)> =
            expected.iter().map(|(c, d)| ((*c).to_owned(), PathBuf::from(d))).collect();
        assert_eq!(dirs, expected);
    }

    #[test]
    fn only_our_own_groups_may_be_removed() {
        assert!(is_ours(Path::new("/sys/fs/cgroup/memory/a/patchrl-1-2")));
        assert!(!is_ours(Path::new("/sys/fs/cgroup/memory/a")));
        assert!(!is_ours(Path::new("/sys/fs/cgroup/patchrl-x/../b")));
    }
}
