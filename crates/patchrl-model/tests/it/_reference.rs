//! The network in float64 and plain loops: one sequence at a time, nothing shared.
//!
//! Written from the definition of a Llama decoder, not from the engine.

use std::collections::BTreeMap;

use patchrl_model::{Config, Group, LoraConfig, Params, RopeScaling};

/// Tensors by Hugging Face name.
pub(crate) type Weights = BTreeMap<String, Vec<f64>>;

pub(crate) fn weights(params: &Params) -> Weights {
    let values = |range: std::ops::Range<usize>| params.data()[range].iter().map(|&x| f64::from(x));
    params.tensors().map(|(name, range, _)| (name.to_owned(), values(range).collect())).collect()
}

/// Weights with an adapter added in: `W + alpha / rank · B A`.
pub(crate) fn merged(weights: &Weights, adapter: &Weights, lora: &LoraConfig) -> Weights {
    let mut weights = weights.clone();
    for (name, a) in adapter.iter().filter(|(name, _)| name.ends_with("lora_A.weight")) {
        let b = &adapter[&name.replace("lora_A", "lora_B")];
        let place = name.strip_prefix("base_model.model.").unwrap().replace(".lora_A", "");
        let w = weights.get_mut(&place).unwrap();
        let ins = a.len() / lora.rank;
        for (at, w) in w.iter_mut().enumerate() {
            let pairs = (0..lora.rank).map(|r| b[at / ins * lora.rank + r] * a[r * ins + at % ins]);
            *w += f64::from(lora.alpha) / lora.rank as f64 * pairs.sum::<f64>();
        }
    }
    weights
}

/// Of each answer token: its log-probability, and the entropy of what it was drawn from.
pub(crate) fn scores(
    config: &Config,
    weights: &Weights,
    group: &Group<'_>,
    temperature: f64,
) -> Vec<Vec<(f64, f64)>> {
    let mut all = Vec::new();
    for answer in &group.answers {
        let tokens: Vec<u32> = group.prompt.iter().chain(*answer).copied().collect();
        let logits = logits(config, weights, &tokens);
        let mut scores = Vec::new();
        for (at, &token) in answer.iter().enumerate() {
            let row: Vec<f64> =
                logits[group.prompt.len() - 1 + at].iter().map(|z| z / temperature).collect();
            let top = row.iter().fold(f64::MIN, |a, &b| a.max(b));
            let sum: f64 = row.iter().map(|z| (z - top).exp()).sum();
            let log = |z: &f64| z - top - sum.ln();
            let entropy = row.iter().map(|z| -log(z) * log(z).exp()).sum();
            scores.push((log(&row[token as usize]), entropy));
        }
        all.push(scores);
    }
    all
}

/// Logits of every position, (T, vocab).
pub(crate) fn logits(config: &Config, weights: &Weights, tokens: &[u32]) -> Vec<Vec<f64>> {
    let embed = &weights["model.embed_tokens.weight"];
    let mut x: Vec<Vec<f64>> = tokens
        .iter()
        .map(|&token| embed[token as usize * config.hidden..][..config.hidden].to_vec())
        .collect();
    for layer in 0..config.layers {
        let window = config.window.filter(|window| layer >= window.first_layer);
        let window = window.map_or(tokens.len(), |window| window.size);
        let weight = |part: &str| weights.get(&format!("model.layers.{layer}.{part}"));
        block((config, window), &weight, &mut x);
    }
    let head = if config.tied { embed } else { &weights["lm_head.weight"] };
    x.iter().map(|x| project(&rms(x, &weights["model.norm.weight"], config), head, None)).collect()
}

fn block<'a>(
    (config, window): (&Config, usize),
    weight: &dyn Fn(&str) -> Option<&'a Vec<f64>>,
    x: &mut [Vec<f64>],
) {
    let get = |part: &str| weight(part).unwrap();
    let normed: Vec<_> = x.iter().map(|x| rms(x, get("input_layernorm.weight"), config)).collect();
    let heads = |name: &str, turned: bool| -> Vec<Vec<f64>> {
        let matrix = get(&format!("self_attn.{name}.weight"));
        let bias = weight(&format!("self_attn.{name}.bias"));
        let rows = normed.iter().enumerate().map(|(position, x)| {
            let mut row = project(x, matrix, bias);
            if let Some(norm) =
                weight(&format!("self_attn.{}.weight", name.replace("proj", "norm")))
            {
                row = row.chunks(config.head_dim).flat_map(|h| rms(h, norm, config)).collect();
            }
            if turned {
                row.chunks_mut(config.head_dim).for_each(|head| turn(head, position, config));
            }
            row
        });
        rows.collect()
    };
    let (q, k, v) = (heads("q_proj", true), heads("k_proj", true), heads("v_proj", false));
    for t in 0..x.len() {
        let mut mixed = Vec::new();
        for head in 0..config.heads {
            let seen = (t + 1).saturating_sub(window)..=t;
            mixed.extend(attend(config, (&q[t], head), &k[seen.clone()], &v[seen]));
        }
        add(&mut x[t], &project(&mixed, get("self_attn.o_proj.weight"), None));
    }
    for x in x {
        let normed = rms(x, get("post_attention_layernorm.weight"), config);
        let gate = project(&normed, get("mlp.gate_proj.weight"), None);
        let up = project(&normed, get("mlp.up_proj.weight"), None);
        let act: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        add(x, &project(&act, get("mlp.down_proj.weight"), None));
    }
}

fn attend(config: &Config, (q, head): (&[f64], usize), k: &[Vec<f64>], v: &[Vec<f64>]) -> Vec<f64> {
    let width = config.head_dim;
    let kv = head / (config.heads / config.kv_heads) * width;
    let q = &q[head * width..(head + 1) * width];
    let scores: Vec<f64> = k
        .iter()
        .map(|k| (0..width).map(|i| q[i] * k[kv + i]).sum::<f64>() / (width as f64).sqrt())
        .collect();
    let sum: f64 = scores.iter().map(|s| s.exp()).sum();
    let share = |s: &f64| s.exp() / sum;
    (0..width).map(|i| scores.iter().zip(v).map(|(s, v)| share(s) * v[kv + i]).sum()).collect()
}

/// The convention of transformers: entry `i` turns with entry `i + D / 2`.
fn turn(head: &mut [f64], position: usize, config: &Config) {
    let half = config.head_dim / 2;
    for i in 0..half {
        let frequency = config.rope_theta.powf(-2.0 * i as f64 / config.head_dim as f64);
        let frequency = stretched(frequency, config.rope_scaling);
        let (sin, cos) = (position as f64 * frequency).sin_cos();
        let (a, b) = (head[i], head[i + half]);
        head[i] = a * cos - b * sin;
        head[i + half] = b * cos + a * sin;
    }
}

/// As `modeling_rope_utils.py` of transformers has it, band by band.
fn stretched(frequency: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low, high, original } => {
            let wavelength = 2.0 * std::f64::consts::PI / frequency;
            if wavelength < original / high {
                frequency
            } else if wavelength > original / low {
                frequency / factor
            } else {
                let smooth = (original / wavelength - low) / (high - low);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        }
    }
}

fn rms(x: &[f64], weight: &[f64], config: &Config) -> Vec<f64> {
    let square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let inverse = 1.0 / (square + f64::from(config.rms_eps)).sqrt();
    x.iter().zip(weight).map(|(x, w)| x * inverse * w).collect()
}

fn project(x: &[f64], matrix: &[f64], bias: Option<&Vec<f64>>) -> Vec<f64> {
    let rows = matrix.chunks(x.len()).enumerate();
    rows.map(|(at, row)| {
        let sum: f64 = row.iter().zip(x).map(|(a, b)| a * b).sum();
        sum + bias.map_or(0.0, |bias| bias[at])
    })
    .collect()
}

fn add(x: &mut [f64], change: &[f64]) {
    x.iter_mut().zip(change).for_each(|(x, change)| *x += change);
}
