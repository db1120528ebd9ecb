//! How a group lies in memory: one row per token, the prompt first, then each answer.
//!
//! Owns which token is where, at which position, and what it may look at. The
//! last token of an answer predicts nothing that is asked for, so it has no row;
//! the first token of every answer is predicted by the last row of the prompt.

use std::ops::Range;

use crate::network::Group;
use crate::{Config, ModelError, Real};

/// Queries per attention block. Bounds the score buffer.
pub(crate) const BLOCK: usize = 128;

/// A group without padding. T is the number of rows.
pub(crate) struct Packed {
    /// (T,)
    pub(crate) tokens: Vec<u32>,
    /// (T,) Every answer starts again at the prompt's length.
    pub(crate) positions: Vec<usize>,
    /// Rows of the prompt.
    pub(crate) prompt: usize,
    /// Blocks of queries, in order and without gaps.
    pub(crate) blocks: Vec<Block>,
    /// What each row is asked about, answers in order.
    pub(crate) targets: Vec<Target>,
    /// Tokens of each answer.
    pub(crate) lengths: Vec<usize>,
}

/// Consecutive query rows of one segment.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// First query row.
    pub(crate) start: usize,
    /// Query rows.
    pub(crate) len: usize,
    /// Rows of the shared prompt that every query of this block sees.
    pub(crate) prefix: usize,
    /// First row of the segment that the block belongs to.
    pub(crate) segment: usize,
}

impl Block {
    /// Keys of the segment itself that the last query sees.
    pub(crate) fn own(&self) -> usize {
        self.start + self.len - self.segment
    }

    /// Keys that the last query sees.
    pub(crate) fn keys(&self) -> usize {
        self.prefix + self.own()
    }

    /// Keys that query `at` of the block sees, of which the last is its own. A key's place among
    /// the keys is its position, since every answer follows the whole prompt.
    pub(crate) fn visible(&self, at: usize, window: usize) -> Range<usize> {
        let end = self.prefix + self.start - self.segment + at + 1;
        end.saturating_sub(window)..end
    }
}

/// One log-probability that is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// Row whose output predicts the token.
    pub(crate) row: usize,
    pub(crate) token: u32,
}

impl Packed {
    /// Check the group against the model and lay it out.
    pub(crate) fn new(config: &Config, group: &Group<'_>) -> Result<Self, ModelError> {
        check(config, group.prompt)?;
        let prompt = group.prompt.len();
        let mut packed = Self {
            tokens: group.prompt.to_vec(),
            positions: (0..prompt).collect(),
            prompt,
            blocks: Vec::new(),
            targets: Vec::new(),
            lengths: Vec::with_capacity(group.answers.len()),
        };
        packed.add_blocks(0, prompt, 0);
        for answer in &group.answers {
            packed.add_answer(config, answer)?;
        }
        Ok(packed)
    }

    /// The same without its first rows, which are whole blocks: their keys are known.
    pub(crate) fn after(mut self, rows: usize) -> Self {
        self.tokens.drain(..rows);
        self.positions.drain(..rows);
        self.blocks.retain(|block| block.start >= rows);
        self
    }

    pub(crate) fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// First row that predicts an answer token; such rows reach to the end.
    pub(crate) fn first_head_row(&self) -> usize {
        self.prompt - 1
    }

    /// A flat list, one entry per target, cut into answers.
    pub(crate) fn per_answer(&self, flat: &[Real]) -> Vec<Vec<Real>> {
        let mut rest = flat;
        self.lengths
            .iter()
            .map(|&length| {
                let (answer, tail) = rest.split_at(length);
                rest = tail;
                answer.to_vec()
            })
            .collect()
    }

    fn add_answer(&mut self, config: &Config, answer: &[u32]) -> Result<(), ModelError> {
        self.lengths.push(answer.len());
        let Some((last, inputs)) = answer.split_last() else { return Ok(()) };
        let tokens = self.prompt + answer.len();
        if tokens > config.max_positions {
            return Err(ModelError::TooLong { tokens, limit: config.max_positions });
        }
        check_tokens(config, answer)?;
        let start = self.rows();
        let mut row = self.first_head_row();
        for (at, &token) in inputs.iter().enumerate() {
            self.targets.push(Target { row, token });
            row = start + at;
        }
        self.targets.push(Target { row, token: *last });
        self.tokens.extend_from_slice(inputs);
        self.positions.extend(self.prompt..self.prompt + inputs.len());
        self.add_blocks(start, inputs.len(), self.prompt);
        Ok(())
    }

    fn add_blocks(&mut self, segment: usize, rows: usize, prefix: usize) {
        for at in (0..rows).step_by(BLOCK) {
            let len = (rows - at).min(BLOCK);
            self.blocks.push(Block { start: segment + at, len, prefix, segment });
        }
    }
}

/// A prompt must have tokens, all of the vocabulary, and fit.
pub(crate) fn check(config: &Config, prompt: &[u32]) -> Result<(), ModelError> {
    if prompt.is_empty() {
        return Err(ModelError::EmptyPrompt);
    }
    if prompt.len() > config.max_positions {
        return Err(ModelError::TooLong { tokens: prompt.len(), limit: config.max_positions });
    }
    check_tokens(config, prompt)
}

fn check_tokens(config: &Config, tokens: &[u32]) -> Result<(), ModelError> {
    match tokens.iter().find(|&&token| token as usize >= config.vocab) {
        Some(&token) => Err(ModelError::TokenOutOfRange { token, vocab: config.vocab }),
        None => Ok(()),
    }
}
