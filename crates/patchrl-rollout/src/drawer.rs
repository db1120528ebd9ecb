//! Who answers prompts: weights in this process, or a server.
//!
//! Owns the question as training puts it, and what an answer is before it is judged. Who judges is
//! no business of its.

use patchrl_agent::{CLOSING, Calling, Voice};
use patchrl_model::{
    Finish, Message, Part, Policy, Request, Sample, diff_forms, generate_in_parts,
};
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
    /// The version of the weights that drew each token; 0 for one that was put in.
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
            sample: Sample::drawn(Vec::new(), Vec::new(), Finish::Stop),
            answer: String::new(),
            versions: Vec::new(),
            origin: Origin::Unknown,
            lost: Some(why),
        }
    }

    /// Put tokens in that nobody drew.
    pub(crate) fn put_in(&mut self, tokens: &[u32]) {
        let Sample { tokens: all, log_probs, mask, .. } = &mut self.sample;
        all.extend_from_slice(tokens);
        log_probs.resize(all.len(), f32::NAN);
        mask.resize(all.len(), false);
        self.versions.resize(all.len(), 0);
    }

    /// Add the tokens of a second part.
    pub(crate) fn go_on(&mut self, rest: Self) {
        let Sample { tokens, log_probs, mask, finish } = rest.sample;
        self.sample.tokens.extend(tokens);
        self.sample.log_probs.extend(log_probs);
        self.sample.mask.extend(mask);
        self.sample.finish = finish;
        self.versions.extend(rest.versions);
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
        let budget = sampling.budget();
        let requests: Vec<Request<'_>> = prompts
            .iter()
            .map(|p| {
                let seeds = (0..group_size).map(|n| sample_seed(run, step, &p.task, n));
                let (also, most) = (p.also.clone(), budget.first());
                Request { also, most, ..Request::new(&p.tokens, seeds) }
            })
            .collect();
        let sampling = sampling.resolve(self.tokenizer.eos().to_vec());
        let closing = self.tokenizer.encode_with_special(CLOSING);
        let next = |at: usize, tokens: &[u32]| {
            // A second part has come to its end.
            if tokens.len() > budget.first() {
                return None;
            }
            let said = self.tokenizer.decode(tokens);
            let rest = budget.rest(&prompts[at].text, &said, tokens.len())?;
            let read = if rest.closes { closing.clone() } else { Vec::new() };
            Some(Part { read, most: rest.most })
        };
        let sampled = generate_in_parts(&self.model, &requests, &sampling, &next, on_token)?;
        let drawn = |sample: Sample| Drawn {
            answer: self.tokenizer.decode(&sample.tokens),
            versions: sample.mask.iter().map(|drawn| if *drawn { step } else { 0 }).collect(),
            sample,
            origin: Origin::Sampled,
            lost: None,
        };
        Ok(sampled.into_iter().map(|group| group.into_iter().map(drawn).collect()).collect())
    }
}
