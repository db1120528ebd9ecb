//! A run that is killed and resumed equals one that was not, bit for bit.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use patchrl_telemetry::{Event, read_journal, timeless};

use crate::tiny::write_model;
use crate::{finish, patchrl};

const STEPS: &str = "6";

fn train(dir: &Path, run: &str) -> Command {
    let mut command = patchrl(dir);
    command.args([
        "train",
        "grpo",
        "--config",
        "run.yaml",
        "--model",
        "./model",
        "--train-limit",
        "6",
        "--checkpoint-every",
        "2",
        "--run",
        run,
    ]);
    command
}

/// With `more` lines under `train:`.
fn config(dir: &Path, more: &str) {
    let text = format!(
        "prompt: {{ max_tokens: 900 }}\nsampling: {{ max_new_tokens: 24, temperature: 1.0 }}\n\
         train:\n  sft: {{ steps: {STEPS}, tasks_per_step: 2, lr: 1.0e-3 }}\n  \
         grpo: {{ group_size: 2, tasks_per_step: 1, lr: 1.0e-4, mask_truncated: false, \
         preset: verl-0.9, kl_coef: 0.02, updates_per_step: 2, silent_groups: drop, resample_attempts: 2 }}\n  \
         curriculum: [{{ mode: syntax, steps: 2 }}, {{ mode: tests, steps: 2 }}]\n{more}"
    );
    fs_err::write(dir.join("run.yaml"), text).unwrap();
}

/// Everything the run said about its numbers.
fn told(run: &Path) -> Vec<Event> {
    read_journal(&run.join("journal.jsonl"))
        .unwrap()
        .into_iter()
        .map(|record| timeless(&record.event))
        .filter(|event| {
            !matches!(event, Event::Resumed { .. } | Event::RunEnded { .. } | Event::RunStarted(_))
        })
        .collect()
}

fn latest(run: &Path, file: &str) -> Vec<u8> {
    fs_err::read(run.join("checkpoints/latest").join(file)).unwrap()
}

#[test]
fn a_killed_and_resumed_run_equals_an_uninterrupted_one() {
    // One after the other: what a kill left behind is looked for on the whole machine.
    equals_when_resumed("", &["model.safetensors", "state/moments.bin"]);
    equals_when_resumed(
        "  lora: { rank: 4, alpha: 8.0, targets: [q_proj, v_proj, down_proj] }\n",
        &["model.safetensors", "state/moments.bin", "adapter/adapter_model.safetensors"],
    );
}

/// `files` of the last checkpoint are compared byte by byte.
fn equals_when_resumed(more: &str, files: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    config(dir, more);
    let said = finish(&mut train(dir, "whole"));
    assert_eq!(said.code, 0, "{}", said.err);

    let mut child = train(dir, "cut").spawn().unwrap();
    let second = dir.join("runs/cut/checkpoints/step-000004");
    let started = Instant::now();
    while !second.exists() && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_mins(2), "no checkpoint in two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let said = finish(train(dir, "cut").arg("--resume"));
    assert_eq!(said.code, 0, "{}", said.err);
    let (whole, cut) = (dir.join("runs/whole"), dir.join("runs/cut"));
    assert_eq!(told(&cut), told(&whole));
    let resampled = |e: &Event| matches!(e, Event::StepEnded(step) if step.resampled > 0);
    assert!(told(&whole).iter().any(resampled), "no step drew other tasks");
    for file in files {
        assert!(latest(&cut, file) == latest(&whole, file), "{file} differs");
    }
    let said = finish(patchrl(dir).args(["sandbox", "reap", "--json"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let found: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    for kind in ["processes", "mounts", "cgroups", "dirs", "failed"] {
        assert_eq!(found[kind], serde_json::json!([]), "{kind} were left behind");
    }
}

#[test]
fn a_resume_under_other_settings_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    config(dir, "");
    let said = finish(&mut train(dir, "one"));
    assert_eq!(said.code, 0, "{}", said.err);
    let said = finish(train(dir, "one").args(["--resume", "--kl-coef", "0.5"]));
    assert_eq!(said.code, 2, "{}", said.err);
    let why = "`train.grpo.kl_coef` is 0.5, but the run `runs/one` began with 0.02";
    assert!(said.err.contains(why), "{}", said.err);
}
