//! Agents through the front door: what they gather, learning from it, and GRPO on episodes.

use std::path::Path;
use std::time::{Duration, Instant};

use patchrl_rollout::{Harvested, Record};
use patchrl_telemetry::Event;
use serde_json::Value;

use crate::resume::{latest, told};
use crate::tiny::write_model;
use crate::{Said, finish, patchrl};

/// Short episodes of a model that knows nothing. They differ in their length, which is paid for.
const SETTINGS: &str = "\
model: ./model
train_limit: 4
agent: { turns: 3, tokens: 60, context_tokens: 4000, malformed: 9 }
sampling: { max_new_tokens: 24, temperature: 1.0 }
train:
  sft: { steps: 2, tasks_per_step: 1, lr: 1.0e-3, max_tokens: 4000 }
  grpo: { group_size: 3, tasks_per_step: 1, lr: 1.0e-3, mask_truncated: false, overlong_buffer: 60, overlong_penalty: 1.0, signal: reward, kl_coef: 0.02, sampler_weight: token-truncate }
  curriculum: [{ mode: tests, steps: 3 }]
  checkpoint_every: 1
";

fn rollout(dir: &Path, words: &[&str]) -> Said {
    finish(patchrl(dir).args(["rollout", "--config", "run.yaml", "--json"]).args(words))
}

fn lines(path: &Path) -> Vec<String> {
    fs_err::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn what_is_gathered_has_an_origin_goes_on_and_is_learnt_from() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    fs_err::write(dir.join("run.yaml"), SETTINGS.replace("turns: 3, tokens: 60", "turns: 3"))
        .unwrap();
    let gold = ["--policy", "gold", "--out", "gold.jsonl", "--trajectories", "turns.jsonl"];
    let said = rollout(dir, &[&gold[..], &["--limit", "3"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let counts: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(counts["counts"]["kept"], 3);
    let kept: Vec<Harvested> =
        lines(&dir.join("gold.jsonl")).iter().map(|l| serde_json::from_str(l).unwrap()).collect();
    let origin = &kept[0].provenance;
    assert_eq!((origin.outcome.as_str(), origin.reward), ("resolved", Some(1.0)));
    assert_eq!((origin.model.as_str(), origin.end.as_deref()), ("gold", Some("submitted")));
    assert!(origin.patch.as_ref().unwrap().starts_with("diff --git"));

    assert_eq!(rollout(dir, &gold).code, 2, "a file was written over");
    let said = rollout(dir, &[&gold[..], &["--limit", "5", "--resume"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(lines(&dir.join("gold.jsonl")).len(), 5);

    // What was recorded, played again, comes to the same.
    let said = rollout(dir, &["--policy", "scripted:turns.jsonl", "--out", "again.jsonl"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(lines(&dir.join("again.jsonl.tried")), lines(&dir.join("gold.jsonl.tried")));
    let nothing = ["--out", "none.jsonl", "--limit", "1", "--samples", "2"];
    let said = rollout(dir, &nothing);
    assert_eq!(said.code, 1, "noise resolved a task: {}", said.out);
    let said = rollout(dir, &["--out", "x.jsonl", "--policy", "teacher"]);
    assert!(said.code == 2 && said.err.contains("`teacher`"), "{}", said.err);

    let words = ["train", "sft", "--config", "run.yaml", "--chats", "gold.jsonl", "--run", "sft"];
    let said = finish(patchrl(dir).args(words));
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn grpo_on_episodes_masks_what_was_read_and_resumes_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    fs_err::write(dir.join("run.yaml"), SETTINGS).unwrap();
    let train = |run: &str| {
        let mut command = patchrl(dir);
        command.args(["train", "grpo", "--config", "run.yaml", "--run", run]);
        command
    };
    let said = finish(&mut train("whole"));
    assert_eq!(said.code, 0, "{}", said.err);
    let run = dir.join("runs/whole");
    let moved = told(&run).into_iter().filter_map(|event| match event {
        Event::StepEnded(step) => Some((step.grad_norm, step.ratio_mismatch_max, step.lost)),
        _ => None,
    });
    let moved: Vec<(f32, f32, u64)> = moved.collect();
    assert!(moved.iter().any(|it| it.0 > 0.0), "no group had a signal: {moved:?}");
    // The trainer reads the row as the sampler did, observations and all.
    assert!(moved.iter().all(|it| it.1 < 1e-3 && it.2 == 0), "{moved:?}");
    for line in lines(&run.join("rollouts/step-000003.jsonl")) {
        let record: Record = serde_json::from_str(&line).unwrap();
        assert!(!record.turns.is_empty() && record.end.is_some());
        let sampled: Vec<u32> = record
            .turns
            .iter()
            .flat_map(|turn| turn.tokens.iter().zip(&turn.mask).filter(|(_, m)| **m == 1))
            .map(|(token, _)| *token)
            .collect();
        assert_eq!(sampled, record.tokens);
    }

    let mut child = train("cut").spawn().unwrap();
    let started = Instant::now();
    while !dir.join("runs/cut/checkpoints/step-000003").exists() {
        assert!(started.elapsed() < Duration::from_mins(3), "no checkpoint in three minutes");
        assert!(child.try_wait().unwrap().is_none(), "it ended before its checkpoint");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let said = finish(train("cut").arg("--resume"));
    assert_eq!(said.code, 0, "{}", said.err);
    let cut = dir.join("runs/cut");
    assert_eq!(told(&cut), told(&run));
    for file in ["model.safetensors", "state/moments.bin"] {
        assert!(latest(&cut, file) == latest(&run, file), "{file} differs");
    }
}

#[test]
fn rounds_gather_learn_and_gather_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_model(&dir.join("model"));
    let shared: String = SETTINGS.lines().map(|line| format!("  {line}\n")).collect();
    let stages = format!(
        "rounds: 2\nshared:\n{shared}measure: {{ tasks: 1 }}\nstages:\n\
         - {{ kind: rollout, samples: 2, keep: all }}\n\
         - {{ kind: sft, settings: {{ chats: rollouts }} }}\n\
         - {{ kind: grpo, settings: {{ train: {{ sft: {{ steps: 0 }} }} }} }}\n"
    );
    fs_err::write(dir.join("stages.yaml"), stages).unwrap();
    let words = ["pipeline", "run", "stages.yaml", "--run", "rounds", "--json"];
    let said = finish(patchrl(dir).args(words));
    assert_eq!(said.code, 0, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let stages = report["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "rollout-1", "sft-1", "grpo-1", "rollout-2", "sft-2", "grpo-2"]);
    let kept = |at: usize| {
        let figures = stages[at]["figures"].as_array().unwrap();
        figures.iter().find(|f| f["name"] == "rollouts: kept").map(|f| f["of"].clone())
    };
    assert_eq!((kept(1), kept(2), kept(4)), (Some(8.into()), None, Some(8.into())));
    let run = dir.join("runs/rounds");
    let chats = |at: &str| lines(&run.join(at).join("chats.jsonl"));
    assert_eq!((chats("1-rollout-1").len(), chats("4-rollout-2").len()), (8, 8));
    let origin = |line: &String| -> Harvested { serde_json::from_str(line).unwrap() };
    let model = origin(&chats("4-rollout-2")[0]).provenance.model;
    assert!(model.ends_with("3-grpo-1/checkpoints/latest"), "{model}");
    assert!(run.join("6-grpo-2/checkpoints/latest/model.safetensors").is_file());
}
