//! Every stage of training on a model of a few thousand parameters, alone and in a chain.

use std::path::Path;

use patchrl_telemetry::{Event, read_journal};
use serde_json::{Value, json};

use crate::{Said, finish, patchrl};

/// Text, chats, problems and a configuration for all of them.
pub(crate) fn write_material(dir: &Path) {
    let text = dir.join("text");
    fs_err::create_dir_all(&text).unwrap();
    for n in 0..30 {
        let code = format!("def add_{n}(a, b):\n    return a + b + {n}\n\n\n").repeat(2);
        fs_err::write(text.join(format!("f{n}.py")), code).unwrap();
    }
    fs_err::write(text.join("image.py"), b"\x89PNG\0\xff").unwrap();
    let turn = |role: &str, content: &str| json!({ "role": role, "content": content });
    let chats: String = (0..12)
        .map(|n| {
            let chat =
                [turn("user", &format!("Add {n}.")), turn("assistant", "def f(x): return x")];
            format!("{}\n", json!({ "messages": chat }))
        })
        .collect();
    fs_err::write(dir.join("chats.jsonl"), chats).unwrap();
    let problems: String = [11, 12, 601, 602, 603]
        .map(|id| {
            let row = json!({
                "task_id": id, "text": format!("Write f that adds {id}."), "test_setup_code": "",
                "code": format!("def f(x):\r\n    return x + {id}"),
                "test_list": [format!("assert f(1) == {}", id + 1)],
            });
            format!("{row}\n")
        })
        .concat();
    fs_err::write(dir.join("mbpp.jsonl"), problems).unwrap();
    fs_err::write(dir.join("run.yaml"), SETTINGS).unwrap();
}

/// A reward for every length, so that the groups of a model that knows nothing differ.
const SETTINGS: &str = "\
from_scratch: { vocab: 300, hidden: 16, layers: 2, heads: 2, kv_heads: 1, ffn: 24, max_positions: 2048 }
text: { paths: [text] }
mbpp: { file: mbpp.jsonl }
prompt: { max_tokens: 900 }
sampling: { max_new_tokens: 24, temperature: 1.0 }
train:
  pretrain: { steps: 6, rows_per_step: 4, row_tokens: 32, warmup_steps: 2, cooldown_steps: 2, lr: 1.0e-2 }
  sft: { steps: 4, tasks_per_step: 3, lr: 1.0e-3 }
  mbpp: { steps: 3, shaping: { compiles: 0.1, runs: 0.1 } }
  validation: { share: 0.1, every: 2 }
  grpo: { group_size: 4, tasks_per_step: 2, lr: 1.0e-3, mask_truncated: false, overlong_buffer: 24, overlong_penalty: 1.0, resample_attempts: 1 }
  curriculum: [{ mode: syntax, steps: 2 }]
";

fn train(dir: &Path, words: &[&str]) -> Said {
    let said = finish(patchrl(dir).arg("train").args(words).args(["--config", "run.yaml"]));
    assert_eq!(said.code, 0, "{words:?}: {}", said.err);
    said
}

fn events(dir: &Path, run: &str) -> Vec<Event> {
    let journal = read_journal(&dir.join("runs").join(run).join("journal.jsonl")).unwrap();
    journal.into_iter().map(|record| record.event).collect()
}

/// The losses on what is held out, with their steps.
fn held_out(dir: &Path, run: &str) -> Vec<(u64, f32)> {
    let loss = |event| match event {
        Event::Validated(it) => Some((it.step, it.loss)),
        _ => None,
    };
    events(dir, run).into_iter().filter_map(loss).collect()
}

#[test]
fn each_stage_begins_with_any_other_s_model() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_material(dir);
    let said = train(dir, &["pretrain", "--from-scratch", "--run", "one"]);
    assert!(said.err.contains("30 files") && said.err.contains("1 binary"), "{}", said.err);
    let losses = held_out(dir, "one");
    assert_eq!(losses.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 2, 4, 6]);
    assert!(losses[3].1 < losses[0].1, "{losses:?}");
    let last = |run: &str| format!("runs/{run}/checkpoints/latest");

    let chats = ["sft", "--chats", "chats.jsonl", "--run", "two", "--model"];
    train(dir, &[&chats[..], &[&last("one")]].concat());
    let losses = held_out(dir, "two");
    assert!(losses.len() == 3 && losses[2].1 < losses[0].1, "{losses:?}");

    train(dir, &["mbpp", "--run", "three", "--model", &last("two")]);
    let stepped =
        |event: &Event| matches!(event, Event::StepEnded(s) if s.phase == "mbpp" && s.lost == 0);
    assert_eq!(events(dir, "three").iter().filter(|event| stepped(event)).count(), 3);
    let moved = |event: &Event| matches!(event, Event::StepEnded(s) if s.grad_norm > 0.0);
    assert!(events(dir, "three").iter().any(moved), "no group had a signal");

    // Text again, on a model that is there: the stages have no fixed order.
    let yaml = SETTINGS.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    fs_err::write(dir.join("run.yaml"), yaml).unwrap();
    train(dir, &["pretrain", "--run", "four", "--model", &last("three")]);
    train(dir, &["sft", "--chats", "mbpp", "--run", "five", "--model", &last("four")]);
    for file in ["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"] {
        assert!(dir.join(last("five")).join(file).is_file(), "{file}");
    }
}

#[test]
fn a_pipeline_says_what_each_stage_changed_and_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_material(dir);
    let shared = SETTINGS.lines().skip(1).map(|line| format!("  {line}\n")).collect::<String>();
    let scratch = SETTINGS.lines().next().unwrap();
    let stages = format!(
        "shared:\n{shared}measure: {{ problems: 2, tasks: 1 }}\nstages:\n\
         - {{ kind: pretrain, settings: {{ {scratch} }} }}\n\
         - {{ kind: sft, settings: {{ chats: chats.jsonl }} }}\n\
         - {{ kind: mbpp }}\n- {{ kind: grpo, name: swe, settings: {{ train_limit: 2 }} }}\n"
    );
    fs_err::write(dir.join("stages.yaml"), &stages).unwrap();
    let said = finish(patchrl(dir).args(["config", "check", "stages.yaml"]));
    assert_eq!(said.code, 0, "{}", said.err);
    let run = |more: &[&str]| {
        let words = ["pipeline", "run", "stages.yaml", "--run", "all", "--json"];
        finish(patchrl(dir).args(words).args(more))
    };
    let said = run(&[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let whole: Value = serde_json::from_str(&said.out).unwrap();
    let names: Vec<&str> =
        whole["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "pretrain", "sft", "mbpp", "swe"]);
    let figures = |report: &Value, at: usize| report["stages"][at]["figures"].clone();
    assert_eq!(figures(&whole, 4).as_array().unwrap().len(), 11, "{}", figures(&whole, 4));
    assert_eq!(whole["stages"][1]["effects"][0], json!(["text, held out: loss", "helped"]));
    let page = fs_err::read_to_string(dir.join("runs/all/report.html")).unwrap();
    assert!(page.contains("What did not help") && page.contains("swe did not help"));

    assert_eq!(run(&[]).code, 2, "a run was written over");
    // As if it had been stopped in the middle of the third stage.
    let file = dir.join("runs/all/report.json");
    let mut cut = whole.clone();
    cut["stages"].as_array_mut().unwrap().truncate(3);
    fs_err::write(&file, cut.to_string()).unwrap();
    fs_err::remove_dir_all(dir.join("runs/all/4-swe")).unwrap();
    let said = run(&["--resume"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let again: Value = serde_json::from_str(&said.out).unwrap();
    for at in 0..5 {
        assert_eq!(figures(&again, at), figures(&whole, at));
    }
    fs_err::write(dir.join("stages.yaml"), stages.replace("problems: 2", "problems: 1")).unwrap();
    let said = run(&["--resume"]);
    assert!(said.code == 2 && said.err.contains("began with other stages"), "{}", said.err);
}

#[test]
fn what_a_stage_lacks_is_named_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_material(dir);
    fs_err::write(dir.join("bad.jsonl"), "{\"messages\": 1}\n").unwrap();
    for (words, why, hint) in [
        (&["train", "mbpp"][..], "MBPP's file is not named", "--mbpp FILE"),
        (&["train", "mbpp", "--mbpp", "nowhere.jsonl"], "nowhere.jsonl", "mbpp.jsonl"),
        (&["train", "mbpp", "--mbpp", "chats.jsonl"], "row 1", "mbpp.jsonl"),
        (&["train", "pretrain", "--from-scratch"], "no text", "text.paths"),
        (&["train", "pretrain", "nowhere", "--from-scratch"], "nowhere", "check the path"),
        (&["train", "sft", "--chats", "bad.jsonl"], "line 1", "messages"),
        (&["pipeline", "run", "nowhere.yaml"], "nowhere.yaml", "check the path"),
    ] {
        let said = finish(patchrl(dir).args(words));
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        let (error, way_out) = said.err.split_once("hint: ").unwrap_or((&said.err, ""));
        assert!(error.contains(why) && way_out.contains(hint), "{words:?}: {}", said.err);
        assert!(!dir.join("runs").exists(), "{words:?} began a run");
    }
}
