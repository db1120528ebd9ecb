//! A sampling phase whose answers copy their prompt, with and without copying ahead.
//!
//! `cargo run --release -p patchrl-model --example phase -- MODEL [GROUP] [TEMPERATURE] [TOKENS]`
//!
//! Each prompt shows the start of a source file of this crate twice and starts a third time, which
//! a small base model goes on to copy. Samples with and without copies must be equal to the last
//! bit. Rounds take turns, so that a busy machine hurts both. Prefill is part of the time.
#![expect(clippy::print_stdout, reason = "an example that prints its measurements")]

use std::path::Path;
use std::time::Instant;

use patchrl_model::{Drafts, Policy, Request, Sample, Sampling, generate_with};

const FILES: [&str; 2] =
    [include_str!("../src/memory.rs"), include_str!("../src/kernels/cpu/activation.rs")];

/// Lines of a file that are shown: 150 to 350 tokens.
const SHOWN: usize = 22;
/// Lines after which the answer goes on.
const GIVEN: usize = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(model) = arguments.first() else { return };
    let number = |at: usize, default: f32| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let Ok(policy) = Policy::load(Path::new(model)) else { return };
    let prompts = FILES.map(|file| {
        let lines = |count| file.lines().take(count).map(|line| format!("{line}\n"));
        let (shown, given): (String, String) = (lines(SHOWN).collect(), lines(GIVEN).collect());
        policy.tokenizer.encode(&format!("{shown}\n{shown}\n{given}"))
    });
    let how = Sampling {
        temperature: number(2, 0.7),
        top_p: 1.0,
        top_k: 0,
        max_new_tokens: number(3, 128.0) as usize,
        stop: policy.tokenizer.eos().to_vec(),
    };
    let group = number(1, 8.0) as u64;
    let requests: Vec<Request<'_>> =
        prompts.iter().map(|prompt| Request::new(prompt, 0..group)).collect();
    println!("{group} answers at a time");
    let mut best = [f64::INFINITY; 2];
    for _ in 0..2 {
        let plain = phase(&policy, &requests, &how, Drafts::Fixed(0));
        let copied = phase(&policy, &requests, &how, Drafts::Measured);
        assert!(plain.0 == copied.0, "copying ahead changed a sample");
        best = [best[0].min(plain.1), best[1].min(copied.1)];
    }
    let ratio = best[0] / best[1];
    println!("best of 2: {:.2} s and {:.2} s, {ratio:.2} times less", best[0], best[1]);
}

/// All samples, and the seconds that they took.
fn phase(
    policy: &Policy,
    requests: &[Request<'_>],
    how: &Sampling,
    drafts: Drafts,
) -> (Vec<Vec<Sample>>, f64) {
    let (start, before) = (Instant::now(), processor_seconds());
    let (mut steps, mut rows, mut tokens) = (0, 0, 0);
    let mut samples = Vec::new();
    for request in requests.chunks(1) {
        let done = generate_with(&policy.model, request, how, drafts, &mut |step| {
            steps += 1;
            rows += step.rows;
            tokens += step.tokens;
        });
        samples.extend(done.unwrap_or_default());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{drafts:?}: {tokens} tokens in {steps} steps of {rows} rows, {seconds:.2} s, {:.2} processor seconds",
        processor_seconds() - before
    );
    (samples, seconds)
}

/// User time of all threads, from clock ticks of 10 ms.
fn processor_seconds() -> f64 {
    let stat = fs_err::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let user = after_name.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<f64>().ok());
    user.unwrap_or(0.0) / 100.0
}
