//! Sampling with a key and value cache: one prefill per request, one batch for all samples.
//!
//! Owns the loop from prompt to finished answers. Finished samples leave the
//! batch. Every row of a step is computed with the same order of additions
//! whatever the other rows are, so a sample depends on its prompt and seed only.

use rayon::prelude::*;

use crate::decode::{Cache, Decoder, Live};
use crate::draw::{draw, uniform};
use crate::{Model, ModelError};

/// How tokens are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits. 0 takes the most likely token every time.
    pub temperature: f32,
    /// Smallest set of most likely tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Most likely tokens kept before `top_p`; 0 keeps all.
    pub top_k: usize,
    /// Tokens of an answer, the stop token included.
    pub max_new_tokens: usize,
    /// Tokens that end an answer.
    pub stop: Vec<u32>,
}

/// A prompt and the samples asked for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// At least one token.
    pub prompt: &'a [u32],
    /// One sample per seed.
    pub seeds: Vec<u64>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop token was drawn.
    Stop,
    /// `max_new_tokens` or the model's positions were used up.
    Length,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The stop token included, if one was drawn.
    pub tokens: Vec<u32>,
    /// Under the whole distribution at the sampling temperature (at 1 where that is 0).
    pub log_probs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}

/// Draw every sample of every request; samples in the order of their seeds.
///
/// `on_token` is told after each step how many tokens the step drew.
pub fn generate(
    model: &Model,
    requests: &[Request<'_>],
    sampling: &Sampling,
    on_token: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<Sample>>, ModelError> {
    sampling.check()?;
    let mut state = State::new(requests);
    let mut decoder = Decoder::new(model, longest(model, requests, sampling));
    for (at, request) in requests.iter().enumerate() {
        if request.prompt.len() >= model.config.max_positions {
            let tokens = request.prompt.len() + 1;
            return Err(ModelError::TooLong { tokens, limit: model.config.max_positions });
        }
        let room = model.config.max_positions - request.prompt.len();
        state.limits.push(room.min(sampling.max_new_tokens));
        let logits = decoder.prefill(request.prompt, request.seeds.is_empty())?;
        let rows = request.seeds.iter().flat_map(|_| logits.iter().copied()).collect();
        let fresh = request.seeds.iter().enumerate().map(|(sample, &seed)| Answer { request: at, sample, seed });
        state.advance(fresh.map(|answer| (answer, Cache::new(&model.config))).collect(), rows, sampling)?;
        on_token(request.seeds.len());
    }
    while !state.live.is_empty() {
        let live = std::mem::take(&mut state.live);
        let (answers, mut rows): (Vec<Answer>, Vec<Live>) = live.into_iter().unzip();
        let logits = decoder.step(&mut rows);
        let count = rows.len();
        state.advance(answers.into_iter().zip(rows.into_iter().map(|row| row.cache)).collect(), logits, sampling)?;
        on_token(count);
    }
    Ok(state.samples)
}
