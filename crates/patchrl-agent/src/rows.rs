//! The tokens of an episode exactly as they were read and sampled, and which of them are trained.
//!
//! Owns tokens in, tokens out. A row is one token list that the model saw grow: prompt, reply,
//! observation, reply ... What is read is appended with a mask of false, what was sampled with
//! true, and nothing is ever decoded and encoded again. When the model reads something that does
//! not go on from the row, because a template rewrote earlier turns or a server read other tokens,
//! a new row starts.

use crate::Sampled;

/// One token list, (T,) each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Tokens, read or sampled.
    pub tokens: Vec<u32>,
    /// Whether a token was sampled, and so is trained.
    pub mask: Vec<bool>,
    /// Log-probabilities the sampler reported; NaN for tokens that were read, or where it said none.
    pub log_probs: Vec<f32>,
    /// The version of the weights that sampled each token; 0 for tokens that were read.
    pub versions: Vec<u64>,
}

impl Row {
    /// Tokens before the first that was sampled.
    pub fn prompt_len(&self) -> usize {
        self.mask.iter().position(|sampled| *sampled).unwrap_or(self.mask.len())
    }

    /// Tokens that were sampled.
    pub fn sampled(&self) -> usize {
        self.mask.iter().filter(|sampled| **sampled).count()
    }

    fn read(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.mask.resize(self.tokens.len(), false);
        self.log_probs.resize(self.tokens.len(), f32::NAN);
        self.versions.resize(self.tokens.len(), 0);
    }

    fn say(&mut self, sampled: &Sampled) {
        let count = sampled.tokens.len();
        self.tokens.extend_from_slice(&sampled.tokens);
        self.mask.resize(self.tokens.len(), true);
        self.log_probs.extend(sampled.log_probs.iter().take(count));
        self.log_probs.resize(self.tokens.len(), f32::NAN);
        self.versions.extend(sampled.versions.iter().take(count));
        self.versions.resize(self.tokens.len(), 0);
    }

    fn cut(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.mask.truncate(len);
        self.log_probs.truncate(len);
        self.versions.truncate(len);
    }
}

/// The rows of one episode in the making.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    /// Row and token up to which [`Rows::since`] has told.
    told: (usize, usize),
}

impl Rows {
    /// What the model reads next, where it is known.
    pub(crate) fn prompt(&self) -> Option<&[u32]> {
        self.rows.last().map(|row| row.tokens.as_slice())
    }

    /// The model reads these tokens alone: a conversation that begins, or begins anew.
    pub(crate) fn begin(&mut self, tokens: &[u32]) {
        let mut row = Row::default();
        row.read(tokens);
        self.rows.push(row);
    }

    /// The model reads these tokens after those of before.
    pub(crate) fn read(&mut self, tokens: &[u32]) {
        if let Some(row) = self.rows.last_mut() {
            row.read(tokens);
        }
    }

    /// The model read and sampled this.
    pub(crate) fn say(&mut self, sampled: &Sampled) {
        let more =
            self.rows.last().and_then(|row| sampled.prompt.strip_prefix(row.tokens.as_slice()));
        match more {
            Some(more) => self.read(more),
            None => self.begin(&sampled.prompt),
        }
        if let Some(row) = self.rows.last_mut() {
            row.say(sampled);
        }
    }

    /// The number of the row that is being written, and its tokens that were not told before.
    pub(crate) fn since(&mut self) -> (usize, Row) {
        let at = self.rows.len().saturating_sub(1);
        let from = if self.told.0 == at { self.told.1 } else { 0 };
        let Some(row) = self.rows.last() else { return (0, Row::default()) };
        self.told = (at, row.tokens.len());
        let new = Row {
            tokens: row.tokens[from..].to_vec(),
            mask: row.mask[from..].to_vec(),
            log_probs: row.log_probs[from..].to_vec(),
            versions: row.versions[from..].to_vec(),
        };
        (at, new)
    }

    /// The rows, each up to its last token that was sampled.
    pub(crate) fn finish(mut self) -> Vec<Row> {
        for row in &mut self.rows {
            let end = row.mask.iter().rposition(|sampled| *sampled).map_or(0, |last| last + 1);
            row.cut(end);
        }
        self.rows.retain(|row| !row.tokens.is_empty());
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(prompt: &[u32], tokens: &[u32]) -> Sampled {
        Sampled {
            prompt: prompt.to_vec(),
            tokens: tokens.to_vec(),
            log_probs: vec![-0.5; tokens.len()],
            versions: vec![7; tokens.len()],
        }
    }

    #[test]
    fn a_row_grows_while_what_is_read_goes_on_from_it() {
        let mut rows = Rows::default();
        rows.begin(&[1, 2]);
        rows.say(&sampled(&[1, 2], &[3, 4]));
        assert_eq!(rows.since().1.tokens, [1, 2, 3, 4]);
        rows.read(&[5]);
        rows.say(&sampled(&[1, 2, 3, 4, 5], &[6]));
        assert_eq!(rows.since().1.mask, [false, true]);
        rows.read(&[9, 9]);
        let rows = rows.finish();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].tokens, [1, 2, 3, 4, 5, 6], "what nobody answered is no part of it");
        assert_eq!(rows[0].mask, [false, false, true, true, false, true]);
        assert_eq!((rows[0].prompt_len(), rows[0].sampled()), (2, 3));
        assert_eq!(rows[0].versions, [0, 0, 7, 7, 0, 7]);
        assert!(rows[0].log_probs[0].is_nan() && (rows[0].log_probs[5] + 0.5).abs() < 1e-9);
    }

    #[test]
    fn another_prefix_starts_a_row() {
        let mut rows = Rows::default();
        rows.say(&sampled(&[1, 2], &[3]));
        rows.say(&sampled(&[1, 2, 3, 8], &[4]));
        rows.say(&sampled(&[1, 9], &[5]));
        assert_eq!(rows.since().0, 1);
        let rows = rows.finish();
        let tokens: Vec<&[u32]> = rows.iter().map(|row| row.tokens.as_slice()).collect();
        assert_eq!(tokens, [&[1, 2, 3, 8, 4][..], &[1, 9, 5]]);
    }

    #[test]
    fn a_sampler_that_lies_about_lengths_breaks_nothing() {
        let mut rows = Rows::default();
        let odd =
            Sampled { log_probs: vec![-1.0; 9], versions: Vec::new(), ..sampled(&[1], &[2, 3]) };
        rows.say(&odd);
        let row = &rows.finish()[0];
        assert_eq!((row.log_probs.len(), row.versions.len(), row.mask.len()), (3, 3, 3));
    }
}
