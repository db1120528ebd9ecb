//! A whole run: the phases that its material has, with events and checkpoints.
//!
//! Owns the order of things and resuming. A run's numbers follow from its
//! configuration, its base model and its material: seeds come from coordinates, so a
//! resumed run equals an uninterrupted one bit for bit. Does not print.

use std::path::Path;
use std::time::Instant;

use patchrl_model::{Finish, Model, Params, Policy};
use patchrl_reward::Mode;
use patchrl_rollout::{
    Attempt, Drawer, Group, Handover, Origin, Remote, SamplingConfig, Spent, items_of_step,
    write_records,
};
use patchrl_telemetry::{Event, RolloutEnd, Step, StepSft, Telemetry, Validation, usage};

use crate::TrainError;
use crate::ahead::{Ahead, Gate};
use crate::checkpoint::{Checkpoints, State, adapter_of, checkpoint_name, read_optimizer};
use crate::config::TrainConfig;
use crate::groups::Drawn;
use crate::grpo::{Advantages, Batch, Update, Updater};
use crate::lessons::Lessons;
use crate::material::Material;
use crate::optimizer::AdamW;
use crate::schedule::{linear_warmup, trapezoid};
use crate::sft::{Example, sft_step};

/// Hears what happens while it happens.
pub trait Listener {
    /// Something happened; it is in the journal already.
    fn event(&mut self, event: &Event);
    /// `done` of `total` in what is going on now.
    fn progress(&mut self, what: &str, done: u64, total: u64);
}

/// What a run works on. All of it stays the same while it runs.
pub struct Run<'a> {
    /// The run's folder.
    pub dir: &'a Path,
    /// What to do to the weights.
    pub config: &'a TrainConfig,
    /// How answers are drawn.
    pub sampling: &'a SamplingConfig,
    /// What to learn from.
    pub material: Material<'a>,
    /// Who draws, where it is not the weights in training.
    pub server: Option<Served<'a>>,
    /// Journal and metrics.
    pub telemetry: &'a Telemetry,
    /// Hash of everything that decides the numbers.
    pub digest: String,
}

/// A server that draws, and the way of new weights to it.
#[derive(Clone, Copy)]
pub struct Served<'a> {
    /// The server.
    pub remote: &'a Remote,
    /// The way.
    pub handover: &'a Handover,
}

/// Mean difference of two log-probabilities of the same weights that is more than rounding.
const STRANGE: f64 = 0.2;

/// Where a run starts from.
pub enum Start {
    /// The base model, at the first step.
    Fresh,
    /// A checkpoint of this run.
    Checkpoint(State),
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    Pretrain,
    Sft,
    Grpo(Mode),
    Mbpp,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Pretrain => "pretrain",
            Self::Sft => "sft",
            Self::Grpo(mode) => mode.as_str(),
            Self::Mbpp => "mbpp",
        }
    }

    /// What answers to tasks are judged by.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Grpo(mode) => mode,
            Self::Pretrain | Self::Sft | Self::Mbpp => Mode::Tests,
        }
    }

    fn is_supervised(self) -> bool {
        matches!(self, Self::Pretrain | Self::Sft)
    }
}

/// The moving parts of a run.
struct Engine<'p> {
    policy: &'p mut Policy,
    optimizer: AdamW,
    grads: Params,
    reference: Option<Model>,
    state: State,
    /// Whether it was said that the server's numbers are strange.
    warned: bool,
}

impl Run<'_> {
    /// Train `policy` to the end of the last phase. `base` loads the weights of
    /// the model the run began with, which a resumed first phase needs again.
    pub fn train(
        &self,
        policy: &mut Policy,
        start: Start,
        base: &dyn Fn() -> Result<Policy, TrainError>,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        if self.material.len() == 0 {
            return Err(TrainError::NoTasks);
        }
        let checkpoints = Checkpoints::new(self.dir, self.config.keep_checkpoints);
        let phases = self.phases();
        self.adapt(policy, &start, &checkpoints, base)?;
        let mut engine = self.engine(policy, start, &checkpoints)?;
        while let Some(&(phase, steps)) = phases.get(engine.state.phase) {
            let begins = engine.state.phase_step == 0;
            self.begin_phase(&mut engine, phase, &checkpoints, base, listener)?;
            let lessons = if phase.is_supervised() {
                self.lessons(&engine, listener)?
            } else {
                Lessons::default()
            };
            if begins {
                self.validate(&engine, phase, &lessons, listener)?;
            }
            self.phase(&mut engine, (phase, steps), &lessons, &checkpoints, listener)?;
            if steps == 0 {
                engine.state.phase += 1;
            }
        }
        Ok(())
    }

    /// The steps of a phase that are left.
    fn phase(
        &self,
        engine: &mut Engine<'_>,
        (phase, steps): (Phase, u64),
        lessons: &Lessons,
        checkpoints: &Checkpoints,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        let (first, begun) = (engine.state.step, engine.state.phase_step);
        let server = self.server.filter(|_| !phase.is_supervised() && begun < steps);
        if let Some(server) = server {
            server.handover.publish(engine.policy, first)?;
        }
        let gate = Gate::at(first);
        std::thread::scope(|scope| {
            let staleness = server.map_or(0, |it| it.remote.server().config().staleness);
            let mut ahead = server.filter(|_| staleness > 0).map(|server| {
                let draw = move |step| self.draw(server.remote, phase, step, &mut |_, _| {});
                let steps = first..first + (steps - begun);
                Ahead::start(scope, steps, (&gate, server.remote, staleness), draw)
            });
            for done in begun + 1..=steps {
                if phase.is_supervised() {
                    self.supervised(engine, (phase, steps), &lessons.trained, listener)?;
                } else {
                    self.grpo(engine, phase, ahead.as_mut(), listener)?;
                }
                phase.name().clone_into(&mut engine.state.phase_name);
                engine.state.phase_step = done;
                engine.state.step += 1;
                engine.state.optimizer_steps = engine.optimizer.steps;
                if let Some(server) = server {
                    server.handover.publish(engine.policy, engine.state.step)?;
                    gate.open(engine.state.step);
                }
                let ends = done == steps;
                if ends || done.is_multiple_of(self.config.validation.every) {
                    self.validate(engine, phase, lessons, listener)?;
                }
                if ends {
                    engine.state.phase += 1;
                    engine.state.phase_step = 0;
                    engine.state.reference = Some(checkpoint_name(engine.state.step));
                }
                if ends || engine.state.step.is_multiple_of(self.config.checkpoint_every) {
                    self.checkpoint(engine, checkpoints, listener)?;
                }
            }
            Ok(())
        })
    }

    fn phases(&self) -> Vec<(Phase, u64)> {
        let c = self.config;
        match &self.material {
            Material::Text(_) => vec![(Phase::Pretrain, c.pretrain.steps)],
            Material::Chats(_) => vec![(Phase::Sft, c.sft.steps)],
            Material::Functions { .. } => vec![(Phase::Mbpp, c.mbpp.steps)],
            Material::Tasks { .. } => {
                let sft = (c.sft.steps > 0).then_some((Phase::Sft, c.sft.steps));
                let grpo = c.curriculum.iter().map(|p| (Phase::Grpo(p.mode), p.steps));
                sft.into_iter().chain(grpo).collect()
            }
        }
    }

    /// Put the adapter on that the configuration asks for: a new one, or the checkpoint's.
    fn adapt(
        &self,
        policy: &mut Policy,
        start: &Start,
        checkpoints: &Checkpoints,
        base: &dyn Fn() -> Result<Policy, TrainError>,
    ) -> Result<(), TrainError> {
        let Some(lora) = &self.config.lora else { return Ok(()) };
        policy.model = match start {
            Start::Fresh => policy.model.clone().with_adapter(lora.clone(), self.config.seed)?,
            Start::Checkpoint(state) => {
                self.model_at(&checkpoints.path(&checkpoint_name(state.step)), base)?
            }
        };
        Ok(())
    }

    /// The model of the checkpoint at `path`. Its weights have the adapter added in, so what is
    /// trained on is the base model under the adapter's own numbers.
    fn model_at(
        &self,
        path: &Path,
        base: &dyn Fn() -> Result<Policy, TrainError>,
    ) -> Result<Model, TrainError> {
        if self.config.lora.is_none() {
            return Ok(Policy::load(path)?.model);
        }
        Ok(base()?.model.load_adapter(&adapter_of(path))?)
    }

    fn engine<'p>(
        &self,
        policy: &'p mut Policy,
        start: Start,
        checkpoints: &Checkpoints,
    ) -> Result<Engine<'p>, TrainError> {
        let parameters = policy.model.params.data().len();
        let adam = self.config.optimizer;
        let (optimizer, state) = match start {
            Start::Fresh => {
                let state = State {
                    phase: 0,
                    phase_name: String::new(),
                    phase_step: 0,
                    step: 0,
                    optimizer_steps: 0,
                    reference: None,
                    config: self.digest.clone(),
                };
                (AdamW::new(adam, parameters), state)
            }
            Start::Checkpoint(state) => {
                let path = checkpoints.path(&checkpoint_name(state.step));
                if state.config != self.digest {
                    return Err(TrainError::OtherConfig(path));
                }
                (read_optimizer(&path, adam, parameters, state.optimizer_steps)?, state)
            }
        };
        let grads = policy.model.params.zeros_like();
        Ok(Engine { policy, optimizer, grads, reference: None, state, warned: false })
    }

    /// Fresh moments and a reference for a phase that begins; only the reference
    /// for one that goes on.
    fn begin_phase(
        &self,
        engine: &mut Engine<'_>,
        phase: Phase,
        checkpoints: &Checkpoints,
        base: &dyn Fn() -> Result<Policy, TrainError>,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        let begins = engine.state.phase_step == 0;
        if begins {
            let parameters = engine.policy.model.params.data().len();
            engine.optimizer = AdamW::new(self.config.optimizer, parameters);
            self.say(&Event::PhaseStarted { phase: phase.name().into() }, listener)?;
        }
        let wanted = !phase.is_supervised() && self.config.grpo.kl_coef > 0.0;
        engine.reference = if !wanted {
            None
        } else if begins {
            Some(engine.policy.model.clone())
        } else {
            Some(match &engine.state.reference {
                Some(name) => self.model_at(&checkpoints.path(name), base)?,
                None => base()?.model,
            })
        };
        Ok(())
    }

    fn checkpoint(
        &self,
        engine: &Engine<'_>,
        checkpoints: &Checkpoints,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        checkpoints.write(engine.policy, &engine.optimizer, &engine.state)?;
        self.say(&engine.state.written(), listener)
    }

    /// The examples of a supervised phase. What is left out is said when the phase begins.
    fn lessons(
        &self,
        engine: &Engine<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Lessons, TrainError> {
        let lessons = Lessons::of(&self.material, engine.policy, self.config)?;
        if lessons.too_long > 0 && engine.state.phase_step == 0 {
            let (count, most) = (lessons.too_long, self.config.sft.max_tokens);
            let message =
                format!("{count} turns of chats have more than {most} tokens and are left out");
            self.say(&Event::Warning { message }, listener)?;
        }
        Ok(lessons)
    }

    /// Measure the loss on what is held out, if anything is.
    fn validate(
        &self,
        engine: &Engine<'_>,
        phase: Phase,
        lessons: &Lessons,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        let most = self.config.validation.max_tokens;
        let Some(found) = lessons.measure(engine.policy, most)? else { return Ok(()) };
        let event = Event::Validated(Validation {
            phase: phase.name().into(),
            step: engine.state.step,
            loss: found.loss as f32,
            tokens: found.tokens,
        });
        self.say(&event, listener)
    }

    fn supervised(
        &self,
        engine: &mut Engine<'_>,
        (phase, steps): (Phase, u64),
        examples: &[Example],
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        let started = Instant::now();
        let (step, done) = (engine.state.step, engine.state.phase_step);
        let (per_step, lr) = if phase == Phase::Pretrain {
            let c = &self.config.pretrain;
            (c.rows_per_step, trapezoid(c.lr, c.warmup_steps, c.cooldown_steps, (done, steps)))
        } else {
            let c = &self.config.sft;
            (c.tasks_per_step, linear_warmup(c.lr, c.warmup_steps, done))
        };
        let taken = items_of_step(self.config.seed, step, per_step, examples.len());
        let batch: Vec<&Example> = taken.iter().map(|&i| &examples[i]).collect();
        let update = sft_step(
            &mut engine.policy.model,
            &mut engine.optimizer,
            &mut engine.grads,
            &batch,
            (lr, self.config.activations),
        )?;
        let event = Event::SftStep(StepSft {
            phase: phase.name().into(),
            step: step + 1,
            loss: update.loss as f32,
            lr,
            grad_norm: update.grad_norm,
            tokens: update.tokens as u64,
            seconds: started.elapsed().as_secs_f64(),
        });
        self.say(&event, listener)
    }

    fn grpo(
        &self,
        engine: &mut Engine<'_>,
        phase: Phase,
        ahead: Option<&mut Ahead<'_>>,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        let c = &self.config.grpo;
        let step = engine.state.step;
        let drawn = match (ahead, self.server) {
            (Some(ahead), _) => ahead.next()?,
            (None, server) => {
                let who: &dyn Drawer = match server {
                    Some(server) => server.remote,
                    None => &*engine.policy,
                };
                let mut progress = |done, total| listener.progress("sampling", done, total);
                self.draw(who, phase, step, &mut progress)?
            }
        };
        let Drawn { groups, advantages, spent, resampled } = drawn;
        self.see_to_answers(&groups)?;
        write_records(self.dir, step + 1, &groups, &advantages)?;
        for event in rollout_events(step + 1, &groups) {
            self.say(&event, listener)?;
        }

        let started = Instant::now();
        let lr = linear_warmup(c.lr, c.warmup_steps, engine.state.phase_step);
        let update = self.update(engine, &groups, &advantages, lr)?;
        let mut event = step_event(&groups, &advantages, spent, &update);
        event.stale = staleness(&groups, step);
        self.warn_of_strangers(engine, &event, listener)?;
        event.phase = phase.name().into();
        event.step = step + 1;
        event.lr = lr;
        event.resampled = resampled;
        event.update_s = started.elapsed().as_secs_f64();
        self.say(&Event::StepEnded(event), listener)
    }

    /// A step of which nothing can be learnt, whatever it was worth, is no step: the server is
    /// gone, or does not say what is needed. A run is not let go on without its answers.
    fn see_to_answers(&self, groups: &[Group]) -> Result<(), TrainError> {
        if self.server.is_none() {
            return Ok(());
        }
        let mut answers = groups.iter().flat_map(|group| &group.attempts).peekable();
        if answers.peek().is_none() {
            return Ok(());
        }
        if let Some(known) = answers.clone().find(|it| it.judgement.reward.is_some()) {
            let none =
                known.origin == Origin::Unknown && answers.all(|it| it.origin == Origin::Unknown);
            return if none { Err(TrainError::NoTokens) } else { Ok(()) };
        }
        let why = answers.find_map(|it| it.judgement.outcome.why()).unwrap_or("nobody says why");
        Err(TrainError::NoAnswers(why.to_owned()))
    }

    /// Say once where the server's log-probabilities are not those of the same weights here.
    fn warn_of_strangers(
        &self,
        engine: &mut Engine<'_>,
        event: &Step,
        listener: &mut dyn Listener,
    ) -> Result<(), TrainError> {
        let apart = event.ratio_mismatch;
        let newest = event.stale == 0.0 && self.server.is_some_and(|it| it.handover.reaches());
        if engine.warned || !newest || f64::from(apart) < STRANGE {
            return Ok(());
        }
        engine.warned = true;
        let message = format!(
            "the server's log-probabilities are {apart:.2} away from those of the same weights \
             here, per token: it serves other weights or a coarser number format, or it says them \
             without the temperature (vLLM wants `--logprobs-mode processed_logprobs`)"
        );
        self.say(&Event::Warning { message }, listener)
    }

    fn update(
        &self,
        engine: &mut Engine<'_>,
        groups: &[Group],
        advantages: &[Advantages],
        lr: f32,
    ) -> Result<Update, TrainError> {
        let c = &self.config.grpo;
        let all = groups.iter().zip(advantages).enumerate();
        let batch: Vec<Batch<'_>> =
            all.flat_map(|(i, (g, a))| self.batch(i, g, a.as_ref())).collect();
        Updater {
            model: &mut engine.policy.model,
            reference: engine.reference.as_ref(),
            optimizer: &mut engine.optimizer,
            grads: &mut engine.grads,
            loss: c.loss(),
            denominator: c.denominator(self.material.answer_tokens(self.sampling)),
            // Greedy answers are scored at the model's own temperature.
            temperature: if self.sampling.temperature > 0.0 {
                self.sampling.temperature
            } else {
                1.0
            },
            activations: self.config.activations,
        }
        .run(batch, c.updates_per_step, lr)
    }

    fn say(&self, event: &Event, listener: &mut dyn Listener) -> Result<(), TrainError> {
        self.telemetry.emit(event)?;
        listener.event(event);
        Ok(())
    }
}

/// Updates that the weights behind the tokens were behind, on average.
fn staleness(groups: &[Group], step: u64) -> f32 {
    let attempts = groups.iter().flat_map(|it| &it.attempts);
    let tokens = attempts.flat_map(|it| it.versions.iter().zip(&it.sample.mask));
    let versions = tokens.filter(|(_, sampled)| **sampled).map(|(version, _)| version);
    let (sum, n) = versions.fold((0, 0_u64), |(sum, n), v| (sum + step.saturating_sub(*v), n + 1));
    sum as f32 / n.max(1) as f32
}

fn rollout_events(step: u64, groups: &[Group]) -> Vec<Event> {
    let mut events = Vec::new();
    for group in groups {
        for (sample, attempt) in group.attempts.iter().enumerate() {
            let cut = attempt.sample.finish == Finish::Length;
            events.push(Event::RolloutEnded(RolloutEnd {
                step,
                task: group.prompt.task.as_str().to_owned(),
                sample: sample as u32,
                outcome: attempt.judgement.outcome.as_str().to_owned(),
                reward: attempt.judgement.reward.map(|r| r as f32),
                tokens: attempt.sample.tokens.len() as u32,
                finish: if cut { "length" } else { "stop" }.into(),
            }));
        }
    }
    events
}

fn step_event(groups: &[Group], advantages: &[Advantages], spent: Spent, update: &Update) -> Step {
    let all: Vec<_> = groups.iter().flat_map(|g| &g.attempts).collect();
    let rewards: Vec<f64> = all.iter().filter_map(|a| a.judgement.reward).collect();
    let n = rewards.len().max(1) as f64;
    let mean = rewards.iter().sum::<f64>() / n;
    let variance = rewards.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n;
    let count = |what: &dyn Fn(&&&Attempt) -> bool| all.iter().filter(|a| what(a)).count() as u64;
    let health = &update.health;
    Step {
        loss: update.loss as f32,
        kl: health.kl as f32,
        grad_norm: update.grad_norm,
        reward_mean: mean as f32,
        reward_std: variance.sqrt() as f32,
        samples: all.len() as u64,
        patches_nonempty: count(&|a| a.judgement.parts.valid_diff),
        patches_applied: count(&|a| a.judgement.parts.applied),
        tests_passed: count(&|a| a.judgement.outcome == patchrl_reward::Outcome::Resolved),
        groups_without_signal: advantages.iter().filter(|a| a.is_none()).count() as u64,
        lost: count(&|a| a.judgement.reward.is_none()),
        ratio_mismatch: health.mismatch as f32,
        ratio_mismatch_max: health.mismatch_max as f32,
        ratio_mean: health.ratio_mean as f32,
        ratio_max: health.ratio_max as f32,
        drift: health.drift as f32,
        clipped_low: health.clipped_low as f32,
        clipped_high: health.clipped_high as f32,
        clipped_dual: health.clipped_dual as f32,
        entropy: update.entropy as f32,
        sampler_weight: health.weight_mean as f32,
        sampler_effective: health.effective as f32,
        sampler_weightless: health.weightless as f32,
        rejected: update.rejected as u64,
        truncated: count(&|a| a.sample.finish == Finish::Length),
        tokens: spent.tokens as u64,
        sample_s: spent.sampling.as_secs_f64(),
        reward_s: spent.judging.as_secs_f64(),
        peak_memory_bytes: usage::peak_memory(),
        ..Step::default()
    }
}
