//! Who answers prompts: weights in this process, or a server.
//!
//! Owns the question as training puts it, and what an answer is before it is judged. Who judges is
//! no business of its.

use patchrl_agent::{Calling, Voice};
use patchrl_model::{Finish, Message, Policy, Request, Sample, diff_forms};
use patchrl_task::TaskId;

use crate::{At, Embedded, Prompt, RolloutError, SamplingConfig, sample_seed};

/// Where an answer's tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They are those that were sampled.
    Sampled,
    /// The text was encoded again: what was sampled may have been other tokens.
    Retokenized,
    /// There are none. Nothing can be trained on.
    Unknown,
}

/// An answer that is not judged yet.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Tokens as far as they are known, their log-probabilities (NaN where unknown), and why
    /// sampling ended.
    pub sample: Sample,
    /// The answer without its stop token.
    pub answer: String,
    /// The version of the weights that drew each token.
    pub versions: Vec<u64>,
    /// Where the tokens come from.
    pub origin: Origin,
    /// Why there is no answer, where there is none. It is our fault, and is not judged.
    pub lost: Option<String>,
}

impl Drawn {
    /// An answer that did not come.
    pub(crate) fn lost(why: String) -> Self {
        Self {
            sample: Sample { tokens: Vec::new(), log_probs: Vec::new(), finish: Finish::Stop },
            answer: String::new(),
            versions: Vec::new(),
            origin: Origin::Unknown,
            lost: Some(why),
        }
    }
}

/// The same one as an agent, turn by turn.
pub struct Player<'a> {
    /// Who answers.
    pub policy: Box<dyn patchrl_agent::Policy + 'a>,
    /// How its conversations become tokens, where that is ours to say.
    pub voice: Option<Voice<'a>>,
    /// How it calls tools.
    pub calling: Calling,
}

/// Someone who answers prompts.
pub trait Drawer: Sync {
    /// Tokens that a text takes.
    fn count(&self, text: &str) -> usize;

    /// `chat` as it will be read.
    fn prompt(&self, task: TaskId, chat: &[Message]) -> Result<Prompt, RolloutError>;

    /// A file in the form of diffs, to copy from; nothing where that saves no time.
    fn diff_forms(&self, _path: &str, _text: &str) -> Vec<Vec<u32>> {
        Vec::new()
    }

    /// The same as an agent, whose weights are called `version` in records.
    fn player<'a>(&'a self, sampling: &'a SamplingConfig, version: u64) -> Player<'a>;

    /// One group of answers to each prompt. `on_token` hears how many tokens came.
    fn draw(
        &self,
        prompts: &[Prompt],
        sampling: &SamplingConfig,
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Drawn>>, RolloutError>;
}

impl Drawer for Policy {
    fn count(&self, text: &str) -> usize {
        self.tokenizer.encode(text).len()
    }

    fn prompt(&self, task: TaskId, chat: &[Message]) -> Result<Prompt, RolloutError> {
        let text = self.chat.render(chat, true)?;
        let tokens = Self::prompt(self, chat)?;
        Ok(Prompt { task, text, tokens, chat: chat.to_vec(), also: Vec::new() })
    }

    fn diff_forms(&self, path: &str, text: &str) -> Vec<Vec<u32>> {
        diff_forms(path, text, &self.tokenizer)
    }

    fn player<'a>(&'a self, sampling: &'a SamplingConfig, version: u64) -> Player<'a> {
        let embedded = Embedded::new(self, sampling, version);
        let voice = Some(embedded.voice());
        Player { policy: Box::new(embedded), voice, calling: Calling::Text }
    }

    fn draw(
        &self,
        prompts: &[Prompt],
        sampling: &SamplingConfig,
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Drawn>>, RolloutError> {
        let At { run, step, group_size } = at;
        let requests: Vec<Request<'_>> = prompts
            .iter()
            .map(|p| {
                let seeds = (0..group_size).map(|n| sample_seed(run, step, &p.task, n));
                Request { also: p.also.clone(), ..Request::new(&p.tokens, seeds) }
            })
            .collect();
        let sampling = sampling.resolve(self.tokenizer.eos().to_vec());
        let sampled = patchrl_model::generate(&self.model, &requests, &sampling, on_token)?;
        let drawn = |sample: Sample| Drawn {
            answer: self.tokenizer.decode(&sample.tokens),
            versions: vec![step; sample.tokens.len()],
            sample,
            origin: Origin::Sampled,
            lost: None,
        };
        Ok(sampled.into_iter().map(|group| group.into_iter().map(drawn).collect()).collect())
    }
}
