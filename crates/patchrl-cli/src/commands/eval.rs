//! `patchrl eval`: measure a model on tasks, grade logs, compare runs.

mod compare;
mod functions;
mod grade;
mod predictions;
mod script;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::flags::{Common, checked, set};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};

/// `patchrl eval ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Eval {
    /// Sample answers, judge them, and count.
    Run(RunEval),
    /// The SWE-bench harness's verdict on logs that exist, test by test.
    Grade(grade::Grade),
    /// The status of each test in logs, as the harness's parsers read them: lines
    /// `{"parser", "log"}` in, `{"status_map"}` out.
    Parse(grade::Parse),
    /// The script that runs each instance's tests, one JSON object a line.
    Script(script::Script),
    /// Run samples of MBPP in the sandbox: pass@k.
    Mbpp(functions::Functions),
    /// Run samples of `HumanEval` in the sandbox: pass@k.
    Humaneval(functions::Functions),
    /// Paired difference of two runs, with its interval.
    Compare(compare::Compare),
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
    #[command(flatten)]
    common: Common,
    /// Which tasks of the set.
    #[arg(long, value_enum, default_value = "held-out")]
    split: Side,
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
    /// Judge these patches instead of asking a model: `.jsonl`, or `.json` as a list or by id.
    #[arg(long, value_name = "FILE", requires = "out")]
    predictions: Option<PathBuf>,
    /// With predictions: the file of verdicts. A run that was stopped goes on from it.
    #[arg(long, value_name = "FILE", requires = "predictions")]
    out: Option<PathBuf>,
    /// With predictions: evaluations at the same time.
    #[arg(long, requires = "predictions")]
    workers: Option<usize>,
    /// With predictions: seconds one run of a task's tests may take.
    #[arg(long, requires = "predictions")]
    timeout: Option<u64>,
}

pub(crate) fn run(command: &Eval, environment: &Environment) -> anyhow::Result<Exit> {
    match command {
        Eval::Run(flags) => measure(flags, environment),
        Eval::Grade(flags) => grade::grade(flags),
        Eval::Parse(flags) => grade::parse(flags),
        Eval::Script(flags) => script::run(flags),
        Eval::Mbpp(flags) | Eval::Humaneval(flags) => functions::run(flags, environment),
        Eval::Compare(flags) => compare::run(flags),
    }
}

fn measure(flags: &RunEval, environment: &Environment) -> anyhow::Result<Exit> {
    let settings = settings(flags)?;
    if let (Some(predictions), Some(out)) = (&flags.predictions, &flags.out) {
        return predictions::run(&settings, environment, predictions, out, flags.common.json);
    }
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
    let shares = session.measure(&policy, &ready, &mut console)?;
    printer::report(Form::of(flags.common.json), &json!(shares), || {
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
    let mut s = flags.common.settings()?;
    set(&mut s.eval.samples, flags.samples);
    set(&mut s.eval.temperature, flags.temperature);
    set(&mut s.eval.limit, flags.limit);
    set(&mut s.sampling.max_new_tokens, flags.max_new_tokens);
    set(&mut s.workers, flags.workers);
    set(&mut s.test_timeout, flags.timeout);
    checked(s)
}
