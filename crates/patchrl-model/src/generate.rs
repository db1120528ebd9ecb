//! Sampling with a key and value cache: one prefill per request, one batch for all samples.
//!
//! Owns the loop from prompt to finished answers. Finished samples leave the
//! batch. Every row of a step is computed with the same order of additions
//! whatever the other rows are, so a sample depends on its prompt and seed only.

use rayon::prelude::*;

use crate::decode::{Decoder, Sequence};
use crate::draw::{Drawn, draw, uniform};
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
    let limits = limits(model, requests, sampling)?;
    let longest = requests.iter().zip(&limits).map(|(request, limit)| request.prompt.len() + limit);
    let mut decoder = Decoder::new(model, longest.max().unwrap_or(0));
    let (mut answers, mut sequences, mut logits) = (Vec::new(), Vec::new(), Vec::new());
    for (at, request) in requests.iter().enumerate() {
        if request.seeds.is_empty() {
            continue;
        }
        let (prompt, first) = decoder.prefill(request.prompt)?;
        for (sample, &seed) in request.seeds.iter().enumerate() {
            answers.push(Answer::new((at, sample), seed, limits[at]));
            sequences.push(Sequence::new(&model.config, prompt, request.prompt.len()));
            logits.extend_from_slice(&first);
        }
    }
    let mut finished = Vec::new();
    while !answers.is_empty() {
        let drawn = draw_all(&mut logits, model.config.vocab, &answers, sampling)?;
        on_token(drawn.len());
        let live: Vec<_> = answers.into_iter().zip(sequences).zip(drawn).collect();
        (answers, sequences) = (Vec::new(), Vec::new());
        for ((mut answer, mut sequence), drawn) in live {
            sequence.position = requests[answer.place.0].prompt.len() + answer.sample.tokens.len();
            sequence.token = drawn.token;
            if answer.push(&drawn, sampling) {
                answers.push(answer);
                sequences.push(sequence);
            } else {
                finished.push(answer);
            }
        }
        if !answers.is_empty() {
            logits = decoder.step(&mut sequences);
        }
    }
    finished.sort_unstable_by_key(|answer| answer.place);
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); requests.len()];
    for answer in finished {
        samples[answer.place.0].push(answer.sample);
    }
    Ok(samples)
}

impl Sampling {
    fn check(&self) -> Result<(), ModelError> {
        let bad = |name, value, want| Err(ModelError::BadSampling { name, value, want });
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return bad(
                "temperature",
                f64::from(self.temperature),
                "0 (greedy) or a positive number",
            );
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return bad("top_p", f64::from(self.top_p), "above 0 and at most 1");
        }
        if self.max_new_tokens == 0 {
            return bad("max_new_tokens", 0.0, "at least 1");
        }
        Ok(())
    }
}

/// Tokens that each request's answers may have.
fn limits(
    model: &Model,
    requests: &[Request<'_>],
    sampling: &Sampling,
) -> Result<Vec<usize>, ModelError> {
    let limit = model.config.max_positions;
    requests
        .iter()
        .map(|request| match limit.saturating_sub(request.prompt.len()) {
            0 => Err(ModelError::TooLong { tokens: request.prompt.len() + 1, limit }),
            room => Ok(room.min(sampling.max_new_tokens)),
        })
        .collect()
}

/// An answer in the making.
struct Answer {
    /// Request and sample.
    place: (usize, usize),
    seed: u64,
    limit: usize,
    sample: Sample,
}

impl Answer {
    fn new(place: (usize, usize), seed: u64, limit: usize) -> Self {
        let sample = Sample { tokens: Vec::new(), log_probs: Vec::new(), finish: Finish::Length };
        Self { place, seed, limit, sample }
    }

    /// Take a token; whether the answer goes on.
    fn push(&mut self, drawn: &Drawn, sampling: &Sampling) -> bool {
        self.sample.tokens.push(drawn.token);
        self.sample.log_probs.push(drawn.log_prob);
        if sampling.stop.contains(&drawn.token) {
            self.sample.finish = Finish::Stop;
            return false;
        }
        self.sample.tokens.len() < self.limit
    }
}

/// One token for each answer from its row of logits.
fn draw_all(
    logits: &mut [f32],
    vocab: usize,
    answers: &[Answer],
    sampling: &Sampling,
) -> Result<Vec<Drawn>, ModelError> {
    logits
        .par_chunks_exact_mut(vocab)
        .zip(answers)
        .map(|(row, answer)| {
            let number = uniform(answer.seed, answer.sample.tokens.len() as u64);
            draw(row, sampling, number).ok_or(ModelError::NotFinite)
        })
        .collect()
}
