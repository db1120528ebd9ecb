//! Task sets by name, and a model's answers to them as predictions.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::tiny::write_model;
use crate::{finish, patchrl};

const ROW: &str = r#"{"instance_id":"a__b-1","repo":"a/b","base_commit":"abcdef0","problem_statement":"p","patch":""}"#;

/// A hub with the data set `o/n` until the test ends; its address.
fn hub() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let listing = json!({
                "sha": "0123abcd",
                "siblings": [{"rfilename": "README.md", "size": 1},
                             {"rfilename": "data/test-00000-of-00001.jsonl", "size": ROW.len()}],
            });
            let (status, body) = match target.as_str() {
                "/api/datasets/o/n/revision/main?blobs=true" => ("200 OK", listing.to_string()),
                "/datasets/o/n/resolve/0123abcd/data/test-00000-of-00001.jsonl" => {
                    ("200 OK", ROW.to_owned())
                }
                _ => ("404 Not Found", String::new()),
            };
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

#[test]
fn a_set_of_the_hub_is_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let stats = |name: &str, hub: &str| {
        let mut command = patchrl(dir.path());
        finish(command.env("HF_ENDPOINT", hub).args(["task", "stats", name, "--json"]))
    };
    let address = hub();
    let said = stats("o/n:test", &address);
    assert_eq!(said.code, 0, "{}", said.err);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(value["tasks"], 1);
    let again = stats("o/n:test", "http://127.0.0.1:9");
    assert_eq!(again.code, 0, "the cache has it: {}", again.err);
    let other = stats("o/n:dev", &address);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("has no rows of a split `dev`"), "{}", other.err);
    let gone = stats("lite", "http://127.0.0.1:9");
    assert_eq!(gone.code, 2);
    assert!(gone.err.contains("cannot be reached") && gone.err.contains("hint:"), "{}", gone.err);
}

#[test]
fn answers_are_written_as_predictions_and_go_on() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("model"));
    let run = || {
        finish(patchrl(dir.path()).args([
            "eval",
            "run",
            "--model",
            "./model",
            "--split",
            "held-out",
            "--limit",
            "3",
            "--samples",
            "2",
            "--temperature",
            "1",
            "--max-new-tokens",
            "8",
            "--max-prompt-tokens",
            "900",
            "--out",
            "p.jsonl",
            "--json",
        ]))
    };
    let whole = run();
    assert_eq!(whole.code, 0, "{}", whole.err);
    let shares: Value = serde_json::from_str(&whole.out).unwrap();
    assert_eq!((&shares["tasks"], &shares["samples"]), (&json!(3), &json!(6)));
    let path = dir.path().join("p.jsonl");
    let text = fs_err::read_to_string(&path).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["model_name_or_path"], "./model");
    assert!(first["model_patch"].is_null(), "noise is no patch: {first}");
    assert_eq!(first["outcome"], "malformed");

    // As if it had been killed in its fourth line: the third task has no answer, the second one.
    let kept: String = text.split_inclusive('\n').take(3).collect();
    fs_err::write(&path, format!("{kept}{{\"instance_id\": \"x")).unwrap();
    let resumed = run();
    assert!(resumed.err.contains("1 of 3 tasks are answered already"), "{}", resumed.err);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    assert_eq!(sorted(&fs_err::read_to_string(&path).unwrap()), sorted(&text));
    let other = finish(
        patchrl(dir.path())
            .args(["eval", "run", "--model", "model", "--split", "held-out", "--out", "p.jsonl"]),
    );
    assert_eq!(other.code, 2);
    assert!(other.err.contains("it is an answer of `./model`"), "{}", other.err);
}
