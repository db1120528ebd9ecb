//! What answers inside the fake server: real weights, or a line by heart.

use std::path::Path;
use std::sync::Arc;

use patchrl_model::{Finish, Message, Model, Policy, Request, Sampling, generate};

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
pub(crate) struct Wish<'a> {
    pub(crate) prompt: Vec<u32>,
    pub(crate) adapter: Option<&'a Model>,
    pub(crate) temperature: f32,
    pub(crate) seed: u64,
    pub(crate) most: usize,
}

impl Brain {
    pub(crate) fn think(&self, wish: Wish<'_>) -> Result<Thought, String> {
        let Self::Model(policy) = self else { return Ok(self.recite(wish)) };
        let sampling = Sampling {
            temperature: wish.temperature,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens: wish.most,
            stop: policy.tokenizer.eos().to_vec(),
        };
        let model = wish.adapter.unwrap_or(&policy.model);
        let request = Request::new(&wish.prompt, [wish.seed]);
        let drawn = generate(model, &[request], &sampling, &mut |_| {});
        let sample = drawn.map_err(|e| e.to_string())?.remove(0).remove(0);
        let text = policy.tokenizer.decode(&sample.tokens);
        let length = sample.finish == Finish::Length;
        let (tokens, log_probs) = (sample.tokens, sample.log_probs);
        Ok(Thought { prompt: wish.prompt, tokens, log_probs, text, length })
    }

    fn recite(&self, wish: Wish<'_>) -> Thought {
        let Self::Says(text) = self else { unreachable!("a model thinks") };
        let mut tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        let length = tokens.len() > wish.most;
        tokens.truncate(wish.most);
        let text = text.chars().take(wish.most).collect();
        Thought { prompt: wish.prompt, log_probs: vec![-0.5; tokens.len()], tokens, text, length }
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
