//! The sandbox from outside, in each tier that this machine gives, and in containers.
//!
//! Has its own `main` since the test binary is also the sandboxes' init.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests report and stop")]

mod docker;
mod engine;
mod hostile;
mod life;
mod registry;
mod tree;

use std::panic::catch_unwind;
use std::time::Instant;

use patchrl_sandbox::{Job, Local, Output, SandboxError, Tier, TierChoice};

pub(crate) type Test = (&'static str, fn(&Fixture));

/// A sandbox of one tier with a small tree.
pub(crate) struct Fixture {
    pub(crate) local: Local,
    pub(crate) dir: tempfile::TempDir,
}

impl Fixture {
    fn new(tier: Tier) -> Result<Self, SandboxError> {
        let dir = tempfile::tempdir()?;
        let base = dir.path().join("base");
        fs_err::create_dir_all(base.join("pkg/deep"))?;
        fs_err::write(base.join("pkg/a.py"), "A = 1\n")?;
        fs_err::write(base.join("pkg/deep/b.txt"), "b\n")?;
        std::os::unix::fs::symlink("a.py", base.join("pkg/link"))?;
        let local = Local::start(TierChoice::Exactly(tier), &dir.path().join("state"))?;
        Ok(Self { local, dir })
    }

    /// A job on the small tree, for twenty seconds.
    pub(crate) fn job<const N: usize>(&self, argv: [&str; N]) -> Job {
        let mut job = Job::new(self.dir.path().join("base"), argv);
        job.limits.wall = std::time::Duration::from_secs(20);
        job
    }

    pub(crate) fn shell(&self, script: &str) -> Job {
        self.job(["/bin/sh", "-c", script])
    }

    /// A job that runs Python code; `None` without a Python.
    pub(crate) fn python(&self, code: &str) -> Option<Job> {
        use std::sync::OnceLock;
        static PYTHON: OnceLock<Option<patchrl_sandbox::python::Interpreter>> = OnceLock::new();
        let python = PYTHON.get_or_init(|| patchrl_sandbox::python::find_interpreter(None).ok());
        let Some(python) = python else {
            println!("skipped: no python3 here");
            return None;
        };
        let mut job = self.job(["", "-c", code]);
        job.argv[0] = python.path.display().to_string();
        job.read_only.clone_from(&python.prefixes);
        Some(job)
    }

    pub(crate) fn run(&self, job: &Job) -> Output {
        self.local.run(job).expect("the sandbox runs")
    }

    /// Nothing of any job is left in the state folder.
    pub(crate) fn assert_clean(&self) {
        for name in ["live", "work"] {
            let left: Vec<_> =
                fs_err::read_dir(self.dir.path().join("state").join(name)).unwrap().collect();
            assert!(left.is_empty(), "left in {name}: {left:?}");
        }
    }
}

/// What a command printed, as text.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.output).trim_end().to_owned()
}

fn main() -> std::process::ExitCode {
    if let Some(code) = patchrl_sandbox::init_main() {
        return std::process::ExitCode::from(code as u8);
    }
    if let Some(code) = life::victim().or_else(docker::victim) {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let tests: Vec<Test> = [tree::TESTS, hostile::TESTS, life::TESTS].concat();
    let mut failed = Vec::new();
    for tier in [Tier::Namespaces, Tier::Landlock, Tier::None] {
        let fixture = match Fixture::new(tier) {
            Ok(fixture) => fixture,
            Err(e) => {
                println!("skipped: tier {tier}: {e}");
                continue;
            }
        };
        for (name, test) in &tests {
            let name = format!("{tier}::{name}");
            run(&args, name, || test(&fixture), &mut failed);
        }
    }
    match engine::Engine::find() {
        Ok(engine) => {
            for (name, test) in docker::TESTS {
                run(&args, format!("docker::{name}"), || test(&engine), &mut failed);
            }
        }
        Err(why) => println!("skipped: docker: {why}"),
    }
    println!("{} failed: {failed:?}", failed.len());
    std::process::ExitCode::from(u8::from(!failed.is_empty()))
}

fn run(args: &[String], name: String, test: impl FnOnce(), failed: &mut Vec<String>) {
    if !args.is_empty() && !args.iter().any(|arg| name.contains(arg)) {
        return;
    }
    let start = Instant::now();
    let result = catch_unwind(std::panic::AssertUnwindSafe(test));
    let word = if result.is_ok() { "ok" } else { "FAILED" };
    println!("test {name} ... {word} ({} ms)", start.elapsed().as_millis());
    if result.is_err() {
        failed.push(name);
    }
}
