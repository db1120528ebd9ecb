//! `patchrl eval grade` and `eval parse`: the SWE-bench harness's verdict on logs that exist.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use patchrl_eval::harness::{Folder, Instance, Logged, Prediction, RunReport, load_predictions};
use patchrl_reward::harness::{Context, Dialect, Parser, Report, StatusMap, infra};
use rayon::prelude::*;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::exit::{Exit, usage};
use crate::jsonl::{self, Line};
use crate::printer::{self, Form};

/// Which harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// swebench 4.1.0.
    V4,
    /// swebench 5.0.2.
    V5,
}

impl From<Version> for Dialect {
    fn from(version: Version) -> Self {
        match version {
            Version::V4 => Self::V4,
            Version::V5 => Self::V5,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Grade {
    /// A run folder as the harness lays it out, RUN or RUN/MODEL. Without one, JSON lines
    /// `{"instance_id", "model_patch", "test_output"}` on standard input get a report each.
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Whose verdict.
    #[arg(long, value_enum, default_value = "v5")]
    dialect: Version,
    /// SWE-bench rows of the instances; may be given several times.
    #[arg(long, value_name = "FILE", required = true)]
    instances: Vec<PathBuf>,
    /// With a folder: the predictions of the run. Without them every instance that has a
    /// folder counts as one with a patch.
    #[arg(long, value_name = "FILE", requires = "folder")]
    predictions: Option<PathBuf>,
    /// With a folder: write `report.json` into each instance's.
    #[arg(long, requires = "folder")]
    write: bool,
    /// With a folder: write the run's report (`schema_version` 2) here.
    #[arg(long, value_name = "FILE", requires = "folder")]
    report: Option<PathBuf>,
    /// With a folder: print the run's report as JSON.
    #[arg(long, requires = "folder")]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Parse {
    /// File with one JSON object a line; standard input if left out.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Whose reading.
    #[arg(long, value_enum, default_value = "v5")]
    dialect: Version,
}

pub(super) fn grade(flags: &Grade) -> anyhow::Result<Exit> {
    let instances = instances(&flags.instances, flags.dialect.into())?;
    if let Some(folder) = &flags.folder {
        return grade_folder(flags, folder, &instances);
    }
    jsonl::each(jsonl::open(None)?, printer::stream(), |line| {
        let (instance_id, error) = match grade_line(line, &instances) {
            Ok((id, Ok(report))) => return Answer::Report([(id, report)].into()),
            Ok((id, Err(error))) => (Some(id), error),
            Err(error) => (None, error),
        };
        Answer::Fault { instance_id, error }
    })?;
    Ok(Exit::Success)
}

/// What stands on a line of the output.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Report(BTreeMap<String, Report>),
    Fault { instance_id: Option<String>, error: String },
}

type Instances = HashMap<String, Instance>;

fn instances(files: &[PathBuf], dialect: Dialect) -> anyhow::Result<Instances> {
    let mut all = Instances::new();
    for file in files {
        for task in patchrl_task::load(file)? {
            let instance = Instance::of(task, dialect).map_err(|e| {
                usage(e.to_string(), "give the row a column `log_parser` of the harness's names")
            })?;
            all.entry(instance.id().to_owned()).or_insert(instance);
        }
    }
    Ok(all)
}

#[derive(Deserialize)]
struct Record {
    instance_id: String,
    #[serde(deserialize_with = "present")]
    model_patch: Option<String>,
    test_output: String,
}

/// A field that may be null but not left out.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

type Graded = (String, Result<Report, String>);

fn grade_line(line: Line, instances: &Instances) -> Result<Graded, String> {
    let record: Record = jsonl::parse(line)?;
    let known = instances.get(&record.instance_id);
    let instance = known.ok_or_else(|| format!("there is no instance `{}`", record.instance_id))?;
    let report = instance.grade(record.model_patch.is_some(), &record.test_output);
    Ok((record.instance_id, report.map_err(|e| e.to_string())))
}

fn grade_folder(flags: &Grade, path: &Path, instances: &Instances) -> anyhow::Result<Exit> {
    let dialect = flags.dialect.into();
    let folder = Folder::open(path).map_err(|e| {
        usage(
            format!("{:#}", anyhow::Error::from(e)),
            "name logs/run_evaluation/RUN, or the folder of a model in it",
        )
    })?;
    let predictions = match &flags.predictions {
        Some(file) => load_predictions(file).map_err(|e| {
            usage(format!("{:#}", anyhow::Error::from(e)), "see the harness's forms")
        })?,
        None => folder.instances.iter().map(|(id, _)| assumed(id)).collect(),
    };
    let mut run = RunReport::new(instances.keys().map(String::as_str), &predictions);
    let wanted: Vec<&(String, PathBuf)> =
        folder.instances.iter().filter(|(id, _)| run.wants(id)).collect();
    // One log at a time for each core: they may be large.
    let graded: Vec<anyhow::Result<Found>> =
        wanted.par_iter().map(|(id, path)| find(&instances[id], path, flags.write)).collect();
    let mut faults = Vec::new();
    for ((id, _), found) in wanted.into_iter().zip(graded) {
        let found = found?;
        match found.report {
            Some(Ok(report)) => run.add(id, &report),
            Some(Err(fault)) => faults.push(format!("{id}: {fault}")),
            None => {}
        }
        if let Some(infra) = found.infra {
            run.add_infra(id, infra);
        }
    }
    let report = run.to_json(dialect);
    if let Some(file) = &flags.report {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs_err::write(file, text).context("cannot write the report")?;
    }
    for fault in &faults {
        printer::say(fault);
    }
    printer::report(Form::of(flags.json), &report, || {
        let [total, submitted, completed, errors] = run.counts();
        let resolved = run.resolved().len();
        format!(
            "{} {}: {resolved} of {total} instances resolved ({:.1} %)\n\
             {submitted} with a prediction, {completed} graded, {errors} with a patch but no result",
            folder.run_id,
            folder.model,
            100.0 * resolved as f64 / total.max(1) as f64,
        )
    })?;
    Ok(Exit::Success)
}

fn assumed(id: &str) -> Prediction {
    Prediction {
        instance_id: id.to_owned(),
        model_patch: Some("unknown".to_owned()),
        model_name_or_path: None,
    }
}

/// What an instance's folder tells.
struct Found {
    report: Option<Result<Report, String>>,
    infra: Option<patchrl_reward::harness::Infra>,
}

fn find(instance: &Instance, path: &Path, write: bool) -> anyhow::Result<Found> {
    let logged = Logged::read(path)?;
    let report = logged.test_output.as_ref().map(|log| instance.grade(true, log));
    if let (true, Some(Ok(report))) = (write, &report) {
        let text = pretty(&json!({ instance.id(): report }))?;
        fs_err::write(path.join("report.json"), text).context("cannot write a report")?;
    }
    let logs: Vec<String> = logged.test_output.into_iter().chain(logged.run_log).collect();
    let all = if let [only] = logs.as_slice() { only } else { &logs.join("\n") };
    Ok(Found { report: report.map(|report| report.map_err(|e| e.to_string())), infra: infra(all) })
}

/// Indented by four, as the harness writes it.
fn pretty(value: &Value) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, form))?;
    Ok(bytes)
}

/// `{"parser", "log"}`, and what a few parsers want to know.
#[derive(Deserialize)]
struct ToParse {
    parser: String,
    log: String,
    #[serde(default)]
    instance_id: String,
    #[serde(default)]
    version: Option<String>,
}

#[derive(Serialize)]
struct Statuses {
    status_map: Option<StatusMap>,
    error: Option<String>,
}

pub(super) fn parse(flags: &Parse) -> anyhow::Result<Exit> {
    let dialect = flags.dialect.into();
    let input = jsonl::open(flags.file.as_deref())?;
    jsonl::each(input, printer::stream(), |line| match statuses(line, dialect) {
        Ok(map) => Statuses { status_map: Some(map), error: None },
        Err(error) => Statuses { status_map: None, error: Some(error) },
    })?;
    Ok(Exit::Success)
}

fn statuses(line: Line, dialect: Dialect) -> Result<StatusMap, String> {
    let it: ToParse = jsonl::parse(line)?;
    let parser = Parser::named(&it.parser)
        .or_else(|| Parser::of_repo(&it.parser))
        .ok_or_else(|| format!("there is no log parser `{}`", it.parser))?;
    let context = Context { dialect, instance_id: &it.instance_id, version: it.version.as_deref() };
    parser.parse(&it.log, context).map_err(|e| e.to_string())
}
