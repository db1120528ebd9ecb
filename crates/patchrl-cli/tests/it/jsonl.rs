//! Commands that answer each line of their input.

use std::io::Write as _;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::{finish, patchrl};

fn start(arguments: &[&str]) -> Child {
    let dir = std::env::temp_dir();
    let mut command = patchrl(&dir);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The answers to `lines`.
fn answers(arguments: &[&str], lines: &[String]) -> Vec<Value> {
    let mut child = start(arguments);
    let mut stdin = child.stdin.take().unwrap();
    let text = lines.join("\n");
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn answers_keep_the_order_and_a_bad_line_is_one_error() {
    let mut lines: Vec<String> = (0..3000)
        .map(|n| json!({ "predicted": "a".repeat(n % 7), "golden": "a" }).to_string())
        .collect();
    lines[5] = "{\"predicted\":".to_owned();
    lines[6] = String::new();
    let said = answers(&["reward", "score", "--preset", "similarity", "--ratio-only"], &lines);
    assert_eq!(said.len(), 2999);
    assert_eq!(said[3]["ratio"], json!(0.5));
    assert!(said[5]["ratio"].is_null() && said[5]["error"].is_string());
    assert_eq!(said[6], json!({ "ratio": 1.0 - 1.0 }), "the blank line has no answer");
    assert_eq!(said[2998], json!({ "ratio": 2.0 / 4.0 }));
}

#[test]
fn a_slow_writer_gets_its_answer_before_the_next_line() {
    use std::io::{BufRead as _, BufReader};
    let mut child = start(&["reward", "score", "--preset", "swerl"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        stdin.write_all(b"{\"context\":{},\"oracle\":{},\"output\":\"x\"}\n").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said, json!({ "reward": -1.0, "error": "count of <think> is not 1" }));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn patches_are_applied_found_and_shown() {
    let files = json!({ "f": { "mode": "100755", "text": "a\n" }, "g": { "base64": "/wo=" } });
    let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    let lines = [
        json!({ "files": files, "patch": patch }).to_string(),
        json!({ "files": {}, "patch": patch }).to_string(),
        json!({ "files": files, "patch": "x" }).to_string(),
        json!({ "files": { "f": {} }, "patch": patch }).to_string(),
    ];
    let said = answers(&["patch", "apply"], &lines);
    let expected = json!({
        "applied": true, "reason": null, "detail": null,
        "hunks": [{ "path": "f", "hunk": 1, "line": 1 }],
        "files": { "f": { "mode": "100755", "text": "b\n" } },
    });
    assert_eq!(said[0], expected);
    assert_eq!((&said[1]["applied"], &said[1]["reason"]), (&json!(false), &json!("no_such_file")));
    assert_eq!(said[2]["reason"], "malformed");
    assert!(said[3]["error"].as_str().unwrap().contains("`text` or `base64`"));

    let output = format!("Here it is:\n```diff\n{patch}```\n");
    let said = answers(&["patch", "extract"], &[json!({ "output": output }).to_string()]);
    let expected = json!({ "rule": "fenced_diff", "paths": ["f"], "patch": patch, "error": null });
    assert_eq!(said[0], expected);

    let after = json!({ "f": { "mode": "100755", "text": "b\n" }, "g": { "base64": "/wo=" } });
    let record = json!({ "before": files, "after": after }).to_string();
    let said = answers(&["patch", "diff"], &[record]);
    assert_eq!(said[0]["patch"], format!("diff --git a/f b/f\n{patch}"));
}

#[test]
fn predictions_are_judged_by_their_task() {
    let row = |id: &str, output: &str| json!({ "instance_id": id, "output": output }).to_string();
    let lines = [
        row("patchrl-toy__textkit-2", "no patch"),
        row("patchrl-toy__nothing-1", "x"),
        row("patchrl-toy__textkit-2", "--- a/nothing\n+++ b/nothing\n@@ -1 +1 @@\n-a\n+b\n"),
    ];
    let said = answers(&["reward", "score", "--tasks", "toy", "--preset", "apply-only"], &lines);
    assert_eq!(said[0]["outcome"]["kind"], "malformed");
    assert!(said[1]["error"].as_str().unwrap().contains("patchrl-toy__nothing-1"));
    assert_eq!(said[2]["outcome"]["kind"], "not_applied");
    assert_eq!(said[2]["instance_id"], "patchrl-toy__textkit-2");
}

#[test]
fn a_missing_file_is_named_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let said = finish(patchrl(dir.path()).args(["patch", "apply", "none.jsonl"]));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("`none.jsonl`") && said.err.contains("hint: "), "{}", said.err);
}
