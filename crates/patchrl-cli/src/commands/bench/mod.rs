//! `patchrl bench`: the figures that patchrl is chosen for, measured on this machine.
//!
//! Each part prints what it measured and against what: a floor, or the program that does the
//! same on this machine. What other trainers take is not measured here.

mod sample;
mod sandbox;
mod text;
mod update;

use std::time::{Duration, Instant};

use clap::Subcommand;
use patchrl_model::{Model, Scratch};

use crate::exit::{Exit, usage};
use crate::settings::Environment;

/// `patchrl bench ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// A GRPO update: log-probabilities, gradients, optimizer.
    Update(update::Update),
    /// Drawing answers.
    Sample(sample::Draw),
    /// The paper's reward: difflib's ratio of two texts.
    Similarity(text::Similarity),
    /// The apply gate, beside a `git apply` process.
    Apply(text::Apply),
    /// What the local sandbox adds to an evaluation.
    Sandbox(sandbox::Overhead),
}

pub(crate) fn run(command: &Bench, environment: &Environment) -> anyhow::Result<Exit> {
    match command {
        Bench::Update(flags) => update::run(flags),
        Bench::Sample(flags) => sample::run(flags, environment),
        Bench::Similarity(flags) => text::similarity(flags),
        Bench::Apply(flags) => text::apply(flags, environment),
        Bench::Sandbox(flags) => sandbox::run(flags, environment),
    }
}

/// Sizes of known models, for weights that nobody trained: they take the same time.
const SIZES: &[(&str, [usize; 6])] = &[
    ("smollm2-135m", [30, 576, 9, 3, 1536, 49_152]),
    ("smollm2-360m", [32, 960, 15, 5, 2560, 49_152]),
    ("small", [6, 256, 4, 2, 704, 4096]),
];

/// A model of random weights by the name of its sizes.
fn random(name: &str) -> anyhow::Result<Model> {
    let Some(&(_, [layers, hidden, heads, kv_heads, ffn, vocab])) =
        SIZES.iter().find(|(known, _)| *known == name)
    else {
        let known: Vec<&str> = SIZES.iter().map(|(name, _)| *name).collect();
        return Err(usage(
            format!("no sizes are known for `{name}`"),
            format!("take one of {}", known.join(", ")),
        ));
    };
    let sizes = Scratch { layers, hidden, heads, kv_heads, ffn, vocab, max_positions: 8192 };
    Ok(Model::from_scratch(&sizes, 1)?)
}

/// Tokens that are always the same, spread over the vocabulary.
fn tokens(count: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocab as u64) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// The least time of several runs, for at least a fifth of a second.
fn fastest<T>(mut run: impl FnMut() -> T) -> Duration {
    let begun = Instant::now();
    let mut best = Duration::MAX;
    while best == Duration::MAX || begun.elapsed() < Duration::from_millis(200) {
        let start = Instant::now();
        std::hint::black_box(run());
        best = best.min(start.elapsed());
    }
    best
}
