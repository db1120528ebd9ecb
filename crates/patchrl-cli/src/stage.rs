//! One stage of training: opened from its settings and run to its end.
//!
//! Owns what each kind of stage reads and needs. Every stage begins with the model that its
//! settings name, whichever stage wrote it. The run itself is in `training`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use patchrl_agent::{function_answer, function_messages};
use patchrl_model::{Message, Policy, Scratch};
use patchrl_reward::{Checker, Mode, Problem};
use patchrl_rollout::{Counts, Harvest, Keep};
use patchrl_sandbox::{Local, python};
use patchrl_telemetry::{Event, Telemetry};
use patchrl_train::{Chats, Material, Text};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::console::Console;
use crate::exit::usage;
use crate::gather::{Gatherer, Who};
use crate::problems::{self, Part};
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};
use crate::training::Training;

/// What a stage trains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Text.
    Pretrain,
    /// Chats, or the gold patches of tasks.
    Sft,
    /// Problems of one function, with GRPO.
    Mbpp,
    /// Tasks, with GRPO.
    Grpo,
    /// Tasks, answered and not trained on: what is kept is there to be learnt from.
    Rollout,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pretrain => "pretrain",
            Self::Sft => "sft",
            Self::Mbpp => "mbpp",
            Self::Grpo => "grpo",
            Self::Rollout => "rollout",
        }
    }

    /// Without the phases that are another kind's: `sft` has no curriculum, and some steps.
    pub(crate) fn alone(self, settings: &mut Settings) {
        if self == Self::Sft {
            settings.train.curriculum.clear();
            if settings.train.sft.steps == 0 {
                settings.train.sft.steps = 50;
            }
        }
    }
}

/// What is done about container images before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    AsTheyAre,
    Prepare,
    /// And nothing else.
    PrepareOnly,
}

/// How a stage ended.
pub(crate) enum Ended {
    /// Its report is here.
    Trained(PathBuf),
    /// Images were prepared, and nothing was trained.
    Prepared,
    /// Answers were gathered, and nothing was trained.
    Gathered(Counts),
}

/// A stage that is about to run.
pub(crate) struct Stage<'a> {
    pub(crate) kind: Kind,
    pub(crate) settings: &'a Settings,
    pub(crate) environment: &'a Environment,
    /// The run's folder.
    pub(crate) dir: &'a Path,
    /// Go on where it was.
    pub(crate) resume: bool,
    /// Train also on tasks that were found unfit.
    pub(crate) allow_invalid: bool,
    pub(crate) images: Images,
    /// What a `rollout` gathers.
    pub(crate) gather: Gather,
}

/// How many answers a `rollout` asks for, and which it keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    pub(crate) samples: u32,
    pub(crate) keep: Keep,
    pub(crate) round: u32,
}

impl Default for Gather {
    fn default() -> Self {
        Self { samples: 1, keep: Keep::Resolved, round: 0 }
    }
}

/// What a `rollout` writes into its folder.
pub(crate) const GATHERED: &str = "chats.jsonl";

impl Stage<'_> {
    /// Train to the end and draw the report.
    pub(crate) fn run(&self, console: &mut Console) -> anyhow::Result<Ended> {
        let started = Instant::now();
        let telemetry = match self.kind {
            Kind::Pretrain => self.pretrain(console)?,
            Kind::Sft if self.settings.chats.is_some() => self.chats(console)?,
            Kind::Mbpp => self.mbpp(console)?,
            Kind::Rollout => return Ok(Ended::Gathered(self.gather(console)?)),
            Kind::Sft | Kind::Grpo => match self.tasks(console)? {
                Some(telemetry) => telemetry,
                None => return Ok(Ended::Prepared),
            },
        };
        telemetry.emit(&Event::RunEnded { seconds: started.elapsed().as_secs_f64() })?;
        Ok(Ended::Trained(patchrl_telemetry::render_report(self.dir)?))
    }

    /// Answers of the model as it is; what was tried before a stop is not tried again.
    fn gather(&self, console: &mut Console) -> anyhow::Result<Counts> {
        let settings = self.settings;
        let session = Session::open(settings, self.environment)?;
        let mut tasks = session.tasks(session::is_train)?;
        if settings.train_limit > 0 {
            tasks.truncate(settings.train_limit);
        }
        fs_err::create_dir_all(self.dir)?;
        let harvest = Harvest::open(&self.dir.join(GATHERED), self.gather.keep)?;
        let samples = self.gather.samples;
        tasks.retain(|task| (0..samples).any(|n| !harvest.is_done(task.id.as_str(), n)));
        let policy = session::load_policy(&session.find_model(console)?)?;
        let ready = session.prepare(&tasks, console)?;
        let mut gatherer = Gatherer {
            session: &session,
            who: Who::Model(Box::new(policy)),
            harvest,
            turns: None,
            samples,
            mode: Mode::Tests,
            label: settings.model.clone(),
            round: self.gather.round,
        };
        gatherer.gather(&ready, console)?;
        Ok(gatherer.harvest.counts())
    }

    fn pretrain(&self, console: &mut Console) -> anyhow::Result<Telemetry> {
        let text = read_text(self.settings, console)?;
        let model = match &self.settings.from_scratch {
            Some(sizes) => {
                // Made again by a resumed run: the same text and seed give the same model.
                let base = self.dir.join("base");
                scratch(sizes, &text, self.settings.train.seed, console)?.save(&base)?;
                base
            }
            None => session::find_model(&self.settings.model, self.environment, console)?,
        };
        let inputs = vec![hash(text.documents.iter().map(String::as_bytes))];
        let counts = (text.documents.len(), 0);
        let training = self.training(&model, String::new(), inputs, counts);
        let material = |_: &Policy| Ok(Material::Text(&text));
        Ok(training.run(self.resume, console, material, |_, _, _| Ok(()))?.1)
    }

    fn chats(&self, console: &mut Console) -> anyhow::Result<Telemetry> {
        let chats = read_chats(self.settings)?;
        let model = session::find_model(&self.settings.model, self.environment, console)?;
        let turns = chats.0.iter().flatten();
        let inputs = vec![hash(turns.flat_map(|it| [it.role.as_bytes(), it.content.as_bytes()]))];
        let training = self.training(&model, String::new(), inputs, (chats.0.len(), 0));
        let material = |_: &Policy| Ok(Material::Chats(&chats));
        Ok(training.run(self.resume, console, material, |_, _, _| Ok(()))?.1)
    }

    fn mbpp(&self, console: &mut Console) -> anyhow::Result<Telemetry> {
        let settings = self.settings;
        let mut problems = problems::mbpp(&settings.mbpp, Part::Train)?;
        if settings.train_limit > 0 {
            problems.truncate(settings.train_limit);
        }
        let bench = FunctionBench::open(settings, self.environment)?;
        console.say(&format!("sandbox: {}", bench.sandbox.tier()));
        let model = session::find_model(&settings.model, self.environment, console)?;
        let inputs = problems.iter().map(|it| hash([it.id.as_bytes(), it.check.as_bytes()]));
        let (inputs, tier) = (inputs.collect(), bench.sandbox.tier().to_string());
        let training = self.training(&model, tier, inputs, (problems.len(), 0));
        let checker = bench.checker(settings);
        let material = |policy: &Policy| {
            let problems = fitting(policy, &problems, settings, &mut Console::new())?;
            let shaping = settings.train.mbpp.shaping;
            Ok(Material::Functions { problems, checker, shaping })
        };
        Ok(training.run(self.resume, console, material, |_, _, _| Ok(()))?.1)
    }

    /// Nothing if images alone were asked for.
    fn tasks(&self, console: &mut Console) -> anyhow::Result<Option<Telemetry>> {
        let settings = self.settings;
        let session = Session::open(settings, self.environment)?;
        console.say(&format!("sandbox: {}", session.sandbox.tier()));
        let mut tasks = session.tasks(session::is_train)?;
        // The toy set is valid by construction, and its tests say so.
        if settings.tasks != "toy" && !self.allow_invalid {
            tasks = session::fit(tasks, self.environment, console)?;
        }
        if settings.train_limit > 0 {
            tasks.truncate(settings.train_limit);
        }
        if self.images != Images::AsTheyAre {
            crate::commands::prepare_images(&tasks, session.engine()?, console)?;
            if self.images == Images::PrepareOnly {
                return Ok(None);
            }
        }
        let model = session.find_model(console)?;
        let ready = session.prepare(&tasks, console)?;
        let inputs = ready.iter().map(|it| it.task.id.as_str().to_owned()).collect();
        let tier = session.sandbox.tier().to_string();
        let training = self.training(&model, tier, inputs, (ready.len(), 0));
        let material = |_: &Policy| Ok(session.material(&ready));
        Ok(Some(training.run(self.resume, console, material, |_, _, _| Ok(()))?.1))
    }

    fn training<'t>(
        &'t self,
        model: &'t Path,
        tier: String,
        inputs: Vec<String>,
        counts: (usize, usize),
    ) -> Training<'t> {
        let draws = matches!(self.kind, Kind::Mbpp | Kind::Grpo);
        Training { settings: self.settings, dir: self.dir, model, tier, inputs, counts, draws }
    }
}

/// The text that the settings name, with what was left out.
pub(crate) fn read_text(settings: &Settings, console: &mut Console) -> anyhow::Result<Text> {
    if settings.text.paths.is_empty() {
        return Err(usage(
            "there is no text to pretrain on",
            "name files or folders after `train pretrain`, or as `text.paths` in the configuration",
        ));
    }
    let text = Text::read(&settings.text)?;
    let bytes: usize = text.documents.iter().map(String::len).sum();
    console.say(&format!(
        "text: {} files, {:.1} MB; left out: {} binary, {} empty or too large, {} beyond the limit",
        text.documents.len(),
        bytes as f64 / 1e6,
        text.binary,
        text.too_large,
        text.too_much
    ));
    Ok(text)
}

/// The chats that the settings name.
pub(crate) fn read_chats(settings: &Settings) -> anyhow::Result<Chats> {
    let Some(path) = &settings.chats else {
        return Err(usage("there are no chats", "name a file of JSON lines with `--chats FILE`"));
    };
    if path != Path::new("mbpp") {
        return Ok(Chats::read(path)?);
    }
    let chat = |it: &Problem| {
        let mut turns = function_messages(&it.statement, &it.asserts);
        turns.push(Message::new("assistant", function_answer(&it.solution)));
        turns
    };
    Ok(Chats(problems::mbpp(&settings.mbpp, Part::Train)?.iter().map(chat).collect()))
}

/// A new model with a tokenizer learnt from `text`.
pub(crate) fn scratch(
    sizes: &Scratch,
    text: &Text,
    seed: u64,
    console: &mut Console,
) -> anyhow::Result<Policy> {
    let texts: Vec<&str> = text.documents.iter().map(String::as_str).collect();
    let policy = Policy::from_scratch(sizes, &texts, seed)?;
    console.say(&format!(
        "a new model of {:.1} million parameters and {} tokens",
        policy.model.config.parameters() as f64 / 1e6,
        policy.model.config.vocab,
    ));
    Ok(policy)
}

/// The problems whose prompts fit; the rest is said.
pub(crate) fn fitting<'p>(
    policy: &Policy,
    problems: &'p [Problem],
    settings: &Settings,
    console: &mut Console,
) -> anyhow::Result<Vec<&'p Problem>> {
    let answer = settings.sampling.budget().most();
    let room = policy.model.config.max_positions.saturating_sub(answer);
    let most = settings.prompt.max_tokens.min(room);
    let (problems, left_out) = Material::functions(policy, problems, most)?;
    if left_out > 0 {
        console.say(&format!(
            "{left_out} problems have prompts of more than {most} tokens and are left out"
        ));
    }
    if problems.is_empty() {
        return Err(usage(
            format!("no problem's prompt has at most {most} tokens"),
            "raise `--max-prompt-tokens`, or lower `--max-new-tokens`",
        ));
    }
    Ok(problems)
}

/// Where answers to problems of one function run.
pub(crate) struct FunctionBench {
    pub(crate) sandbox: Local,
    interpreter: python::Interpreter,
    empty: PathBuf,
}

impl FunctionBench {
    /// Start the sandbox and find Python.
    pub(crate) fn open(settings: &Settings, environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self {
            sandbox: session::open_sandbox(settings.sandbox, environment)?,
            interpreter: python::find_interpreter(None)?,
            empty: environment.state.join("empty"),
        })
    }

    /// As the settings have it.
    pub(crate) fn checker(&self, settings: &Settings) -> Checker<'_> {
        Checker {
            sandbox: &self.sandbox,
            empty: &self.empty,
            interpreter: &self.interpreter,
            wall: Duration::from_secs(settings.train.mbpp.timeout),
            workers: settings.workers,
            seed: settings.train.seed,
        }
    }
}

/// A hash of pieces, each with its length.
fn hash<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
