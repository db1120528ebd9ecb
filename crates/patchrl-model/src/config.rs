//! The shape of a model, read from and written as Hugging Face's `config.json`.
//!
//! Owns the numbers that fix the network and the checks on them. Knows one family: Llama
//! (plain `RoPE`, `SwiGLU`, `RMSNorm`), under the names `llama`, `mistral` (without a sliding
//! window) and `qwen2` (biases on query, key and value). Anything else is refused by name, never
//! approximated. Does not hold weights.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::ModelError;

/// Upper limits on what a file may claim, far above any real model of this family.
const MAX_LAYERS: usize = 1 << 10;
const MAX_WIDTH: usize = 1 << 17;
const MAX_VOCAB: usize = 1 << 22;
/// Parameters that the address arithmetic is safe for.
const MAX_PARAMETERS: u64 = 1 << 40;

/// The numbers that fix a decoder of the Llama family.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Decoder blocks (L).
    pub layers: usize,
    /// Width of the residual stream (C).
    pub hidden: usize,
    /// Query heads (H).
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Size of one head (D); even, for `RoPE`'s rotate-half.
    pub head_dim: usize,
    /// Inner width of the `SwiGLU`.
    pub ffn: usize,
    /// Rows of the embedding (V).
    pub vocab: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Added to the mean square in `RMSNorm`.
    pub rms_eps: f32,
    /// Whether the output head is the embedding itself.
    pub tied: bool,
    /// Whether query, key and value have a bias (Qwen2).
    pub qkv_bias: bool,
    /// Longest sequence the model was made for.
    pub max_positions: usize,
    /// Token that opens a sequence, if the model has one.
    pub bos: Option<u32>,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Token that fills a batch in other software; unused here, kept for the checkpoint.
    pub pad: Option<u32>,
}

impl Config {
    /// Read `config.json`.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let text = fs_err::read_to_string(path)
            .map_err(|e| ModelError::io("cannot read the model's configuration", e))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|e| ModelError::Damaged { path: path.into(), why: e.to_string() })?;
        Self::from_hf(&value, path)
    }

    /// Read the JSON of `config.json`; `path` names the file in errors.
    pub fn from_hf(value: &Value, path: &Path) -> Result<Self, ModelError> {
        let fields = Fields { value, path };
        fields.refuse_other_families()?;
        let hidden = fields.size("hidden_size")?;
        let heads = fields.size("num_attention_heads")?;
        let config = Self {
            layers: fields.size("num_hidden_layers")?,
            hidden,
            heads,
            kv_heads: fields.size_or("num_key_value_heads", heads)?,
            head_dim: fields.size_or("head_dim", hidden / heads.max(1))?,
            ffn: fields.size("intermediate_size")?,
            vocab: fields.size("vocab_size")?,
            rope_theta: fields.rope_theta(),
            rms_eps: value["rms_norm_eps"].as_f64().unwrap_or(1e-6) as f32,
            // transformers leaves the field out when it has the base class's default, true,
            // but Llama's own default is false, and that is what its loader uses.
            tied: value["tie_word_embeddings"].as_bool().unwrap_or(false),
            qkv_bias: value["model_type"] == "qwen2",
            max_positions: fields.size_or("max_position_embeddings", 2048)?,
            bos: token_ids(&value["bos_token_id"]).first().copied(),
            eos: token_ids(&value["eos_token_id"]),
            pad: token_ids(&value["pad_token_id"]).first().copied(),
        };
        config.check(path)?;
        Ok(config)
    }

    /// The JSON of `config.json`, loadable by transformers. Weights are written in float32.
    pub fn to_hf(&self) -> Value {
        let eos = match self.eos.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            many => json!(many),
        };
        let (kind, class) = if self.qkv_bias {
            ("qwen2", "Qwen2ForCausalLM")
        } else {
            ("llama", "LlamaForCausalLM")
        };
        json!({
            "architectures": [class],
            "attention_bias": false,
            "attention_dropout": 0.0,
            "bos_token_id": self.bos,
            "eos_token_id": eos,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.ffn,
            "max_position_embeddings": self.max_positions,
            "mlp_bias": false,
            "model_type": kind,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "pad_token_id": self.pad,
            "pretraining_tp": 1,
            "rms_norm_eps": shortest(self.rms_eps),
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": self.tied,
            "torch_dtype": "float32",
            "use_cache": true,
            "vocab_size": self.vocab,
        })
    }

    /// Number of scalars in all tensors. Saturates; `check` refuses what would.
    pub fn parameters(&self) -> u64 {
        let [c, f, v, q, kv, l] = [
            self.hidden,
            self.ffn,
            self.vocab,
            self.heads.saturating_mul(self.head_dim),
            self.kv_heads.saturating_mul(self.head_dim),
            self.layers,
        ]
        .map(|n| n as u64);
        let attention = c.saturating_mul(q.saturating_add(kv).saturating_mul(2));
        let biases = if self.qkv_bias { q.saturating_add(kv.saturating_mul(2)) } else { 0 };
        let block = attention
            .saturating_add(c.saturating_mul(f).saturating_mul(3))
            .saturating_add(biases)
            .saturating_add(c.saturating_mul(2));
        let heads = if self.tied { 1 } else { 2 };
        block
            .saturating_mul(l)
            .saturating_add(c.saturating_mul(v).saturating_mul(heads))
            .saturating_add(c)
    }

    /// Refuse numbers that cannot be a model, so that nothing is allocated for them.
    pub(crate) fn check(&self, path: &Path) -> Result<(), ModelError> {
        let damaged = |why: String| Err(ModelError::Damaged { path: path.into(), why });
        for (name, value, limit) in [
            ("number of layers", self.layers, MAX_LAYERS),
            ("hidden size", self.hidden, MAX_WIDTH),
            ("number of heads", self.heads, MAX_WIDTH),
            ("number of key-value heads", self.kv_heads, MAX_WIDTH),
            ("head size", self.head_dim, MAX_WIDTH),
            ("feed-forward size", self.ffn, MAX_WIDTH * 8),
            ("vocabulary", self.vocab, MAX_VOCAB),
        ] {
            if value == 0 || value > limit {
                return damaged(format!("the {name} is {value}, not between 1 and {limit}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return damaged(format!(
                "{} query heads cannot share {} key-value heads evenly",
                self.heads, self.kv_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return damaged(format!("the head size is {}, which is odd", self.head_dim));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return damaged(format!("the rotary base is {}", self.rope_theta));
        }
        if !(self.rms_eps.is_finite() && self.rms_eps >= 0.0) {
            return damaged(format!("the norm's epsilon is {}", self.rms_eps));
        }
        if self.parameters() > MAX_PARAMETERS {
            return damaged(format!("{} parameters are too many", self.parameters()));
        }
        Ok(())
    }
}

/// Typed access to the fields of a `config.json`.
struct Fields<'a> {
    value: &'a Value,
    path: &'a Path,
}

impl Fields<'_> {
    fn refuse_other_families(&self) -> Result<(), ModelError> {
        let value = self.value;
        let kind = value["model_type"].as_str().unwrap_or("(no model_type)");
        if !["llama", "mistral", "qwen2"].contains(&kind) {
            return Err(self.unsupported(format!("architecture `{kind}`")));
        }
        let windowed = match kind {
            "mistral" => !value["sliding_window"].is_null(),
            _ => value["use_sliding_window"].as_bool() == Some(true),
        };
        if windowed {
            return Err(self.unsupported("a sliding attention window".to_owned()));
        }
        let act = value["hidden_act"].as_str().unwrap_or("silu");
        if act != "silu" {
            return Err(self.unsupported(format!("activation `{act}`")));
        }
        for flag in ["attention_bias", "mlp_bias", "rope_interleaved"] {
            if value[flag].as_bool() == Some(true) {
                return Err(self.unsupported(format!("`{flag}: true`")));
            }
        }
        for field in ["rope_scaling", "rope_parameters"] {
            let rope = &value[field];
            let kind = rope["rope_type"].as_str().or(rope["type"].as_str()).unwrap_or("default");
            if kind != "default" {
                return Err(self.unsupported(format!("rotary scaling `{kind}`")));
            }
        }
        Ok(())
    }

    fn unsupported(&self, what: String) -> ModelError {
        ModelError::Unsupported { path: self.path.into(), what }
    }

    fn size(&self, name: &str) -> Result<usize, ModelError> {
        self.value[name].as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
            let why = match &self.value[name] {
                Value::Null => format!("`{name}` is missing"),
                other => format!("`{name}` is {other}, not a size"),
            };
            ModelError::Damaged { path: self.path.into(), why }
        })
    }

    fn size_or(&self, name: &str, default: usize) -> Result<usize, ModelError> {
        if self.value[name].is_null() { Ok(default) } else { self.size(name) }
    }

    /// `rope_theta` at the top, or inside `rope_parameters` as newer transformers writes it.
    fn rope_theta(&self) -> f64 {
        self.value["rope_parameters"]["rope_theta"]
            .as_f64()
            .or(self.value["rope_theta"].as_f64())
            .unwrap_or(10_000.0)
    }
}

/// A token id, a list of them, or nothing.
pub(crate) fn token_ids(value: &Value) -> Vec<u32> {
    let id = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match value {
        Value::Array(list) => list.iter().filter_map(id).collect(),
        other => id(other).into_iter().collect(),
    }
}

/// The ids that `generation_config.json` needs to stop where this model stops.
pub(crate) fn generation_config(config: &Config) -> Value {
    let mut map = Map::new();
    map.insert("_from_model_config".into(), json!(true));
    let hf = config.to_hf();
    for name in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        map.insert(name.into(), hf[name].clone());
    }
    Value::Object(map)
}

/// A float as its shortest decimal, so that 1e-5 is not written as 9.999999747378752e-6.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smollm2() -> Value {
        json!({
            "model_type": "llama", "hidden_size": 576, "num_attention_heads": 9,
            "num_key_value_heads": 3, "num_hidden_layers": 30, "intermediate_size": 1536,
            "vocab_size": 49152, "rope_theta": 100_000, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": true, "max_position_embeddings": 8192,
            "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "rope_scaling": null,
        })
    }

    fn parse(value: &Value) -> Result<Config, ModelError> {
        Config::from_hf(value, Path::new("config.json"))
    }

    #[test]
    fn smollm2_has_135_million_parameters_and_round_trips() {
        let config = parse(&smollm2()).unwrap();
        assert_eq!(config.head_dim, 64);
        assert_eq!(config.parameters(), 134_515_008);
        assert_eq!(parse(&config.to_hf()).unwrap(), config);
        assert_eq!(config.to_hf()["rms_norm_eps"], json!(1e-5));
    }

    #[test]
    fn other_families_are_refused_by_name() {
        for (field, value, word) in [
            ("model_type", json!("mamba"), "mamba"),
            ("hidden_act", json!("gelu"), "gelu"),
            ("attention_bias", json!(true), "attention_bias"),
            ("rope_scaling", json!({"rope_type": "yarn"}), "yarn"),
        ] {
            let mut config = smollm2();
            config[field] = value;
            let error = parse(&config).unwrap_err();
            assert!(matches!(error, ModelError::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn absurd_numbers_are_refused() {
        for (field, value) in [
            ("hidden_size", json!(0)),
            ("num_attention_heads", json!(0)),
            ("vocab_size", json!(1_u64 << 60)),
            ("num_hidden_layers", json!(-3)),
            ("num_key_value_heads", json!(4)),
            ("head_dim", json!(63)),
            ("rope_theta", json!(-1.0)),
            ("intermediate_size", json!("many")),
        ] {
            let mut config = smollm2();
            config[field] = value;
            assert!(parse(&config).is_err(), "{field}");
        }
    }

    #[test]
    fn the_newer_rope_parameters_are_read() {
        let mut config = smollm2();
        config["rope_theta"] = Value::Null;
        config["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 5000.0});
        assert!((parse(&config).unwrap().rope_theta - 5000.0).abs() < 1e-9);
    }
}
