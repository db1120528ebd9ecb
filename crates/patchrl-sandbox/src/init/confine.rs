//! The last steps of a process before it becomes the untrusted command.
//!
//! Everything that can fail or needs memory is prepared in [`Plan::of`]; what
//! the child does after the fork ends in `exec` or in exit code 126 or 127.

use std::ffi::CString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid};

use super::wire::Spec;
use super::{Places, Step, filter, root};
use crate::Tier;

/// The newest rights asked for; a kernel that knows fewer gets fewer.
const NEWEST: ABI = ABI::V6;
/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`.
const FILE_RIGHTS: u64 = 1 << 1 | 1 << 2;

/// What programs read in `/etc`. Not all of it: the command may run as user 0 or
/// with root's right to read.
const SETTINGS: [&str; 24] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/tls/certs",
    "protocols",
    "python3",
    "services",
    "ssl/certs",
    "timezone",
];

/// End this process when its parent ends.
pub(super) fn die_with_parent() {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64);
}

/// Processes that lose their parent become children of this one.
pub(super) fn become_subreaper() -> Step<()> {
    match prctl(libc::PR_SET_CHILD_SUBREAPER, 1) {
        0 => Ok(()),
        _ => Err("adopting orphans was refused".to_owned()),
    }
}

/// Make this process unreadable for its children.
pub(super) fn hide() {
    prctl(libc::PR_SET_DUMPABLE, 0);
}

/// The path is part of what every command sees.
pub(super) fn is_system(path: &Path) -> bool {
    root::SYSTEM.iter().any(|name| path.starts_with(Path::new("/").join(name)))
}

/// All that the child needs.
pub(super) struct Plan {
    argv: Vec<CString>,
    env: Vec<CString>,
    programs: Vec<CString>,
    cwd: PathBuf,
    limits: Vec<(Resource, u64)>,
    /// Whom to become, where that is not done already.
    uid: Option<u32>,
    /// Keep the right to read what only root may: an interpreter in root's home.
    keep_file_rights: bool,
    landlock: Option<RulesetCreated>,
    tier: Tier,
    /// Whether the filter stands in for missing walls.
    weak: filter::Weakness,
}

impl Plan {
    pub(super) fn of(spec: &Spec, places: &Places) -> Step<Self> {
        let c = |text: String| CString::new(text).map_err(|_| "a zero byte in the command");
        let argv: Result<Vec<_>, _> = spec.argv.iter().cloned().map(c).collect();
        let env: Result<Vec<_>, _> = spec.env.iter().map(|(k, v)| c(format!("{k}={v}"))).collect();
        let programs: Result<Vec<_>, _> = programs(spec).into_iter().map(c).collect();
        let landlock = match spec.tier {
            Tier::Namespaces => inner_ruleset().ok(),
            Tier::Landlock => Some(outer_ruleset(spec, places)?),
            Tier::None => None,
        };
        let mut visible = vec![places.workspace.as_path()];
        visible.extend(spec.read_only.iter().map(PathBuf::as_path));
        let open = visible.iter().all(|path| open_to_all(path));
        // Without a user namespace only another user is bound by the limit on processes.
        let uid = spec.uid.filter(|_| spec.tier != Tier::Namespaces);
        Ok(Self {
            argv: argv?,
            env: env?,
            programs: programs?,
            cwd: places.workspace.clone(),
            limits: limits(spec),
            uid,
            keep_file_rights: uid.is_some() && !open,
            landlock,
            tier: spec.tier,
            weak: filter::Weakness::here(uid.is_none(), spec.watch_memory),
        })
    }

    /// In the child: become the command.
    pub(super) fn exec(self, output: RawFd, init: i32) -> ! {
        let code = match self.confine(output, init) {
            Ok(()) => self.start(),
            Err(why) => {
                complain(&format!("patchrl: the sandbox could not be closed: {why}\n"));
                126
            }
        };
        #[expect(unsafe_code, reason = "a forked child must not run exit handlers")]
        // SAFETY: ends the process at once.
        unsafe {
            libc::_exit(code)
        }
    }

    fn confine(&self, output: RawFd, init: i32) -> Step<()> {
        #[expect(unsafe_code, reason = "standard descriptors and signal dispositions")]
        // SAFETY: `output` is open; this process has one thread and no handlers.
        unsafe {
            if libc::dup2(output, 1) < 0 || libc::dup2(output, 2) < 0 {
                return Err("no output".to_owned());
            }
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
        let _ = nix::unistd::setsid();
        prctl(libc::PR_SET_DUMPABLE, 1);
        // The kernel, short of memory, shall take the command before anything else.
        let _ = fs_err::write("/proc/self/oom_score_adj", "1000");
        for (resource, value) in &self.limits {
            let hard = getrlimit(*resource).map_or(*value, |(_, hard)| hard.min(*value));
            setrlimit(*resource, hard, hard).map_err(|e| format!("limit {resource:?}: {e}"))?;
        }
        nix::unistd::chdir(&self.cwd).map_err(|e| format!("entering the workspace: {e}"))?;
        self.become_user()?;
        if self.tier != Tier::None || self.uid.is_some() {
            self.drop_capabilities()?;
        }
        die_with_parent();
        if self.tier == Tier::None {
            return Ok(());
        }
        if nix::unistd::getppid().as_raw() != init && self.tier != Tier::Namespaces {
            return Err("the init is gone".to_owned());
        }
        if prctl(libc::PR_SET_NO_NEW_PRIVS, 1) != 0 {
            return Err("no-new-privileges was refused".to_owned());
        }
        if let Some(ruleset) = &self.landlock {
            let ruleset = ruleset.try_clone().map_err(|e| format!("landlock: {e}"))?;
            ruleset.restrict_self().map_err(|e| format!("landlock: {e}"))?;
        }
        filter::apply(self.tier, self.weak, init)
    }

    fn become_user(&self) -> Step<()> {
        let Some(uid) = self.uid else { return Ok(()) };
        if self.keep_file_rights {
            prctl(libc::PR_SET_KEEPCAPS, 1);
        }
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
        nix::unistd::setgroups(&[]).map_err(|e| format!("giving up groups: {e}"))?;
        nix::unistd::setresgid(group, group, group).map_err(|e| format!("giving up root: {e}"))?;
        nix::unistd::setresuid(user, user, user).map_err(|e| format!("giving up root: {e}"))
    }

    /// Give up every capability, or every one but the two for reading files; where
    /// there is Landlock, they do not overrule it.
    fn drop_capabilities(&self) -> Step<()> {
        let keep = if self.keep_file_rights { FILE_RIGHTS } else { 0 };
        for cap in 0..64 {
            if keep & 1 << cap == 0 {
                prctl(libc::PR_CAPBSET_DROP, cap);
            }
        }
        capabilities(keep)?;
        for cap in 0..64 {
            if keep & 1 << cap != 0 {
                #[expect(unsafe_code, reason = "a five-argument prctl")]
                // SAFETY: plain numbers.
                unsafe {
                    libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, cap, 0, 0);
                }
            }
        }
        Ok(())
    }

    /// Returns only if no program could be started.
    fn start(&self) -> i32 {
        let mut error = nix::errno::Errno::ENOENT;
        for program in &self.programs {
            let Err(e) = nix::unistd::execve(program, &self.argv, &self.env);
            if !matches!(e, nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR) {
                error = e;
            }
        }
        let name = self.argv[0].to_string_lossy();
        complain(&format!("patchrl: cannot run `{name}`: {}\n", error.desc()));
        if error == nix::errno::Errno::ENOENT { 127 } else { 126 }
    }
}

fn complain(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

/// Where the program may be.
fn programs(spec: &Spec) -> Vec<String> {
    let name = &spec.argv[0];
    if name.contains('/') {
        return vec![name.clone()];
    }
    let path = spec.env.get("PATH").map_or("", String::as_str);
    path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| format!("{dir}/{name}")).collect()
}

fn limits(spec: &Spec) -> Vec<(Resource, u64)> {
    let mut limits = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, spec.limits.file_size.0),
        (Resource::RLIMIT_NOFILE, 4096),
        (Resource::RLIMIT_MEMLOCK, 1 << 20),
        (Resource::RLIMIT_MSGQUEUE, 1 << 20),
    ];
    // A user namespace and a user of its own count from zero; a shared user
    // counts everything that it runs.
    let shared = spec.tier != Tier::Namespaces && spec.uid.is_none();
    let others = if shared { super::supervise::tasks_of_user() } else { 0 };
    limits.push((Resource::RLIMIT_NPROC, u64::from(spec.limits.processes) + others));
    if spec.watch_memory {
        limits.push((Resource::RLIMIT_DATA, spec.limits.memory.0));
    }
    limits
}

/// Everybody may read the path and reach it.
fn open_to_all(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let open = |p: &Path, bits| fs_err::metadata(p).is_ok_and(|m| m.mode() & bits == bits);
    let kind = if path.is_dir() { 0o005 } else { 0o004 };
    (open(path, kind) || path.ends_with("workspace"))
        && path.ancestors().skip(1).all(|up| open(up, 0o001))
}

/// Inside namespaces: only what is writable anyway, a second lock on the door.
fn inner_ruleset() -> Result<RulesetCreated, landlock::RulesetError> {
    let writable = ["/workspace", "/tmp", "/out", "/dev", "/proc"];
    let all = AccessFs::from_all(NEWEST);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    ruleset = allow(ruleset, Path::new("/"), AccessFs::from_read(NEWEST))?;
    for path in writable {
        ruleset = allow(ruleset, Path::new(path), all)?;
    }
    Ok(ruleset)
}

/// Without namespaces: the only wall around files.
fn outer_ruleset(spec: &Spec, places: &Places) -> Step<RulesetCreated> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let made = || {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .handle_access(AccessNet::from_all(ABI::V4))?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?
            .create()?;
        for name in root::SYSTEM.into_iter().filter(|name| *name != "etc") {
            ruleset = allow(ruleset, &Path::new("/").join(name), read)?;
        }
        for name in SETTINGS {
            ruleset = allow(ruleset, &Path::new("/etc").join(name), read)?;
        }
        for name in ["/proc", "/sys/devices/system/cpu"] {
            ruleset = allow(ruleset, Path::new(name), read)?;
        }
        for path in &spec.read_only {
            ruleset = allow(ruleset, path, read)?;
        }
        for name in root::DEVICES {
            let rights = AccessFs::ReadFile | AccessFs::WriteFile;
            ruleset = allow(ruleset, &Path::new("/dev").join(name), rights)?;
        }
        for path in [&places.workspace, &places.out, &places.tmp] {
            ruleset = allow(ruleset, path, all)?;
        }
        Ok::<_, landlock::RulesetError>(ruleset)
    };
    made().map_err(|e| format!("landlock: {e}"))
}

/// A path that does not exist needs no rule.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(ruleset) };
    let rights = if path.is_dir() { rights } else { rights & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(fd, rights))
}

fn capabilities(keep: u64) -> Step<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let mut data = [0_u32; 6]; // effective, permitted, inheritable; low words, then high
    #[expect(unsafe_code, reason = "capset has no wrapper")]
    // SAFETY: both arrays have the layout of version 3 and outlive the calls.
    unsafe {
        let mut now = [0_u32; 6];
        libc::syscall(libc::SYS_capget, header.as_ptr(), now.as_mut_ptr());
        data[..3].fill(keep as u32 & now[1]);
        if libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) != 0 {
            return Err(format!("dropping capabilities: {}", std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

fn prctl(option: i32, value: u64) -> i32 {
    #[expect(unsafe_code, reason = "prctl")]
    // SAFETY: only options that take one number are passed.
    unsafe {
        libc::prctl(option, value, 0_u64, 0_u64, 0_u64)
    }
}
