//! The life of a sandbox: time, death of the program that uses it, reaping.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use patchrl_sandbox::{Job, Local, Tier, TierChoice, reap};

use crate::hostile::alive_with;
use crate::{Fixture, Test};

pub(crate) const TESTS: &[Test] =
    &[("overhead_is_small", overhead), ("a_killed_owner_takes_its_jobs_along", killed_owner)];

const VICTIM: &str = "PATCHRL_TEST_VICTIM";

/// Be the program that is killed in the middle of a job.
pub(crate) fn victim() -> Option<ExitCode> {
    let dir = std::env::var_os(VICTIM)?;
    let dir = std::path::PathBuf::from(dir);
    let tier = match fs_err::read_to_string(dir.join("tier")).unwrap().as_str() {
        "namespaces" => Tier::Namespaces,
        "landlock" => Tier::Landlock,
        _ => Tier::None,
    };
    let local = Local::start(TierChoice::Exactly(tier), &dir.join("victim")).unwrap();
    let script = "setsid sleep $1 & sleep $1 & sleep $1; true";
    let word = fs_err::read_to_string(dir.join("word")).unwrap();
    let job = Job::new(dir.join("base"), ["/bin/sh", "-c", script, "sh", &word]);
    let _ = local.run(&job);
    Some(ExitCode::SUCCESS)
}

fn overhead(f: &Fixture) {
    let mut times = Vec::new();
    for _ in 0..12 {
        let start = Instant::now();
        assert!(f.run(&f.job(["true"])).success());
        times.push(start.elapsed());
    }
    times.sort();
    let python = f.python("pass").map(|job| {
        let mut times: Vec<Duration> = (0..6)
            .map(|_| {
                let start = Instant::now();
                assert!(f.run(&job).success());
                start.elapsed()
            })
            .collect();
        times.sort();
        times
    });
    println!("  true: min {:?} median {:?}", times[0], times[6]);
    if let Some(times) = python {
        println!("  python3 -c pass: min {:?} median {:?}", times[0], times[3]);
    }
    assert!(times[0] < Duration::from_secs(2));
}

fn killed_owner(f: &Fixture) {
    let dir = f.dir.path().display().to_string();
    let word = format!("6{}", std::process::id());
    fs_err::write(f.dir.path().join("word"), &word).unwrap();
    fs_err::write(f.dir.path().join("tier"), f.local.tier().to_string()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test needs a program to kill")]
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .env(VICTIM, &dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the job to run", || alive_with(&word) == 4);
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_for("the job to die", || alive_with(&word) == 0);
    let state = f.dir.path().join("victim");
    let reaped = reap(&state).unwrap();
    println!("  reaped: {reaped:?}");
    assert!(reaped.failed.is_empty() && reaped.live == 0);
    assert_eq!(reap(&state).unwrap().total(), 0);
    for name in ["live", "work"] {
        assert_eq!(fs_err::read_dir(state.join(name)).unwrap().count(), 0);
    }
}

pub(crate) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
