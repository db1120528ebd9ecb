//! Validate tasks on this machine: `validate TASKS IDS REPOS CACHE [RUNS]`.
//!
//! TASKS is a comma-separated list of task files, or `toy` for the shipped set
//! (IDS and REPOS are not read then), IDS a file with one instance
//! id a line (`#` starts a comment), REPOS a folder of clones, CACHE a folder
//! for trees and environments. Prints one line per task; exit code 1 if one is
//! not valid.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use patchrl_reward::{Judge, Preparer, Settings, validate};
use patchrl_sandbox::{Limits, Local, TierChoice};
use patchrl_task::Task;

fn main() -> ExitCode {
    if let Some(code) = patchrl_sandbox::init_main() {
        return ExitCode::from(code as u8);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [tasks, ids, repos, cache, rest @ ..] = args.as_slice() else {
        eprintln!("usage: validate TASKS IDS REPOS CACHE [RUNS]");
        return ExitCode::from(2);
    };
    let runs = rest.first().and_then(|n| n.parse().ok()).unwrap_or(1);
    let cache = Path::new(cache);
    let preparer = Preparer::new(Some(PathBuf::from(repos)), cache);
    match run(&chosen(tasks, ids), &preparer, cache, runs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(3)
        }
    }
}

fn chosen(files: &str, ids: &str) -> Vec<Task> {
    if files == "toy" {
        return patchrl_task::toy::tasks();
    }
    let text = fs_err::read_to_string(ids).unwrap_or_default();
    let ids: Vec<&str> = text
        .lines()
        .map(|l| l.split('#').next().unwrap_or(l).trim())
        .filter(|l| !l.is_empty())
        .collect();
    let mut tasks = Vec::new();
    for file in files.split(',') {
        match patchrl_task::load(Path::new(file)) {
            Ok(all) => tasks.extend(all.into_iter().filter(|t| ids.contains(&t.id.as_str()))),
            Err(e) => eprintln!("{file}: {e}"),
        }
    }
    tasks.sort_by(|a, b| a.id.cmp(&b.id));
    tasks.dedup_by(|a, b| a.id == b.id);
    tasks
}

fn run(
    tasks: &[Task],
    preparer: &Preparer,
    cache: &Path,
    runs: u32,
) -> Result<bool, Box<dyn std::error::Error>> {
    let sandbox = Local::start(TierChoice::Auto, &cache.join("sandbox"))?;
    println!("sandbox: {}; {} tasks", sandbox.tier(), tasks.len());
    let settings = Settings {
        limits: Limits { wall: Duration::from_mins(30), ..Limits::default() },
        ..Settings::default()
    };
    let judge = Judge::new(Arc::new(sandbox), settings);
    let mut all = true;
    for task in tasks {
        let start = Instant::now();
        let ready = match preparer.prepare(task) {
            Ok(ready) => ready,
            Err(e) => {
                println!("{:<40} not ready: {e}", task.id.as_str());
                all = false;
                continue;
            }
        };
        let prepared = start.elapsed().as_secs_f64();
        let seen = validate(&judge, &ready, runs);
        let (before, gold) = (&seen.before, &seen.gold);
        println!(
            "{:<40} {} prepare {prepared:.1} s, empty {:?} f2p {}/{} p2p {}/{} in {:.1} s ({}), gold {:?} f2p {}/{} p2p {}/{} in {:.1} s {}",
            task.id.as_str(),
            if seen.valid { "valid" } else { "INVALID" },
            seen.empty_reward,
            before.parts.f2p_passed,
            before.parts.f2p_total,
            before.parts.p2p_passed,
            before.parts.p2p_total,
            before.evidence.seconds,
            before.evidence.ending.as_deref().unwrap_or("?"),
            gold.reward,
            gold.parts.f2p_passed,
            gold.parts.f2p_total,
            gold.parts.p2p_passed,
            gold.parts.p2p_total,
            gold.evidence.seconds,
            seen.problems.join("; "),
        );
        if !seen.valid {
            all = false;
            println!("{}", gold.evidence.disagreements.join("\n"));
            println!("{}", gold.evidence.failures.join("\n"));
            println!("{}", gold.evidence.test_log.as_deref().unwrap_or_default());
        }
    }
    Ok(all)
}
