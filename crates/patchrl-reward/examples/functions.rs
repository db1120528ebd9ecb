//! What training's judge says of MBPP's own solutions: what it refuses or fails, it would hold
//! against a model.
//!
//! `cargo run --release -p patchrl-reward --example functions -- mbpp.jsonl`
#![expect(clippy::print_stdout, reason = "an example reports on stdout")]

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use patchrl_reward::{Answer, Checker, Problem, Shaping};
use patchrl_sandbox::{Local, TierChoice, python};

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(code) = patchrl_sandbox::init_main() {
        std::process::exit(code);
    }
    let file = std::env::args().nth(1).ok_or("name a file of MBPP, unpacked")?;
    let text = fs_err::read_to_string(file)?;
    let problems: Vec<Problem> = text
        .lines()
        .map(|line| Ok(Problem::from_row(&serde_json::from_str(line)?)?))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let state = tempfile::tempdir()?;
    let sandbox = Local::start(TierChoice::Auto, state.path())?;
    let interpreter = python::find_interpreter(None)?;
    let checker = Checker {
        sandbox: &sandbox,
        empty: &state.path().join("empty"),
        interpreter: &interpreter,
        wall: Duration::from_secs(10),
        workers: 2,
        seed: 0,
    };
    let asked: Vec<_> =
        problems.iter().map(|it| (it, Answer { text: &it.solution, truncated: false })).collect();
    let started = Instant::now();
    let judged = checker.judge(&asked, Shaping::default());
    let mut counts = BTreeMap::<&str, usize>::new();
    for (problem, judgement) in problems.iter().zip(&judged) {
        let outcome = judgement.outcome.as_str();
        *counts.entry(outcome).or_default() += 1;
        if outcome != "resolved" {
            println!("{} {outcome}: {}", problem.id, judgement.outcome.why().unwrap_or_default());
        }
    }
    println!("{counts:?} in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}
