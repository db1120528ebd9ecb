//! The server that draws, as the settings have it.
//!
//! Owns opening it, with the key out of the environment, who is asked, and what is compared before it is trusted
//! with a run.

use std::path::Path;

use patchrl_agent::PolicyFault;
use patchrl_model::{Message, Policy};
use patchrl_rollout::openai::{Compared, OpenAi, compare_tokenizers};
use patchrl_rollout::{At, Drawer, Handover, Origin, Remote, SamplingConfig};
use patchrl_task::TaskId;
use patchrl_train::TrainError;

use crate::console::Console;
use crate::exit::usage;
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};

/// The server of the settings, if they name one.
pub(crate) fn open(settings: &Settings) -> anyhow::Result<Option<OpenAi>> {
    let config = &settings.rollout;
    if !config.is_remote() {
        return Ok(None);
    }
    let key = match &config.api_key_env {
        Some(name) => Some(Environment::key(name)?),
        None => None,
    };
    OpenAi::open(config, key, &settings.sampling).map(Some).map_err(fault)
}

/// Who answers: the server of the settings, if they name one, or the model. A server that is asked
/// without a model here (`named` is false) is asked in its own words.
pub(crate) fn who(
    session: &Session<'_>,
    named: bool,
    console: &mut Console,
) -> anyhow::Result<Box<dyn Drawer>> {
    // The server first: it is soon said that it is not there.
    let server = open(session.settings)?;
    let mut load = || -> anyhow::Result<Policy> {
        let path = session.find_model(console)?;
        console.say(&format!("loading {}", path.display()));
        session::load_policy(&path)
    };
    Ok(match server {
        None => Box::new(load()?),
        Some(server) if named => Box::new(Remote::of(server, &load()?)),
        Some(server) => Box::new(Remote::new(server)),
    })
}

/// A server and the way of weights to it, for a run that trains `policy`.
pub(crate) struct Served {
    pub(crate) remote: Remote,
    pub(crate) handover: Handover,
    /// What the user should know of it.
    pub(crate) notes: Vec<String>,
}

impl Served {
    /// Compare the tokenizers, see that a first answer can be trained on, and find the way.
    pub(crate) fn begin(
        server: OpenAi,
        policy: &Policy,
        settings: &Settings,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let mut notes = Vec::new();
        if compare_tokenizers(&server, &policy.tokenizer).map_err(fault)? == Compared::NotSaid {
            notes.push(
                "the server does not say how it reads a text, so its tokenizer was not compared \
                 with the model's here"
                    .to_owned(),
            );
        }
        let remote = Remote::of(server.clone(), policy);
        first_answer(&remote, settings)?;
        let handover = Handover::open(server, settings.train.lora.is_some(), dir)?;
        if !handover.reaches() {
            notes.push(
                "the server keeps the weights it has (`rollout.handover: none`): its answers are \
                 another policy's, more so with each update"
                    .to_owned(),
            );
        }
        Ok(Self { remote, handover, notes })
    }
}

/// A word of the server. One without tokens would end the run at its first step.
fn first_answer(remote: &Remote, settings: &Settings) -> anyhow::Result<()> {
    let prompt =
        remote.prompt(TaskId::parse("first__answer-1")?, &[Message::new("user", "Hi.")])?;
    let sampling =
        SamplingConfig { max_new_tokens: 2, thinking_tokens: 0, ..settings.sampling.clone() };
    let at = At { run: settings.train.seed, step: u64::MAX, group_size: 1 };
    let drawn = remote.draw(&[prompt], &sampling, at, &mut |_| {})?;
    for drawn in drawn.into_iter().flatten() {
        if let Some(why) = drawn.lost {
            return Err(usage(
                format!("the server gave no answer that can be used: {why}"),
                "`rollout.debug_log` shows what was asked and answered",
            ));
        }
        match drawn.origin {
            Origin::Unknown => return Err(TrainError::NoTokens.into()),
            Origin::Retokenized if settings.thoughts_have_a_budget() => {
                return Err(fault(Remote::cannot_go_on()));
            }
            Origin::Retokenized | Origin::Sampled => {}
        }
    }
    Ok(())
}

/// A fault with its way out.
pub(crate) fn fault(fault: PolicyFault) -> anyhow::Error {
    match fault {
        PolicyFault::Fatal { what, hint } => usage(what, hint),
        other => anyhow::anyhow!("{other}"),
    }
}
