//! Text to tokens and back, as the model's own tokenizer does it.
//!
//! Owns loading (`tokenizer.json` with `tokenizer_config.json`, or a GGUF file's metadata), learning
//! one from text, the
//! rule that text from outside never becomes a special token by accident, and saving. Does not
//! know about roles and turns (see `chat`).

mod from_gguf;
mod trained;

use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer as Inner;

use crate::ModelError;
use crate::weights::gguf::Gguf;

pub(crate) use trained::{END_OF_TEXT, END_OF_TURN, SMALLEST};

const TOKENIZER: &str = "tokenizer.json";
const SETTINGS: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";

/// The tokenizer of one model.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// Recognises special tokens in text.
    special: Inner,
    /// Reads special tokens in text as the characters they are made of.
    plain: Inner,
    /// `tokenizer_config.json`, kept whole so that it is written as it was read.
    settings: Map<String, Value>,
    eos: Vec<u32>,
}

impl Tokenizer {
    /// Read `tokenizer.json` and, where they exist, `tokenizer_config.json` and
    /// `chat_template.jinja` of a Hugging Face folder.
    pub fn read(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(TOKENIZER);
        if !path.is_file() {
            return Err(ModelError::MissingFile { folder: folder.into(), file: TOKENIZER.into() });
        }
        let bytes =
            fs_err::read(&path).map_err(|e| ModelError::io("cannot read the tokenizer", e))?;
        let mut settings = read_settings(&folder.join(SETTINGS))?;
        let template = folder.join(TEMPLATE);
        if template.is_file() {
            let text = fs_err::read_to_string(template)
                .map_err(|e| ModelError::io("cannot read the chat template", e))?;
            settings.insert("chat_template".into(), Value::String(text));
        }
        Self::build(&bytes, settings, &path)
    }

    /// Put the tokenizer together that a GGUF file describes.
    pub(crate) fn from_gguf(gguf: &Gguf) -> Result<Self, ModelError> {
        let (tokenizer, settings) = from_gguf::describe(gguf)?;
        let bytes = tokenizer.to_string();
        Self::build(bytes.as_bytes(), settings, gguf.path())
    }

    /// Learn a byte-level BPE of at most `vocab` tokens from `texts`.
    pub(crate) fn learn(texts: &[&str], vocab: usize) -> Result<Self, ModelError> {
        let (json, settings) = trained::learn(texts, vocab)?;
        Self::build(json.as_bytes(), settings, Path::new("from_scratch"))
    }

    /// The token that stands between documents: `<|endoftext|>`, else the one that ends answers.
    pub fn separator(&self) -> Option<u32> {
        self.id(END_OF_TEXT).or_else(|| self.eos.first().copied())
    }

    fn build(json: &[u8], settings: Map<String, Value>, path: &Path) -> Result<Self, ModelError> {
        let damaged = |why: String| ModelError::Damaged { path: path.into(), why };
        let mut special = Inner::from_bytes(json).map_err(|e| damaged(e.to_string()))?;
        // What a prompt may hold is the caller's decision, and a batch here has no padding.
        special.with_truncation(None).map_err(|e| damaged(e.to_string()))?;
        special.with_padding(None);
        let mut plain = special.clone();
        plain.set_encode_special_tokens(true);
        // After this, encoding cannot fail: every byte there is has been through.
        plain.encode_fast(probe(), false).map_err(|e| damaged(format!("it cannot encode: {e}")))?;
        let mut tokenizer = Self { special, plain, settings, eos: Vec::new() };
        tokenizer.eos =
            tokenizer.named("eos_token").and_then(|t| tokenizer.id(&t)).into_iter().collect();
        Ok(tokenizer)
    }

    /// Tokens of text from outside. `<|im_end|>` in it is ten characters, not the end of a turn.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        tokens(&self.plain, text)
    }

    /// Tokens of a rendered chat template, in which special tokens are meant.
    pub fn encode_with_special(&self, text: &str) -> Vec<u32> {
        tokens(&self.special, text)
    }

    /// The text of an answer: special tokens are left out.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.special.decode(tokens, true).unwrap_or_default()
    }

    /// The text with special tokens written out.
    pub fn decode_with_special(&self, tokens: &[u32]) -> String {
        self.special.decode(tokens, false).unwrap_or_default()
    }

    /// Id of a token by its text.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.special.token_to_id(token)
    }

    /// Tokens that end an answer.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// Ids are below this.
    pub fn vocab(&self) -> usize {
        let largest = self.special.get_vocab(true).into_values().max();
        largest.map_or(0, |id| id as usize + 1)
    }

    /// Write `tokenizer.json` and `tokenizer_config.json`.
    pub fn save(&self, folder: &Path) -> Result<(), ModelError> {
        let tokenizer =
            self.special.to_string(true).map_err(|e| ModelError::Tokenizer(e.to_string()))?;
        let mut settings = self.settings.clone();
        // Any other class rebuilds parts of the tokenizer from its own defaults.
        settings.insert("tokenizer_class".into(), json!("PreTrainedTokenizerFast"));
        let settings = format!("{:#}\n", Value::Object(settings));
        for (name, text) in [(TOKENIZER, tokenizer), (SETTINGS, settings)] {
            let path = folder.join(name);
            fs_err::write(&path, text).map_err(|e| ModelError::write(&path, e))?;
        }
        Ok(())
    }

    /// Text of a token that `tokenizer_config.json` gives a role, such as `eos_token`.
    pub(crate) fn named(&self, role: &str) -> Option<String> {
        let value = self.settings.get(role)?;
        let text = value.as_str().or_else(|| value["content"].as_str())?;
        Some(text.to_owned())
    }

    /// The chat template in the settings: a text, or a list of named ones with a default.
    pub(crate) fn chat_template(&self) -> Option<String> {
        let named = |entry: &&Value| entry["name"] == "default";
        match self.settings.get("chat_template")? {
            Value::String(text) => Some(text.clone()),
            Value::Array(list) => list.iter().find(named)?["template"].as_str().map(str::to_owned),
            _ => None,
        }
    }

    /// More tokens that end an answer, from the model's configuration.
    pub(crate) fn also_end_at(&mut self, ids: &[u32]) {
        for id in ids {
            if !self.eos.contains(id) {
                self.eos.push(*id);
            }
        }
    }

    /// Texts of all special tokens, longest first.
    pub(crate) fn special_texts(&self) -> Vec<String> {
        let added = self.special.get_added_tokens_decoder();
        let mut texts: Vec<String> =
            added.into_values().filter(|token| token.special).map(|token| token.content).collect();
        texts.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        texts
    }
}

fn tokens(inner: &Inner, text: &str) -> Vec<u32> {
    // Infallible for a tokenizer that took the probe; an empty prompt is refused further on.
    inner.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
}

fn read_settings(path: &Path) -> Result<Map<String, Value>, ModelError> {
    if !path.is_file() {
        return Ok(Map::new());
    }
    let text = fs_err::read_to_string(path)
        .map_err(|e| ModelError::io("cannot read the tokenizer's settings", e))?;
    serde_json::from_str(&text)
        .map_err(|e| ModelError::Damaged { path: path.into(), why: e.to_string() })
}

/// Every byte that UTF-8 can contain, and every kind of character the splitters tell apart.
fn probe() -> String {
    let low = (0..0x800).filter_map(char::from_u32);
    let high = (0x800..0x0011_0000).step_by(0x400).filter_map(char::from_u32);
    low.chain(high).collect()
}
