//! `patchrl pipeline run`: stages one after the other, each from the last one's model.
//!
//! Owns the file that names them, their order, and what is measured between them. Each stage is
//! a run of its own in the pipeline's folder; what is done is in `report.json`, so that the same
//! command goes on where it was stopped.

mod figures;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use patchrl_model::Policy;
use patchrl_telemetry::{StageEnd, StagesReport};
use serde::Deserialize;
use serde_norway::{Mapping, Value};

use self::figures::Figures;
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session;
use crate::settings::{Environment, Settings, SettingsError};
use crate::stage::{Images, Kind, Stage};

/// `patchrl pipeline ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Pipeline {
    /// Run the stages of a file: pretrain, sft, mbpp, grpo, in any order and number.
    Run(Stages),
}

#[derive(Debug, Args)]
pub(crate) struct Stages {
    /// The stages, as in `configs/stages.yaml`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// MBPP as published (`mbpp.jsonl`, also `.gz`), over the file's `mbpp.file`.
    #[arg(long, value_name = "FILE")]
    mbpp: Option<PathBuf>,
    /// A file or folder of text to pretrain on, over the file's `text.paths`; may be given again.
    #[arg(long, value_name = "PATH")]
    text: Vec<PathBuf>,
    /// Name of the run, or a path for its folder.
    #[arg(long)]
    run: Option<String>,
    /// Go on with the run where it was stopped.
    #[arg(long)]
    resume: bool,
    /// Print a JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// A file of stages as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Settings of every stage.
    #[serde(default)]
    shared: Mapping,
    /// What is measured before the first stage and after each.
    #[serde(default)]
    measure: Measure,
    stages: Vec<WrittenStage>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStage {
    /// Of its figures and its folder; else its kind.
    name: Option<String>,
    kind: Kind,
    /// Over the shared ones. Without a `model`, the stage begins with the last one's.
    #[serde(default)]
    settings: Mapping,
}

/// `measure:` of a file of stages. A count of 0 leaves it out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Measure {
    /// Problems of one function, of each part.
    pub(crate) problems: usize,
    /// Held-out tasks.
    pub(crate) tasks: usize,
    /// Answers to each of them.
    pub(crate) samples: u32,
    /// Sampling temperature; 0 is greedy.
    pub(crate) temperature: f32,
}

impl Default for Measure {
    fn default() -> Self {
        Self { problems: 64, tasks: 32, samples: 1, temperature: 0.0 }
    }
}

/// A stage as it will run.
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) settings: Settings,
    /// Its settings name a model.
    own_model: bool,
}

/// Stages of one file, at most: far more than anyone needs.
const MOST: usize = 64;

/// Whether a configuration is a file of stages.
pub(crate) fn is_pipeline(text: &str) -> bool {
    serde_norway::from_str::<Mapping>(text).is_ok_and(|file| file.contains_key("stages"))
}

/// Read a file of stages and check the settings of each.
pub(crate) fn load(path: &Path) -> anyhow::Result<(Vec<Planned>, Measure)> {
    let text = fs_err::read_to_string(path)
        .map_err(|source| SettingsError::Read { path: path.into(), source })?;
    plan(&text, path, &Mapping::new())
}

/// `over` goes over the settings of every stage.
fn plan(text: &str, path: &Path, over: &Mapping) -> anyhow::Result<(Vec<Planned>, Measure)> {
    let written: Written = serde_norway::from_str(text)
        .map_err(|e| SettingsError::Form { path: path.into(), why: e.to_string() })?;
    if written.stages.is_empty() || written.stages.len() > MOST || written.measure.samples == 0 {
        return Err(usage(
            format!(
                "`{}`: there must be 1 to {MOST} `stages`, and `measure.samples` above 0",
                path.display()
            ),
            "`configs/stages.yaml` is a file to begin with",
        ));
    }
    let mut stages: Vec<Planned> = Vec::new();
    for (at, stage) in written.stages.into_iter().enumerate() {
        let name = stage.name.unwrap_or_else(|| stage.kind.as_str().into());
        let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let taken = stages.iter().any(|other| other.name == name) || name == "start";
        if name.is_empty() || name.len() > 40 || !name.chars().all(named) || taken {
            return Err(usage(
                format!("stage {}: `{name}` is taken or can name no folder", at + 1),
                "give each stage a `name` of its own, of letters, digits, `-` and `_`",
            ));
        }
        let mut merged = Value::Mapping(written.shared.clone());
        merge(&mut merged, Value::Mapping(stage.settings.clone()));
        merge(&mut merged, Value::Mapping(over.clone()));
        // By way of the text, so that the short form and the checks are those of any file.
        let place = PathBuf::from(format!("{} (stage {name})", path.display()));
        let mut settings = Settings::parse(&serde_norway::to_string(&merged)?, &place)?;
        stage.kind.alone(&mut settings);
        let own_model = stage.settings.contains_key("model");
        stages.push(Planned { name, kind: stage.kind, settings, own_model });
    }
    Ok((stages, written.measure))
}

/// Put `over` over `under`, key by key.
fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Mapping(under), Value::Mapping(over)) => {
            for (key, value) in over {
                match under.get_mut(&key) {
                    Some(old) => merge(old, value),
                    None => {
                        under.insert(key, value);
                    }
                }
            }
        }
        (under, over) => *under = over,
    }
}

pub(crate) fn run(command: &Pipeline, environment: &Environment) -> anyhow::Result<Exit> {
    let Pipeline::Run(flags) = command;
    if flags.resume && flags.run.is_none() {
        return Err(usage("`--resume` needs `--run`", "name the run to go on with"));
    }
    let text = fs_err::read_to_string(&flags.file)
        .map_err(|source| SettingsError::Read { path: flags.file.clone(), source })?;
    let (stages, measure) = plan(&text, &flags.file, &flags.over()?)?;
    let dir = session::run_dir(flags.run.as_deref(), "pipeline");
    let mut report = begin(&dir, &text, flags.resume)?;
    let (started, before) = (Instant::now(), report.seconds);
    let mut console = Console::new();
    // Everything that could be missing is opened before the first step of the first stage.
    let figures = Figures::open(&stages, &measure, environment, &mut console)?;
    if report.stages.is_empty() {
        let policy = figures.start(&stages[0], environment, &mut console)?;
        console.say("measuring the start");
        let found = figures.of(&policy, &mut console)?;
        report.push(StageEnd { name: "start".into(), figures: found, ..StageEnd::default() });
        report.seconds = before + started.elapsed().as_secs_f64();
        report.write(&dir)?;
    }
    for at in report.stages.len() - 1..stages.len() {
        let end = one(&dir, &stages, at, environment, &mut console, &figures)?;
        report.push(end);
        report.seconds = before + started.elapsed().as_secs_f64();
        report.write(&dir)?;
    }
    let page = report.write(&dir)?;
    printer::report(Form::of(flags.json), &report, || summary(&report, &page))?;
    Ok(Exit::Success)
}

impl Stages {
    /// The flags as settings.
    fn over(&self) -> anyhow::Result<Mapping> {
        let mut over = Mapping::new();
        let mut put = |section: &str, key: &str, value: Value| {
            over.insert(
                section.into(),
                Value::Mapping([(key.into(), value)].into_iter().collect()),
            );
        };
        if let Some(file) = &self.mbpp {
            put("mbpp", "file", serde_norway::to_value(file)?);
        }
        if !self.text.is_empty() {
            put("text", "paths", serde_norway::to_value(&self.text)?);
        }
        Ok(over)
    }
}

/// What is done already. The file of stages is kept beside it; another one is refused.
fn begin(dir: &Path, text: &str, resume: bool) -> anyhow::Result<StagesReport> {
    let (kept, report) = (dir.join("stages.yaml"), dir.join("report.json"));
    if kept.exists() != resume {
        let there = if resume { "is no pipeline to resume" } else { "exists already" };
        return Err(usage(
            format!("the run `{}` {there}", dir.display()),
            "add `--resume` to go on with a run that exists, or name another with `--run`",
        ));
    }
    if !resume {
        fs_err::create_dir_all(dir)?;
        fs_err::write(&kept, text)?;
    }
    if fs_err::read_to_string(&kept)? != text {
        return Err(usage(
            format!("the run `{}` began with other stages", dir.display()),
            format!("use `{}`, or another `--run`", kept.display()),
        ));
    }
    if !report.exists() {
        return Ok(StagesReport { run: dir.display().to_string(), ..StagesReport::default() });
    }
    Ok(serde_json::from_str(&fs_err::read_to_string(&report)?)?)
}

/// Run stage `at`, or what is left of it, and measure its model.
fn one(
    dir: &Path,
    stages: &[Planned],
    at: usize,
    environment: &Environment,
    console: &mut Console,
    figures: &Figures<'_>,
) -> anyhow::Result<StageEnd> {
    let Planned { name, kind, settings, own_model } = &stages[at];
    let folder = |at: usize| format!("{}-{}", at + 1, stages[at].name);
    let model = |at: usize| dir.join(folder(at)).join("checkpoints/latest");
    let mut settings = settings.clone();
    if at > 0 && !own_model {
        settings.model = model(at - 1).display().to_string();
    }
    let run = dir.join(folder(at));
    console.say(&format!("stage {} of {}: {name}", at + 1, stages.len()));
    let started = Instant::now();
    let stage = Stage {
        kind: *kind,
        settings: &settings,
        environment,
        dir: &run,
        resume: run.join("journal.jsonl").exists(),
        allow_invalid: false,
        images: Images::AsTheyAre,
    };
    stage.run(console)?;
    let seconds = started.elapsed().as_secs_f64();
    console.say(&format!("measuring after {name}"));
    let policy = Policy::load(&model(at))?;
    let figures = figures.of(&policy, console)?;
    Ok(StageEnd {
        name: name.clone(),
        seconds,
        run: Some(folder(at)),
        figures,
        effects: Vec::new(),
    })
}

fn summary(report: &StagesReport, page: &Path) -> String {
    let mut out = String::new();
    for line in report.table() {
        out.push_str(&format!("{line}\n"));
    }
    for line in report.no_help() {
        out.push_str(&format!("{line}\n"));
    }
    format!("{out}{:.0} s. Open {} in a browser.", report.seconds, page.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str) -> anyhow::Result<Vec<Planned>> {
        Ok(plan(text, Path::new("x.yaml"), &Mapping::new())?.0)
    }

    #[test]
    fn the_shipped_file_is_four_stages() {
        let stages = planned(include_str!("../../../../configs/stages.yaml")).unwrap();
        let kinds: Vec<Kind> = stages.iter().map(|stage| stage.kind).collect();
        assert_eq!(kinds, [Kind::Pretrain, Kind::Sft, Kind::Mbpp, Kind::Grpo]);
    }

    #[test]
    fn settings_of_a_stage_go_over_the_shared_ones() {
        let text = "shared: { train: { seed: 3, sft: { steps: 9, lr: 1.0e-3 } } }\n\
             stages: [{ kind: sft, settings: { train: { sft: { steps: 2 } } } }, { kind: grpo }]\n";
        let stages = planned(text).unwrap();
        let sft = &stages[0].settings.train.sft;
        assert_eq!((sft.steps, sft.lr, stages[0].settings.train.seed), (2, 1e-3, 3));
        assert_eq!(stages[1].settings.train.sft.steps, 9);
        assert!(stages[0].settings.train.curriculum.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("stages: []", "1 to 64"),
            ("stages: [{ kind: tests }]", "tests"),
            ("stages: [{ kind: sft }, { kind: sft }]", "`sft` is taken"),
            ("stages: [{ kind: sft, name: ../x }]", "`../x`"),
            ("stages: [{ kind: sft, settings: { trian: 1 } }]", "`trian`"),
            (
                "stages: [{ kind: sft, settings: { train: { sft: { lr: 0.0 } } } }]",
                "`train.sft.lr`",
            ),
            ("stage: []", "stage"),
        ] {
            let error = format!("{:#}", planned(text).err().expect("a fault"));
            assert!(error.contains(why), "{error}");
        }
    }
}
