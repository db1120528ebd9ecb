//! Answers and episodes of a model or a script, judged and written as chats to learn from.
//!
//! Owns the loop over tasks and where everything is written. What is kept, and going on where it
//! was, is `patchrl_rollout::Harvest`.

use std::collections::BTreeMap;
use std::io::Write as _;

use patchrl_agent::{Calling, Reply, Scripted, Turn};
use patchrl_reward::{Mode, Ready};
use patchrl_rollout::{
    At, Attempt, Drawer, EpisodeRoller, Group, Harvest, Harvested, Provenance, Roller, gold_script,
    sample_seed,
};
use patchrl_train::Listener as _;
use serde::Serialize;
use serde_json::json;

use crate::console::Console;
use crate::session::Session;

/// Draws of no training step.
const STEP: u64 = u64::MAX - 1;
/// Answers that are drawn together.
const TOGETHER: usize = 16;

/// Who answers.
pub(crate) enum Who {
    /// Weights in this process, or a server.
    Model(Box<dyn Drawer>),
    /// The known answer, as an agent would come to it.
    Gold,
    /// Replies by task.
    Scripts(BTreeMap<String, Vec<Reply>>),
}

/// Draws, judges, writes.
pub(crate) struct Gatherer<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) who: Who,
    pub(crate) harvest: Harvest,
    /// Where every turn is written too.
    pub(crate) turns: Option<fs_err::File>,
    /// Answers per task.
    pub(crate) samples: u32,
    pub(crate) mode: Mode,
    /// The policy's name in records.
    pub(crate) label: String,
    /// Draws of one round are not those of another.
    pub(crate) round: u32,
}

impl Gatherer<'_> {
    /// Answers to every task, judged and written.
    pub(crate) fn gather(&mut self, ready: &[Ready], console: &mut Console) -> anyhow::Result<()> {
        let per_task = self.samples.max(1) as usize;
        let settings = self.session.settings;
        let most = settings.agent.as_ref().map_or(settings.sampling.max_new_tokens, |it| it.tokens);
        let tokens = |tasks: usize| (tasks * per_task * most) as u64;
        let mut done = 0;
        for batch in ready.chunks((TOGETHER / per_task).max(1)) {
            let tasks: Vec<&Ready> = batch.iter().collect();
            let mut drawn = tokens(done);
            let groups = self.roll(&tasks, &mut |more| {
                drawn += more as u64;
                console.progress("tokens drawn", drawn, tokens(ready.len()));
            })?;
            for (ready, group) in tasks.iter().zip(groups) {
                self.keep(ready, group)?;
            }
            done += batch.len();
        }
        console.clear();
        Ok(())
    }

    fn at(&self) -> At {
        let run = self.session.settings.train.seed;
        At { run, step: STEP - u64::from(self.round), group_size: self.samples }
    }

    fn roll(
        &self,
        tasks: &[&Ready],
        on_token: &mut dyn FnMut(usize),
    ) -> anyhow::Result<Vec<Group>> {
        let (settings, mode) = (self.session.settings, self.mode);
        if let Who::Model(policy) = &self.who {
            let roller = Roller {
                policy: &**policy,
                prompt: &settings.prompt,
                sampling: &settings.sampling,
                judge: &self.session.judge,
                agent: settings.agent.as_ref(),
            };
            return Ok(roller.roll(tasks, mode, self.at(), on_token)?.0);
        }
        let config = settings.agent.clone().unwrap_or_default();
        let mut groups = Vec::with_capacity(tasks.len());
        for ready in tasks {
            let script = match &self.who {
                Who::Scripts(scripts) => scripts.get(ready.task.id.as_str()).cloned(),
                Who::Model(_) | Who::Gold => gold_script(ready)?,
            };
            let policy = Scripted::new(script.unwrap_or_default());
            let roller = EpisodeRoller {
                policy: &policy,
                voice: None,
                config: &config,
                calling: Calling::Text,
                max_new_tokens: usize::MAX,
                judge: &self.session.judge,
            };
            groups.extend(roller.roll(&[ready], mode, self.at(), &mut |_| {})?.0);
        }
        Ok(groups)
    }

    fn keep(&mut self, ready: &Ready, group: Group) -> anyhow::Result<()> {
        let task = &ready.task.id;
        for (sample, attempt) in (0_u32..).zip(group.attempts) {
            if self.harvest.is_done(task.as_str(), sample) {
                continue;
            }
            let provenance = Provenance {
                model: self.label.clone(),
                version: u64::from(self.round),
                task: task.to_string(),
                sample,
                seed: sample_seed(self.at().run, self.at().step, task, sample),
                outcome: attempt.judgement.outcome.as_str().to_owned(),
                reward: attempt.judgement.reward,
                end: attempt.played.as_ref().map(|it| it.trajectory.end.as_str().to_owned()),
                patch: attempt.judgement.evidence.patch.clone(),
            };
            self.write_turns(&provenance, &attempt)?;
            let messages = self.messages(ready, &attempt)?;
            self.harvest.take(&Harvested { messages, provenance }, &attempt.judgement)?;
        }
        Ok(())
    }

    fn messages(
        &self,
        ready: &Ready,
        attempt: &Attempt,
    ) -> anyhow::Result<Vec<patchrl_model::Message>> {
        if let Some(played) = &attempt.played {
            return Ok(played.trajectory.messages());
        }
        let Who::Model(policy) = &self.who else { return Ok(Vec::new()) };
        let mut chat = patchrl_rollout::chat(&**policy, &self.session.settings.prompt, ready)?;
        chat.push(patchrl_model::Message::new("assistant", attempt.answer.clone()));
        Ok(chat)
    }

    fn write_turns(&mut self, origin: &Provenance, attempt: &Attempt) -> anyhow::Result<()> {
        let (Some(file), Some(played)) = (&mut self.turns, &attempt.played) else { return Ok(()) };
        let (task, sample) = (origin.task.as_str(), origin.sample);
        let mut text = String::new();
        for turn in &played.trajectory.turns {
            text += &(serde_json::to_string(&TurnLine { task, sample, turn })? + "\n");
        }
        let end = json!({ "task": task, "sample": sample, "end": played.trajectory.end.as_str(),
            "why": played.trajectory.end, "judgement": attempt.judgement });
        text += &(end.to_string() + "\n");
        Ok(file.write_all(text.as_bytes())?)
    }
}

#[derive(Serialize)]
struct TurnLine<'a> {
    task: &'a str,
    sample: u32,
    #[serde(flatten)]
    turn: &'a Turn,
}
