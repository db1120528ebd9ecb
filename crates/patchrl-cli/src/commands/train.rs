//! `patchrl train`: each stage alone, over a configuration file and flags.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use patchrl_reward::Mode;
use patchrl_train::PhaseConfig;
use serde_json::json;

use super::flags::{Common, ServerFlags, checked, set};
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session;
use crate::settings::{Environment, Settings};
use crate::stage::{Ended, Gather, Images, Kind, Stage};

/// `patchrl train ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Group-relative policy optimisation: the curriculum, or one reward mode alone.
    Grpo(Grpo),
    /// Supervised training on gold patches, or on the assistant's turns of chats.
    Sft(Sft),
    /// Next-token training on text, of a model that exists or of a new one.
    Pretrain(Pretrain),
    /// GRPO on MBPP: answers run with the problem's assertions in the sandbox.
    Mbpp(Problems),
}

/// Flags that all of them take.
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

/// Flags over tasks.
#[derive(Debug, Args)]
struct Tasks {
    /// Train on this many tasks or problems at most.
    #[arg(long)]
    train_limit: Option<usize>,
    /// Train also on tasks that `task validate` found unfit.
    #[arg(long)]
    allow_invalid: bool,
}

/// Flags over groups of answers.
#[derive(Debug, Args)]
struct Groups {
    /// Answers per task and step.
    #[arg(long)]
    group_size: Option<u32>,
    /// Tasks per step.
    #[arg(long)]
    tasks_per_step: Option<usize>,
    /// Evaluations at the same time.
    #[arg(long)]
    docker_workers: Option<usize>,
    /// Tokens of one answer.
    #[arg(long)]
    max_new_tokens: Option<usize>,
    /// Weight of the KL term.
    #[arg(long)]
    kl_coef: Option<f32>,
    /// Sampling temperature.
    #[arg(long)]
    temperature: Option<f32>,
}

#[derive(Debug, Args)]
pub(crate) struct Grpo {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    tasks: Tasks,
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    server: ServerFlags,
    /// Updates that weights may be behind when they draw; above 0, answers of the next step are
    /// drawn by the server while an update runs.
    #[arg(long, value_name = "N")]
    staleness: Option<u64>,
    /// One reward mode alone, in place of the curriculum.
    #[arg(long, value_name = "syntax|apply-only|docker|resolved|rule_based|swerl|similarity")]
    reward_mode: Option<Mode>,
    /// Seconds one run of a task's tests may take.
    #[arg(long)]
    docker_timeout: Option<u64>,
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
    #[command(flatten)]
    tasks: Tasks,
    /// Learn from chats instead of tasks: JSON lines `{"messages": [{"role", "content"}]}`, of
    /// which the assistant's turns carry loss; or `mbpp` for the solutions of MBPP's part to
    /// train on.
    #[arg(long, value_name = "FILE|mbpp")]
    chats: Option<PathBuf>,
    /// MBPP as published, for `--chats mbpp`.
    #[arg(long, value_name = "FILE")]
    mbpp: Option<PathBuf>,
    /// Tasks or chats per step.
    #[arg(long)]
    tasks_per_step: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Pretrain {
    #[command(flatten)]
    shared: Shared,
    /// Files and folders of text. Binary files, links and hidden folders are left out.
    #[arg(value_name = "PATH")]
    text: Vec<PathBuf>,
    /// Read only names that end so, such as `.py`.
    #[arg(long, value_name = "END")]
    suffix: Vec<String>,
    /// Begin with a new model: its sizes are `from_scratch` in the configuration, its tokenizer is
    /// learnt from the text.
    #[arg(long)]
    from_scratch: bool,
    /// Rows of text per step.
    #[arg(long)]
    rows_per_step: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Problems {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    groups: Groups,
    /// MBPP as published: `mbpp.jsonl`, also `.gz`.
    #[arg(long, value_name = "FILE")]
    mbpp: Option<PathBuf>,
    /// Train on this many problems at most.
    #[arg(long)]
    train_limit: Option<usize>,
}

pub(crate) fn run(command: &Train, environment: &Environment) -> anyhow::Result<Exit> {
    let (settings, shared, kind) = match command {
        Train::Grpo(flags) => (grpo_settings(flags)?, &flags.shared, Kind::Grpo),
        Train::Sft(flags) => (sft_settings(flags)?, &flags.shared, Kind::Sft),
        Train::Pretrain(flags) => (pretrain_settings(flags)?, &flags.shared, Kind::Pretrain),
        Train::Mbpp(flags) => (mbpp_settings(flags)?, &flags.shared, Kind::Mbpp),
    };
    let settings = checked(settings)?;
    if shared.resume && shared.run.is_none() {
        return Err(usage("`--resume` needs `--run`", "name the run to go on with"));
    }
    let dir = session::run_dir(shared.run.as_deref(), kind.as_str());
    session::check_run(&dir, shared.resume)?;
    let started = Instant::now();
    let images = match command {
        Train::Grpo(flags) if !flags.prepare_images => Images::AsTheyAre,
        Train::Grpo(flags) if flags.shared.max_steps == Some(0) => Images::PrepareOnly,
        Train::Grpo(_) => Images::Prepare,
        _ => Images::AsTheyAre,
    };
    let allow_invalid = match command {
        Train::Grpo(Grpo { tasks, .. }) | Train::Sft(Sft { tasks, .. }) => tasks.allow_invalid,
        Train::Pretrain(_) | Train::Mbpp(_) => false,
    };
    let stage = Stage {
        kind,
        settings: &settings,
        environment,
        dir: &dir,
        resume: shared.resume,
        allow_invalid,
        images,
        gather: Gather::default(),
    };
    let mut console = Console::new();
    let Ended::Trained(report) = stage.run(&mut console)? else { return Ok(Exit::Success) };
    console.say(&format!("report: {}", report.display()));
    let value = json!({ "run_dir": dir, "seconds": started.elapsed().as_secs_f64() });
    printer::report(Form::of(shared.common.json), &value, || format!("{}", dir.display()))?;
    Ok(Exit::Success)
}

fn grpo_settings(flags: &Grpo) -> anyhow::Result<Settings> {
    let mut s = shared_settings(&flags.shared)?;
    flags.groups.over(&mut s);
    flags.server.over(&mut s);
    set(&mut s.rollout.staleness, flags.staleness);
    set(&mut s.train.grpo.lr, flags.shared.lr);
    set(&mut s.train_limit, flags.tasks.train_limit);
    set(&mut s.test_timeout, flags.docker_timeout);
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
    Kind::Sft.alone(&mut s);
    set(&mut s.train_limit, flags.tasks.train_limit);
    s.chats = flags.chats.clone().or(s.chats);
    s.mbpp.file = flags.mbpp.clone().or(s.mbpp.file);
    set(&mut s.train.sft.steps, flags.shared.max_steps);
    set(&mut s.train.sft.lr, flags.shared.lr);
    set(&mut s.train.sft.tasks_per_step, flags.tasks_per_step);
    Ok(s)
}

fn pretrain_settings(flags: &Pretrain) -> anyhow::Result<Settings> {
    let mut s = shared_settings(&flags.shared)?;
    if !flags.text.is_empty() {
        s.text.paths.clone_from(&flags.text);
    }
    if !flags.suffix.is_empty() {
        s.text.suffixes.clone_from(&flags.suffix);
    }
    if flags.from_scratch {
        s.from_scratch.get_or_insert_default();
    }
    set(&mut s.train.pretrain.steps, flags.shared.max_steps);
    set(&mut s.train.pretrain.lr, flags.shared.lr);
    set(&mut s.train.pretrain.rows_per_step, flags.rows_per_step);
    Ok(s)
}

fn mbpp_settings(flags: &Problems) -> anyhow::Result<Settings> {
    let mut s = shared_settings(&flags.shared)?;
    flags.groups.over(&mut s);
    s.mbpp.file = flags.mbpp.clone().or(s.mbpp.file);
    set(&mut s.train_limit, flags.train_limit);
    set(&mut s.train.grpo.lr, flags.shared.lr);
    set(&mut s.train.mbpp.steps, flags.shared.max_steps);
    Ok(s)
}

fn shared_settings(flags: &Shared) -> anyhow::Result<Settings> {
    let mut s = flags.common.settings()?;
    set(&mut s.train.checkpoint_every, flags.checkpoint_every);
    Ok(s)
}

impl Groups {
    fn over(&self, s: &mut Settings) {
        let g = &mut s.train.grpo;
        set(&mut g.group_size, self.group_size);
        set(&mut g.tasks_per_step, self.tasks_per_step);
        set(&mut g.kl_coef, self.kl_coef);
        set(&mut s.workers, self.docker_workers);
        set(&mut s.sampling.max_new_tokens, self.max_new_tokens);
        set(&mut s.sampling.temperature, self.temperature);
    }
}
