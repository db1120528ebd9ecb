//! A byte-level BPE learnt from text.
//!
//! Owns the splitter (GPT-2's), the special tokens and the chat template that a new model gets.
//! Every text can be encoded: the 256 bytes are always in the vocabulary.

use serde_json::{Map, Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer as Inner};

use crate::ModelError;

/// Between documents.
pub(crate) const END_OF_TEXT: &str = "<|endoftext|>";
const START_OF_TURN: &str = "<|im_start|>";
/// After an answer.
pub(crate) const END_OF_TURN: &str = "<|im_end|>";

/// Special tokens and bytes: no vocabulary is smaller.
pub(crate) const SMALLEST: usize = 3 + 256;

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// `tokenizer.json` and `tokenizer_config.json` of a vocabulary of at most `vocab` tokens.
pub(super) fn learn(
    texts: &[&str],
    vocab: usize,
) -> Result<(String, Map<String, Value>), ModelError> {
    let fault = |e: tokenizers::Error| ModelError::Tokenizer(e.to_string());
    let special = [END_OF_TEXT, START_OF_TURN, END_OF_TURN];
    let trainer = BpeTrainer::builder()
        .vocab_size(vocab.max(SMALLEST))
        .min_frequency(2)
        .show_progress(false)
        .special_tokens(special.map(|text| AddedToken::from(text, true)).to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let mut inner = Inner::new(ModelWrapper::BPE(BPE::default()));
    let splitter = ByteLevel::new(false, true, true);
    inner.with_pre_tokenizer(Some(splitter)).with_decoder(Some(splitter));
    inner.train(&mut TrainerWrapper::BpeTrainer(trainer), texts.iter()).map_err(fault)?;
    let settings =
        json!({ "eos_token": END_OF_TURN, "pad_token": END_OF_TEXT, "chat_template": TEMPLATE });
    let Value::Object(settings) = settings else { unreachable!("written as an object above") };
    Ok((inner.to_string(false).map_err(fault)?, settings))
}
