//! Keys and values of prompts, kept for prompts that begin with the same tokens.
//!
//! Owns what is kept, within so many bytes, and how much of it stands for rows of another prompt:
//! those whose every sum was made in the order in which the other prompt's would be, so that all
//! bits are equal. Sampled tokens are not among them, since decoding adds in an order of its own:
//! they are read with what follows them.

use std::sync::Arc;

use crate::network::{Known, PromptKeys};
use crate::packing::BLOCK;
use crate::{Model, ModelError};

/// A prompt that was read.
pub(crate) struct Read {
    tokens: Vec<u32>,
    /// Per layer.
    pub(crate) keys: Vec<PromptKeys>,
    /// The last row of the residual stream, (hidden,).
    pub(crate) last: Vec<f32>,
}

impl Read {
    fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|layer| layer.keys.len() + layer.values.len());
        4 * (keys.sum::<usize>() + self.last.len() + self.tokens.len())
    }
}

/// Prompts that a model has read, for those that it reads next. Its weights stay borrowed, so that
/// nothing is kept of others.
pub struct Kept<'m> {
    model: &'m Model,
    /// In bytes.
    limit: usize,
    /// With the call that last asked for it.
    prompts: Vec<(Arc<Read>, u64)>,
    call: u64,
    spared: usize,
}

impl<'m> Kept<'m> {
    /// Nothing yet, and `limit` bytes at most. With 0 every prompt is read anew.
    pub fn new(model: &'m Model, limit: usize) -> Self {
        Self { model, limit, prompts: Vec::new(), call: 0, spared: 0 }
    }

    /// Tokens of prompts that were not read, because their keys were kept.
    pub fn spared(&self) -> usize {
        self.spared
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.prompts.iter().map(|(read, _)| read.bytes()).sum()
    }

    /// Another call of the sampler.
    pub(crate) fn begin(&mut self) -> &'m Model {
        self.call += 1;
        self.model
    }

    /// A prompt as if it were read from its first token.
    pub(crate) fn read(&mut self, prompt: &[u32]) -> Result<Arc<Read>, ModelError> {
        let alike =
            |read: &Read| read.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let best = self.prompts.iter_mut().max_by_key(|(read, _)| alike(read));
        let mut known = Known::default();
        if let Some((read, call)) = best {
            if read.tokens == prompt {
                *call = self.call;
                self.spared += prompt.len();
                return Ok(Arc::clone(read));
            }
            // A block or more is left to read: products of few rows add in another order.
            let rows = alike(read).min(prompt.len().saturating_sub(BLOCK)) / BLOCK * BLOCK;
            if rows > 0 {
                *call = self.call;
                self.spared += rows;
                known = Known { keys: &read.keys, rows };
            }
        }
        let (keys, last) = self.model.prefill(prompt, known)?;
        let read = Arc::new(Read { tokens: prompt.to_vec(), keys, last });
        self.keep(&read);
        Ok(read)
    }

    /// Keep it in place of those that it goes on from, if there is room once what was asked for
    /// longest ago is out. What this call or the last one asked for stays: it is asked for again.
    fn keep(&mut self, read: &Arc<Read>) {
        let stays = |(old, _): &(Arc<Read>, u64)| !read.tokens.starts_with(&old.tokens);
        let mut bytes: usize =
            self.prompts.iter().filter(|it| stays(it)).map(|(old, _)| old.bytes()).sum();
        while bytes + read.bytes() > self.limit {
            let old = self.prompts.iter().enumerate().filter(|(_, it)| stays(it));
            match old.min_by_key(|(_, (_, call))| *call) {
                Some((at, &(_, call))) if call + 1 < self.call => {
                    bytes -= self.prompts.swap_remove(at).0.bytes();
                }
                _ => return,
            }
        }
        self.prompts.retain(stays);
        self.prompts.push((Arc::clone(read), self.call));
    }
}
