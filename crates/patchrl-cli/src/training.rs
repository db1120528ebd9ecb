//! A run of training: begun, or taken up where it was, with its journal and configuration.
//!
//! Owns what is written when a run begins and what is checked when it goes on. What it learns
//! from comes from `stage`.

use std::path::Path;

use patchrl_model::Policy;
use patchrl_telemetry::{Event, Mark, RunStart, Telemetry};
use patchrl_train::{Checkpoints, Listener as _, Material, Run, Start, TrainConfig, memory_needed};

use crate::console::Console;
use crate::exit::usage;
use crate::server::{self, Served};
use crate::session;
use crate::settings::{MemoryCheck, Settings};

/// A run that is about to begin or to go on.
pub(crate) struct Training<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) dir: &'a Path,
    /// The model that the run begins with.
    pub(crate) model: &'a Path,
    /// Where tests run, if any do.
    pub(crate) tier: String,
    /// What decides the numbers beside the settings: ids of tasks, hashes of texts.
    pub(crate) inputs: Vec<String>,
    /// Tasks to train on, and tasks to measure on.
    pub(crate) counts: (usize, usize),
    /// Whether answers are drawn, which a server may do.
    pub(crate) draws: bool,
}

impl<'a> Training<'a> {
    /// Train to the end. `before` sees the base model before the first step of a
    /// fresh run, and is left out when a run is resumed after one.
    pub(crate) fn run(
        &self,
        resume: bool,
        console: &mut Console,
        material: impl FnOnce(&Policy) -> anyhow::Result<Material<'a>>,
        before: impl FnOnce(&Policy, &Telemetry, &mut Console) -> anyhow::Result<()>,
    ) -> anyhow::Result<(Policy, Telemetry)> {
        let settings = self.settings;
        let checkpoints = Checkpoints::new(self.dir, settings.train.keep_checkpoints);
        let inputs: Vec<&str> = self.inputs.iter().map(String::as_str).collect();
        let digest = settings.digest(&inputs)?;
        let at = if resume {
            checkpoints.sweep()?;
            checkpoints.latest()?
        } else {
            None
        };
        if let Some((_, state)) = &at {
            self.check_unchanged(&digest, state)?;
        }
        // A server that is of no use is said before anything is written.
        let server = if self.draws { server::open(settings)? } else { None };
        let weights = at.as_ref().map_or(self.model, |(path, _)| path);
        console.say(&format!("loading {}", weights.display()));
        let mut policy = session::load_policy(weights)?;
        let begin = |server| Served::begin(server, &policy, settings, self.dir);
        let served = server.map(begin).transpose()?;
        let telemetry = self.telemetry(resume, at.as_ref().map(|(_, state)| state))?;
        let material = material(&policy)?;
        self.check_memory(&policy, &material, console)?;
        console.steps = steps(&material, &settings.train);
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
        for message in served.iter().flat_map(|it| it.notes.clone()) {
            let event = Event::Warning { message };
            telemetry.emit(&event)?;
            console.event(&event);
        }
        let run = Run {
            dir: self.dir,
            config: &settings.train,
            sampling: &settings.sampling,
            material,
            server: served
                .as_ref()
                .map(|it| patchrl_train::Served { remote: &it.remote, handover: &it.handover }),
            telemetry: &telemetry,
            digest,
        };
        let base = || Ok(Policy::load(self.model)?);
        run.train(&mut policy, start, &base, console)?;
        Ok((policy, telemetry))
    }

    /// Refuse a run, or warn of it, that will not fit into the memory that is left.
    fn check_memory(
        &self,
        policy: &Policy,
        material: &Material<'_>,
        console: &mut Console,
    ) -> anyhow::Result<()> {
        let settings = self.settings;
        let need = memory_needed(policy, material, &settings.train, &settings.sampling)?;
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let Some(left) =
            patchrl_telemetry::usage::memory_left().filter(|left| *left < need.bytes())
        else {
            return Ok(());
        };
        let answers = need.longest.answers.len();
        let message = format!(
            "this run needs up to {:.1} GB more memory and {:.1} GB are left: {:.1} for gradients              and optimizer, {:.1} for a prompt of {} tokens and {answers} answers of {}",
            gb(need.bytes()),
            gb(left),
            gb(need.training),
            gb(need.passing),
            need.longest.prompt,
            need.longest.answers.iter().max().unwrap_or(&0),
        );
        let hint = format!(
            "set `train.activations: recompute` ({:.1} GB in all), lower `sampling.max_new_tokens`,              `train.grpo.group_size` or `prompt.max_tokens`, train an adapter (`train.lora`), or              go on all the same with `memory: warn`",
            gb(need.training + need.recomputing)
        );
        match settings.memory {
            MemoryCheck::Refuse => Err(usage(message, hint)),
            MemoryCheck::Warn => {
                console.say(&format!("warning: {message}"));
                Ok(())
            }
        }
    }

    /// Refuse, by the first key that differs, to go on under settings that decide other numbers.
    fn check_unchanged(&self, digest: &str, state: &patchrl_train::State) -> anyhow::Result<()> {
        if state.config == digest {
            return Ok(());
        }
        let begun = Settings::load(&self.dir.join("config.yaml"))?;
        match self.settings.first_change(&begun)? {
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
        let settings = self.settings;
        let text = serde_norway::to_string(settings)?;
        fs_err::write(self.dir.join("config.yaml"), text)?;
        telemetry.emit(&Event::RunStarted(RunStart {
            run: self.dir.display().to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            model: settings.model.clone(),
            config_digest: digest.to_owned(),
            tier: self.tier.clone(),
            seed: settings.train.seed,
            train_tasks: self.counts.0 as u64,
            held_out_tasks: self.counts.1 as u64,
        }))?;
        Ok(())
    }
}

/// Steps of a whole run.
fn steps(material: &Material<'_>, train: &TrainConfig) -> u64 {
    match material {
        Material::Text(_) => train.pretrain.steps,
        Material::Chats(_) => train.sft.steps,
        Material::Functions { .. } => train.mbpp.steps,
        Material::Tasks { .. } => {
            train.sft.steps + train.curriculum.iter().map(|p| p.steps).sum::<u64>()
        }
    }
}
