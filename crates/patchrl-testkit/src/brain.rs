//! What answers inside the fake server: real weights, or a line by heart.

use std::path::Path;
use std::sync::Arc;

use patchrl_model::{Message, Model, Policy};

use crate::desk::Desk;

/// Who thinks of the answers.
pub enum Brain {
    /// These weights, and adapters on them.
    Model(Box<Policy>),
    /// The same text each time. Its tokens are its bytes.
    Says(String),
}

/// One answer.
pub(crate) struct Thought {
    pub(crate) prompt: Vec<u32>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) log_probs: Vec<f32>,
    pub(crate) text: String,
    pub(crate) length: bool,
}

/// What is asked of it.
pub(crate) struct Wish {
    pub(crate) prompt: Vec<u32>,
    pub(crate) adapter: Option<Arc<Model>>,
    pub(crate) temperature: f32,
    pub(crate) seed: u64,
    pub(crate) most: usize,
}

impl Brain {
    pub(crate) fn think(&self, desk: &Desk, wish: Wish) -> Result<Thought, String> {
        match self {
            Self::Model(policy) => desk.ask(policy, wish),
            Self::Says(text) => Ok(recite(text, wish)),
        }
    }

    /// Tokens of a text.
    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        match self {
            Self::Model(policy) => policy.tokenizer.encode(text),
            Self::Says(_) => text.bytes().map(u32::from).collect(),
        }
    }

    /// Tokens of a conversation.
    pub(crate) fn chat(&self, turns: &[Message]) -> Vec<u32> {
        match self {
            Self::Model(policy) => policy.prompt(turns).unwrap(),
            Self::Says(_) => turns.iter().flat_map(|it| self.encode(&it.content)).collect(),
        }
    }

    /// The adapter in a folder, on these weights.
    pub(crate) fn adapter(&self, folder: &Path) -> Result<Option<Arc<Model>>, String> {
        let Self::Model(policy) = self else { return Ok(None) };
        let model = policy.model.clone().load_adapter(folder).map_err(|e| e.to_string())?;
        Ok(Some(Arc::new(model)))
    }

    /// Other weights in place of these.
    pub(crate) fn replace(&mut self, folder: &Path) -> Result<(), String> {
        if let Self::Model(policy) = self {
            **policy = Policy::load(folder).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Positions that prompt and answer have.
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Model(policy) => policy.model.config.max_positions,
            Self::Says(_) => 4096,
        }
    }
}

fn recite(text: &str, wish: Wish) -> Thought {
    let mut tokens: Vec<u32> = text.bytes().map(u32::from).collect();
    let length = tokens.len() > wish.most;
    tokens.truncate(wish.most);
    let text = text.chars().take(wish.most).collect();
    Thought { prompt: wish.prompt, log_probs: vec![-0.5; tokens.len()], tokens, text, length }
}
