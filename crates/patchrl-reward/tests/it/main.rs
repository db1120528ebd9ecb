//! Judging with real repositories, real interpreters and the real sandbox.
//!
//! Has a `main` of its own because the sandbox starts this binary again as its
//! init process. Takes the arguments `NAME` (part of a test's name) and `--list`.
#![expect(clippy::print_stdout, reason = "a test program reports on stdout")]
#![expect(clippy::unwrap_used, reason = "these are tests, without `#[test]`")]

mod chain;
mod exploits;
mod functions;
mod holes;
mod judging;
mod presets;
mod repository;
mod starts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use patchrl_sandbox::{Local, TierChoice};

type Test = (&'static str, fn(&Arc<Local>));

const TESTS: [Test; 23] = [
    ("rewards_follow_the_tests", judging::rewards_follow_the_tests),
    ("cheaper_modes_stop_at_their_gate", judging::cheaper_modes_stop_at_their_gate),
    ("a_group_tests_each_tree_once", judging::a_group_tests_each_tree_once),
    ("cheating_earns_nothing", judging::cheating_earns_nothing),
    ("an_endless_test_is_a_time_out", judging::an_endless_test_is_a_time_out),
    ("the_test_patch_goes_on_top", judging::the_test_patch_goes_on_top),
    ("a_task_is_validated", judging::a_task_is_validated),
    ("what_is_missing_is_named", judging::what_is_missing_is_named_with_a_way_out),
    ("local_instances_have_ids", judging::local_instances_have_ids),
    ("chains_take_the_first", chain::chains_take_the_first_command_that_works),
    ("chains_end_as_recorded", chain::chains_end_as_recorded),
    ("no_exploit_of_unittest_pays", exploits::no_exploit_of_unittest_pays),
    ("no_exploit_of_pytest_pays", exploits::no_exploit_of_pytest_pays),
    ("each_stage_has_its_worth", functions::each_stage_has_its_worth),
    ("fooling_the_run_earns_nothing", functions::fooling_the_run_earns_nothing),
    ("the_harness_s_holes_are_shut", holes::the_harness_s_holes_are_shut),
    ("each_preset_gives_its_number", presets::each_preset_gives_its_number),
    ("components_add_up", presets::components_add_up),
    ("a_broken_command_loses_the_answer", presets::a_broken_command_loses_the_answer),
    ("a_broken_oracle_loses_the_answer", presets::a_broken_oracle_loses_the_answer),
    ("the_guard_has_policies", presets::the_guard_has_policies),
    ("a_bug_is_planted", starts::a_bug_is_planted_and_the_answer_takes_it_out),
    ("files_of_a_row_are_its_tree", starts::files_of_a_row_are_its_tree),
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
    let state = tempfile::tempdir().expect("a temporary folder");
    let sandbox = match Local::start(TierChoice::Auto, state.path()) {
        Ok(sandbox) => Arc::new(sandbox),
        Err(e) => {
            println!("skipped: no sandbox here: {e}");
            return ExitCode::SUCCESS;
        }
    };
    if patchrl_sandbox::python::find_interpreter(None).is_err() {
        println!("skipped: no python3 here");
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let start = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| test(&sandbox)));
        let word = if ended.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.1} s)", start.elapsed().as_secs_f64());
        failed += u32::from(ended.is_err());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
