//! What a pipeline measures of a model between its stages.
//!
//! Owns which figures follow from the stages: the loss on held-out text and chats, answers to
//! problems of one function (held out and trained on), answers to held-out tasks. All of them
//! are measured after every stage, so that a stage that undoes an earlier one shows.

use patchrl_eval::function_shares;
use patchrl_model::Policy;
use patchrl_reward::{Problem, Ready};
use patchrl_rollout::{FunctionRoller, SamplingConfig};
use patchrl_telemetry::{Figure, Goal};
use patchrl_train::{Chats, Listener as _, Material, Text, TrainConfig, held_out_loss};

use super::{Measure, Planned, learns_rollouts};
use crate::console::Console;
use crate::exit::usage;
use crate::problems::{self, Part};
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};
use crate::stage::{FunctionBench, Kind, fitting, read_chats, read_text, scratch};

/// Open material of every figure.
pub(super) struct Figures<'a> {
    measure: &'a Measure,
    text: Option<(&'a TrainConfig, Text)>,
    chats: Option<(&'a TrainConfig, Chats)>,
    functions: Option<Functions<'a>>,
    tasks: Option<(Session<'a>, Vec<Ready>)>,
}

struct Functions<'a> {
    settings: &'a Settings,
    bench: FunctionBench,
    /// With the name of the part.
    parts: [(&'static str, Vec<Problem>); 2],
}

impl<'a> Figures<'a> {
    /// Open what the stages work on; what is missing is refused here.
    pub(super) fn open(
        stages: &'a [Planned],
        measure: &'a Measure,
        environment: &'a Environment,
        console: &mut Console,
    ) -> anyhow::Result<Self> {
        let of = |kind: Kind| stages.iter().filter(move |stage| stage.kind == kind);
        let settings = |stage: Option<&'a Planned>| stage.map(|stage| &stage.settings);
        let text = settings(of(Kind::Pretrain).next());
        let given =
            |stage: &&Planned| stage.settings.chats.is_some() && !learns_rollouts(&stage.settings);
        let chats = settings(of(Kind::Sft).find(given));
        let functions = settings(of(Kind::Mbpp).next());
        let on_tasks = |stage: &&Planned| stage.kind != Kind::Sft || stage.settings.chats.is_none();
        let tasks =
            settings(of(Kind::Grpo).chain(of(Kind::Sft)).chain(of(Kind::Rollout)).find(on_tasks));
        Ok(Self {
            measure,
            text: text.map(|s| anyhow::Ok((&s.train, read_text(s, console)?))).transpose()?,
            chats: chats.map(|s| anyhow::Ok((&s.train, read_chats(s)?))).transpose()?,
            functions: functions
                .map(|s| Functions::open(s, measure.problems, environment))
                .transpose()?,
            tasks: tasks
                .map(|s| {
                    let session = Session::open(s, environment)?;
                    let mut held_out = session.tasks(session::is_held_out)?;
                    held_out.truncate(measure.tasks);
                    let ready = session.prepare(&held_out, console)?;
                    anyhow::Ok((session, ready))
                })
                .transpose()?,
        })
    }

    /// The model that the first stage begins with.
    pub(super) fn start(
        &self,
        first: &Planned,
        environment: &Environment,
        console: &mut Console,
    ) -> anyhow::Result<Policy> {
        let Some(sizes) = &first.settings.from_scratch else {
            let path = session::find_model(&first.settings.model, environment, console)?;
            return session::load_policy(&path);
        };
        match &self.text {
            Some((_, text)) if first.kind == Kind::Pretrain => {
                scratch(sizes, text, first.settings.train.seed, console)
            }
            _ => Err(usage(
                format!("stage `{}` begins from scratch, but it is no `pretrain`", first.name),
                "give it a `model`, or begin with a stage of `kind: pretrain`",
            )),
        }
    }

    /// Every figure of `policy`.
    pub(super) fn of(&self, policy: &Policy, console: &mut Console) -> anyhow::Result<Vec<Figure>> {
        let mut figures = Vec::new();
        let mut loss = |name: &str, material: Material<'_>, config: &TrainConfig| {
            if let Some(found) = held_out_loss(policy, &material, config)? {
                let (value, of) = (found.loss, found.tokens);
                figures.push(Figure { name: name.into(), value, of, goal: Goal::Loss });
            }
            anyhow::Ok(())
        };
        if let Some((config, text)) = &self.text {
            loss("text, held out: loss", Material::Text(text), config)?;
        }
        if let Some((config, chats)) = &self.chats {
            loss("chats, held out: loss", Material::Chats(chats), config)?;
        }
        if let Some(functions) = &self.functions {
            figures.extend(functions.figures(policy, self.measure, console)?);
        }
        if let Some((session, ready)) = self.tasks.as_ref().filter(|(_, ready)| !ready.is_empty()) {
            let Measure { samples, temperature, .. } = *self.measure;
            let shares =
                session.measure_as(policy, ready, (samples, temperature), console, &mut |_| {})?;
            for (what, value) in [
                ("hold a patch", shares.valid_diff),
                ("apply", shares.applied),
                ("pass the tests", shares.resolved),
            ] {
                let name = format!("tasks, held out: {what}");
                figures.push(Figure { name, value, of: shares.samples, goal: Goal::Share });
            }
        }
        Ok(figures)
    }
}

impl<'a> Functions<'a> {
    fn open(
        settings: &'a Settings,
        most: usize,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let part = |part| {
            let mut problems = problems::mbpp(&settings.mbpp, part)?;
            problems.truncate(most);
            anyhow::Ok(problems)
        };
        let parts =
            [("mbpp, held out", part(Part::HeldOut)?), ("mbpp, trained on", part(Part::Train)?)];
        Ok(Self { settings, bench: FunctionBench::open(settings, environment)?, parts })
    }

    fn figures(
        &self,
        policy: &Policy,
        measure: &Measure,
        console: &mut Console,
    ) -> anyhow::Result<Vec<Figure>> {
        let sampling =
            SamplingConfig { temperature: measure.temperature, ..self.settings.sampling.clone() };
        let roller = FunctionRoller {
            policy,
            sampling: &sampling,
            checker: self.bench.checker(self.settings),
            shaping: self.settings.train.mbpp.shaping,
        };
        let mut figures = Vec::new();
        for (part, problems) in self.parts.iter().filter(|(_, problems)| !problems.is_empty()) {
            let fitting = fitting(policy, problems, self.settings, console)?;
            let how = (self.settings.train.seed, measure.samples);
            let answers = fitting.len() as u64 * u64::from(measure.samples);
            let most = answers * sampling.budget().drawn() as u64;
            let shares = function_shares(&roller, &fitting, how, &mut |drawn| {
                console.progress("tokens drawn", drawn, most);
            })?;
            console.clear();
            for (what, value) in
                [("compiles", shares.compiles), ("runs", shares.runs), ("passes", shares.passes)]
            {
                let (name, of) = (format!("{part}: {what}"), shares.samples);
                figures.push(Figure { name, value, of, goal: Goal::Share });
            }
        }
        Ok(figures)
    }
}
