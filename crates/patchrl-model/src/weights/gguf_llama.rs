//! What a GGUF file of the Llama family means: configuration and tensors under Hugging Face's
//! names, with the rows of query and key back in Hugging Face's order.
//!
//! Owns the two naming schemes and the permutation. Does not read bytes (see `gguf`).

use std::path::Path;

use super::TensorFile;
use super::gguf::{Gguf, Meta};
use crate::config::Family;
use crate::{Config, ModelError, RopeScaling};

/// A GGUF file, seen as a model.
pub(crate) struct GgufModel {
    gguf: Gguf,
    config: Config,
    rows: RowOrder,
}

/// How the rows of query and key are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowOrder {
    /// As Hugging Face has them: the two halves of each head one after the other.
    Halves,
    /// Row pairs that rotate together are neighbours; what llama.cpp's converter makes of `llama`.
    Pairs,
}

impl GgufModel {
    /// Read the header and check that it is a model that this engine computes.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let gguf = Gguf::open(path)?;
        let rows = match gguf.meta("general.architecture").and_then(Meta::as_str) {
            Some("llama") => RowOrder::Pairs,
            Some("qwen2") => RowOrder::Halves,
            other => {
                let what = format!("architecture `{}`", other.unwrap_or("(none given)"));
                return Err(ModelError::Unsupported { path: path.into(), what });
            }
        };
        let config = read_config(&gguf)?;
        Ok(Self { gguf, config, rows })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn gguf(&self) -> &Gguf {
        &self.gguf
    }
}

fn read_config(gguf: &Gguf) -> Result<Config, ModelError> {
    let arch = gguf.meta("general.architecture").and_then(Meta::as_str).unwrap_or_default();
    let key = |name: &str| gguf.meta(&format!("{arch}.{name}"));
    let size = |name: &str| key(name).and_then(Meta::as_u64).and_then(|n| usize::try_from(n).ok());
    let need = |name: &str| {
        size(name).ok_or_else(|| ModelError::Damaged {
            path: gguf.path().into(),
            why: format!("`{arch}.{name}` is missing"),
        })
    };
    refuse_variants(gguf, arch)?;
    let (hidden, heads) = (need("embedding_length")?, need("attention.head_count")?);
    let embedding = gguf.tensor("token_embd.weight").ok_or_else(|| ModelError::MissingTensor {
        path: gguf.path().into(),
        tensor: "token_embd.weight".into(),
    })?;
    let id = |name: &str| {
        let value = gguf.meta(&format!("tokenizer.ggml.{name}_token_id")).and_then(Meta::as_u64);
        value.and_then(|n| u32::try_from(n).ok())
    };
    let config = Config {
        layers: need("block_count")?,
        hidden,
        heads,
        kv_heads: size("attention.head_count_kv").unwrap_or(heads),
        head_dim: size("attention.key_length").unwrap_or(hidden / heads.max(1)),
        ffn: need("feed_forward_length")?,
        vocab: embedding.shape.first().copied().unwrap_or(0),
        rope_theta: key("rope.freq_base").and_then(Meta::as_f64).unwrap_or(10_000.0),
        rms_eps: key("attention.layer_norm_rms_epsilon").and_then(Meta::as_f64).unwrap_or(1e-6)
            as f32,
        rope_scaling: RopeScaling::None,
        tied: gguf.tensor("output.weight").is_none(),
        family: if gguf.tensor("blk.0.attn_q.bias").is_some() {
            Family::Qwen2
        } else {
            Family::Llama
        },
        window: None,
        max_positions: size("context_length").unwrap_or(2048),
        bos: id("bos"),
        eos: id("eos").into_iter().chain(id("eot")).fold(Vec::new(), |mut ids, id| {
            if !ids.contains(&id) {
                ids.push(id);
            }
            ids
        }),
        pad: id("padding"),
    };
    config.check(gguf.path())?;
    if let Some(rotated) = size("rope.dimension_count")
        && rotated != config.head_dim
    {
        let what = format!("rotation of {rotated} of {} dimensions", config.head_dim);
        return Err(ModelError::Unsupported { path: gguf.path().into(), what });
    }
    Ok(config)
}

/// Variants of the family that the engine does not compute.
fn refuse_variants(gguf: &Gguf, arch: &str) -> Result<(), ModelError> {
    let unsupported =
        |what: String| Err(ModelError::Unsupported { path: gguf.path().into(), what });
    let experts = gguf.meta(&format!("{arch}.expert_count")).and_then(Meta::as_u64).unwrap_or(0);
    if experts > 0 {
        return unsupported(format!("a mixture of {experts} experts"));
    }
    let scaling = gguf.meta(&format!("{arch}.rope.scaling.type")).and_then(Meta::as_str);
    if let Some(kind) = scaling.filter(|kind| *kind != "none") {
        return unsupported(format!("rotary scaling `{kind}`"));
    }
    if gguf.tensor("rope_freqs.weight").is_some() {
        return unsupported("rotary scaling by a table (`rope_freqs.weight`)".into());
    }
    if gguf.tensor("blk.0.attn_output.bias").is_some() {
        return unsupported("a bias on the attention's output".into());
    }
    Ok(())
}

impl TensorFile for GgufModel {
    fn path(&self) -> &Path {
        self.gguf.path()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.gguf.tensor(&gguf_name(name)?)?.shape)
    }

    fn elements(&self) -> u64 {
        self.gguf.elements()
    }

    fn read(&mut self, name: &str, out: &mut [f32]) -> Result<(), ModelError> {
        let Some(stored) = gguf_name(name) else {
            let path = self.gguf.path().into();
            return Err(ModelError::MissingTensor { path, tensor: name.into() });
        };
        self.gguf.read(&stored, out)?;
        if self.rows == RowOrder::Pairs {
            if name.contains(".q_proj.") {
                halves_from_pairs(out, self.config.heads, self.config.head_dim);
            } else if name.contains(".k_proj.") {
                halves_from_pairs(out, self.config.kv_heads, self.config.head_dim);
            }
        }
        Ok(())
    }
}

/// llama.cpp's name of one of Hugging Face's tensors.
fn gguf_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (module, leaf) = rest.rsplit_once('.')?;
    let stored = match module {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{stored}.{leaf}"))
}

/// Undo llama.cpp's permutation. Within a head of D rows, file row `2 i + j` is the row `i` of
/// half `j`; the engine, as Hugging Face, rotates row `i` against row `i + D / 2`.
///
/// `data` is (`heads * head_dim`, columns) or, for a bias, (`heads * head_dim`,).
fn halves_from_pairs(data: &mut [f32], heads: usize, head_dim: usize) {
    let columns = data.len() / (heads * head_dim);
    let mut pairs = vec![0.0; head_dim * columns];
    for head in data.chunks_exact_mut(head_dim * columns) {
        pairs.copy_from_slice(head);
        for (at, row) in pairs.chunks_exact(columns).enumerate() {
            let to = at % 2 * (head_dim / 2) + at / 2;
            head[to * columns..][..columns].copy_from_slice(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permutation_of_the_converter_is_undone() {
        // convert_hf_to_gguf.py: w.reshape(heads, 2, D / 2, columns).swapaxes(1, 2)
        let (heads, head_dim, columns) = (3, 8, 5);
        let original: Vec<f32> = (0..heads * head_dim * columns).map(|n| n as f32).collect();
        let mut stored = vec![0.0; original.len()];
        for h in 0..heads {
            for j in 0..2 {
                for i in 0..head_dim / 2 {
                    let from = (h * head_dim + j * head_dim / 2 + i) * columns;
                    let to = (h * head_dim + 2 * i + j) * columns;
                    stored[to..to + columns].copy_from_slice(&original[from..from + columns]);
                }
            }
        }
        halves_from_pairs(&mut stored, heads, head_dim);
        assert_eq!(stored, original);
    }

    #[test]
    fn names_map_one_to_one() {
        assert_eq!(
            gguf_name("model.layers.7.mlp.down_proj.weight").as_deref(),
            Some("blk.7.ffn_down.weight")
        );
        assert_eq!(
            gguf_name("model.layers.0.self_attn.q_proj.bias").as_deref(),
            Some("blk.0.attn_q.bias")
        );
        assert_eq!(gguf_name("model.layers.0.rotary.inv_freq"), None);
    }
}
