//! Time and memory of an update, beside the time that its operations take at the least.

use std::time::{Duration, Instant};

use clap::Args;
use patchrl_model::{Activations, Group, Lengths, LoraConfig, Model, product_rate, update_flops};
use patchrl_telemetry::usage;
use patchrl_train::{AdamW, AdamWConfig};
use serde::Serialize;

use super::{random, tokens};
use crate::exit::Exit;
use crate::printer::{self, Form};

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Sizes of the model: `smollm2-135m`, `smollm2-360m`, `small`.
    #[arg(long, default_value = "smollm2-135m")]
    model: String,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 512)]
    prompt: usize,
    /// Tokens of each answer.
    #[arg(long, default_value_t = 64)]
    answer: usize,
    /// Answers.
    #[arg(long, default_value_t = 8)]
    group: usize,
    /// Train an adapter of this rank in place of the weights.
    #[arg(long, default_value_t = 0)]
    rank: usize,
    /// Compute layers again in the backward pass.
    #[arg(long)]
    recompute: bool,
    /// Updates, of which the fastest counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How the cost grows with prompt, answer, group and model, one line each.
    #[arg(long)]
    table: bool,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// One measured update.
#[derive(Debug, Serialize)]
struct Measured {
    model: String,
    prompt: usize,
    answer: usize,
    group: usize,
    rank: usize,
    threads: usize,
    forward_s: f64,
    backward_s: f64,
    optimizer_s: f64,
    /// Of the three.
    total_s: f64,
    processor_s: f64,
    /// Of the forward and backward pass.
    useful_gflop: f64,
    useful_gflop_per_s: f64,
    /// f32 products of 1,024 rows and columns, both sides of the measurement.
    product_gflop_per_s: f64,
    /// The first rate's share of the second.
    share_of_product: f64,
    /// What the passes' operations take at the second rate.
    floor_s: f64,
    /// Of the process so far; a table's later lines have its largest.
    peak_bytes: u64,
    predicted_bytes: u64,
}

pub(crate) fn run(flags: &Update) -> anyhow::Result<Exit> {
    let mut measured = Vec::new();
    let mut loaded: Option<(String, Model)> = None;
    for (model, prompt, answer, group) in shapes(flags) {
        let mut network = match loaded.take() {
            Some((name, network)) if name == model => network,
            _ => adapted(random(&model)?, flags.rank)?,
        };
        measured.push(measure(flags, &mut network, (&model, prompt, answer, group))?);
        if flags.table {
            printer::say(&line(measured.last()));
        }
        loaded = Some((model, network));
    }
    printer::report(Form::of(flags.json), &measured, || {
        measured.iter().map(|m| line(Some(m)) + "\n").collect()
    })?;
    Ok(Exit::Success)
}

/// The shape asked for; with a table, each size changed on its own.
fn shapes(flags: &Update) -> Vec<(String, usize, usize, usize)> {
    let own = (flags.model.clone(), flags.prompt, flags.answer, flags.group);
    let mut shapes = vec![own.clone()];
    if flags.table {
        let (model, prompt, answer, group) = own;
        let with = |m: &str, p, a, g| (m.to_owned(), p, a, g);
        shapes.extend([prompt / 4, prompt * 2, prompt * 4].map(|p| with(&model, p, answer, group)));
        shapes.extend([answer / 4, answer * 2, answer * 4].map(|a| with(&model, prompt, a, group)));
        shapes.extend([1, group / 2, group * 2].map(|g| with(&model, prompt, answer, g)));
        let others = super::SIZES.iter().filter(|(name, _)| *name != model);
        shapes.extend(others.map(|(name, _)| with(name, prompt, answer, group)));
        shapes.retain(|(_, p, a, g)| p.min(a).min(g) > &0);
    }
    shapes
}

fn adapted(model: Model, rank: usize) -> anyhow::Result<Model> {
    if rank == 0 {
        return Ok(model);
    }
    Ok(model.with_adapter(LoraConfig { rank, ..LoraConfig::default() }, 1)?)
}

fn measure(
    flags: &Update,
    model: &mut Model,
    (name, prompt, answer, group): (&str, usize, usize, usize),
) -> anyhow::Result<Measured> {
    let vocab = model.config.vocab;
    let text = tokens(prompt, vocab, 1);
    let answers: Vec<Vec<u32>> =
        (0..group).map(|at| tokens(answer, vocab, 2 + at as u64)).collect();
    let asked = Group { prompt: &text, answers: answers.iter().map(Vec::as_slice).collect() };
    let activations = if flags.recompute { Activations::Recompute } else { Activations::Keep };
    let slopes = vec![vec![1e-3; answer]; group];
    let mut grads = model.params.zeros_like();
    let mut optimizer = AdamW::new(AdamWConfig::default(), grads.data().len());
    let mut best: Option<[f64; 4]> = None;
    let before = product_rate(1024, Duration::from_millis(500));
    for _ in 0..flags.rounds.max(1) {
        grads.data_mut().fill(0.0);
        let (used, start) = (usage::processor_seconds(), Instant::now());
        let forward = model.forward(&asked, 1.0, activations)?;
        let middle = Instant::now();
        forward.backward(&slopes, &mut grads)?;
        let passed = Instant::now();
        optimizer.step(model.params.data_mut(), grads.data(), &[], 1e-6)?;
        let times = [
            (middle - start).as_secs_f64(),
            (passed - middle).as_secs_f64(),
            passed.elapsed().as_secs_f64(),
            usage::processor_seconds() - used,
        ];
        let total = |t: &[f64; 4]| t[0] + t[1] + t[2];
        if best.as_ref().is_none_or(|best| total(&times) < total(best)) {
            best = Some(times);
        }
    }
    let product = before.max(product_rate(1024, Duration::from_millis(500)));
    let lengths = Lengths { prompt, answers: vec![answer; group] };
    let flops = update_flops(&model.config, &lengths);
    let [forward_s, backward_s, optimizer_s, processor_s] = best.unwrap_or_default();
    let rate = flops / (forward_s + backward_s);
    Ok(Measured {
        model: name.to_owned(),
        prompt,
        answer,
        group,
        rank: flags.rank,
        threads: rayon::current_num_threads(),
        forward_s,
        backward_s,
        optimizer_s,
        total_s: forward_s + backward_s + optimizer_s,
        processor_s,
        useful_gflop: flops / 1e9,
        useful_gflop_per_s: rate / 1e9,
        product_gflop_per_s: product / 1e9,
        share_of_product: rate / product,
        floor_s: flops / product,
        peak_bytes: usage::peak_memory(),
        // Beside the weights, gradients and two moments.
        predicted_bytes: model.weight_bytes()
            + 12 * grads.data().len() as u64
            + model.pass_bytes(&lengths, activations),
    })
}

fn line(measured: Option<&Measured>) -> String {
    let Some(m) = measured else { return String::new() };
    format!(
        "{:<12} {:>2} x ({:>4} + {:>3}): {:6.2} s ({:.2} forward, {:.2} backward, {:.2} optimizer; \
         {:.2} processor seconds), floor {:.2} s; {:.0} of {:.0} GFLOP/s ({:.0} %); {:.2} GB, {:.2} predicted",
        m.model,
        m.group,
        m.prompt,
        m.answer,
        m.total_s,
        m.forward_s,
        m.backward_s,
        m.optimizer_s,
        m.processor_s,
        m.floor_s,
        m.useful_gflop_per_s,
        m.product_gflop_per_s,
        100.0 * m.share_of_product,
        m.peak_bytes as f64 / 1e9,
        m.predicted_bytes as f64 / 1e9,
    )
}
