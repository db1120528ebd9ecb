//! A tiny GGUF model, written byte by byte, so that tests can also write it wrongly.

use std::collections::BTreeMap;

/// What a test may change before the bytes are made.
pub(crate) struct GgufFile {
    pub(crate) version: u32,
    pub(crate) meta: BTreeMap<String, Value>,
    pub(crate) tensors: Vec<(String, Vec<u64>, Vec<f32>)>,
}

#[derive(Clone)]
pub(crate) enum Value {
    U32(u32),
    F32(f32),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
}

pub(crate) const TEMPLATE: &str = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Two layers of width 16 with two heads on one key-value head, and a vocabulary of three special
/// tokens, the 256 bytes and one merge.
pub(crate) fn tiny() -> GgufFile {
    let specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
    let mut tokens: Vec<String> = specials.into();
    tokens.extend((0..=255).map(|byte| byte_letter(byte).to_string()));
    tokens.push("he".to_owned());
    let kinds = (0..tokens.len()).map(|id| if id < 3 { 3 } else { 1 }).collect();
    let vocab = tokens.len() as u64;
    let text = |text: &str| Value::Text(text.to_owned());
    let meta = [
        ("general.architecture", text("llama")),
        ("llama.block_count", Value::U32(2)),
        ("llama.context_length", Value::U32(64)),
        ("llama.embedding_length", Value::U32(16)),
        ("llama.feed_forward_length", Value::U32(24)),
        ("llama.attention.head_count", Value::U32(2)),
        ("llama.attention.head_count_kv", Value::U32(1)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.dimension_count", Value::U32(8)),
        ("llama.rope.freq_base", Value::F32(10000.0)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("smollm")),
        ("tokenizer.ggml.tokens", Value::Texts(tokens)),
        ("tokenizer.ggml.token_type", Value::I32s(kinds)),
        ("tokenizer.ggml.merges", Value::Texts(vec!["h e".to_owned()])),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.eos_token_id", Value::U32(2)),
        ("tokenizer.chat_template", text(TEMPLATE)),
    ];
    let mut file = GgufFile {
        version: 3,
        meta: meta.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        tensors: Vec::new(),
    };
    file.tensor("token_embd.weight", &[16, vocab]);
    file.tensor("output_norm.weight", &[16]);
    for layer in 0..2 {
        for (name, shape) in [
            ("attn_norm", &[16_u64][..]),
            ("ffn_norm", &[16]),
            ("attn_q", &[16, 16]),
            ("attn_k", &[16, 8]),
            ("attn_v", &[16, 8]),
            ("attn_output", &[16, 16]),
            ("ffn_gate", &[16, 24]),
            ("ffn_up", &[16, 24]),
            ("ffn_down", &[24, 16]),
        ] {
            file.tensor(&format!("blk.{layer}.{name}.weight"), shape);
        }
    }
    file
}

impl GgufFile {
    fn tensor(&mut self, name: &str, shape: &[u64]) {
        let count: u64 = shape.iter().product();
        let seed = self.tensors.len() as f32;
        let values = (0..count).map(|at| ((at as f32 + seed) * 0.7).sin() * 0.5).collect();
        self.tensors.push((name.to_owned(), shape.to_vec(), values));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.meta.len() as u64).to_le_bytes());
        for (key, value) in &self.meta {
            put_text(&mut out, key);
            put_value(&mut out, value);
        }
        let mut offset = 0_u64;
        for (name, shape, values) in &self.tensors {
            put_text(&mut out, name);
            out.extend((shape.len() as u32).to_le_bytes());
            out.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
            out.extend(0_u32.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset = (offset + values.len() as u64 * 4).next_multiple_of(32);
        }
        for (_, _, values) in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        out
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let mut kind = |id: u32| out.extend(id.to_le_bytes());
    match value {
        Value::U32(value) => {
            kind(4);
            out.extend(value.to_le_bytes());
        }
        Value::F32(value) => {
            kind(6);
            out.extend(value.to_le_bytes());
        }
        Value::Text(text) => {
            kind(8);
            put_text(out, text);
        }
        Value::Texts(texts) => {
            kind(9);
            kind(8);
            out.extend((texts.len() as u64).to_le_bytes());
            for text in texts {
                put_text(out, text);
            }
        }
        Value::I32s(values) => {
            kind(9);
            kind(5);
            out.extend((values.len() as u64).to_le_bytes());
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
}

/// The printable character that byte-level BPE shows a byte as.
fn byte_letter(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|b| !printable(*b)).count() as u32;
    char::from_u32(256 + rank).unwrap()
}
