//! What this machine gives a sandbox, found by trying.
//!
//! Starts each tier and runs trivial commands in it; changes nothing that stays.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::init::landlock_version;
use crate::local::cgroup::Groups;
use crate::{Job, Local, Tier, TierChoice, reap};

/// The answer of [`probe`].
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The tier that [`TierChoice::Auto`] gives; `None` if there is none.
    pub tier: Option<Tier>,
    /// Each thing a sandbox can be made of.
    pub features: Vec<Feature>,
}

/// One thing a sandbox can be made of.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// It is there.
    pub have: bool,
    /// What was seen.
    pub detail: String,
    /// What would turn it on.
    pub turn_on: Option<String>,
}

/// Try everything in a folder that is removed afterwards.
pub fn probe() -> Report {
    let dir = std::env::temp_dir().join(format!("patchrl-probe-{}", std::process::id()));
    let report = match std::env::current_exe() {
        Ok(init) => probe_with_init(&dir, &init),
        Err(e) => Report { tier: None, features: vec![missing("own binary", e.to_string(), None)] },
    };
    let _ = reap(&dir);
    let _ = crate::scratch::remove_tree(&dir);
    report
}

/// Like [`probe`], with a folder and a binary that calls [`crate::init_main`].
pub fn probe_with_init(dir: &Path, init: &Path) -> Report {
    let mut features = Vec::new();
    let mut tier = None;
    for each in [Tier::Namespaces, Tier::Landlock] {
        match Local::start_with_init(TierChoice::Exactly(each), dir, init) {
            Ok(local) => {
                let open = openings(&local);
                if open.is_empty() {
                    tier = tier.or(Some(each));
                    features.push(have(name(each), "a command ran behind it".to_owned()));
                } else {
                    features.push(missing(name(each), open.join("; "), None));
                }
            }
            Err(e) => {
                let why = match e {
                    crate::SandboxError::TierMissing { why, .. } => why,
                    other => other.to_string(),
                };
                features.push(missing(name(each), why, Some(remedy(each))));
            }
        }
    }
    features.push(match landlock_version() {
        version @ 6.. => have("landlock", format!("version {version}: files, TCP, signals")),
        version @ 1.. => missing(
            "landlock signals",
            format!("version {version} keeps no signals inside; the call filter does"),
            Some("Linux 6.12".to_owned()),
        ),
        _ => missing("landlock", "not in this kernel".to_owned(), Some(remedy(Tier::Landlock))),
    });
    let groups = Groups::find();
    for (name, there) in
        [("memory control group", groups.memory()), ("process control group", groups.processes())]
    {
        features.push(if there {
            have(name, "the kernel holds the limit".to_owned())
        } else {
            let how = "the limit is held by counting and by rlimits".to_owned();
            let remedy = "run as root, or in a delegated group (`systemd-run --user --scope`)";
            missing(name, how, Some(remedy.to_owned()))
        });
    }
    Report { tier, features }
}

/// Doors that should be shut and are not.
fn openings(local: &Local) -> Vec<String> {
    // The shell's own redirections, so that nothing need be installed.
    const TRIES: [(&str, &str); 3] = [
        ("the host can be written to", "echo x 2>/dev/null > /etc/patchrl-probe"),
        (
            "the kernel's settings can be written to",
            "echo sandbox 2>/dev/null > /proc/sys/kernel/domainname",
        ),
        ("root's files can be read", "read line < /etc/shadow"),
    ];
    let mut open = Vec::new();
    let Some(base) = local.empty_tree() else { return vec!["no folder to try in".to_owned()] };
    for (what, command) in TRIES {
        let mut job = Job::new(&base, ["/bin/sh", "-c", &format!("{{ {command}; }} 2>/dev/null")]);
        job.limits.wall = Duration::from_secs(20);
        match local.run(&job) {
            Ok(output) if output.success() => open.push(what.to_owned()),
            Ok(_) => {}
            Err(e) => open.push(e.to_string()),
        }
    }
    open
}

fn name(tier: Tier) -> &'static str {
    match tier {
        Tier::Namespaces => "namespaces",
        Tier::Landlock => "landlock and call filter",
        Tier::None => "none",
    }
}

fn remedy(tier: Tier) -> String {
    match tier {
        Tier::Namespaces => "run as root with CAP_SYS_ADMIN, or allow user namespaces: \
            `sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000`, on Ubuntu \
            `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, in Docker \
            `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"
            .to_owned(),
        _ => "Linux 5.13 or newer with `landlock` in the kernel's `lsm=` list".to_owned(),
    }
}

fn have(name: &'static str, detail: String) -> Feature {
    Feature { name, have: true, detail, turn_on: None }
}

fn missing(name: &'static str, detail: String, turn_on: Option<String>) -> Feature {
    Feature { name, have: false, detail, turn_on }
}
