//! Times one update and sampling on random weights of a SmolLM2-135M shape.
//!
//! `cargo run --release -p patchrl-model --example step -- [update|sample] [PROMPT] [ANSWER] [GROUP] [RANK]`
//!
//! With a RANK, an adapter on all seven matrices is trained in place of the weights.
//!
//! Useful FLOPs are counted as in `performance.md`: the prompt once, the head on
//! answer tokens only, attention's backward pass as 2.5 forwards.
#![expect(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::time::Instant;

use patchrl_model::{
    Config, Family, Group, LoraConfig, Model, Params, Request, RopeScaling, Sampling, generate,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (prompt, answer, group) = (number(1, 512), number(2, 64), number(3, 8));
    let mut model = random(smollm2());
    let lora = LoraConfig { rank: number(4, 0), ..LoraConfig::default() };
    if lora.rank > 0
        && let Ok(adapted) = model.clone().with_adapter(lora, 1)
    {
        model = adapted;
    }
    println!("{} threads, {} parameters", rayon::current_num_threads(), model.params.data().len());
    match arguments.first().map(String::as_str) {
        Some("update") => update(&model, prompt, answer, group),
        Some("sample") => sample(&model, prompt, answer, group),
        _ => {
            update(&model, prompt, answer, group);
            sample(&model, prompt, answer, group);
        }
    }
    println!("peak {:.2} GB", peak_gigabytes());
}

fn update(model: &Model, prompt: usize, answer: usize, group: usize) {
    let text = tokens(prompt, model.config.vocab, 1);
    let answers: Vec<Vec<u32>> =
        (0..group).map(|at| tokens(answer, model.config.vocab, 2 + at as u64)).collect();
    let asked = Group { prompt: &text, answers: answers.iter().map(Vec::as_slice).collect() };
    let mut grads = model.params.zeros_like();
    let flops = flops(&model.config, prompt, answer, group);
    for _ in 0..3 {
        let before = processor_seconds();
        let start = Instant::now();
        let (Ok(forward), middle) = (model.forward(&asked, 1.0), Instant::now()) else { return };
        let weight = |row: &Vec<f32>| vec![1.0 / row.len() as f32; row.len()];
        let dlogp: Vec<Vec<f32>> = forward.log_probs().iter().map(weight).collect();
        if forward.backward(&dlogp, &mut grads).is_err() {
            return;
        }
        let seconds = start.elapsed().as_secs_f64();
        let used = processor_seconds() - before;
        println!(
            "update {group} x ({prompt} + {answer}): {seconds:.2} s (forward {:.2}), {:.0} GFLOP, {:.0} GF/s; \
             {used:.2} processor seconds, {:.0} GF each",
            (middle - start).as_secs_f64(),
            flops / 1e9,
            flops / 1e9 / seconds,
            flops / 1e9 / used,
        );
    }
}

fn sample(model: &Model, prompt: usize, answer: usize, group: usize) {
    let text = tokens(prompt, model.config.vocab, 1);
    let mut sizes = vec![1, 8, 32, group];
    sizes.dedup();
    for group in sizes {
        let how = Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_new_tokens: answer,
            stop: Vec::new(),
        };
        let request = Request::new(&text, 0..group as u64);
        let before = processor_seconds();
        let (start, mut first, mut drawn) = (Instant::now(), None, 0);
        let done = generate(model, &[request], &how, &mut |count| {
            first.get_or_insert_with(|| (start.elapsed().as_secs_f64(), processor_seconds()));
            drawn += count;
        });
        let (Ok(_), Some((prefill, middle))) = (done, first) else { return };
        let seconds = start.elapsed().as_secs_f64() - prefill;
        println!(
            "sample {group} x {answer} after {prompt}: prefill {prefill:.2} s ({:.0} tokens/s), \
             decode {:.0} tokens/s ({:.1} ms a step); per processor second {:.0} and {:.0} tokens",
            prompt as f64 / prefill,
            (drawn - group) as f64 / seconds,
            seconds * 1e3 / (answer - 1) as f64,
            prompt as f64 / (middle - before),
            (drawn - group) as f64 / (processor_seconds() - middle),
        );
    }
}

/// Multiply-adds count as 2.
fn flops(config: &Config, prompt: usize, answer: usize, group: usize) -> f64 {
    let (p, r, g) = (prompt as f64, answer as f64 - 1.0, group as f64);
    let hidden = config.hidden as f64;
    let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let per_layer = hidden * (2 * q + 2 * kv + 3 * config.ffn) as f64;
    let layers = config.layers as f64;
    let linear = 2.0 * layers * per_layer * (p + g * r);
    let pairs = p * p / 2.0 + g * (p * r + r * r / 2.0);
    let attention = 4.0 * layers * q as f64 * pairs;
    let head = 2.0 * hidden * config.vocab as f64 * (1.0 + g * r);
    3.0 * (linear + head) + 3.5 * attention
}

fn smollm2() -> Config {
    Config {
        layers: 30,
        hidden: 576,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        ffn: 1536,
        vocab: 49_152,
        rope_theta: 100_000.0,
        rope_scaling: RopeScaling::None,
        rms_eps: 1e-5,
        tied: true,
        family: Family::Llama,
        window: None,
        max_positions: 8192,
        bos: None,
        eos: Vec::new(),
        pad: None,
    }
}

fn random(config: Config) -> Model {
    let mut params = Params::zeros(&config);
    let mut state = 1_u64;
    for x in params.data_mut() {
        *x = 0.1 * uniform(&mut state);
    }
    let names: Vec<String> = params.tensors().map(|(name, ..)| name.to_owned()).collect();
    for name in names.iter().filter(|name| name.contains("norm")) {
        if let Some(weight) = params.tensor_mut(name) {
            weight.fill(1.0);
        }
    }
    Model::new(config, params)
}

fn tokens(count: usize, vocab: usize, mut seed: u64) -> Vec<u32> {
    (0..count).map(|_| ((uniform(&mut seed) + 0.5) * vocab as f32) as u32).collect()
}

/// In [-0.5, 0.5).
fn uniform(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
}

/// User time of all threads, from clock ticks of 10 ms.
fn processor_seconds() -> f64 {
    let stat = fs_err::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let user = after_name.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<f64>().ok());
    user.unwrap_or(0.0) / 100.0
}

fn peak_gigabytes() -> f64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1e6
}
