//! Agents on the shipped tasks, with real files, real tests and the real sandbox.
//!
//! Has a `main` of its own because the sandbox starts this binary again as its
//! init process. Takes the arguments `NAME` (part of a test's name) and `--list`.
#![expect(clippy::print_stdout, reason = "a test program reports on stdout")]
#![expect(clippy::unwrap_used, reason = "these are tests, without `#[test]`")]

mod agents;
mod bench;
mod embedded;
mod hostile;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use bench::Bench;
use patchrl_sandbox::TierChoice;

type Test = (&'static str, fn(&Bench));

const TESTS: [Test; 9] = [
    ("every_tool_solves_a_task", agents::every_tool_solves_a_task_and_it_replays),
    ("every_tier_shows_the_same", agents::every_tier_shows_the_same),
    ("native_calls_do_the_same", agents::native_calls_do_the_same),
    ("the_gym_pays_at_the_end", agents::the_gym_pays_at_the_end),
    ("nothing_follows_a_failure", agents::nothing_follows_a_call_that_failed),
    ("ends_are_told_apart", agents::ends_are_told_apart),
    ("hostile_actions_end_as_data", hostile::hostile_actions_end_as_data),
    ("the_judge_is_not_fooled", hostile::the_judge_is_not_fooled),
    ("weights_play_in_one_batch", embedded::weights_play_in_one_batch),
];

fn main() -> ExitCode {
    if let Some(code) = patchrl_sandbox::init_main() {
        return ExitCode::from(code as u8);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        let shown = !args.iter().any(|arg| arg == "--ignored");
        TESTS.iter().filter(|_| shown).for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let bench = match Bench::start(TierChoice::Auto) {
        Ok(bench) => bench,
        Err(why) => {
            println!("skipped: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let mut failed = 0;
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let start = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| test(&bench)));
        let word = if ended.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.1} s)", start.elapsed().as_secs_f64());
        failed += u32::from(ended.is_err());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
