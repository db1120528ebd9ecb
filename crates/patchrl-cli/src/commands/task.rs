//! `patchrl task`: look at task sets, check them by running them, and add what they lack.

mod related;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use patchrl_reward::Fitness;
use patchrl_train::Listener as _;
use serde_json::json;

use super::flags::{checked, set};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::{self, Records, Session};
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
    /// Ask a strong model for files near each change that need none, and write the rows with them:
    /// shown in prompts, they keep these from giving away where to edit. Answers are kept on disk.
    Related(related::Related),
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// `toy`, a file of SWE-bench rows, or a data set of the hub.
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
    /// Tasks at the same time.
    #[arg(long)]
    workers: Option<usize>,
    /// Print one JSON object a task.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// `toy`, a file of SWE-bench rows, or a data set of the hub.
    tasks: String,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// `toy`, a file of SWE-bench rows, or a data set of the hub.
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
        Task::Stats(flags) => stats(flags, environment),
        Task::Show(flags) => show(flags, environment),
        Task::Related(flags) => related::run(flags, environment),
    }
}

fn validate(flags: &Validate, environment: &Environment) -> anyhow::Result<Exit> {
    let mut settings = Settings {
        tasks: flags.tasks.clone(),
        repos: flags.repos.clone(),
        sandbox: flags.sandbox,
        test_timeout: flags.timeout,
        ..Settings::default()
    };
    set(&mut settings.workers, flags.workers);
    let settings = checked(settings)?;
    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    let wanted = |id: &str| flags.only.as_deref().is_none_or(|only| id.contains(only));
    let tasks = session.tasks(|task| wanted(task.id.as_str()))?;
    let preparer = session.preparer();
    let examine = |task: &patchrl_task::Task| match preparer.prepare(task) {
        Ok(ready) => Ok(patchrl_reward::validate(&session.judge, &ready, flags.runs)),
        Err(fault) => {
            let hint = fault.hint().map(|hint| format!("\n    hint: {hint}"));
            let why = format!("{:#}", anyhow::Error::from(fault));
            Err(why + &hint.unwrap_or_default())
        }
    };
    let records = Records::new(environment);
    let mut counts = BTreeMap::<Fitness, u64>::new();
    let mut seconds = Vec::new();
    let mut recorded = Ok(());
    let (mut done, total) = (0, tasks.len() as u64);
    console.progress("validating", done, total);
    patchrl_eval::crew(&tasks, settings.workers, examine, |task, found| {
        let fitness = found.as_ref().map_or(Fitness::Lost, |found| found.fitness);
        *counts.entry(fitness).or_default() += 1;
        seconds.extend(found.as_ref().map(|found| found.run_seconds));
        console.clear();
        printer::data(&line(task, fitness, &found, flags.json));
        done += 1;
        console.progress("validating", done, total);
        recorded = records.set(task, fitness);
        recorded.is_ok()
    });
    recorded?;
    let words: Vec<String> =
        counts.iter().map(|(fitness, n)| format!("{n} {}", fitness.as_str())).collect();
    seconds.sort_by(f64::total_cmp);
    let mut said = words.join(", ");
    if let Some(last) = seconds.len().checked_sub(1) {
        let at = |share: f64| seconds[((seconds.len() as f64 * share) as usize).min(last)];
        let (half, most) = (at(0.5), at(0.95));
        said += &format!("; seconds of one test run: p50 {half:.1}, p95 {most:.1}");
    }
    console.say(&said);
    let all_valid = counts.keys().all(|fitness| *fitness == Fitness::Valid);
    Ok(if all_valid { Exit::Success } else { Exit::Negative })
}

fn line(
    task: &patchrl_task::Task,
    fitness: Fitness,
    found: &Result<patchrl_reward::Validation, String>,
    as_json: bool,
) -> String {
    match found {
        _ if !as_json => told(task.id.as_str(), fitness, found.as_ref().map_err(String::as_str)),
        Ok(found) => json!(found).to_string(),
        Err(why) => {
            json!({ "task": task.id, "fitness": fitness, "valid": false, "problems": [why] })
                .to_string()
        }
    }
}

fn told(id: &str, fitness: Fitness, found: Result<&patchrl_reward::Validation, &str>) -> String {
    let word = fitness.as_str();
    match found {
        Err(why) => format!("{word:<13} {id}\n    {why}"),
        Ok(found) => {
            let number = |r: Option<f64>| r.map_or("none".into(), |r| format!("{r}"));
            let problems: String = found.problems.iter().map(|p| format!("\n    {p}")).collect();
            format!(
                "{word:<13} {id}: gold {}, empty {}, {:.1} s a run{problems}",
                number(found.gold.reward),
                number(found.empty_reward),
                found.run_seconds,
            )
        }
    }
}

fn stats(flags: &Stats, environment: &Environment) -> anyhow::Result<Exit> {
    let tasks = session::load_tasks(&flags.tasks, environment)?;
    let mut repos = BTreeMap::<&str, u64>::new();
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

fn show(flags: &Show, environment: &Environment) -> anyhow::Result<Exit> {
    let tasks = session::load_tasks(&flags.tasks, environment)?;
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
