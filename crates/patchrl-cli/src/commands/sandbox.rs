//! `patchrl sandbox`: run something in it, or clean up what a crash left.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use patchrl_sandbox::{Bytes, Ending, Job, Limits};
use serde_json::json;

use super::flags::EngineFlags;
use crate::exit::Exit;
use crate::printer::{self, Form};
use crate::session;
use crate::settings::{Environment, SandboxChoice};

/// `patchrl sandbox ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Sandbox {
    /// Run a command on a throw-away copy of a folder.
    Run(RunIn),
    /// Stop and remove what a killed run left: processes, mounts, control groups, folders,
    /// containers.
    Reap(Reap),
}

#[derive(Debug, Args)]
pub(crate) struct RunIn {
    /// The folder to work on; it is never changed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    base: PathBuf,
    /// Where to run.
    #[arg(long, value_enum, default_value = "local")]
    sandbox: SandboxChoice,
    /// Host paths to make visible, read-only.
    #[arg(long, value_name = "PATH")]
    read_only: Vec<PathBuf>,
    /// Wall seconds.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Memory of all its processes, in MiB.
    #[arg(long, default_value_t = 2048)]
    memory: u64,
    /// Processes and threads at once.
    #[arg(long, default_value_t = 128)]
    processes: u32,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// Program and arguments.
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Reap {
    #[command(flatten)]
    engine: EngineFlags,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Sandbox, environment: &Environment) -> anyhow::Result<Exit> {
    match command {
        Sandbox::Run(flags) => run_in(flags, environment),
        Sandbox::Reap(flags) => reap(flags, environment),
    }
}

fn run_in(flags: &RunIn, environment: &Environment) -> anyhow::Result<Exit> {
    let sandbox = session::open_sandbox(flags.sandbox, environment)?;
    let mut job = Job::new(fs_err::canonicalize(&flags.base)?, flags.command.clone());
    job.read_only.clone_from(&flags.read_only);
    job.limits = Limits {
        wall: Duration::from_secs(flags.timeout),
        memory: Bytes::mib(flags.memory),
        processes: flags.processes,
        ..Limits::default()
    };
    let output = sandbox.run(&job)?;
    let text = String::from_utf8_lossy(&output.output);
    let value = json!({
        "tier": sandbox.tier(),
        "ending": output.ending,
        "seconds": output.wall.as_secs_f64(),
        "peak_memory": output.peak_memory,
        "output": text,
        "output_truncated": output.output_truncated,
    });
    printer::report(Form::of(flags.json), &value, || text.clone().into_owned())?;
    printer::say(&format!(
        "{} after {:.2} s in the {} tier",
        output.ending,
        output.wall.as_secs_f64(),
        sandbox.tier()
    ));
    Ok(if output.ending == Ending::Exited(0) { Exit::Success } else { Exit::Negative })
}

fn reap(flags: &Reap, environment: &Environment) -> anyhow::Result<Exit> {
    let mut found = patchrl_sandbox::reap(&environment.state)?;
    // Without an engine there are no containers.
    match flags.engine.connect(environment) {
        Ok(docker) => {
            if let Err(error) = docker.reap(&mut found) {
                found.failed.push(error.to_string());
            }
        }
        Err(error) if flags.engine.named(environment) => {
            printer::say(&format!("no containers: {error}"));
        }
        Err(_) => {}
    }
    printer::report(Form::of(flags.json), &found, || {
        let mut lines = Vec::new();
        lines.extend(found.processes.iter().map(|p| format!("stopped process {p}")));
        lines.extend(found.mounts.iter().map(|m| format!("undid mount {}", m.display())));
        lines.extend(found.cgroups.iter().map(|c| format!("removed group {}", c.display())));
        lines.extend(found.dirs.iter().map(|d| format!("removed folder {}", d.display())));
        lines.extend(found.containers.iter().map(|c| format!("removed container {c}")));
        lines.extend(found.failed.iter().map(|f| format!("FAILED {f}")));
        if lines.is_empty() {
            lines.push("nothing was left behind".to_owned());
        }
        if found.live > 0 {
            lines.push(format!(
                "{} jobs and containers of running processes were left alone",
                found.live
            ));
        }
        lines.join("\n")
    })?;
    Ok(if found.failed.is_empty() { Exit::Success } else { Exit::Internal })
}
