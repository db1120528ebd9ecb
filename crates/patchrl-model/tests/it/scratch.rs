//! Models from scratch: learnt tokenizers, random weights, the folder they become.

use patchrl_model::{Message, Policy, Scratch};

const TEXT: &str = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n";

fn sizes() -> Scratch {
    Scratch { vocab: 300, hidden: 16, layers: 2, heads: 2, kv_heads: 1, ffn: 24, max_positions: 64 }
}

#[test]
fn the_same_text_and_seed_give_the_same_model() {
    let one = Policy::from_scratch(&sizes(), &[TEXT, TEXT], 3).unwrap();
    let two = Policy::from_scratch(&sizes(), &[TEXT, TEXT], 3).unwrap();
    let other = Policy::from_scratch(&sizes(), &[TEXT, TEXT], 4).unwrap();
    assert_eq!(one.tokenizer.encode(TEXT), two.tokenizer.encode(TEXT));
    assert!(one.tokenizer.encode(TEXT).len() < TEXT.len() / 2, "nothing was merged");
    assert_eq!(one.model.params.data(), two.model.params.data());
    assert_ne!(one.model.params.data(), other.model.params.data());
}

#[test]
fn a_saved_one_loads_and_encodes_what_it_never_saw() {
    let made = Policy::from_scratch(&sizes(), &[TEXT, TEXT], 0).unwrap();
    let folder = tempfile::tempdir().unwrap();
    made.save(&folder.path().join("model")).unwrap();
    let read = Policy::load(&folder.path().join("model")).unwrap();
    assert_eq!(read.model.config, made.model.config);
    assert_eq!(read.tokenizer.eos(), made.tokenizer.eos());
    let strange = "ünïcode \u{1f980}\r\n<|im_end|>\t\0";
    let tokens = read.tokenizer.encode(strange);
    assert_eq!(tokens, made.tokenizer.encode(strange));
    assert_eq!(read.tokenizer.decode(&tokens), strange);
    let prompt = read.prompt(&[Message::new("user", "hi")]).unwrap();
    let text = read.tokenizer.decode_with_special(&prompt);
    assert_eq!(text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn weights_have_the_spread_they_should() {
    let sizes = Scratch { hidden: 64, ffn: 128, layers: 8, ..sizes() };
    let made = Policy::from_scratch(&sizes, &[TEXT], 0).unwrap();
    let spread = |name: &str| {
        let values = made.model.params.tensor(name).unwrap();
        (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt()
    };
    for (name, want) in [
        ("model.embed_tokens.weight", 0.02),
        ("model.layers.3.mlp.up_proj.weight", 0.02),
        ("model.layers.3.mlp.down_proj.weight", 0.005),
        ("model.norm.weight", 1.0),
    ] {
        assert!((spread(name) / want - 1.0).abs() < 0.05, "{name}: {}", spread(name));
    }
}

#[test]
fn impossible_sizes_are_refused_by_key() {
    for (sizes, key) in [
        (Scratch { vocab: 10, ..sizes() }, "`vocab`"),
        (Scratch { heads: 3, ..sizes() }, "`hidden`"),
        (Scratch { heads: 0, ..sizes() }, "`hidden`"),
        (Scratch { hidden: 2, ..sizes() }, "head size"),
        (Scratch { layers: 0, ..sizes() }, "layers"),
        (Scratch { hidden: 1 << 16, ffn: 1 << 18, layers: 900, ..sizes() }, "parameters"),
    ] {
        let why = Policy::from_scratch(&sizes, &[TEXT], 0).unwrap_err().to_string();
        assert!(why.contains(key), "{why}");
    }
}
