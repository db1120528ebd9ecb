//! Tokens a second, and what copying ahead saves where answers copy their prompt.

use std::cell::Cell;
use std::time::Instant;

use clap::Args;
use patchrl_model::{Drafts, Model, Policy, Request, Sample, Sampling, generate, generate_with};
use patchrl_rollout::prompt;
use patchrl_telemetry::usage;
use serde::Serialize;

use super::{random, tokens};
use crate::commands::flags::Common;
use crate::console::Console;
use crate::exit::Exit;
use crate::printer::{self, Form};
use crate::session::{self, Session};
use crate::settings::{Environment, Settings};

/// Tasks that `--copies` asks for answers to.
const TASKS: usize = 8;

/// With `--copies`, model and tasks are those of a configuration; else the model is random.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    #[command(flatten)]
    common: Common,
    /// Draw answers to the first eight held-out tasks, with and without copying ahead.
    #[arg(long)]
    copies: bool,
    /// Sizes of the random model: `smollm2-135m`, `smollm2-360m`, `small`.
    #[arg(long, default_value = "smollm2-135m")]
    sizes: String,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 512)]
    prompt: usize,
    /// Tokens of each answer.
    #[arg(long, default_value_t = 64)]
    answer: usize,
    /// Answers drawn together.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 16])]
    groups: Vec<u64>,
}

/// One measured group.
#[derive(Debug, Serialize)]
struct Drawn {
    group: u64,
    prefill_s: f64,
    prefill_tokens_per_s: f64,
    prefill_tokens_per_processor_s: f64,
    decode_tokens_per_s: f64,
    decode_tokens_per_processor_s: f64,
}

/// One phase drawn with and without copying ahead: the better of two rounds each.
#[derive(Debug, Serialize)]
struct Copies {
    group: u64,
    tasks: usize,
    tokens: usize,
    plain_s: f64,
    copied_s: f64,
    times: f64,
    /// Tokens of each answer that one step of the copying sampler came to.
    tokens_per_step: f64,
}

pub(crate) fn run(flags: &Draw, environment: &Environment) -> anyhow::Result<Exit> {
    let form = Form::of(flags.common.json);
    if flags.copies {
        let settings = flags.common.settings()?;
        settings.check("flags".as_ref())?;
        let found = copies(flags, &settings, environment)?;
        return print(form, &found, |c| {
            format!(
                "{:>2} answers to {} tasks, {} tokens: {:.2} s, copying ahead {:.2} s: {:.2} times \
                 less; {:.2} tokens a step",
                c.group, c.tasks, c.tokens, c.plain_s, c.copied_s, c.times, c.tokens_per_step
            )
        });
    }
    let model = random(&flags.sizes)?;
    let drawn: Vec<Drawn> =
        flags.groups.iter().map(|&group| draw(flags, &model, group)).collect::<Result<_, _>>()?;
    print(form, &drawn, |d| {
        format!(
            "{:>2} x {} after {}: prefill {:.0} tokens/s ({:.0} a processor second), decode {:.0} \
             ({:.0})",
            d.group,
            flags.answer,
            flags.prompt,
            d.prefill_tokens_per_s,
            d.prefill_tokens_per_processor_s,
            d.decode_tokens_per_s,
            d.decode_tokens_per_processor_s
        )
    })
}

fn print<T: Serialize>(
    form: Form,
    rows: &[T],
    line: impl Fn(&T) -> String,
) -> anyhow::Result<Exit> {
    printer::report(form, &rows, || rows.iter().map(|row| line(row) + "\n").collect())?;
    Ok(Exit::Success)
}

fn draw(flags: &Draw, model: &Model, group: u64) -> anyhow::Result<Drawn> {
    let text = tokens(flags.prompt, model.config.vocab, 1);
    let how = Sampling {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        max_new_tokens: flags.answer,
        stop: Vec::new(),
    };
    let (start, before) = (Instant::now(), usage::processor_seconds());
    // When the first tokens came, and how many there were after them.
    let (first, rest) = (Cell::new(None), Cell::new(0));
    generate(model, &[Request::new(&text, 0..group)], &how, &mut |count| {
        if first.get().is_none() {
            first.set(Some((Instant::now(), usage::processor_seconds())));
        } else {
            rest.set(rest.get() + count);
        }
    })?;
    let (middle, used) = first.get().unwrap_or((start, before));
    let (prompt, rest) = (flags.prompt as f64, rest.get() as f64);
    let prefill_s = (middle - start).as_secs_f64();
    Ok(Drawn {
        group,
        prefill_s,
        prefill_tokens_per_s: prompt / prefill_s,
        prefill_tokens_per_processor_s: prompt / (used - before),
        decode_tokens_per_s: rest / middle.elapsed().as_secs_f64(),
        decode_tokens_per_processor_s: rest / (usage::processor_seconds() - used),
    })
}

fn copies(
    flags: &Draw,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<Vec<Copies>> {
    let mut console = Console::new();
    let session = Session::open(settings, environment)?;
    let policy = session::load_policy(&session.find_model(&mut console)?)?;
    let mut tasks = session.tasks(session::is_held_out)?;
    tasks.truncate(TASKS);
    let ready = session.prepare(&tasks, &mut console)?;
    let prompts = ready.iter().map(|ready| prompt(&policy, &settings.prompt, ready));
    let prompts: Vec<Vec<u32>> =
        prompts.map(|prompt| prompt.map(|p| p.tokens)).collect::<Result<_, _>>()?;
    let how = settings.sampling.resolve(policy.tokenizer.eos().to_vec());
    let of = |&group: &u64| compare(&policy, &prompts, &how, group);
    flags.groups.iter().map(of).collect()
}

/// Rounds take turns, so that a busy machine hurts both.
fn compare(
    policy: &Policy,
    prompts: &[Vec<u32>],
    how: &Sampling,
    group: u64,
) -> anyhow::Result<Copies> {
    let requests: Vec<Request<'_>> =
        prompts.iter().map(|prompt| Request::new(prompt, 0..group)).collect();
    let phase = |drafts| -> anyhow::Result<(Vec<Vec<Sample>>, f64, usize)> {
        let (start, mut steps) = (Instant::now(), 0);
        let mut samples = Vec::new();
        for request in requests.chunks(1) {
            samples
                .extend(generate_with(&policy.model, request, how, drafts, &mut |_| steps += 1)?);
        }
        Ok((samples, start.elapsed().as_secs_f64(), steps))
    };
    let (mut plain_s, mut copied_s) = (f64::INFINITY, f64::INFINITY);
    let (mut tokens, mut steps) = (0, [0, 0]);
    for _ in 0..2 {
        let plain = phase(Drafts::Fixed(0))?;
        let copied = phase(Drafts::Measured)?;
        anyhow::ensure!(plain.0 == copied.0, "copying ahead changed a sample");
        (plain_s, copied_s) = (plain_s.min(plain.1), copied_s.min(copied.1));
        tokens = plain.0.iter().flatten().map(|sample| sample.tokens.len()).sum();
        steps = [plain.2, copied.2];
    }
    Ok(Copies {
        group,
        tasks: prompts.len(),
        tokens,
        plain_s,
        copied_s,
        times: plain_s / copied_s,
        tokens_per_step: steps[0] as f64 / steps[1] as f64,
    })
}
