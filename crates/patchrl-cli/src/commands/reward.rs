//! `patchrl reward`: rewards of answers that exist, JSONL in, JSONL out; and a check of a few
//! answers before a run.

mod check;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use patchrl_patch::Autojunk;
use patchrl_reward::score::{Similarity, swerl};
use patchrl_reward::swerl::{FORMAT_PENALTY, Score as SweRlScore};
use patchrl_reward::{Answer, Mode, Ready};
use patchrl_task::Task;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::jsonl::{self, Line};
use crate::printer;
use crate::session::Session;
use crate::settings::{Environment, SandboxChoice, Settings};

/// `patchrl reward ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Reward {
    /// Score answers, one JSON object a line; one bad line is one answer with an error.
    Score(Score),
    /// Ask a model or a server for a few answers and say whether training on them makes sense:
    /// exit code 1 where it would be a waste.
    Check(check::Check),
}

#[derive(Debug, Args)]
pub(crate) struct Score {
    /// File with one JSON object a line; standard input if left out.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// `swerl` and `similarity` score records by themselves; with `--tasks` any reward mode
    /// scores predictions `{"instance_id", "output" | "model_patch"}`.
    #[arg(long, value_name = "PRESET")]
    preset: String,
    /// `toy`, or a file of SWE-bench rows that the predictions belong to.
    #[arg(long, value_name = "FILE")]
    tasks: Option<String>,
    /// Folder with local clones of the tasks' repositories, bare or not.
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    /// Where tests run.
    #[arg(long, value_enum, default_value = "local")]
    sandbox: SandboxChoice,
    /// Configuration file: weights of the reward, workers, limits.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// `similarity`: Python's default, or every character may start a match.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    autojunk: bool,
    /// `similarity`: the reward of an answer that is empty or holds no patch.
    #[arg(long, default_value_t = FORMAT_PENALTY, allow_negative_numbers = true)]
    format_penalty: f64,
    /// `similarity`: the bare ratio of any two texts, as `{"ratio": x}`.
    #[arg(long)]
    ratio_only: bool,
}

pub(crate) fn run(command: &Reward, environment: &Environment) -> anyhow::Result<Exit> {
    let flags = match command {
        Reward::Score(flags) => flags,
        Reward::Check(flags) => return check::run(flags, environment),
    };
    if let Some(tasks) = &flags.tasks {
        return judge(flags, tasks, environment);
    }
    let (input, output) = (jsonl::open(flags.file.as_deref())?, printer::stream());
    let autojunk = if flags.autojunk { Autojunk::On } else { Autojunk::Off };
    let similarity = Similarity::new(autojunk, flags.format_penalty);
    match flags.preset.as_str() {
        "similarity" if flags.ratio_only => jsonl::each(input, output, |line| {
            match line.and_then(|record| similarity.ratio(&record)) {
                Ok(ratio) => json!({ "ratio": ratio }),
                Err(error) => json!({ "ratio": null, "error": error }),
            }
        }),
        "similarity" => jsonl::each(input, output, |line| {
            scored(line.and_then(|record| similarity.score(&record)))
        }),
        "swerl" => {
            jsonl::each(input, output, |line| scored(line.and_then(|record| swerl(&record))))
        }
        other => Err(usage(
            format!("`--preset {other}` cannot score records by themselves"),
            "take `swerl` or `similarity`, or name the tasks with `--tasks`",
        )),
    }?;
    Ok(Exit::Success)
}

fn scored(score: Result<SweRlScore, String>) -> Value {
    match score {
        Ok(score) => json!({ "reward": score.reward, "error": score.error }),
        Err(error) => json!({ "reward": null, "error": error }),
    }
}

/// `{"instance_id", "output" | "model_patch"}`.
#[derive(Deserialize)]
struct Prediction {
    instance_id: String,
    output: Option<String>,
    model_patch: Option<String>,
}

/// Tasks by id, made ready when the first prediction for one comes.
struct Tasks<'s> {
    session: &'s Session<'s>,
    known: BTreeMap<String, Task>,
    ready: BTreeMap<String, Ready>,
}

fn judge(flags: &Score, tasks: &str, environment: &Environment) -> anyhow::Result<Exit> {
    let mode: Mode = flags
        .preset
        .parse()
        .map_err(|e| usage(format!("{e}"), "`patchrl reward score --help` says what there is"))?;
    let mut settings = match &flags.config {
        Some(file) => Settings::load(file)?,
        None => Settings::default(),
    };
    tasks.clone_into(&mut settings.tasks);
    settings.repos = flags.repos.clone().or(settings.repos);
    settings.sandbox = flags.sandbox;
    let session = Session::open(&settings, environment)?;
    let known = session.tasks(|_| true)?;
    let known = known.into_iter().map(|task| (task.id.to_string(), task)).collect();
    let mut tasks = Tasks { session: &session, known, ready: BTreeMap::new() };
    let input = jsonl::open(flags.file.as_deref())?;
    jsonl::each_batch(input, printer::stream(), |lines| tasks.judge(lines, mode))?;
    Ok(Exit::Success)
}

impl Tasks<'_> {
    /// Judge a batch: answers to one task that follow each other are one group.
    fn judge(&mut self, lines: Vec<Line>, mode: Mode) -> anyhow::Result<Vec<Value>> {
        let predictions: Vec<Result<(String, String), String>> =
            lines.into_iter().map(|line| self.prediction(line)).collect();
        let mut answers = Vec::with_capacity(predictions.len());
        let same = |a: &Result<(String, String), String>, b: &Result<(String, String), String>| matches!((a, b), (Ok((a, _)), Ok((b, _))) if a == b);
        for group in predictions.chunk_by(same) {
            match &group[0] {
                Err(error) => answers.push(json!({ "reward": null, "error": error })),
                Ok((id, _)) => answers.extend(self.group(id, group, mode)?),
            }
        }
        Ok(answers)
    }

    /// The task's id and the answer's text.
    fn prediction(&self, line: Line) -> Result<(String, String), String> {
        let prediction: Prediction = jsonl::parse(line)?;
        if !self.known.contains_key(&prediction.instance_id) {
            return Err(format!("there is no task `{}`", prediction.instance_id));
        }
        match (prediction.output, prediction.model_patch) {
            (Some(text), None) | (None, Some(text)) => Ok((prediction.instance_id, text)),
            _ => Err("a prediction has either `output` or `model_patch`".to_owned()),
        }
    }

    fn group(
        &mut self,
        id: &str,
        group: &[Result<(String, String), String>],
        mode: Mode,
    ) -> anyhow::Result<Vec<Value>> {
        if !self.ready.contains_key(id) {
            let task = self.known.get(id).context("a prediction's task is known")?;
            let made = self.session.prepare(std::slice::from_ref(task), &mut Console::new())?;
            self.ready.extend(made.into_iter().map(|ready| (id.to_owned(), ready)));
        }
        let ready = self.ready.get(id).context("a prepared task is kept")?;
        let answers: Vec<Answer<'_>> =
            group.iter().flatten().map(|(_, text)| Answer { text, truncated: false }).collect();
        let judgements = self.session.judge.judge_group(ready, &answers, mode);
        judgements
            .into_iter()
            .map(|judgement| {
                let mut value = serde_json::to_value(&judgement)?;
                value["instance_id"] = id.into();
                Ok(value)
            })
            .collect()
    }
}
