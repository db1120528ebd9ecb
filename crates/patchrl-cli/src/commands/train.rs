//! `patchrl train`: SFT and GRPO, over a configuration file and flags.

use std::path::Path;
use std::time::Instant;

use clap::{Args, Subcommand};
use patchrl_reward::{Mode, Ready};
use patchrl_telemetry::{Event, Mark, RunStart, Telemetry};
use patchrl_train::{Checkpoints, Listener as _, PhaseConfig, Run, Start};
use serde_json::json;

use super::flags::{Common, checked, set};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};

/// `patchrl train ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Group-relative policy optimisation: the curriculum, or one reward mode alone.
    Grpo(Grpo),
    /// Supervised training on gold patches.
    Sft(Sft),
}

/// Flags that both commands take.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    #[command(flatten)]
    common: Common,
    /// Peak learning rate.
    #[arg(long)]
    lr: Option<f32>,
    /// Steps; with a curriculum, of each of its phases at most.
    #[arg(long)]
    max_steps: Option<u64>,
    /// Train on this many tasks at most.
    #[arg(long)]
    train_limit: Option<usize>,
    /// Train also on tasks that `task validate` found unfit.
    #[arg(long)]
    allow_invalid: bool,
    /// Name of the run, or a path for its folder.
    #[arg(long)]
    run: Option<String>,
    /// Go on with the run from its last whole checkpoint.
    #[arg(long)]
    resume: bool,
    /// Steps between checkpoints.
    #[arg(long)]
    checkpoint_every: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Grpo {
    #[command(flatten)]
    shared: Shared,
    /// One reward mode alone, in place of the curriculum.
    #[arg(long, value_name = "syntax|apply-only|docker|resolved|rule_based|swerl|similarity")]
    reward_mode: Option<Mode>,
    /// Answers per task and step.
    #[arg(long)]
    group_size: Option<u32>,
    /// Tasks per step.
    #[arg(long)]
    tasks_per_step: Option<usize>,
    /// Evaluations at the same time.
    #[arg(long)]
    docker_workers: Option<usize>,
    /// Seconds one run of a task's tests may take.
    #[arg(long)]
    docker_timeout: Option<u64>,
    /// Tokens of one answer.
    #[arg(long)]
    max_new_tokens: Option<usize>,
    /// Weight of the KL term.
    #[arg(long)]
    kl_coef: Option<f32>,
    /// Sampling temperature.
    #[arg(long)]
    temperature: Option<f32>,
    /// Pull the images of the tasks first; with `--max-steps 0` nothing else is done.
    #[arg(long)]
    prepare_images: bool,
    /// Start from this model folder instead of `--model`.
    #[arg(long, value_name = "DIR")]
    sft_ckpt: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Sft {
    #[command(flatten)]
    shared: Shared,
    /// Tasks per step.
    #[arg(long)]
    tasks_per_step: Option<usize>,
}

pub(crate) fn run(command: &Train, environment: &Environment) -> anyhow::Result<Exit> {
    let (settings, shared, stem) = match command {
        Train::Grpo(flags) => (grpo_settings(flags)?, &flags.shared, "grpo"),
        Train::Sft(flags) => (sft_settings(flags)?, &flags.shared, "sft"),
    };
    let settings = checked(settings)?;
    if shared.resume && shared.run.is_none() {
        return Err(usage("`--resume` needs `--run`", "name the run to go on with"));
    }
    let dir = session::run_dir(shared.run.as_deref(), stem);
    session::check_run(&dir, shared.resume)?;
    let started = Instant::now();
    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    console.say(&format!("sandbox: {}", session.sandbox.tier()));
    let mut tasks = session.tasks(session::is_train)?;
    // The toy set is valid by construction, and its tests say so.
    if settings.tasks != "toy" && !shared.allow_invalid {
        tasks = session::fit(tasks, environment, &mut console)?;
    }
    if settings.train_limit > 0 {
        tasks.truncate(settings.train_limit);
    }
    if matches!(command, Train::Grpo(flags) if flags.prepare_images) {
        super::image::prepare_for(&tasks, session.engine()?, &mut console)?;
        if shared.max_steps == Some(0) {
            return Ok(Exit::Success);
        }
    }
    let model = session.find_model(&mut console)?;
    let ready = session.prepare(&tasks, &mut console)?;
    let training =
        Training { session: &session, dir: &dir, model: &model, ready: &ready, held_out: 0 };
    let (_, telemetry) = training.run(shared.resume, &mut console, |_, _, _| Ok(()))?;
    let seconds = started.elapsed().as_secs_f64();
    telemetry.emit(&Event::RunEnded { seconds })?;
    let report = patchrl_telemetry::render_report(&dir)?;
    console.say(&format!("report: {}", report.display()));
    let value = json!({ "run_dir": dir, "seconds": seconds });
    printer::report(Form::of(shared.common.json), &value, || format!("{}", dir.display()))?;
    Ok(Exit::Success)
}

fn grpo_settings(flags: &Grpo) -> anyhow::Result<Settings> {
    let mut s = shared_settings(&flags.shared)?;
    let g = &mut s.train.grpo;
    set(&mut g.lr, flags.shared.lr);
    set(&mut g.group_size, flags.group_size);
    set(&mut g.tasks_per_step, flags.tasks_per_step);
    set(&mut g.kl_coef, flags.kl_coef);
    set(&mut s.workers, flags.docker_workers);
    set(&mut s.test_timeout, flags.docker_timeout);
    set(&mut s.sampling.max_new_tokens, flags.max_new_tokens);
    set(&mut s.sampling.temperature, flags.temperature);
    set(&mut s.model, flags.sft_ckpt.clone());
    if let Some(mode) = flags.reward_mode {
        let steps = s.train.curriculum.iter().find(|p| p.mode == mode).map_or(20, |p| p.steps);
        s.train.curriculum = vec![PhaseConfig { mode, steps }];
    }
    if let Some(max) = flags.shared.max_steps {
        let alone = flags.reward_mode.is_some();
        for phase in &mut s.train.curriculum {
            phase.steps = if alone { max } else { phase.steps.min(max) };
        }
    }
    Ok(s)
}

fn sft_settings(flags: &Sft) -> anyhow::Result<Settings> {
    let mut s = shared_settings(&flags.shared)?;
    s.train.curriculum.clear();
    if s.train.sft.steps == 0 {
        s.train.sft.steps = 50;
    }
    set(&mut s.train.sft.steps, flags.shared.max_steps);
    set(&mut s.train.sft.lr, flags.shared.lr);
    set(&mut s.train.sft.tasks_per_step, flags.tasks_per_step);
    Ok(s)
}

fn shared_settings(flags: &Shared) -> anyhow::Result<Settings> {
    let mut s = flags.common.settings()?;
    set(&mut s.train_limit, flags.train_limit);
    set(&mut s.train.checkpoint_every, flags.checkpoint_every);
    Ok(s)
}

/// A run that is about to begin or to go on.
pub(crate) struct Training<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) dir: &'a Path,
    pub(crate) model: &'a Path,
    pub(crate) ready: &'a [Ready],
    pub(crate) held_out: usize,
}

impl Training<'_> {
    /// Train to the end. `before` sees the base model before the first step of a
    /// fresh run, and is left out when a run is resumed after one.
    pub(crate) fn run(
        &self,
        resume: bool,
        console: &mut Console,
        before: impl FnOnce(&patchrl_model::Policy, &Telemetry, &mut Console) -> anyhow::Result<()>,
    ) -> anyhow::Result<(patchrl_model::Policy, Telemetry)> {
        let settings = self.session.settings;
        let checkpoints = Checkpoints::new(self.dir, settings.train.keep_checkpoints);
        let ids: Vec<&str> = self.ready.iter().map(|r| r.task.id.as_str()).collect();
        let digest = settings.digest(&ids)?;
        let at = if resume {
            checkpoints.sweep()?;
            checkpoints.latest()?
        } else {
            None
        };
        if let Some((_, state)) = &at {
            self.check_unchanged(&digest, state)?;
        }
        let telemetry = self.telemetry(resume, at.as_ref().map(|(_, state)| state))?;
        let weights = at.as_ref().map_or(self.model, |(path, _)| path);
        console.say(&format!("loading {}", weights.display()));
        let mut policy = session::load_policy(weights)?;
        console.steps = settings.train.sft.steps
            + settings.train.curriculum.iter().map(|p| p.steps).sum::<u64>();
        let start = if let Some((_, state)) = at {
            let phase = state.phase_name.clone();
            let event = Event::Resumed { phase, step: state.step };
            telemetry.emit(&event)?;
            console.event(&event);
            Start::Checkpoint(state)
        } else {
            self.begin(&telemetry, &digest)?;
            before(&policy, &telemetry, console)?;
            Start::Fresh
        };
        let run = Run {
            dir: self.dir,
            config: &settings.train,
            prompt: &settings.prompt,
            sampling: &settings.sampling,
            judge: &self.session.judge,
            tasks: self.ready,
            telemetry: &telemetry,
            digest,
        };
        let base = || Ok(patchrl_model::Policy::load(self.model)?);
        run.train(&mut policy, start, &base, console)?;
        Ok((policy, telemetry))
    }

    /// Refuse, by the first key that differs, to go on under settings that decide other numbers.
    fn check_unchanged(&self, digest: &str, state: &patchrl_train::State) -> anyhow::Result<()> {
        if state.config == digest {
            return Ok(());
        }
        let begun = Settings::load(&self.dir.join("config.yaml"))?;
        match self.session.settings.first_change(&begun)? {
            Some([key, old, new]) => Err(usage(
                format!("`{key}` is {new}, but the run `{}` began with {old}", self.dir.display()),
                "use the settings in the run's config.yaml, or another `--run`",
            )),
            // Its tasks are others; the run itself says so.
            None => Ok(()),
        }
    }

    /// The journal, cut back to the checkpoint when resumed, with the rollouts
    /// of the steps that will be made again.
    fn telemetry(
        &self,
        resume: bool,
        state: Option<&patchrl_train::State>,
    ) -> anyhow::Result<Telemetry> {
        if !resume {
            return Ok(Telemetry::open(self.dir)?);
        }
        let mark = state.map(|s| Mark { phase: &s.phase_name, step: s.step });
        let (telemetry, kept) = Telemetry::resume(self.dir, mark)?;
        if let Some(s) = state {
            let written = s.written();
            // A crash after the checkpoint and before its event leaves it unsaid.
            if kept.records.last().map(|record| &record.event) != Some(&written) {
                telemetry.emit(&written)?;
            }
        }
        patchrl_rollout::forget_after(self.dir, state.map_or(0, |s| s.step))?;
        Ok(telemetry)
    }

    fn begin(&self, telemetry: &Telemetry, digest: &str) -> anyhow::Result<()> {
        let settings = self.session.settings;
        let text = serde_norway::to_string(settings)?;
        fs_err::write(self.dir.join("config.yaml"), text)?;
        telemetry.emit(&Event::RunStarted(RunStart {
            run: self.dir.display().to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            model: settings.model.clone(),
            config_digest: digest.to_owned(),
            tier: self.session.sandbox.tier().to_string(),
            seed: settings.train.seed,
            train_tasks: self.ready.len() as u64,
            held_out_tasks: self.held_out as u64,
        }))?;
        Ok(())
    }
}
