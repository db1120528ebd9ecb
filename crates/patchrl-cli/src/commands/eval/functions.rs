//! `patchrl eval mbpp` and `eval humaneval`: samples of functions, run in the sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use patchrl_eval::pass_at_k;
use patchrl_reward::{Checker, Problem};
use patchrl_train::Listener as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::problems;
use crate::session;
use crate::settings::{Environment, SandboxChoice};

#[derive(Debug, Args)]
pub(crate) struct Functions {
    /// The benchmark's rows as published: `HumanEval`, MBPP or sanitized MBPP; `.jsonl` or
    /// `.json`, also `.gz`.
    #[arg(value_name = "PROBLEMS")]
    problems: PathBuf,
    /// JSON lines `{"task_id", "completion"}`, several for a problem or none; `canonical` runs
    /// the benchmark's own solutions.
    #[arg(long, value_name = "FILE")]
    samples: PathBuf,
    /// Seconds a sample may take.
    #[arg(long, default_value_t = 10)]
    timeout: u64,
    /// Samples at the same time.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Where they run.
    #[arg(long, value_enum, default_value = "local")]
    sandbox: SandboxChoice,
    /// Write what became of each sample here, as JSON lines.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Sample {
    task_id: Value,
    completion: String,
}

pub(super) fn run(flags: &Functions, environment: &Environment) -> anyhow::Result<Exit> {
    let problems = problems::read(&flags.problems)?;
    let samples = samples(&flags.samples, &problems)?;
    let sandbox = session::open_sandbox(flags.sandbox, environment)?;
    let interpreter = patchrl_sandbox::python::find_interpreter(None)?;
    let empty = environment.state.join("empty");
    let checker = Checker {
        sandbox: &sandbox,
        empty: &empty,
        interpreter: &interpreter,
        wall: Duration::from_secs(flags.timeout),
        workers: flags.workers,
        seed: u64::from(std::process::id()),
    };
    let console = Mutex::new(Console::new());
    let total = samples.len() as u64;
    let checked = checker.run(&samples, &|done| {
        if let Ok(mut console) = console.lock() {
            console.progress("running samples", done, total);
        }
    });
    if let Ok(mut console) = console.lock() {
        console.clear();
    }
    if let Some(out) = &flags.out {
        let lines: Vec<String> =
            checked.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        fs_err::write(out, lines.join("\n") + "\n")?;
    }
    let mut counts = BTreeMap::<&str, (u64, u64)>::new();
    for it in checked.iter().filter(|it| it.passed.is_some()) {
        let (n, right) = counts.entry(&it.task_id).or_default();
        *n += 1;
        *right += u64::from(it.passed == Some(true));
    }
    let lost = checked.iter().filter(|it| it.passed.is_none()).count();
    let fewest = counts.values().map(|(n, _)| *n).min().unwrap_or(0);
    let mean = |k: u64| {
        let all: Option<f64> = counts.values().map(|(n, c)| pass_at_k(*n, *c, k)).sum();
        all.map(|sum| (k, sum / counts.len() as f64))
    };
    let pass: BTreeMap<u64, f64> = [1, 10, 100, fewest]
        .into_iter()
        .filter(|k| (1..=fewest).contains(k))
        .filter_map(mean)
        .collect();
    let value = json!({
        "problems": problems.len(), "answered": counts.len(), "samples": checked.len(),
        "lost": lost, "pass_at": pass,
    });
    printer::report(Form::of(flags.json), &value, || {
        let shares: String =
            pass.iter().map(|(k, share)| format!(", pass@{k} {:.1} %", 100.0 * share)).collect();
        format!(
            "{} samples of {} of {} problems{shares}; {lost} lost",
            checked.len(),
            counts.len(),
            problems.len()
        )
    })?;
    Ok(if lost > 0 { Exit::Internal } else { Exit::Success })
}

fn samples<'p>(path: &Path, problems: &'p [Problem]) -> anyhow::Result<Vec<(&'p Problem, String)>> {
    if path == Path::new("canonical") {
        return Ok(problems.iter().map(|it| (it, it.solution.clone())).collect());
    }
    let bad = |why: String| {
        let hint = "each line is {\"task_id\": ..., \"completion\": ...}";
        usage(format!("`{}`: {why}", path.display()), hint)
    };
    let known: BTreeMap<&str, &Problem> = problems.iter().map(|it| (it.id.as_str(), it)).collect();
    let text = fs_err::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    let mut samples = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let sample: Sample =
            serde_json::from_str(line).map_err(|e| bad(format!("line {}: {e}", at + 1)))?;
        let id = match &sample.task_id {
            Value::String(id) => id.clone(),
            other => other.to_string(),
        };
        let problem = known
            .get(id.as_str())
            .ok_or_else(|| bad(format!("line {}: there is no problem `{id}`", at + 1)))?;
        samples.push((*problem, sample.completion));
    }
    Ok(samples)
}
