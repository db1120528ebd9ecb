//! An agent's episode as a gym: reset, step, reward at the end.
//!
//! Owns the two calls and what they give. The rules of an episode are `patchrl_agent`'s, the
//! number at its end is the judge's; whoever calls brings the model.

use patchrl_agent::{AgentConfig, Call, Calling, DROPPINGS, End, Episode, Reply, opening};
use patchrl_model::Message;
use patchrl_reward::{Judge, Judgement, Mode, Outcome, Ready, Work};
use serde::Serialize;

use crate::{RolloutError, ground};

/// A place to act in. One episode at a time; a reset throws the last one away.
pub struct Environment<'a> {
    judge: &'a Judge,
    config: AgentConfig,
    mode: Mode,
    running: Option<(Ready, Episode)>,
}

/// What there is to see before the first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// The task's id.
    pub task: String,
    /// What is to be fixed.
    pub issue: String,
    /// The commit the files are of.
    pub commit: String,
    /// Paths of the files.
    pub files: Vec<String>,
    /// The conversation that an agent of patchrl begins with.
    pub messages: Vec<Message>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A model's text, read by the text protocol.
    Text(String),
    /// Calls of tools.
    Calls(Vec<Call>),
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What is to be seen.
    pub observation: String,
    /// The reward, when the episode is over and it could be judged.
    pub reward: Option<f64>,
    /// The episode is over.
    pub done: bool,
    /// The rest.
    pub info: Info,
}

/// What a trainer may want to know of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Info {
    /// The calls that were read in a text.
    pub calls: Vec<Call>,
    /// What was wrong with the action.
    pub complaint: Option<String>,
    /// Why the episode is over.
    pub end: Option<End>,
    /// The judgement, when it is over: outcome, parts, evidence.
    pub judgement: Option<Judgement>,
}

impl<'a> Environment<'a> {
    /// An environment whose episodes have these budgets and are judged so.
    pub fn new(judge: &'a Judge, config: AgentConfig, mode: Mode) -> Self {
        Self { judge, config, mode, running: None }
    }

    /// Begin an episode of `task`.
    pub fn reset(&mut self, task: &Ready) -> Result<Observation, RolloutError> {
        let ground = ground(task, self.judge)?;
        let files = task.tree().files(&DROPPINGS)?;
        let issue = task.task.problem_statement.clone();
        self.running = Some((task.clone(), Episode::new(&ground, &self.config)));
        Ok(Observation {
            task: task.task.id.to_string(),
            commit: task.task.base_commit.clone(),
            messages: opening(&issue, &files, Calling::Text),
            files: files.into_iter().collect(),
            issue,
        })
    }

    /// Act. Without a reset, or after the end, nothing happens and the episode is done.
    pub fn step(&mut self, action: Action) -> Step {
        let Some((ready, episode)) = &mut self.running else { return over() };
        if episode.end().is_some() {
            return over();
        }
        let observed = match action {
            Action::Text(text) => episode.reply(&Reply::said(text), None),
            Action::Calls(calls) => episode.act(Ok(calls)),
        };
        let mut step = Step {
            observation: observed.text,
            reward: None,
            done: false,
            info: Info { calls: observed.calls, complaint: observed.complaint, ..Info::default() },
        };
        if let Some(end) = episode.end() {
            let judgement = judge(self.judge, ready, episode, (end, self.mode));
            step.done = true;
            step.reward = judgement.as_ref().and_then(Judgement::reward);
            step.info.end = Some(end.clone());
            step.info.judgement = judgement;
        }
        step
    }
}

fn over() -> Step {
    Step {
        observation: "there is no episode: reset first\n".to_owned(),
        reward: None,
        done: true,
        info: Info::default(),
    }
}

fn judge(
    judge: &Judge,
    ready: &Ready,
    episode: &Episode,
    (end, mode): (&End, Mode),
) -> Option<Judgement> {
    let unfinished = *end != End::Submitted;
    let work = Work { changes: episode.changes(), unfinished };
    let mut judgement = judge.judge_works(ready, &[work], mode).pop()?;
    if let End::Lost { why } = end {
        judgement.outcome = Outcome::Lost { why: why.clone() };
        judgement.reward = None;
    }
    Some(judgement)
}
