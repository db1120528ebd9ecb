//! A `tokenizer.json` out of a GGUF file's metadata.
//!
//! Owns the reading of `tokenizer.ggml.*` for byte-level BPE, and what each of llama.cpp's names
//! for a way of splitting text means in Hugging Face's terms. A name that is not listed is
//! refused: a wrong splitter gives wrong tokens without any error.

use serde_json::{Map, Value, json};

use crate::ModelError;
use crate::weights::gguf::{Gguf, Meta};

/// llama.cpp's kinds of vocabulary entries.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// `tokenizer.json` and `tokenizer_config.json` of the tokenizer in `gguf`.
pub(super) fn describe(gguf: &Gguf) -> Result<(Value, Map<String, Value>), ModelError> {
    let missing = |key: &str| ModelError::Damaged {
        path: gguf.path().into(),
        why: format!("`{key}` is missing"),
    };
    let kind = gguf.meta("tokenizer.ggml.model").and_then(Meta::as_str).unwrap_or("(none)");
    if kind != "gpt2" {
        let what = format!("tokenizer `{kind}`; byte-level BPE (`gpt2`) is read from GGUF files");
        return Err(ModelError::Unsupported { path: gguf.path().into(), what });
    }
    let tokens = gguf
        .meta("tokenizer.ggml.tokens")
        .and_then(Meta::as_texts)
        .ok_or_else(|| missing("tokenizer.ggml.tokens"))?;
    let merges = gguf
        .meta("tokenizer.ggml.merges")
        .and_then(Meta::as_texts)
        .ok_or_else(|| missing("tokenizer.ggml.merges"))?;
    let pre = gguf.meta("tokenizer.ggml.pre").and_then(Meta::as_str).unwrap_or("(none)");
    let split = Splitting::named(pre).ok_or_else(|| ModelError::Unsupported {
        path: gguf.path().into(),
        what: format!("pre-tokenizer `{pre}`"),
    })?;
    Ok((tokenizer(gguf, tokens, merges, &split), settings(gguf, tokens)))
}

/// How text is cut into pieces before BPE.
struct Splitting {
    pre_tokenizer: Value,
    normalizer: Value,
    /// Whether a piece that is a token as a whole is taken without merging.
    ignore_merges: bool,
}

impl Splitting {
    fn named(pre: &str) -> Option<Self> {
        let byte_level = |use_regex: bool| {
            json!({
                "type": "ByteLevel",
                "add_prefix_space": false,
                "trim_offsets": true,
                "use_regex": use_regex,
            })
        };
        let by_pattern = |digits: &str| {
            let pattern = format!(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            );
            let split = json!({
                "type": "Split",
                "pattern": {"Regex": pattern},
                "behavior": "Isolated",
                "invert": false,
            });
            json!({"type": "Sequence", "pretokenizers": [split, byte_level(false)]})
        };
        let plain =
            |pre_tokenizer| Self { pre_tokenizer, normalizer: Value::Null, ignore_merges: false };
        Some(match pre {
            "gpt-2" | "gpt2" => plain(byte_level(true)),
            "smollm" | "starcoder" | "refact" | "command-r" => {
                let digits = json!({"type": "Digits", "individual_digits": true});
                plain(json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}))
            }
            "qwen2" => Self { normalizer: json!({"type": "NFC"}), ..plain(by_pattern(r"\p{N}")) },
            "llama-bpe" | "llama3" | "llama-v3" => {
                Self { ignore_merges: true, ..plain(by_pattern(r"\p{N}{1,3}")) }
            }
            _ => return None,
        })
    }
}

fn tokenizer(gguf: &Gguf, tokens: &[String], merges: &[String], split: &Splitting) -> Value {
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    // A token may begin with the separator, but it is never empty.
    let merges: Vec<Value> = merges
        .iter()
        .filter_map(|merge| {
            let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ')?.0;
            Some(json!([merge[..at], merge[at + 1..]]))
        })
        .collect();
    let kinds = gguf.meta("tokenizer.ggml.token_type").and_then(Meta::as_list).unwrap_or_default();
    let added: Vec<Value> = kinds
        .iter()
        .zip(tokens)
        .enumerate()
        .filter_map(|(id, (kind, token))| {
            let kind = kind.as_u64()?;
            let special = kind == CONTROL;
            (special || kind == USER_DEFINED).then(|| {
                json!({
                    "id": id,
                    "content": token,
                    "single_word": false,
                    "lstrip": false,
                    "rstrip": false,
                    "normalized": false,
                    "special": special,
                })
            })
        })
        .collect();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
    });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": split.normalizer,
        "pre_tokenizer": split.pre_tokenizer,
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": split.ignore_merges,
            "vocab": vocab,
            "merges": merges,
        },
    })
}

fn settings(gguf: &Gguf, tokens: &[String]) -> Map<String, Value> {
    let mut settings = Map::new();
    for (role, key) in [
        ("bos_token", "tokenizer.ggml.bos_token_id"),
        ("eos_token", "tokenizer.ggml.eos_token_id"),
        ("pad_token", "tokenizer.ggml.padding_token_id"),
        ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ] {
        let id = gguf.meta(key).and_then(Meta::as_u64).and_then(|id| usize::try_from(id).ok());
        if let Some(token) = id.and_then(|id| tokens.get(id)) {
            settings.insert(role.into(), json!(token));
        }
    }
    if let Some(template) = gguf.meta("tokenizer.chat_template").and_then(Meta::as_str) {
        settings.insert("chat_template".into(), json!(template));
    }
    let arch = gguf.meta("general.architecture").and_then(Meta::as_str).unwrap_or_default();
    if let Some(length) = gguf.meta(&format!("{arch}.context_length")).and_then(Meta::as_u64) {
        settings.insert("model_max_length".into(), json!(length));
    }
    settings.insert("clean_up_tokenization_spaces".into(), json!(false));
    settings
}
