//! A Hugging Face folder with a model of a few thousand parameters, made here.

use std::path::Path;

use serde_json::{Map, Value, json};

const HIDDEN: usize = 16;
const FFN: usize = 24;
const KV: usize = 8;
const LAYERS: usize = 2;

/// Write the folder. Tokens are bytes, and two markers.
pub fn write_model(folder: &Path) {
    fs_err::create_dir_all(folder).unwrap();
    let write =
        |name: &str, value: &Value| fs_err::write(folder.join(name), value.to_string()).unwrap();
    let alphabet = alphabet();
    let vocab: Map<String, Value> =
        alphabet.iter().enumerate().map(|(id, c)| (c.to_string(), json!(id))).collect();
    let marker = |id: usize, content: &str| {
        json!({ "id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false })
    };
    write(
        "tokenizer.json",
        &json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
            "added_tokens": [marker(256, "<|im_start|>"), marker(257, "<|im_end|>")],
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
            "post_processor": null,
            "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
            "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                       "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                       "vocab": vocab, "merges": [] },
        }),
    );
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    write(
        "tokenizer_config.json",
        &json!({ "eos_token": "<|im_end|>", "chat_template": template }),
    );
    write(
        "config.json",
        &json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN,
            "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
            "num_key_value_heads": 1, "vocab_size": 258, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
            "eos_token_id": 257, "hidden_act": "silu",
        }),
    );
    fs_err::write(folder.join("model.safetensors"), weights()).unwrap();
}

/// The 256 characters that stand for bytes in GPT-2's alphabet, in the order of the bytes.
fn alphabet() -> Vec<char> {
    let kept =
        |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
    let mut next = 256;
    (0..256_u32)
        .map(|b| {
            let code = if kept(b) {
                b
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).unwrap()
        })
        .collect()
}

fn weights() -> Vec<u8> {
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![258, HIDDEN])];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("input_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", vec![KV, HIDDEN]),
            ("self_attn.v_proj", vec![KV, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("mlp.gate_proj", vec![FFN, HIDDEN]),
            ("mlp.up_proj", vec![FFN, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, FFN]),
        ] {
            tensors.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    tensors.push(("model.norm.weight".to_owned(), vec![HIDDEN]));

    let (mut header, mut data, mut state) = (Map::new(), Vec::<u8>::new(), 1_u32);
    for (name, shape) in tensors {
        let start = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (state >> 8) as f32 / (1 << 24) as f32 - 0.5;
            let value = if shape.len() == 1 { 1.0 } else { 0.4 * noise };
            data.extend(value.to_le_bytes());
        }
        header.insert(
            name,
            json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }),
        );
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}
