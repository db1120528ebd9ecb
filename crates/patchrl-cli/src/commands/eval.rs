//! `patchrl eval`: measure a model on tasks.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::{self, Session};
use crate::settings::{Environment, SandboxChoice, Settings};

/// `patchrl eval ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Eval {
    /// Sample answers, judge them, and count.
    Run(RunEval),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Tasks marked as held out.
    HeldOut,
    /// Tasks to train on.
    Train,
    /// All of them.
    All,
}

#[derive(Debug, Args)]
pub(crate) struct RunEval {
    /// Configuration file; flags go before it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A folder, a GGUF file, `smollm2-135m`, or `owner/name` on the hub.
    #[arg(long)]
    model: Option<String>,
    /// `toy`, or a file of SWE-bench rows.
    #[arg(long, value_name = "FILE")]
    tasks: Option<String>,
    /// Which tasks of the set.
    #[arg(long, value_enum, default_value = "held-out")]
    split: Side,
    /// Folder with local clones of the tasks' repositories.
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    /// Where tests run.
    #[arg(long, value_enum)]
    sandbox: Option<SandboxChoice>,
    /// Answers per task.
    #[arg(long)]
    samples: Option<u32>,
    /// Sampling temperature; 0 is greedy.
    #[arg(long)]
    temperature: Option<f32>,
    /// Tokens of one answer.
    #[arg(long)]
    max_new_tokens: Option<usize>,
    /// Measure on this many tasks at most.
    #[arg(long)]
    limit: Option<usize>,
    /// Seed of the draws.
    #[arg(long)]
    seed: Option<u64>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Eval, environment: &Environment) -> anyhow::Result<Exit> {
    let Eval::Run(flags) = command;
    let settings = settings(flags)?;
    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    let model = session.find_model(&mut console)?;
    let tasks = session.tasks(|task| match flags.split {
        Side::HeldOut => session::is_held_out(task),
        Side::Train => session::is_train(task),
        Side::All => true,
    })?;
    if tasks.is_empty() {
        return Err(usage(
            format!("`{}` has no task in the split `{:?}`", settings.tasks, flags.split),
            "try `--split all`",
        ));
    }
    let ready = session.prepare(&tasks, &mut console)?;
    let policy = session::load_policy(&model)?;
    let shares = super::quickstart::evaluate(&session, &policy, &ready, &mut console)?;
    printer::report(Form::of(flags.json), &json!(shares), || {
        format!(
            "{} answers to {} tasks: valid diff {:.1} %, applied {:.1} %, resolved {:.1} % ({:.0} s)",
            shares.samples,
            shares.tasks,
            shares.valid_diff * 100.0,
            shares.applied * 100.0,
            shares.resolved * 100.0,
            shares.seconds
        )
    })?;
    Ok(Exit::Success)
}

fn settings(flags: &RunEval) -> anyhow::Result<Settings> {
    let mut s = match &flags.config {
        Some(file) => Settings::load(file)?,
        None => Settings::default(),
    };
    if let Some(model) = &flags.model {
        s.model.clone_from(model);
    }
    if let Some(tasks) = &flags.tasks {
        s.tasks.clone_from(tasks);
    }
    s.repos = flags.repos.clone().or(s.repos);
    s.sandbox = flags.sandbox.unwrap_or(s.sandbox);
    s.eval.samples = flags.samples.unwrap_or(s.eval.samples);
    s.eval.temperature = flags.temperature.unwrap_or(s.eval.temperature);
    s.eval.limit = flags.limit.unwrap_or(s.eval.limit);
    s.sampling.max_new_tokens = flags.max_new_tokens.unwrap_or(s.sampling.max_new_tokens);
    s.train.seed = flags.seed.unwrap_or(s.train.seed);
    s.check(Path::new("flags"))?;
    Ok(s)
}
