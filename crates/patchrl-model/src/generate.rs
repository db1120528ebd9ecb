//! Sampling with a key and value cache: one prefill per request at most, one batch for all samples.
//!
//! Owns the loop from prompt to finished answers. Finished samples leave the
//! batch. Every row of a step is computed with the same order of additions
//! whatever the other rows are, so a sample depends on its prompt and seed only.
//!
//! Tokens are copied ahead where that pays (see `speculate`). Each place of an answer has its
//! own random number, and the token drawn with it from the model's distribution is the token,
//! whether it was copied ahead or not: a copy x is accepted with probability p(x), and what is
//! drawn otherwise has the distribution without x. Bytes are equal with and without copies.

use std::time::Instant;

use rayon::prelude::*;

use crate::decode::{Decoder, Sequence};
use crate::draw::{Drawn, draw};
use crate::kept::Kept;
use crate::speculate::{Drafter, Drafts, Guess, Step};
use crate::uniform::uniform;
use crate::{Config, Model, ModelError};

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
    /// Texts beside the prompt that answers may copy from. The model does not see them; they
    /// change the time that sampling takes, and nothing else.
    pub also: Vec<Vec<u32>>,
    /// Tokens of each sample, beside the limit of all.
    pub most: usize,
}

impl<'a> Request<'a> {
    /// A request whose answers may copy from the prompt, themselves and each other.
    pub fn new(prompt: &'a [u32], seeds: impl IntoIterator<Item = u64>) -> Self {
        Self { prompt, seeds: seeds.into_iter().collect(), also: Vec::new(), most: usize::MAX }
    }
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
    generate_with(model, requests, sampling, Drafts::default(), &mut |step| on_token(step.tokens))
}

/// As [`generate`], going on from prompts that `kept` has read. Samples do not depend on it.
pub fn generate_kept(
    kept: &mut Kept<'_>,
    requests: &[Request<'_>],
    sampling: &Sampling,
) -> Result<Vec<Vec<Sample>>, ModelError> {
    sample(kept, requests, (sampling, Drafts::default()), &mut |_| {})
}

/// As [`generate`], with a say in how far tokens are copied ahead. Samples do not depend on it.
pub fn generate_with(
    model: &Model,
    requests: &[Request<'_>],
    sampling: &Sampling,
    drafts: Drafts,
    on_step: &mut dyn FnMut(Step),
) -> Result<Vec<Vec<Sample>>, ModelError> {
    sample(&mut Kept::new(model, 0), requests, (sampling, drafts), on_step)
}

fn sample(
    kept: &mut Kept<'_>,
    requests: &[Request<'_>],
    (sampling, drafts): (&Sampling, Drafts),
    on_step: &mut dyn FnMut(Step),
) -> Result<Vec<Vec<Sample>>, ModelError> {
    sampling.check()?;
    let model = kept.begin();
    let limits = limits(model, requests, sampling)?;
    let longest = requests.iter().zip(&limits).map(|(request, limit)| request.prompt.len() + limit);
    let mut decoder = Decoder::new(model, longest.max().unwrap_or(0));
    let mut drafter = Drafter::new(drafts);
    let (mut answers, mut sequences, mut logits) = (Vec::new(), Vec::new(), Vec::new());
    for (at, request) in requests.iter().enumerate() {
        drafter.add_request(request);
        if request.seeds.is_empty() {
            continue;
        }
        let (prompt, first) = decoder.add(kept.read(request.prompt)?);
        for (sample, &seed) in request.seeds.iter().enumerate() {
            answers.push(Answer::new((at, sample), drafter.add_answer(at), seed, limits[at]));
            sequences.push(Sequence::new(&model.config, prompt, request.prompt.len()));
            logits.extend_from_slice(&first);
        }
    }
    let mut finished = Vec::new();
    let mut clock: Option<Instant> = None;
    while !answers.is_empty() {
        let drawn = draw_all(&mut logits, model.config.vocab, &answers, sampling)?;
        let tokens = drawn.iter().map(Vec::len).sum();
        let step = Step { rows: logits.len() / model.config.vocab, tokens };
        if let Some(started) = clock.replace(Instant::now()) {
            drafter.time(step, started.elapsed());
        }
        on_step(step);
        let live: Vec<_> = answers.into_iter().zip(sequences).zip(drawn).collect();
        (answers, sequences) = (Vec::new(), Vec::new());
        for ((mut answer, mut sequence), drawn) in live {
            if answer.push(&drawn, sampling, &mut drafter) {
                answer.go_on(&model.config, (drawn.len(), &mut sequence), sampling, &drafter);
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
            room => Ok(room.min(sampling.max_new_tokens).min(request.most.max(1))),
        })
        .collect()
}

/// An answer in the making.
struct Answer {
    /// Request and sample.
    place: (usize, usize),
    /// Its number among the texts of its request.
    text: usize,
    seed: u64,
    limit: usize,
    sample: Sample,
    /// What was copied ahead of the tokens that are drawn next.
    guess: Guess,
}

impl Answer {
    fn new(place: (usize, usize), text: usize, seed: u64, limit: usize) -> Self {
        let sample = Sample { tokens: Vec::new(), log_probs: Vec::new(), finish: Finish::Length };
        Self { place, text, seed, limit, sample, guess: Guess::default() }
    }

    /// The tokens that follow, from the logits after the last token and after each copied one,
    /// (1 + copied, vocab): up to the first that differs from its copy.
    fn draw(&self, logits: &mut [f32], sampling: &Sampling) -> Option<Vec<Drawn>> {
        let draft = self.guess.draft();
        let mut drawn = Vec::new();
        for (at, row) in logits.chunks_exact_mut(logits.len() / (draft.len() + 1)).enumerate() {
            let number = uniform(self.seed, (self.sample.tokens.len() + at) as u64);
            let one = draw(row, sampling, number)?;
            let token = one.token;
            drawn.push(one);
            if draft.get(at) != Some(&token) || sampling.stop.contains(&token) {
                break;
            }
        }
        Some(drawn)
    }

    /// Take tokens; whether the answer goes on.
    fn push(&mut self, drawn: &[Drawn], sampling: &Sampling, drafter: &mut Drafter) -> bool {
        let first = self.sample.tokens.len();
        self.sample.tokens.extend(drawn.iter().map(|one| one.token));
        self.sample.log_probs.extend(drawn.iter().map(|one| one.log_prob));
        let tokens = &self.sample.tokens;
        drafter.learn((self.place.0, self.text), &self.guess, &tokens[first..]);
        if tokens.last().is_some_and(|last| sampling.stop.contains(last)) {
            self.sample.finish = Finish::Stop;
            return false;
        }
        tokens.len() < self.limit
    }

    /// Set up the next step, `drawn` tokens after the last.
    fn go_on(
        &mut self,
        config: &Config,
        (drawn, sequence): (usize, &mut Sequence),
        sampling: &Sampling,
        drafter: &Drafter,
    ) {
        let tokens = &self.sample.tokens;
        let room = self.limit - tokens.len() - 1;
        self.guess = drafter.guess((self.place.0, self.text), room, &sampling.stop);
        sequence.go_on(config, drawn, tokens[tokens.len() - 1]);
        sequence.tokens.extend_from_slice(self.guess.draft());
    }
}

/// The next tokens of each answer from its rows of logits.
fn draw_all(
    logits: &mut [f32],
    vocab: usize,
    answers: &[Answer],
    sampling: &Sampling,
) -> Result<Vec<Vec<Drawn>>, ModelError> {
    let mut rest = logits;
    let mut asked = Vec::with_capacity(answers.len());
    for answer in answers {
        let (own, others) = rest.split_at_mut((answer.guess.draft().len() + 1) * vocab);
        asked.push((answer, own));
        rest = others;
    }
    asked
        .into_par_iter()
        .map(|(answer, rows)| answer.draw(rows, sampling).ok_or(ModelError::NotFinite))
        .collect()
}
