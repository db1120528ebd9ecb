//! `patchrl pipeline run`: stages one after the other, each from the last one's model.
//!
//! Owns the file that names them, their order, and what is measured between them. Each stage is
//! a run of its own in the pipeline's folder; what is done is in `report.json`, so that the same
//! command goes on where it was stopped. `rounds` repeats them: answers are gathered with the
//! model as it is, what is kept is learnt, and so on.

mod figures;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use patchrl_model::Policy;
use patchrl_rollout::{Counts, Keep};
use patchrl_telemetry::{Figure, Goal, StageEnd, StagesReport};
use serde::Deserialize;
use serde_norway::{Mapping, Value};

use self::figures::Figures;
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session;
use crate::settings::{Environment, Settings, SettingsError};
use crate::stage::{Ended, GATHERED, Gather, Images, Kind, Stage};

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
    /// How often the stages run one after the other, each round from the last one's model.
    #[serde(default = "one")]
    rounds: u32,
    stages: Vec<WrittenStage>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStage {
    /// Of its figures and its folder; else its kind.
    name: Option<String>,
    kind: Kind,
    /// It runs in the first round alone.
    #[serde(default)]
    once: bool,
    /// Of a `rollout`: answers per task.
    #[serde(default = "one")]
    samples: u32,
    /// Of a `rollout`: what is kept.
    #[serde(default)]
    keep: Keep,
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
    gather: Gather,
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
    let total = written.stages.len() * written.rounds as usize;
    if total == 0 || total > MOST || written.measure.samples == 0 {
        return Err(usage(
            format!(
                "`{}`: there must be 1 to {MOST} `stages` in all `rounds`, and `measure.samples` above 0",
                path.display()
            ),
            "`configs/stages.yaml` is a file to begin with",
        ));
    }
    let mut stages: Vec<Planned> = Vec::new();
    let rounds = written.rounds;
    let repeated = (0..rounds).flat_map(|round| written.stages.iter().map(move |s| (round, s)));
    let due = repeated.filter(|(round, stage)| *round == 0 || !stage.once);
    for (at, (round, stage)) in due.enumerate() {
        let mut name = stage.name.clone().unwrap_or_else(|| stage.kind.as_str().into());
        if rounds > 1 && !stage.once {
            name = format!("{name}-{}", round + 1);
        }
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
        // Another round meets the tasks in another order.
        settings.train.seed = settings.train.seed.wrapping_add(u64::from(round));
        // In later rounds there is a model to go on with.
        let own_model = round == 0 && stage.settings.contains_key("model");
        let gather = Gather { samples: stage.samples.max(1), keep: stage.keep, round };
        let rolled = stages.iter().any(|before| before.kind == Kind::Rollout);
        if learns_rollouts(&settings) && !rolled {
            return Err(usage(
                format!("stage `{name}` learns from `chats: rollouts`, but none comes before it"),
                "put a stage of `kind: rollout` before it",
            ));
        }
        stages.push(Planned { name, kind: stage.kind, settings, own_model, gather });
    }
    Ok((stages, written.measure))
}

/// The chats are those of the last `rollout` stage.
fn learns_rollouts(settings: &Settings) -> bool {
    settings.chats.as_deref() == Some(Path::new("rollouts"))
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
        let last = report.stages.last().map(|end| end.figures.clone()).unwrap_or_default();
        let place = Place { dir: &dir, stages: &stages, at };
        let end = place.run(environment, &mut console, (&figures, last))?;
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

/// One stage among all.
struct Place<'a> {
    dir: &'a Path,
    stages: &'a [Planned],
    at: usize,
}

impl Place<'_> {
    /// Run the stage, or what is left of it, and measure its model. `last` are the figures of the
    /// model that it begins with.
    fn run(
        &self,
        environment: &Environment,
        console: &mut Console,
        (figures, last): (&Figures<'_>, Vec<Figure>),
    ) -> anyhow::Result<StageEnd> {
        let Planned { name, kind, settings, own_model, gather } = &self.stages[self.at];
        let mut settings = settings.clone();
        if let (Some(model), false) = (self.model_before(self.at), own_model) {
            settings.model = model.display().to_string();
        }
        console.say(&format!("stage {} of {}: {name}", self.at + 1, self.stages.len()));
        let started = Instant::now();
        let end = |run, figures| StageEnd {
            name: name.clone(),
            seconds: started.elapsed().as_secs_f64(),
            run,
            figures,
            effects: Vec::new(),
        };
        if learns_rollouts(&settings) {
            let chats = self.gathered().filter(|file| has_lines(file));
            if chats.is_none() {
                console.say("nothing was kept to learn from: the model stays as it is");
                return Ok(end(None, last));
            }
            settings.chats = chats;
        }
        let run = self.folder(self.at);
        let stage = Stage {
            kind: *kind,
            settings: &settings,
            environment,
            dir: &run,
            resume: run.join("journal.jsonl").exists(),
            allow_invalid: false,
            images: Images::AsTheyAre,
            gather: *gather,
        };
        let folder = Some(self.name(self.at));
        if let Ended::Gathered(counts) = stage.run(console)? {
            let kept = last.into_iter().filter(|figure| figure.name != KEPT).chain([kept(counts)]);
            // It has no journal to draw curves from.
            return Ok(end(None, kept.collect()));
        }
        let seconds = started.elapsed().as_secs_f64();
        console.say(&format!("measuring after {name}"));
        let policy = Policy::load(&run.join(LATEST))?;
        let figures = figures.of(&policy, console)?;
        Ok(StageEnd { seconds, ..end(folder, figures) })
    }

    fn name(&self, at: usize) -> String {
        format!("{}-{}", at + 1, self.stages[at].name)
    }

    fn folder(&self, at: usize) -> PathBuf {
        self.dir.join(self.name(at))
    }

    /// What the last stage left that trained anything.
    fn model_before(&self, at: usize) -> Option<PathBuf> {
        let left = (0..at).rev().map(|at| self.folder(at).join(LATEST));
        left.into_iter().find(|model| model.exists())
    }

    /// The chats of the last `rollout`.
    fn gathered(&self) -> Option<PathBuf> {
        let is_rollout = |at: &usize| self.stages[*at].kind == Kind::Rollout;
        (0..self.at).rev().find(is_rollout).map(|at| self.folder(at).join(GATHERED))
    }
}

/// The model that a run leaves.
const LATEST: &str = "checkpoints/latest";
/// The figure of a `rollout`.
const KEPT: &str = "rollouts: kept";

fn kept(counts: Counts) -> Figure {
    let value = counts.kept as f64 / counts.tried.max(1) as f64;
    Figure { name: KEPT.into(), value, of: counts.tried, goal: Goal::Share }
}

fn has_lines(file: &Path) -> bool {
    fs_err::metadata(file).is_ok_and(|meta| meta.len() > 0)
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
    fn the_shipped_rounds_begin_with_gold_once() {
        let stages = planned(include_str!("../../../../configs/rounds.yaml")).unwrap();
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        let rounds = ["rollout-1", "sft-1", "grpo-1", "rollout-2", "sft-2", "grpo-2"];
        assert_eq!((names[0], &names[1..]), ("gold", &rounds[..]));
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
    fn rounds_repeat_the_stages_with_seeds_of_their_own() {
        let text = "rounds: 2\nshared: { train: { seed: 5 } }\nstages:\n\
            - { kind: rollout, samples: 3, keep: applied, settings: { model: m } }\n\
            - { kind: sft, settings: { chats: rollouts } }\n- { kind: grpo }\n";
        let stages = planned(text).unwrap();
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["rollout-1", "sft-1", "grpo-1", "rollout-2", "sft-2", "grpo-2"]);
        assert_eq!((stages[0].gather.samples, stages[0].gather.keep), (3, Keep::Applied));
        assert_eq!((stages[2].settings.train.seed, stages[5].settings.train.seed), (5, 6));
        assert_eq!((stages[0].own_model, stages[3].own_model), (true, false));
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
            ("rounds: 0\nstages: [{ kind: sft }]", "1 to 64"),
            ("stages: [{ kind: sft, settings: { chats: rollouts } }]", "none comes before it"),
        ] {
            let error = format!("{:#}", planned(text).err().expect("a fault"));
            assert!(error.contains(why), "{error}");
        }
    }
}
