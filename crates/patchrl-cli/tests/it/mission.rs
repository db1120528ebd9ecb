//! The short form of a configuration, small: it trains.

use patchrl_telemetry::{Event, read_journal};

use crate::tiny::write_model;
use crate::{finish, patchrl};

#[test]
fn the_mission_s_form_trains_a_step() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    let mission = include_str!("../../../../configs/mission.yaml")
        .replace("base_model: Qwen2.5-Coder-32B", "base_model: ./model")
        .replace("task_set: SWE-bench-verified-train", "task_set: toy")
        .replace("num_candidates: 16", "num_candidates: 2")
        .replace("batch_size: 32", "batch_size: 1")
        .replace("total_steps: 10000", "total_steps: 1");
    let ours = "prompt: { max_tokens: 900 }\nsampling: { max_new_tokens: 8 }\n";
    fs_err::write(dir.join("run.yaml"), mission + ours).unwrap();
    let train = ["train", "grpo", "--config", "run.yaml", "--train-limit", "1", "--run", "one"];
    let said = finish(patchrl(dir).args(train));
    assert_eq!(said.code, 0, "{}", said.err);
    let journal = read_journal(&dir.join("runs/one/journal.jsonl")).unwrap();
    let step = journal.iter().find_map(|record| match &record.event {
        Event::StepEnded(step) => Some(step.clone()),
        _ => None,
    });
    let step = step.expect("a step");
    // Two answers of rubbish: each earns the lowest sum that a patch can come to.
    assert_eq!((step.phase.as_str(), step.samples, step.reward_mean), ("rule_based", 2, -0.1));
}

#[test]
fn a_task_set_that_is_not_there_is_named_when_the_run_starts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    let text = "base_model: ./model\nenv: { task_set: SWE-bench-verified-train }\ntotal_steps: 1\n";
    fs_err::write(dir.join("run.yaml"), text).unwrap();
    let said = finish(patchrl(dir).args(["config", "check", "run.yaml"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let said = finish(patchrl(dir).args(["train", "grpo", "--config", "run.yaml"]));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("there is no task set `SWE-bench-verified-train`"), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
}
