//! What the local sandbox adds to an evaluation: make it, apply a patch, run nothing, destroy it.

use std::time::Instant;

use clap::Args;
use patchrl_sandbox::{Ending, FileWrite, Job};
use serde_json::json;

use crate::exit::Exit;
use crate::printer::{self, Form};
use crate::session;
use crate::settings::{Environment, SandboxChoice};

#[derive(Debug, Args)]
pub(crate) struct Overhead {
    /// Files of the tree.
    #[arg(long, default_value_t = 6_800)]
    files: usize,
    /// Evaluations.
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(flags: &Overhead, environment: &Environment) -> anyhow::Result<Exit> {
    let sandbox = session::open_sandbox(SandboxChoice::Local, environment)?;
    fs_err::create_dir_all(&environment.cache)?;
    let base = tempfile::tempdir_in(&environment.cache)?;
    for file in 0..flags.files {
        let folder = base.path().join(format!("package_{:03}", file / 40));
        if file % 40 == 0 {
            fs_err::create_dir_all(&folder)?;
        }
        fs_err::write(folder.join(format!("module_{file}.py")), "x = 1\n".repeat(400))?;
    }
    let mut job = Job::new(base.path(), ["/bin/true"]);
    let changed = FileWrite::regular("x = 2\n".repeat(400));
    job.writes.insert("package_000/module_0.py".to_owned(), Some(changed));
    let mut times = Vec::with_capacity(flags.rounds);
    for _ in 0..flags.rounds.max(1) {
        let start = Instant::now();
        let output = sandbox.run(&job)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(output.ending == Ending::Exited(0), "`true` came to {}", output.ending);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let value = json!({
        "tier": sandbox.tier(), "files": flags.files, "rounds": times.len(),
        "median_ms": at(0.5), "p95_ms": at(0.95), "least_ms": at(0.0),
    });
    printer::report(Form::of(flags.json), &value, || {
        format!(
            "{} evaluations on {} files in the {} tier: {:.1} ms in the middle, {:.1} ms at \
             95 %, {:.1} ms at the least",
            times.len(),
            flags.files,
            sandbox.tier(),
            at(0.5),
            at(0.95),
            at(0.0)
        )
    })?;
    Ok(Exit::Success)
}
