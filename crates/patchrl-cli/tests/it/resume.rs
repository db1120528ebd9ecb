//! A run that is killed and resumed equals one that was not, bit for bit.
//!
//! With `PATCHRL_EVERY_STEP` set, every step of the longer runs is a place to resume from.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use patchrl_telemetry::{Event, read_journal, timeless};

use crate::stages::write_material;
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
pub(crate) fn told(run: &Path) -> Vec<Event> {
    read_journal(&run.join("journal.jsonl"))
        .unwrap()
        .into_iter()
        .map(|record| timeless(&record.event))
        .filter(|event| {
            !matches!(event, Event::Resumed { .. } | Event::RunEnded { .. } | Event::RunStarted(_))
        })
        .collect()
}

pub(crate) fn latest(run: &Path, file: &str) -> Vec<u8> {
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

/// 20 steps over every kind of phase, three tasks at a time, with others in place of silent
/// groups. Answers of a model that knows nothing differ in their length, which is paid for.
const LONG: &str = "\
prompt: { max_tokens: 400 }
sampling: { max_new_tokens: 32, temperature: 1.0 }
train:
  sft: { steps: 4, tasks_per_step: 3, lr: 1.0e-3 }
  grpo: { group_size: 3, tasks_per_step: 3, lr: 1.0e-3, mask_truncated: false, kl_coef: 0.02, updates_per_step: 2, overlong_buffer: 32, overlong_penalty: 1.0, signal: reward, resample_attempts: 2 }
  curriculum: [{ mode: syntax, steps: 6 }, { mode: apply-only, steps: 4 }, { mode: tests, steps: 6 }]
  keep_checkpoints: 30
  checkpoint_every: 1
";

#[test]
fn a_resume_at_any_step_with_any_number_of_workers_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    fs_err::write(dir.join("run.yaml"), LONG).unwrap();
    let words = ["grpo", "--model", "./model", "--train-limit", "8"];
    let events = equals_when_resumed_at(dir, &words, 20, &[1, 4, 9, 17]);
    let resampled = |e: &Event| matches!(e, Event::StepEnded(s) if s.resampled > 0);
    let moved = |e: &Event| matches!(e, Event::StepEnded(s) if s.grad_norm > 0.0);
    let count = |what: &dyn Fn(&Event) -> bool| events.iter().filter(|e| what(e)).count();
    assert!(count(&resampled) >= 3, "{} steps drew other tasks", count(&resampled));
    assert!(count(&moved) >= 12, "{} steps moved the weights", count(&moved));
}

#[test]
fn the_stages_before_resume_to_the_same_bits_too() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_material(dir);
    let text = fs_err::read_to_string(dir.join("run.yaml")).unwrap();
    let text = text + "  keep_checkpoints: 30\n  checkpoint_every: 1\n";
    fs_err::write(dir.join("run.yaml"), text).unwrap();
    equals_when_resumed_at(dir, &["pretrain", "--from-scratch"], 6, &[3]);
    let base = dir.join("runs/whole-pretrain/checkpoints/latest").display().to_string();
    equals_when_resumed_at(dir, &["sft", "--chats", "chats.jsonl", "--model", &base], 4, &[2]);
    equals_when_resumed_at(dir, &["mbpp", "--model", &base], 3, &[1]);
}

/// Run to the end, then again from the checkpoint after each of `some` steps (or of all), with
/// one worker and with three by turns. Gives the events of the whole run.
fn equals_when_resumed_at(dir: &Path, words: &[&str], steps: u64, some: &[u64]) -> Vec<Event> {
    let name = format!("whole-{}", words[0]);
    let train = |run: &str| {
        let mut command = patchrl(dir);
        command.arg("train").args(words).args(["--config", "run.yaml", "--run", run]);
        command
    };
    let said = finish(&mut train(&name));
    assert_eq!(said.code, 0, "{}", said.err);
    let whole = dir.join("runs").join(&name);
    let all: Vec<u64> = (1..steps).collect();
    let every = std::env::var_os("PATCHRL_EVERY_STEP").is_some();
    for &step in if every { &all } else { some } {
        let run = format!("cut-{}-{step}", words[0]);
        let cut = dir.join("runs").join(&run);
        copy(&whole, &cut);
        // What a kill leaves: the journal and the rollouts may be ahead of the checkpoint.
        for later in step + 1..=steps {
            fs_err::remove_dir_all(cut.join(format!("checkpoints/step-{later:06}"))).unwrap();
        }
        fs_err::remove_file(cut.join("checkpoints/latest")).unwrap();
        let target = format!("step-{step:06}");
        fs_err::os::unix::fs::symlink(target, cut.join("checkpoints/latest")).unwrap();
        let mut command = train(&run);
        command.arg("--resume");
        if matches!(words[0], "grpo" | "mbpp") {
            command.args(["--docker-workers", if step % 2 == 0 { "1" } else { "3" }]);
        }
        let said = finish(&mut command);
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(told(&cut), told(&whole), "{} after step {step}", words[0]);
        for file in ["model.safetensors", "state/moments.bin"] {
            assert!(latest(&cut, file) == latest(&whole, file), "{file} after step {step}");
        }
    }
    told(&whole)
}

fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (to.join(entry.file_name()), entry.file_type().unwrap());
        if kind.is_symlink() {
            fs_err::os::unix::fs::symlink(fs_err::read_link(entry.path()).unwrap(), path).unwrap();
        } else if kind.is_dir() {
            copy(&entry.path(), &path);
        } else {
            fs_err::copy(entry.path(), path).unwrap();
        }
    }
}
