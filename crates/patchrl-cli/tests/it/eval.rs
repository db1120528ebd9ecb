//! Verdicts on logs, runs and predictions that exist.

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::patchrl;

const LOG: &str = "+ : '>>>>> Start Test Output'\nPASSED t.py::a\nFAILED t.py::b - boom\n\
    + : '>>>>> End Test Output'\n";

fn row(id: &str, f2p: &[&str]) -> Value {
    json!({
        "instance_id": id, "repo": "some/repo", "base_commit": "0123456789abcdef",
        "problem_statement": "p", "patch": "", "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail", "FAIL_TO_PASS": f2p, "PASS_TO_PASS": [],
    })
}

fn write(path: &Path, rows: &[Value]) {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, text).unwrap();
}

fn run(dir: &Path, words: &[&str], input: &str) -> Output {
    let mut command = patchrl(dir);
    command.current_dir(dir).args(words);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn logs_on_standard_input_get_a_report_each() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("rows.jsonl"), &[row("x__y-1", &["t.py::a"])]);
    let input = [
        json!({"instance_id": "x__y-1", "model_patch": "p", "test_output": LOG}).to_string(),
        json!({"instance_id": "x__y-1", "model_patch": null, "test_output": LOG}).to_string(),
        json!({"instance_id": "x__y-1", "test_output": LOG}).to_string(),
        json!({"instance_id": "other", "model_patch": "p", "test_output": LOG}).to_string(),
        "no json".to_owned(),
    ];
    let words = ["eval", "grade", "--dialect", "v5", "--instances", "rows.jsonl"];
    let said = lines(&run(dir.path(), &words, &input.join("\n")));
    assert_eq!(said.len(), 5);
    assert_eq!(said[0]["x__y-1"]["resolved"], json!(true));
    assert_eq!(said[0]["x__y-1"]["infra_failure"], json!(false));
    assert_eq!(said[1]["x__y-1"]["patch_is_None"], json!(true));
    assert!(said[2]["error"].as_str().unwrap().contains("model_patch"), "{}", said[2]);
    assert!(said[3]["error"].as_str().unwrap().contains("`other`"), "{}", said[3]);
    assert!(said[4]["error"].is_string());
    let words = ["eval", "grade", "--dialect", "v4", "--instances", "rows.jsonl"];
    let said = lines(&run(dir.path(), &words, &input[0]));
    assert!(said[0]["x__y-1"].get("infra_failure").is_none(), "{}", said[0]);
}

#[test]
fn a_run_folder_gets_its_reports() {
    let dir = tempfile::tempdir().unwrap();
    let rows = ["x__y-1", "x__y-2", "x__y-3", "x__y-4"].map(|id| row(id, &["t.py::a"]));
    write(&dir.path().join("rows.jsonl"), &rows);
    let folder = dir.path().join("run/model");
    for (id, log) in [("x__y-1", Some(LOG)), ("x__y-2", Some("Killed\n")), ("x__y-3", None)] {
        fs_err::create_dir_all(folder.join(id)).unwrap();
        if let Some(log) = log {
            fs_err::write(folder.join(id).join("test_output.txt"), log).unwrap();
        }
    }
    let words = ["eval", "grade", "run", "--instances", "rows.jsonl", "--write", "--json"];
    let report = &lines(&run(dir.path(), &words, ""))[0];
    assert_eq!(report["resolved_ids"], json!(["x__y-1"]));
    assert_eq!(report["unresolved_ids"], json!(["x__y-2"]));
    assert_eq!(report["error_ids"], json!(["x__y-3"]));
    assert_eq!(report["incomplete_ids"], json!(["x__y-4"]));
    assert_eq!(report["failure_reasons"], json!({"x__y-2": "out_of_memory"}));
    assert_eq!((&report["total_instances"], &report["schema_version"]), (&json!(4), &json!(2)));
    let written = fs_err::read_to_string(folder.join("x__y-1/report.json")).unwrap();
    assert!(written.starts_with("{\n    \"x__y-1\": {\n        \"patch_is_None\": false"));
    let nowhere = run(dir.path(), &["eval", "grade", "none", "--instances", "rows.jsonl"], "");
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn statuses_and_scripts_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let input = json!({"parser": "parse_log_pytest", "log": "SKIPPED [2] t.py:3: no\nPASSED t"});
    let said = |dialect| {
        let words = ["eval", "parse", "--dialect", dialect];
        lines(&run(dir.path(), &words, &input.to_string()))[0]["status_map"].clone()
    };
    assert_eq!(said("v4"), json!({"[2]": "SKIPPED", "t": "PASSED"}));
    assert_eq!(said("v5"), json!({"t": "PASSED"}));
    let mut with_script = row("x__y-1", &[]);
    with_script["eval_script"] = json!("pytest\n: '>>>>> End Test Output'\n");
    write(&dir.path().join("rows.jsonl"), &[with_script, row("x__y-2", &[])]);
    let said = lines(&run(dir.path(), &["eval", "script", "rows.jsonl"], ""));
    assert!(said[0]["script"].as_str().unwrap().contains("SWEBENCH_TEST_EXIT_CODE=$?\n"));
    assert!(said[1]["error"].as_str().unwrap().contains("eval_script"));
}

#[test]
fn two_runs_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let line = |n: u32, resolved: bool| json!({"instance_id": n.to_string(), "resolved": resolved});
    let ten = |below: u32| (0..10).map(|n| line(n, n < below)).collect::<Vec<_>>();
    write(&dir.path().join("a.jsonl"), &ten(2));
    let mut other = ten(5);
    other.push(json!({"instance_id": "lost", "resolved": null}));
    write(&dir.path().join("b.jsonl"), &other);
    let said =
        &lines(&run(dir.path(), &["eval", "compare", "a.jsonl", "b.jsonl", "--json"], ""))[0];
    assert_eq!(
        (&said["instances"], &said["base"], &said["other"]),
        (&json!(10), &json!(2), &json!(5))
    );
    assert_eq!(said["gained"], json!(["2", "3", "4"]));
}

#[test]
fn judging_goes_on_where_it_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["eval", "run", "--tasks", "toy", "--predictions", "p.jsonl", "--out", "v.jsonl", "--json"];
    let show = run(dir.path(), &["task", "show", "toy", ID, "--json"], "");
    let patch = lines(&show)[0]["patch"].clone();
    let good = json!({"instance_id": ID, "model_patch": patch});
    let bad = json!({"instance_id": ID, "model_patch": "nothing"});
    write(&dir.path().join("p.jsonl"), &[good.clone(), bad]);
    let said = &lines(&run(dir.path(), &words, ""))[0];
    assert_eq!(
        (&said["judged"], &said["resolved"], &said["lost"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(said["pass_at"], json!({"1": 0.5, "2": 1.0}));
    let verdicts = fs_err::read_to_string(dir.path().join("v.jsonl")).unwrap();
    // As a kill leaves it: one whole line, and the beginning of another.
    let first = verdicts.split_inclusive('\n').next().unwrap();
    fs_err::write(dir.path().join("v.jsonl"), format!("{first}{{\"insta")).unwrap();
    assert_eq!(&lines(&run(dir.path(), &words, ""))[0]["judged"], &json!(2));
    let again = fs_err::read_to_string(dir.path().join("v.jsonl")).unwrap();
    assert!(again.starts_with(first) && again.lines().count() == 2, "{again}");
}

#[test]
fn samples_of_functions_run_in_the_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let problem = json!({
        "task_id": 7, "code": "def f(): return 1", "test_list": ["assert f() == 1"],
    });
    write(&dir.path().join("mbpp.jsonl"), &[problem]);
    let samples = [
        "def f(): return 1",
        "def f(): return 2",
        "import os; os._exit(0)",
        "def f(): return 1\nwhile True: pass",
        "open('/etc/x', 'w')",
    ];
    let line = |code: &&str| json!({"task_id": 7, "completion": code});
    write(&dir.path().join("s.jsonl"), &samples.iter().map(line).collect::<Vec<_>>());
    let words = ["eval", "mbpp", "mbpp.jsonl", "--samples", "s.jsonl", "--timeout", "5"];
    let words = [&words[..], &["--out", "o.jsonl", "--json"]].concat();
    let said = &lines(&run(dir.path(), &words, ""))[0];
    assert_eq!((&said["samples"], &said["lost"]), (&json!(5), &json!(0)));
    assert_eq!(said["pass_at"], json!({"1": 0.2, "5": 1.0}));
    let out = fs_err::read_to_string(dir.path().join("o.jsonl")).unwrap();
    let passed = out.lines().map(|line| line.contains("\"passed\":true")).collect::<Vec<_>>();
    assert_eq!(passed, [true, false, false, false, false], "{out}");
    assert!(out.lines().nth(3).unwrap().contains("timed out"), "{out}");
}

#[test]
fn what_cannot_be_judged_is_named_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut task = row("x__y-1", &["t.py::a"]);
    task["environment"] = json!({"test_command": ["{python}", "-m", "pytest"], "runner": "pytest"});
    write(&dir.path().join("rows.jsonl"), &[task]);
    let said = |id: &str| {
        let prediction = json!({"instance_id": id, "model_patch": "p"});
        write(&dir.path().join("p.jsonl"), &[prediction]);
        let words = ["eval", "run", "--tasks", "rows.jsonl", "--predictions", "p.jsonl"];
        let output = run(dir.path(), &[&words[..], &["--out", "v.jsonl"]].concat(), "");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = said("other");
    assert_eq!(code, Some(2), "{text}");
    let (code, text) = said("x__y-1");
    assert_eq!(code, Some(3), "{text}");
    for word in ["lost: x__y-1: ", "needs a clone of `some/repo`", "git clone", "1 lost"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("NaN"), "{text}");
}

/// A task of the toy set.
const ID: &str = "patchrl-toy__grids-1";
