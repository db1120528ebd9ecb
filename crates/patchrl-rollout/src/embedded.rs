//! The weights of this process as a policy: tokens in, tokens out, all questions in one batch.
//!
//! Owns the way from questions to the sampler and back, and what of a conversation's prompt is
//! kept from turn to turn. Replies do not depend on it.

use std::sync::{Mutex, PoisonError};

use patchrl_agent::{Policy, PolicyFault, Question, Reply, Sampled, Voice};
use patchrl_model::{Finish, Kept, ModelError, Request, Sample};

use crate::SamplingConfig;

/// Bytes of keys and values that all conversations may keep: 23,000 tokens of SmolLM2-135M.
const KEPT: usize = 1 << 30;

/// Weights that answer.
pub struct Embedded<'a> {
    policy: &'a patchrl_model::Policy,
    sampling: &'a SamplingConfig,
    version: u64,
    kept: Mutex<Kept<'a>>,
}

impl<'a> Embedded<'a> {
    /// `version` is what the weights are called in records. The limit of a reply is the question's,
    /// not that of `sampling`.
    pub fn new(
        policy: &'a patchrl_model::Policy,
        sampling: &'a SamplingConfig,
        version: u64,
    ) -> Self {
        Self { policy, sampling, version, kept: Mutex::new(Kept::new(&policy.model, KEPT)) }
    }

    /// How its conversations become tokens.
    pub fn voice(&self) -> Voice<'a> {
        Voice { chat: &self.policy.chat, tokenizer: &self.policy.tokenizer }
    }

    fn prompt(&self, question: &Question<'_>) -> Result<Vec<u32>, PolicyFault> {
        let tokens = match question.tokens {
            Some(tokens) => tokens.to_vec(),
            None => self.policy.prompt(question.chat).map_err(|e| fatal(&e))?,
        };
        let limit = self.policy.model.config.max_positions;
        if tokens.len() >= limit {
            let why = format!("{} tokens, and the model has {limit} positions", tokens.len());
            return Err(PolicyFault::Overflow(why));
        }
        Ok(tokens)
    }

    fn reply(&self, prompt: Vec<u32>, sample: Sample) -> Reply {
        Reply {
            text: self.policy.tokenizer.decode(&sample.tokens),
            reasoning: None,
            calls: Vec::new(),
            truncated: sample.finish == Finish::Length,
            sampled: Some(Sampled {
                prompt,
                versions: vec![self.version; sample.tokens.len()],
                tokens: sample.tokens,
                log_probs: sample.log_probs,
            }),
        }
    }
}

impl Policy for Embedded<'_> {
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>> {
        let prompts: Vec<_> = questions.iter().map(|question| self.prompt(question)).collect();
        let asked = questions.iter().zip(&prompts).filter_map(|(question, prompt)| {
            let prompt = prompt.as_ref().ok()?;
            let most = question.max_new_tokens;
            Some(Request { most, ..Request::new(prompt, [question.seed]) })
        });
        let requests: Vec<Request<'_>> = asked.collect();
        let mut sampling = self.sampling.resolve(self.policy.tokenizer.eos().to_vec());
        sampling.max_new_tokens = requests.iter().map(|r| r.most).max().unwrap_or(1).max(1);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let drawn = patchrl_model::generate_kept(&mut kept, &requests, &sampling);
        drop((requests, kept));
        let mut samples = match drawn {
            Ok(samples) => samples.into_iter().flatten(),
            Err(e) => return questions.iter().map(|_| Err(fatal(&e))).collect(),
        };
        let none = || PolicyFault::Lost("the sampler gave no answer".to_owned());
        prompts
            .into_iter()
            .map(|prompt| {
                let prompt = prompt?;
                let sample = samples.next().ok_or_else(none)?;
                Ok(self.reply(prompt, sample))
            })
            .collect()
    }
}

fn fatal(error: &ModelError) -> PolicyFault {
    PolicyFault::Fatal {
        what: error.to_string(),
        hint: "check the model's files and its chat template with a single-turn run".to_owned(),
    }
}
