//! `patchrl eval`: measure a model on tasks, grade logs, compare runs.

mod compare;
mod functions;
mod grade;
mod predictions;
mod script;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use clap::{Args, Subcommand};
use patchrl_eval::{Answers, Shares};
use patchrl_task::{DataSet, Task};
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

/// `--split`: a side of a set, or a set of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    HeldOut,
    Train,
    All,
    /// A data set of the hub, all of it.
    Set(String),
}

impl Which {
    fn takes(&self, task: &Task) -> bool {
        match self {
            Self::HeldOut => session::is_held_out(task),
            Self::Train => session::is_train(task),
            Self::All | Self::Set(_) => true,
        }
    }
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "held-out" => Ok(Self::HeldOut),
            "train" => Ok(Self::Train),
            "all" => Ok(Self::All),
            set if DataSet::named(set).is_some() => Ok(Self::Set(set.to_owned())),
            _ => {
                let names = DataSet::short_names().collect::<Vec<_>>().join(", ");
                Err(format!("none of held-out, train, all, {names}, `owner/name:split`"))
            }
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunEval {
    #[command(flatten)]
    common: Common,
    /// Tasks of `--tasks`: `held-out`, `train` or `all`. Or a data set of the hub in its place:
    /// `lite`, `lite-dev`, `verified`, `full`, `multilingual`, `swe-gym`, `owner/name:split`.
    /// With predictions: all, if left out.
    #[arg(long)]
    split: Option<Which>,
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
    /// With a model: its answers as predictions (`.jsonl`), with what became of each. With
    /// predictions: the verdicts. A run that was stopped goes on from it.
    #[arg(long, value_name = "FILE")]
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
        let wanted = flags.split.as_ref().unwrap_or(&Which::All);
        let files = predictions::Files { predictions, out };
        return predictions::run(&settings, environment, files, wanted, flags.common.json);
    }
    let started = Instant::now();
    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    let model = session.find_model(&mut console)?;
    let split = flags.split.as_ref().unwrap_or(&Which::HeldOut);
    let mut tasks = session.tasks(|task| split.takes(task))?;
    if tasks.is_empty() {
        return Err(usage(
            format!("`{}` has no task in the split `{split:?}`", settings.tasks),
            "try `--split all`",
        ));
    }
    if settings.eval.limit > 0 {
        tasks.truncate(settings.eval.limit);
    }
    let mut answers = match &flags.out {
        None => None,
        Some(path) => {
            let answers = Answers::open(path, &settings.model).map_err(|e| {
                usage(format!("{:#}", anyhow::Error::from(e)), "name another file with `--out`")
            })?;
            let all = tasks.len();
            tasks.retain(|task| !answers.has(task.id.as_str(), settings.eval.samples));
            if tasks.len() < all {
                console.say(&format!("{} of {all} tasks are answered already", all - tasks.len()));
            }
            Some(answers)
        }
    };
    let mut shares = Shares::default();
    if !tasks.is_empty() {
        let ready = session.prepare(&tasks, &mut console)?;
        let policy = session::load_policy(&model)?;
        let mut written = Ok(());
        shares = session.measure(&policy, &ready, &mut console, &mut |groups| {
            if let (Some(answers), Ok(())) = (&mut answers, &written) {
                written = answers.add(groups);
            }
        })?;
        written?;
    }
    if let Some(answers) = &answers {
        shares = Shares { seconds: started.elapsed().as_secs_f64(), ..answers.shares() };
    }
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
    if let Some(Which::Set(name)) = &flags.split {
        s.tasks.clone_from(name);
    }
    set(&mut s.eval.samples, flags.samples);
    set(&mut s.eval.temperature, flags.temperature);
    set(&mut s.eval.limit, flags.limit);
    set(&mut s.sampling.max_new_tokens, flags.max_new_tokens);
    set(&mut s.workers, flags.workers);
    set(&mut s.test_timeout, flags.timeout);
    checked(s)
}
