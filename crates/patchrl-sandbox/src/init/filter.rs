//! The system calls that a command may not make.
//!
//! A list of refusals, since a test suite may call anything else. In front of
//! it stands a check for the second numbering of x86-64, which would walk
//! around the list.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::Step;
use crate::Tier;

/// What the filter must do because nothing else does.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other")]
pub(super) struct Weakness {
    /// The command runs as the user who started it, so that user's files could
    /// be given other modes, times and owners by name.
    same_user: bool,
    /// Landlock does not keep signals inside (before version 6).
    signals: bool,
    /// Landlock does not stop `truncate` by name (before version 3).
    truncate: bool,
    /// No control group counts memory that belongs to no process.
    memory: bool,
}

impl Weakness {
    pub(super) fn here(same_user: bool, memory: bool) -> Self {
        let version = landlock_version();
        Self { same_user, signals: version < 6, truncate: version < 3, memory }
    }
}

/// The version of Landlock in this kernel; 0 or less if it is off.
pub(crate) fn landlock_version() -> i64 {
    #[expect(unsafe_code, reason = "a question to the kernel")]
    // SAFETY: a null pointer with size 0 and flag 1 asks for the version only.
    unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, 1_u32)
    }
}

/// Close the door for this process and all it starts. `init` is the process
/// that watches it.
pub(super) fn apply(tier: Tier, weak: Weakness, init: i32) -> Step<()> {
    let fail = |e: String| format!("seccomp: {e}");
    // The C library falls back to clone, whose flags can be read.
    install(program([(libc::SYS_clone3, vec![])].into(), libc::ENOSYS).map_err(fail)?, fail)?;
    let landlock = tier == Tier::Landlock;
    if landlock && weak.same_user {
        // Say yes and do nothing: copying files with their times must not fail.
        install(program(metadata(), 0).map_err(fail)?, fail)?;
    }
    let mut rules = refused()?;
    if landlock {
        rules.insert(libc::SYS_socket, vec![]);
        rules.insert(libc::SYS_socketpair, vec![not_domains(&[libc::AF_UNIX])?]);
        for call in [libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open] {
            rules.insert(call, vec![]); // would outlive the command
        }
        if weak.signals {
            signals(&mut rules, init)?;
        }
        if weak.same_user {
            scheduling(&mut rules, init)?;
        }
        if weak.truncate {
            rules.insert(libc::SYS_truncate, vec![]);
        }
    } else {
        let inside = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        rules.insert(libc::SYS_socket, vec![not_domains(&inside)?]);
    }
    if weak.memory {
        rules.insert(libc::SYS_memfd_create, vec![]);
    }
    install(program(rules, libc::EPERM).map_err(fail)?, fail)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn refused() -> Step<Rules> {
    let mut rules: Rules = [
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_syslog,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
    ]
    .into_iter()
    .map(|call| (call, vec![]))
    .collect();
    let spaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let clone: Step<Vec<_>> = spaces
        .into_iter()
        .map(|flag| {
            let flag = flag as u64;
            rule(vec![condition(0, Len::Qword, Op::MaskedEq(flag), flag)?])
        })
        .collect();
    rules.insert(libc::SYS_clone, clone?);
    // Pushing characters into a terminal that others read.
    let tiocsti = condition(1, Len::Dword, Op::Eq, libc::TIOCSTI)?;
    rules.insert(libc::SYS_ioctl, vec![rule(vec![tiocsti])?]);
    Ok(rules)
}

/// Calls that change a file's mode, owner, times or attributes by its name.
fn metadata() -> Rules {
    let mut calls = vec![
        libc::SYS_fchmodat,
        452, // fchmodat2
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        463, // setxattrat
        466, // removexattrat
        469, // file_setattr
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
    ]);
    let mut rules: Rules = calls.into_iter().map(|call| (call, vec![])).collect();
    // futimens is utimensat without a name, on a descriptor that Landlock has seen.
    if let Ok(named) = condition(1, Len::Qword, Op::Ne, 0).and_then(|c| rule(vec![c])) {
        rules.insert(libc::SYS_utimensat, vec![named]);
    }
    rules
}

/// The first argument names a process as old as the init or older. Such a
/// process is not the command's.
fn older(argument: u8, init: i32) -> Step<SeccompRule> {
    rule(vec![
        condition(argument, Len::Dword, Op::Le, init as u64)?,
        condition(argument, Len::Dword, Op::Ne, 0)?,
    ])
}

/// Signals go to younger processes and groups only.
fn signals(rules: &mut Rules, init: i32) -> Step<()> {
    // A group is a negative number, here read without sign; -1 is everyone.
    let groups = u64::from(init.wrapping_neg() as u32);
    let groups = rule(vec![condition(0, Len::Dword, Op::Ge, groups)?])?;
    rules.insert(libc::SYS_kill, vec![older(0, init)?, groups]);
    for call in [
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
    ] {
        rules.insert(call, vec![older(0, init)?]);
    }
    Ok(())
}

/// Limits, priorities and processors of others stay as they are.
fn scheduling(rules: &mut Rules, init: i32) -> Step<()> {
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
    ] {
        rules.insert(call, vec![older(0, init)?]);
    }
    for call in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        let group_or_user = rule(vec![condition(0, Len::Dword, Op::Ge, 2)?])?;
        rules.insert(call, vec![older(1, init)?, group_or_user]);
    }
    Ok(())
}

fn not_domains(domains: &[i32]) -> Step<SeccompRule> {
    let others: Step<Vec<_>> =
        domains.iter().map(|d| condition(0, Len::Dword, Op::Ne, *d as u64)).collect();
    rule(others?)
}

fn condition(argument: u8, length: Len, op: Op, value: u64) -> Step<SeccompCondition> {
    SeccompCondition::new(argument, length, op, value).map_err(|e| e.to_string())
}

fn rule(conditions: Vec<SeccompCondition>) -> Step<SeccompRule> {
    SeccompRule::new(conditions).map_err(|e| e.to_string())
}

fn program(rules: Rules, errno: i32) -> Step<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let refuse = SeccompAction::Errno(errno as u32);
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(|e| e.to_string())?;
    BpfProgram::try_from(filter).map_err(|e| e.to_string())
}

fn install(program: BpfProgram, fail: impl Fn(String) -> String) -> Step<()> {
    // load the call's number; below 0x4000_0000 go on, else refuse
    let guard = [
        instruction(0x20, 0, 0, 0),
        instruction(0x35, 0, 1, 0x4000_0000),
        instruction(0x06, 0, 0, 0x0005_0000 | libc::EPERM as u32),
    ];
    let whole: BpfProgram = guard.into_iter().chain(program).collect();
    seccompiler::apply_filter(&whole).map_err(|e| fail(e.to_string()))
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> seccompiler::sock_filter {
    seccompiler::sock_filter { code, jt, jf, k }
}
