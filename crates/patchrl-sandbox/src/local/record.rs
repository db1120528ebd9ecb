//! What a job leaves if this process is killed, and finding it again.
//!
//! A record is written before a job starts and removed when nothing of it is
//! left. [`reap`] acts on records whose owner is gone; it touches nothing that
//! no record names.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::cgroup;
use crate::{SandboxError, scratch};

/// The environment variable that names a job, in its init and in its command.
pub(crate) const MARK: &str = "PATCHRL_SANDBOX_JOB";

/// How long killing goes on before it is left to the next [`reap`].
const PATIENCE: Duration = Duration::from_mins(1);

/// One live job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    /// The process that runs the job.
    pub(crate) owner: u32,
    /// When that process started, in clock ticks after boot.
    pub(crate) born: u64,
    pub(crate) uid: Option<u32>,
    pub(crate) cgroups: Vec<PathBuf>,
    pub(crate) work: Option<PathBuf>,
}

/// What [`reap`] found and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reaped {
    /// Processes killed: number and command.
    pub processes: Vec<String>,
    /// Mounts undone.
    pub mounts: Vec<PathBuf>,
    /// Control groups removed.
    pub cgroups: Vec<PathBuf>,
    /// Folders removed.
    pub dirs: Vec<PathBuf>,
    /// Containers removed.
    pub containers: Vec<String>,
    /// Jobs and containers of running processes, left alone.
    pub live: usize,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
}

impl Reaped {
    /// Things removed.
    pub fn total(&self) -> usize {
        self.processes.len()
            + self.mounts.len()
            + self.cgroups.len()
            + self.dirs.len()
            + self.containers.len()
    }
}

/// Remove what jobs of dead processes left.
pub fn reap(state_dir: &Path) -> Result<Reaped, SandboxError> {
    let mut reaped = Reaped::default();
    let Ok(state_dir) = fs_err::canonicalize(state_dir) else { return Ok(reaped) };
    undo_mounts(&state_dir, &mut reaped);
    let Ok(entries) = fs_err::read_dir(state_dir.join("live")) else { return Ok(reaped) };
    for entry in entries {
        let file = entry?.path();
        let Some(record) = read(&file) else {
            fs_err::remove_file(&file)?; // cut while it was written: nothing had started
            continue;
        };
        if born(record.owner) == Some(record.born) {
            reaped.live += 1;
            continue;
        }
        // A record is data on disk; act only on what a record of ours can name.
        let own = |dir: &PathBuf| dir.starts_with(state_dir.join("work"));
        if !record.work.iter().all(own) || !record.cgroups.iter().all(|dir| cgroup::is_ours(dir)) {
            reaped.failed.push(format!("`{}` is not a record of ours", file.display()));
            continue;
        }
        reaped.processes.extend(record.kill_leftovers());
        let there = |dir: &&PathBuf| dir.exists();
        let cgroups: Vec<PathBuf> = record.cgroups.iter().filter(there).cloned().collect();
        let dirs: Vec<PathBuf> = record.work.iter().filter(there).cloned().collect();
        match record.clean_up() {
            Ok(()) => {
                reaped.cgroups.extend(cgroups);
                reaped.dirs.extend(dirs);
                fs_err::remove_file(&file)?;
            }
            Err(e) => reaped.failed.push(e.to_string()),
        }
    }
    Ok(reaped)
}

/// When a process started, in clock ticks after boot; `None` if there is none.
pub(crate) fn born(pid: u32) -> Option<u64> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return None;
    }
    fields.get(19)?.parse().ok()
}

impl Record {
    pub(crate) fn write(&self, file: &Path) -> Result<(), SandboxError> {
        let json = serde_json::to_vec(self).map_err(std::io::Error::from)?;
        let partial = file.with_extension("partial");
        fs_err::write(&partial, json)?;
        Ok(fs_err::rename(&partial, file)?)
    }

    /// Remove control groups and folders.
    pub(crate) fn clean_up(&self) -> std::io::Result<()> {
        cgroup::remove(&self.cgroups)?;
        match &self.work {
            Some(work) if work.exists() => scratch::remove_tree(work),
            _ => Ok(()),
        }
    }

    /// Kill what still carries the job's mark, sits in its control groups or runs
    /// as its user. Says whom.
    pub(crate) fn kill_leftovers(&self) -> Vec<String> {
        let mut killed = std::collections::BTreeMap::new();
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.leftovers();
            if found.is_empty() || Instant::now() >= until {
                return killed.into_values().collect();
            }
            for pid in &found {
                let name = fs_err::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                killed.insert(*pid, format!("{pid} {}", name.trim_end()));
                let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
            }
            for pid in found {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn leftovers(&self) -> Vec<i32> {
        let mark = format!("{MARK}={}", self.id).into_bytes();
        let mut found = cgroup::members(&self.cgroups);
        let me = std::process::id() as i32;
        let Ok(entries) = fs_err::read_dir("/proc") else { return found };
        for entry in entries.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
                continue;
            };
            let ours = match fs_err::read(format!("/proc/{pid}/environ")) {
                Ok(environ) => environ.split(|b| *b == 0).any(|line| line == mark),
                // Without the right to look, the user that only this job has says it.
                Err(_) => self.uid.is_some_and(|uid| user_of(pid) == Some(uid)),
            };
            if ours {
                found.push(pid);
            }
        }
        found.retain(|pid| *pid != me && born(*pid as u32).is_some());
        found
    }
}

fn user_of(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs_err::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

fn read(file: &Path) -> Option<Record> {
    serde_json::from_slice(&fs_err::read(file).ok()?).ok()
}

/// Mounts live in namespaces that die with their processes, so there should be none.
fn undo_mounts(state_dir: &Path, reaped: &mut Reaped) {
    let info = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in info.lines().rev() {
        let Some(point) = line.split(' ').nth(4).map(PathBuf::from) else { continue };
        if point.starts_with(state_dir) && point != state_dir {
            match nix::mount::umount2(&point, nix::mount::MntFlags::MNT_DETACH) {
                Ok(()) => reaped.mounts.push(point),
                Err(e) => reaped.failed.push(format!("unmounting `{}`: {e}", point.display())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_dead_go_and_of_the_living_stay() {
        let temp = tempfile::tempdir().unwrap();
        let state = fs_err::canonicalize(temp.path()).unwrap();
        for (id, owner, start) in
            [("dead", 1, 999), ("live", std::process::id(), born(std::process::id()).unwrap())]
        {
            let work = state.join("work").join(id);
            fs_err::create_dir_all(work.join("workspace")).unwrap();
            fs_err::create_dir_all(state.join("live")).unwrap();
            let record = Record {
                id: id.into(),
                owner,
                born: start,
                uid: None,
                cgroups: vec![],
                work: Some(work),
            };
            record.write(&state.join("live").join(format!("{id}.json"))).unwrap();
        }
        let reaped = reap(&state).unwrap();
        assert_eq!((reaped.dirs.len(), reaped.live), (1, 1));
        assert!(reaped.dirs[0].ends_with("work/dead"));
        assert_eq!(reap(&state).unwrap().total(), 0);
    }

    #[test]
    fn a_forged_record_removes_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let state = fs_err::canonicalize(temp.path()).unwrap();
        fs_err::create_dir_all(state.join("live")).unwrap();
        let target = state.join("precious");
        fs_err::create_dir(&target).unwrap();
        let record = Record {
            id: "x".into(),
            owner: 1,
            born: 0,
            uid: None,
            cgroups: vec![],
            work: Some(target.clone()),
        };
        record.write(&state.join("live/x.json")).unwrap();
        assert_eq!(reap(&state).unwrap().failed.len(), 1);
        assert!(target.exists());
    }
}
