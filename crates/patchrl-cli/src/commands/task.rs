//! `patchrl task`: look at task sets and check them by running them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use patchrl_train::Listener as _;
use serde_json::json;

use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::{self, Session};
use crate::settings::{Environment, SandboxChoice, Settings};

/// `patchrl task ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run every task's tests without and with its gold patch.
    Validate(Validate),
    /// Count a set.
    Stats(Stats),
    /// Print one task.
    Show(Show),
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// `toy`, or a file of SWE-bench rows.
    tasks: String,
    /// Folder with local clones of the tasks' repositories.
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    /// Where tests run.
    #[arg(long, value_enum, default_value = "local")]
    sandbox: SandboxChoice,
    /// Only tasks whose id holds this text.
    #[arg(long)]
    only: Option<String>,
    /// Runs of each side; a second one finds tests that flicker.
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Seconds one run of a task's tests may take.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Print one JSON object a task.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// `toy`, or a file of SWE-bench rows.
    tasks: String,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// `toy`, or a file of SWE-bench rows.
    tasks: String,
    /// The task's id.
    id: String,
    /// Print the row as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Task, environment: &Environment) -> anyhow::Result<Exit> {
    match command {
        Task::Validate(flags) => validate(flags, environment),
        Task::Stats(flags) => stats(flags),
        Task::Show(flags) => show(flags),
    }
}

fn validate(flags: &Validate, environment: &Environment) -> anyhow::Result<Exit> {
    let settings = Settings {
        tasks: flags.tasks.clone(),
        repos: flags.repos.clone(),
        sandbox: flags.sandbox,
        test_timeout: flags.timeout,
        ..Settings::default()
    };
    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    let wanted = |id: &str| flags.only.as_deref().is_none_or(|only| id.contains(only));
    let tasks = session.tasks(|task| wanted(task.id.as_str()))?;
    let ready = session.prepare(&tasks, &mut console)?;
    let (mut valid, mut invalid) = (0_u64, 0_u64);
    for (i, ready) in ready.iter().enumerate() {
        console.progress("validating", i as u64, tasks.len() as u64);
        let found = patchrl_reward::validate(&session.judge, ready, flags.runs);
        *(if found.valid { &mut valid } else { &mut invalid }) += 1;
        let line = if flags.json {
            serde_json::to_string(&found)?
        } else {
            let number = |r: Option<f64>| r.map_or("none".into(), |r| format!("{r}"));
            format!(
                "{} {}: gold {}, empty {}, {:.1} s{}",
                if found.valid { "valid  " } else { "INVALID" },
                found.task.as_str(),
                number(found.gold.reward),
                number(found.empty_reward),
                found.seconds,
                found.problems.iter().map(|p| format!("\n    {p}")).collect::<String>()
            )
        };
        console.clear();
        printer::data(&line);
    }
    console.say(&format!("{valid} valid, {invalid} invalid"));
    Ok(if invalid == 0 { Exit::Success } else { Exit::Negative })
}

fn stats(flags: &Stats) -> anyhow::Result<Exit> {
    let tasks = session::load_tasks(&flags.tasks)?;
    let mut repos = std::collections::BTreeMap::<&str, u64>::new();
    for task in &tasks {
        *repos.entry(&task.repo).or_default() += 1;
    }
    let held_out = tasks.iter().filter(|t| session::is_held_out(t)).count();
    let value = json!({
        "tasks": tasks.len(),
        "train": tasks.len() - held_out,
        "held_out": held_out,
        "repositories": repos,
    });
    printer::report(Form::of(flags.json), &value, || {
        let rows: String = repos.iter().map(|(r, n)| format!("  {n:>5}  {r}\n")).collect();
        format!("{} tasks, {held_out} held out\n{rows}", tasks.len())
    })?;
    Ok(Exit::Success)
}

fn show(flags: &Show) -> anyhow::Result<Exit> {
    let tasks = session::load_tasks(&flags.tasks)?;
    let task = tasks.iter().find(|t| t.id.as_str() == flags.id).ok_or_else(|| {
        usage(
            format!("`{}` has no task `{}`", flags.tasks, flags.id),
            "`patchrl task stats` shows what the set holds",
        )
    })?;
    printer::report(Form::of(flags.json), &task.to_row(), || {
        format!(
            "{} ({} at {})\n\n{}\n\n{}\nmust turn green: {}\nmust stay green: {}",
            task.id.as_str(),
            task.repo,
            task.base_commit,
            task.problem_statement,
            task.patch,
            task.fail_to_pass.join(", "),
            task.pass_to_pass.len()
        )
    })?;
    Ok(Exit::Success)
}
