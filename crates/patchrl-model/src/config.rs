//! The shape of a model, read from and written as Hugging Face's `config.json`.
//!
//! Owns the numbers that fix the network and the checks on them. Knows one skeleton (`RoPE`,
//! `SwiGLU`, `RMSNorm`) under four names: `llama` (Llama 2 and 3, SmolLM2, DeepSeek-Coder),
//! `mistral` (sliding window), `qwen2` (biases on query, key and value) and `qwen3` (norms on
//! query and key). Anything else is refused by field and value, never approximated. Does not
//! hold weights.

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{ModelError, Real, RopeScaling};

/// Upper limits on what a file may claim, far above any real model of this family.
const MAX_LAYERS: usize = 1 << 10;
const MAX_WIDTH: usize = 1 << 17;
const MAX_VOCAB: usize = 1 << 22;
/// Parameters that the address arithmetic is safe for.
const MAX_PARAMETERS: u64 = 1 << 40;

/// The skeleton's variants, each with its name in `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Neither biases nor norms on query and key.
    Llama,
    /// As Llama; may have a sliding window.
    Mistral,
    /// Biases on query, key and value; may have a sliding window.
    Qwen2,
    /// `RMSNorm` over each head of query and key; may have a sliding window.
    Qwen3,
}

impl Family {
    /// `model_type`, and the class in `architectures`.
    const NAMES: [(Self, &str, &str); 4] = [
        (Self::Llama, "llama", "LlamaForCausalLM"),
        (Self::Mistral, "mistral", "MistralForCausalLM"),
        (Self::Qwen2, "qwen2", "Qwen2ForCausalLM"),
        (Self::Qwen3, "qwen3", "Qwen3ForCausalLM"),
    ];
}

/// Attention that looks back a fixed number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Tokens that a query sees, itself included.
    pub size: usize,
    /// Layers before this one see everything.
    pub first_layer: usize,
}

/// The numbers that fix a decoder.
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
    /// What a longer context does to them.
    pub rope_scaling: RopeScaling,
    /// Added to the mean square in `RMSNorm`.
    pub rms_eps: f32,
    /// Whether the output head is the embedding itself.
    pub tied: bool,
    /// Which variant of the skeleton it is.
    pub family: Family,
    /// Where attention does not reach back to the first token.
    pub window: Option<Window>,
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
        let family = fields.family()?;
        fields.refuse_variants()?;
        let layers = fields.size("num_hidden_layers")?;
        let hidden = fields.size("hidden_size")?;
        let heads = fields.size("num_attention_heads")?;
        let config = Self {
            layers,
            hidden,
            heads,
            kv_heads: fields.size_or("num_key_value_heads", heads)?,
            head_dim: fields.size_or(
                "head_dim",
                // Qwen3's own default does not depend on the other sizes.
                if family == Family::Qwen3 { 128 } else { hidden / heads.max(1) },
            )?,
            ffn: fields.size("intermediate_size")?,
            vocab: fields.size("vocab_size")?,
            rope_theta: fields.rope_theta(),
            rope_scaling: fields.rope_scaling()?,
            rms_eps: value["rms_norm_eps"].as_f64().unwrap_or(1e-6) as f32,
            // transformers leaves the field out when it has the base class's default, true,
            // but Llama's own default is false, and that is what its loader uses.
            tied: value["tie_word_embeddings"].as_bool().unwrap_or(false),
            family,
            window: fields.window(family, layers)?,
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
        let [kind, class] = Family::NAMES
            .iter()
            .find(|(family, ..)| *family == self.family)
            .map_or([""; 2], |(_, kind, class)| [*kind, *class]);
        let mut json = json!({
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
        });
        if self.rope_scaling != RopeScaling::None {
            json["rope_scaling"] = self.rope_scaling.to_hf();
        }
        match (self.family, self.window) {
            (Family::Llama, _) => {}
            // Left out, it would be transformers' default of 4,096.
            (Family::Mistral, window) => json["sliding_window"] = json!(window.map(|w| w.size)),
            (_, None) => json["use_sliding_window"] = json!(false),
            (_, Some(window)) => {
                json["use_sliding_window"] = json!(true);
                json["sliding_window"] = json!(window.size);
                json["max_window_layers"] = json!(window.first_layer);
            }
        }
        json
    }

    /// Whether query, key and value have a bias.
    pub fn qkv_bias(&self) -> bool {
        self.family == Family::Qwen2
    }

    /// Whether each head of query and key is normalised.
    pub fn qk_norm(&self) -> bool {
        self.family == Family::Qwen3
    }

    /// Tokens that a query of `layer` sees, itself included.
    pub(crate) fn window_of(&self, layer: usize) -> usize {
        self.window.filter(|window| layer >= window.first_layer).map_or(usize::MAX, |w| w.size)
    }

    /// Rows of the qkv matrix that are query, and those that are key; value follows.
    pub(crate) fn query_and_key(&self) -> (Range<usize>, Range<usize>) {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        (0..q, q..q + kv)
    }

    /// What is added to the mean square of a norm.
    pub(crate) fn eps(&self) -> Real {
        self.rms_eps as Real
    }

    /// Radians per position of each pair of a head, (`head_dim` / 2,).
    pub(crate) fn frequencies(&self) -> Vec<f32> {
        self.rope_scaling.frequencies(self.head_dim, self.rope_theta)
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
        let biases = if self.qkv_bias() { q.saturating_add(kv.saturating_mul(2)) } else { 0 };
        let norms = if self.qk_norm() { 2 * self.head_dim as u64 } else { 0 };
        let block = attention
            .saturating_add(c.saturating_mul(f).saturating_mul(3))
            .saturating_add(biases)
            .saturating_add(norms)
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
    fn family(&self) -> Result<Family, ModelError> {
        let kind = self.value["model_type"].as_str().unwrap_or("(no model_type)");
        let known = Family::NAMES.iter().find(|(_, name, _)| *name == kind);
        known.map(|known| known.0).ok_or_else(|| self.unsupported(format!("architecture `{kind}`")))
    }

    fn refuse_variants(&self) -> Result<(), ModelError> {
        let act = self.value["hidden_act"].as_str().unwrap_or("silu");
        if act != "silu" {
            return Err(self.unsupported(format!("activation `{act}`")));
        }
        for flag in ["attention_bias", "mlp_bias", "rope_interleaved"] {
            if self.value[flag].as_bool() == Some(true) {
                return Err(self.unsupported(format!("`{flag}: true`")));
            }
        }
        let part = &self.value["partial_rotary_factor"];
        if !part.is_null() && part.as_f64() != Some(1.0) {
            return Err(self.unsupported(format!("`partial_rotary_factor: {part}`")));
        }
        Ok(())
    }

    /// Older files say it in `rope_scaling`, newer ones in `rope_parameters`.
    fn rope_scaling(&self) -> Result<RopeScaling, ModelError> {
        let [old, new] = ["rope_scaling", "rope_parameters"].map(|field| {
            RopeScaling::from_hf(&self.value[field])
                .map_err(|what| self.unsupported(format!("{what} in `{field}`")))
        });
        match (old?, new?) {
            (RopeScaling::None, scaling) | (scaling, RopeScaling::None) => Ok(scaling),
            (old, new) if old == new => Ok(new),
            _ => Err(self.unsupported("`rope_scaling` that contradicts `rope_parameters`".into())),
        }
    }

    fn window(&self, family: Family, layers: usize) -> Result<Option<Window>, ModelError> {
        let value = self.value;
        let window = match family {
            Family::Llama => None,
            // Without the field, transformers takes 4,096; with null, there is none.
            Family::Mistral => match value.get("sliding_window") {
                Some(Value::Null) => None,
                _ => Some(Window { size: self.size_or("sliding_window", 4096)?, first_layer: 0 }),
            },
            Family::Qwen2 | Family::Qwen3 => match value["use_sliding_window"].as_bool() {
                Some(true) if !value["sliding_window"].is_null() => Some(Window {
                    size: self.size("sliding_window")?,
                    first_layer: self.size_or("max_window_layers", 28)?,
                }),
                _ => None,
            },
        };
        if window.is_some_and(|window| window.size == 0) {
            return Err(self.unsupported("`sliding_window: 0`".into()));
        }
        // Which layers slide may be said again, one by one.
        if let Some(types) = value["layer_types"].as_array() {
            let slides = |at| window.is_some_and(|window| at >= window.first_layer);
            let odd = types.iter().enumerate().find(|(at, kind)| {
                **kind != if slides(*at) { "sliding_attention" } else { "full_attention" }
            });
            if let Some((at, kind)) = odd {
                return Err(self.unsupported(format!("`layer_types[{at}]: {kind}`")));
            }
            if types.len() != layers {
                let what = format!("{} `layer_types` for {layers} layers", types.len());
                return Err(self.unsupported(what));
            }
        }
        Ok(window)
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
            ("partial_rotary_factor", json!(0.5), "partial_rotary_factor: 0.5"),
            ("rope_scaling", json!({"rope_type": "yarn"}), "yarn"),
            ("rope_parameters", json!({"rope_type": "longrope"}), "longrope"),
            ("layer_types", json!(["chunked_attention"]), "chunked_attention"),
            ("layer_types", json!(["full_attention"]), "1 `layer_types` for 30"),
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

    #[test]
    fn every_family_and_window_round_trips() {
        for (kind, more, first_layer) in [
            ("llama", json!({"rope_scaling": {"type": "linear", "factor": 4.0}}), None),
            ("mistral", json!({"sliding_window": 4096}), Some(0)),
            ("mistral", json!({}), Some(0)),
            ("mistral", json!({"sliding_window": null}), None),
            ("qwen2", json!({"use_sliding_window": false, "sliding_window": 4096}), None),
            (
                "qwen3",
                json!({"use_sliding_window": true, "sliding_window": 64, "max_window_layers": 9}),
                Some(9),
            ),
        ] {
            let mut value = smollm2();
            value["model_type"] = json!(kind);
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let config = parse(&value).unwrap();
            assert_eq!(config.window.map(|window| window.first_layer), first_layer, "{value}");
            assert_eq!(parse(&config.to_hf()).unwrap(), config);
            assert_eq!(config.to_hf()["model_type"], json!(kind));
        }
    }
}
