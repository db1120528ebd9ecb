//! How many tokens to copy ahead of the model.
//!
//! A draft is what followed the longest known suffix of an answer: in its prompt, in the answer
//! itself, in its siblings. The model then computes all of its tokens in one step. Owns what is
//! copied and whether it pays; never what is drawn: a drawn token that differs ends the draft.
//!
//! Both measurements that decide come from the run itself: how often copies were right, by the
//! length of the match, and what a row of a step costs. A clock is read, so the number of steps
//! may differ from run to run; the samples do not.

use std::time::Duration;

use crate::Request;
use crate::suffix::{Copied, Suffixes};

/// How far ahead the sampler copies. Samples and log-probabilities do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drafts {
    /// As far as each copied token is worth its time, by what this call has measured so far.
    #[default]
    Measured,
    /// Up to this many tokens wherever something matches; 0 copies nothing.
    Fixed(usize),
}

/// One step of the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Tokens that were computed: one for each answer, and the copied ones.
    pub rows: usize,
    /// Tokens that were drawn.
    pub tokens: usize,
}

/// Copied tokens of one draft, where they are measured. Bounds the logits of a step.
const LONGEST: usize = 32;
/// Matches from this length on count as equally trustworthy.
const SURE: usize = 24;
/// Weight of a judged copy against the one after it.
const FADE_HITS: f64 = 0.98;

/// What an answer may go on with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guess {
    /// Tokens before it that were seen before.
    matched: usize,
    /// One more than is drafted, if there is one: it can be judged for free.
    tokens: Vec<u32>,
    drafted: usize,
}

impl Guess {
    /// What to compute ahead.
    pub(crate) fn draft(&self) -> &[u32] {
        &self.tokens[..self.drafted]
    }
}

/// The texts of each request, and what was learnt from copying them.
pub(crate) struct Drafter {
    drafts: Drafts,
    /// Per request: the prompt, the other texts, the answers.
    texts: Vec<Suffixes>,
    /// Right copies and all copies, by the length of the match.
    hits: [(f64, f64); SURE + 1],
    pace: Pace,
}

impl Drafter {
    pub(crate) fn new(drafts: Drafts) -> Self {
        // Two imagined copies each, m of m + 2 of them right.
        let hits = std::array::from_fn(|m| (2.0 * m as f64 / (m as f64 + 2.0), 2.0));
        Self { drafts, texts: Vec::new(), hits, pace: Pace::default() }
    }

    /// A request before its answers; requests come in order.
    pub(crate) fn add_request(&mut self, request: &Request<'_>) {
        let mut texts = Suffixes::new();
        texts.add(request.prompt);
        for text in &request.also {
            texts.add(text);
        }
        self.texts.push(texts);
    }

    /// An answer without tokens; the number of its text.
    pub(crate) fn add_answer(&mut self, request: usize) -> usize {
        self.texts[request].add(&[])
    }

    /// Tokens were drawn after `guess`.
    pub(crate) fn learn(&mut self, (request, text): (usize, usize), guess: &Guess, drawn: &[u32]) {
        for (at, (drawn, guess_token)) in drawn.iter().zip(&guess.tokens).enumerate() {
            let (right, all) = &mut self.hits[(guess.matched + at).min(SURE)];
            *right = *right * FADE_HITS + f64::from(u8::from(drawn == guess_token));
            *all = *all * FADE_HITS + 1.0;
        }
        for &token in drawn {
            self.texts[request].extend(text, token);
        }
    }

    /// A step was made, drawing included.
    pub(crate) fn time(&mut self, step: Step, took: Duration) {
        self.pace.note(step, took.as_secs_f64());
    }

    /// What to try after a text, `most` tokens at most, up to the first of `stop`.
    pub(crate) fn guess(
        &self,
        (request, text): (usize, usize),
        most: usize,
        stop: &[u32],
    ) -> Guess {
        let Some(Copied { matched, tokens }) = self.texts[request].continuation(text) else {
            return Guess::default();
        };
        let ends = tokens.iter().position(|token| stop.contains(token));
        let tokens = &tokens[..ends.map_or(tokens.len(), |at| at + 1)];
        let drafted = self.worthwhile(matched).min(most).min(tokens.len());
        let tokens = tokens[..tokens.len().min(drafted + 1)].to_vec();
        Guess { matched, tokens, drafted }
    }

    /// Tokens of a copy that are worth a row each.
    fn worthwhile(&self, matched: usize) -> usize {
        let least = match (self.drafts, self.pace.least_chance()) {
            (Drafts::Fixed(count), _) => return count,
            (Drafts::Measured, None) => return 0,
            (Drafts::Measured, Some(least)) => least,
        };
        let mut chance = 1.0;
        let pays = |&at: &usize| {
            let (right, all) = self.hits[(matched + at).min(SURE)];
            chance *= right / all;
            chance > least
        };
        (0..LONGEST).take_while(pays).count()
    }
}

/// Weight of a step against the one after it.
const FADE: f64 = 0.95;
/// Before steps of different sizes were seen, reading the weights counts as much as this many rows.
const FIXED_ROWS: f64 = 8.0;
/// Squared rows of difference at which what was seen weighs as much as that.
const TRUST: f64 = 16.0;

/// What steps cost: a line through (rows, seconds), older steps fading.
#[derive(Default)]
struct Pace {
    steps: f64,
    rows: f64,
    seconds: f64,
    tokens: f64,
    rows_squared: f64,
    rows_seconds: f64,
}

impl Pace {
    fn note(&mut self, step: Step, seconds: f64) {
        let (rows, tokens) = (step.rows as f64, step.tokens as f64);
        self.steps = self.steps * FADE + 1.0;
        self.rows = self.rows * FADE + rows;
        self.seconds = self.seconds * FADE + seconds;
        self.tokens = self.tokens * FADE + tokens;
        self.rows_squared = self.rows_squared * FADE + rows * rows;
        self.rows_seconds = self.rows_seconds * FADE + rows * seconds;
    }

    /// Chance of being drawn from which on a copied token raises the tokens drawn per second: the
    /// tokens that are drawn on average in the time of one more row. `None` before any step.
    fn least_chance(&self) -> Option<f64> {
        if self.seconds <= 0.0 {
            return None;
        }
        let guess = self.seconds / (self.rows + FIXED_ROWS * self.steps);
        let spread = self.rows_squared - self.rows * self.rows / self.steps;
        let slope = self.rows_seconds - self.rows * self.seconds / self.steps;
        let row = (slope + TRUST * guess) / (spread + TRUST);
        Some(row.max(0.1 * guess) * self.tokens / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine where a step costs 10 ms and each row `row` more.
    fn pace(row: f64, rows: impl Iterator<Item = usize>) -> f64 {
        let mut pace = Pace::default();
        for rows in rows {
            pace.note(Step { rows, tokens: 4 }, 0.010 + row * rows as f64);
        }
        pace.least_chance().unwrap()
    }

    #[test]
    fn a_row_is_worth_the_tokens_drawn_in_its_time() {
        assert_eq!(Pace::default().least_chance(), None);
        let varied = || (0..200).map(|at| 4 + at % 20);
        // 13.5 rows a step on average: 4 tokens in 10 ms + 13.5 rows.
        for row in [0.001, 0.0001] {
            let want = row * 4.0 / (0.010 + 13.5 * row);
            let got = pace(row, varied());
            assert!((got / want - 1.0).abs() < 0.2, "{got} is not {want}");
        }
        // All steps alike say nothing about one row more: the assumption stands.
        assert!((pace(0.001, std::iter::repeat_n(4, 50)) - 4.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn copies_are_as_long_as_their_record_is_good() {
        let mut drafter = Drafter::new(Drafts::Measured);
        let text: Vec<u32> = (0..100).collect();
        drafter.add_request(&Request::new(&text, []));
        let answer = (0, drafter.add_answer(0));
        drafter.learn(answer, &Guess::default(), &[7, 8]);
        let guess = drafter.guess(answer, 50, &[]);
        assert_eq!((guess.matched, guess.draft(), guess.tokens.as_slice()), (2, &[][..], &[9][..]));
        drafter.time(Step { rows: 1, tokens: 1 }, Duration::from_millis(10));
        let mut lengths = Vec::new();
        for right in [true, false] {
            for _ in 0..200 {
                let guess = drafter.guess(answer, 50, &[]);
                lengths.push(guess.drafted);
                let drawn = if right { guess.tokens.clone() } else { vec![200] };
                let other = (0, drafter.add_answer(0));
                drafter.learn(other, &guess, &drawn);
            }
        }
        assert!(lengths[0] < 10 && lengths[199] == LONGEST && lengths[399] == 0, "{lengths:?}");
        drafter.drafts = Drafts::Fixed(5);
        assert_eq!(drafter.guess(answer, 50, &[]).draft(), [9, 10, 11, 12, 13]);
        assert_eq!(drafter.guess(answer, 50, &[11]).draft(), [9, 10, 11]);
        assert_eq!(drafter.guess(answer, 2, &[]).draft(), [9, 10]);
    }
}
