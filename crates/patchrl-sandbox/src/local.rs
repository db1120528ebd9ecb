//! The embedded sandbox, seen from the program that uses it.
//!
//! Owns the choice of a tier, the state folder and the life of one job:
//! recorded before it starts, gone from the disk, the process table and the
//! control groups when [`Local::run`] returns. The walls themselves are in
//! [`crate::init`]. Not a boundary against kernel exploits.

pub(crate) mod cgroup;
mod launch;
pub(crate) mod record;
mod users;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::init::wire::{Spec, Write1};
use crate::init::{Places, split};
use crate::{Job, Output, SandboxError, Tier, TierChoice};
use cgroup::Groups;
use record::Record;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A working sandbox on this machine.
#[derive(Debug)]
pub struct Local {
    tier: Tier,
    init: PathBuf,
    state_dir: PathBuf,
    groups: Groups,
    /// Who started this process, so that its number may be used again.
    born: u64,
    next: AtomicU64,
}

impl Local {
    /// Choose a tier by running a trivial command in it. Live jobs are recorded
    /// in `state_dir` for [`crate::reap`].
    pub fn start(choice: TierChoice, state_dir: &Path) -> Result<Self, SandboxError> {
        let init = std::env::current_exe()?;
        Self::start_with_init(choice, state_dir, &init)
    }

    /// Like [`Local::start`], with another binary that calls [`crate::init_main`].
    pub fn start_with_init(
        choice: TierChoice,
        state_dir: &Path,
        init: &Path,
    ) -> Result<Self, SandboxError> {
        if std::env::args_os().nth(1).is_some_and(|word| word == crate::init::WORD) {
            let why = "this program does not call `init_main` first in `main`";
            return Err(SandboxError::Setup(why.to_owned()));
        }
        let tiers = match choice {
            TierChoice::Auto => vec![Tier::Namespaces, Tier::Landlock],
            TierChoice::NoneByName => vec![Tier::None],
            TierChoice::Exactly(tier) => vec![tier],
        };
        for name in ["root", "empty", "live", "work"] {
            fs_err::create_dir_all(state_dir.join(name))?;
        }
        let mut local = Self {
            tier: Tier::None,
            init: init.to_owned(),
            state_dir: fs_err::canonicalize(state_dir)?,
            groups: Groups::find(),
            born: record::born(std::process::id()).unwrap_or(0),
            next: AtomicU64::new(0),
        };
        let mut reasons = Vec::new();
        for tier in &tiers {
            local.tier = *tier;
            match local.trial() {
                Ok(()) => return Ok(local),
                Err(why) => reasons.push((*tier, why)),
            }
        }
        if let ([_], Some((tier, why))) = (tiers.as_slice(), reasons.first()) {
            return Err(SandboxError::TierMissing { tier: *tier, why: why.clone() });
        }
        let reasons: Vec<String> = reasons.iter().map(|(t, why)| format!("{t}: {why}")).collect();
        Err(SandboxError::NoTier { why: reasons.join("; ") })
    }

    /// The tier that was chosen.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Control groups limit memory and processes; without them the init counts.
    pub fn has_cgroups(&self) -> bool {
        self.groups.memory()
    }

    /// Run one job to its end. May be called from many threads at once; the
    /// calling thread must live as long as the job.
    pub fn run(&self, job: &Job) -> Result<Output, SandboxError> {
        check(job)?;
        let live = self.prepare()?;
        let (spec, blob) = self.spec(job, &live)?;
        launch::run(&self.init, &live.record, &spec, &blob)
    }

    /// A tree with nothing in it, to try things in.
    pub(crate) fn empty_tree(&self) -> Option<PathBuf> {
        let dir = self.state_dir.join("empty");
        dir.is_dir().then_some(dir)
    }

    /// The walls stand: a shell starts behind them and may write where it should.
    fn trial(&self) -> Result<(), String> {
        if self.tier == Tier::Landlock && crate::init::landlock_version() < 1 {
            return Err("this kernel has no Landlock, or it is switched off".to_owned());
        }
        let base = self.state_dir.join("empty");
        let mut job =
            Job::new(base, ["/bin/sh", "-c", "echo x > f && echo y > \"$PATCHRL_OUT/g\""]);
        job.limits.wall = std::time::Duration::from_secs(20);
        let output = self.run(&job).map_err(|e| match e {
            SandboxError::Setup(why) => why,
            other => other.to_string(),
        })?;
        if output.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.output).trim_end().to_owned();
        Err(format!("a trivial command ended with {} ({said})", output.ending))
    }

    /// Everything outside the process that must go again, written down first.
    fn prepare(&self) -> Result<Live, SandboxError> {
        let pid = std::process::id();
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        // Two `Local`s of one process may share the folder.
        let unique = std::ptr::from_ref(self) as usize;
        let id = format!("{pid}-{}-{unique:x}-{n}", self.born);
        let work = (self.tier != Tier::Namespaces).then(|| self.state_dir.join("work").join(&id));
        let record = Record {
            owner: pid,
            born: self.born,
            uid: users::pick(pid, n),
            cgroups: self.groups.paths(&id),
            work,
            id,
        };
        let file = self.state_dir.join("live").join(format!("{}.json", record.id));
        record.write(&file)?;
        let live = Live { record, file };
        if let Some(work) = &live.record.work {
            fs_err::create_dir(work)?;
            open_the_way(work)?;
        }
        Ok(live)
    }

    fn spec(&self, job: &Job, live: &Live) -> Result<(Spec, Vec<u8>), SandboxError> {
        let record = &live.record;
        self.groups.create(&record.id, &job.limits)?;
        let places = Places::of(record.work.as_deref());
        let words = [
            ("{workspace}", places.workspace.display().to_string()),
            ("{out}", places.out.display().to_string()),
            ("{tmp}", places.tmp.display().to_string()),
        ];
        let place =
            |text: &str| words.iter().fold(text.to_owned(), |t, (from, to)| t.replace(from, to));
        let mut env: std::collections::BTreeMap<String, String> = [
            ("PATH", PATH),
            ("HOME", &words[2].1),
            ("TMPDIR", &words[2].1),
            ("LANG", "C.UTF-8"),
            ("PATCHRL_OUT", &words[1].1),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        env.extend(job.env.iter().map(|(name, value)| (name.clone(), place(value))));
        env.insert(record::MARK.to_owned(), record.id.clone());
        let mut blob = Vec::new();
        let writes = job.writes.iter().map(|(path, write)| {
            let start = blob.len();
            blob.extend_from_slice(write.as_ref().map_or(&[], |w| &w.bytes));
            Write1 {
                path: path.clone(),
                mode: write.as_ref().map_or(0, |w| w.mode),
                symlink: write.as_ref().is_some_and(|w| w.symlink),
                span: write.as_ref().map(|_| (start, blob.len())),
            }
        });
        let writes = writes.collect();
        let spec = Spec {
            tier: self.tier,
            parent: std::process::id() as i32,
            base: fs_err::canonicalize(&job.base)?,
            argv: job.argv.iter().map(|word| place(word)).collect(),
            env,
            read_only: visible(&job.read_only)?,
            collect: job.collect.clone(),
            limits: job.limits.clone(),
            uid: record.uid,
            mount_point: self.state_dir.join("root"),
            work: record.work.clone(),
            cgroups: record.cgroups.clone(),
            watch_memory: !self.groups.memory(),
            watch_processes: !self.groups.processes(),
            writes,
        };
        Ok((spec, blob))
    }
}

/// A job's traces outside its processes; dropping it removes them.
struct Live {
    record: Record,
    file: PathBuf,
}

impl Drop for Live {
    fn drop(&mut self) {
        // What could not be removed keeps its record, for `reap`.
        if self.record.clean_up().is_ok() {
            let _ = fs_err::remove_file(&self.file);
        }
    }
}

/// Others may go through the work folder but not look into it.
fn open_the_way(work: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(work, PermissionsExt::from_mode(0o711))
}

fn check(job: &Job) -> Result<(), SandboxError> {
    let bad = |why: String| Err(SandboxError::BadJob(why));
    if job.argv.first().is_none_or(String::is_empty) {
        return bad("no program given".to_owned());
    }
    let zero = |text: &String| text.contains('\0');
    if job.argv.iter().any(zero)
        || job.env.iter().any(|(k, v)| zero(k) || zero(v) || k.contains('='))
    {
        return bad("a zero byte in the command or its environment".to_owned());
    }
    if !job.base.is_dir() {
        return bad(format!("the tree `{}` does not exist", job.base.display()));
    }
    if let Some(path) = job.writes.keys().find(|path| split(path).is_none()) {
        return bad(format!("`{path}` does not lie in the workspace"));
    }
    if let Some(path) = job.collect.iter().find(|path| split(path).is_none()) {
        return bad(format!("`{path}` does not lie in the output folder"));
    }
    Ok(())
}

/// Each path as given and as it really is, outer ones first.
fn visible(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SandboxError> {
    const OURS: [&str; 5] = ["/workspace", "/out", "/tmp", "/proc", "/dev"];
    let mut all = std::collections::BTreeSet::new();
    for path in paths {
        let real = fs_err::canonicalize(path)?;
        for one in [path, &real] {
            let dots = one.components().any(|c| c == std::path::Component::ParentDir);
            if !one.is_absolute()
                || dots
                || OURS.iter().any(|our| one == Path::new(our))
                || one == Path::new("/")
            {
                let why = format!("`{}` cannot be shown in the sandbox", one.display());
                return Err(SandboxError::BadJob(why));
            }
            all.insert(one.clone());
        }
    }
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in all {
        if !kept.iter().any(|outer| path.starts_with(outer)) {
            kept.push(path);
        }
    }
    Ok(kept)
}
