//! `reward check` against models and servers whose answers are known.

use std::path::Path;

use patchrl_testkit::{Brain, FakeServer, Fault, Flavour};
use serde_json::Value;

use crate::tiny::write_model;
use crate::{Said, finish, patchrl};

fn check(dir: &Path, words: &[&str]) -> Said {
    finish(patchrl(dir).args(["reward", "check", "--sandbox", "none"]).args(words))
}

fn words(report: &Value) -> Vec<&str> {
    report["verdicts"].as_array().unwrap().iter().map(|it| it["word"].as_str().unwrap()).collect()
}

/// Against a server that says one thing, without a model here.
fn served(text: &str, mode: &str) -> (Said, FakeServer) {
    let dir = tempfile::tempdir().unwrap();
    let server = FakeServer::start(Flavour::Plain, Brain::Says(text.into()));
    let url = server.base_url();
    let said = check(dir.path(), &["--base-url", &url, "--reward-mode", mode, "--json"]);
    (said, server)
}

const EDIT: &str = "### a.py\n<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n";

#[test]
fn an_endpoint_alone_is_asked_by_chat_and_told_what_is_wrong() {
    let (said, server) = served("I do not know.", "syntax");
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(words(&report), ["no_sampling", "form", "no_variance", "no_tokens"]);
    assert_eq!(report["samples"].as_array().unwrap().len(), 10);
    assert_eq!(report["samples"][0]["form"], "none");
    assert_eq!(report["repeat"]["same_reward"], true);
    let asked: Vec<_> =
        server.seen().into_iter().filter(|it| it.path == "/v1/chat/completions").collect();
    assert_eq!(asked.len(), 12);
    let cold = asked.iter().filter(|it| it.body["temperature"] == 0.0).count();
    assert_eq!(cold, 2, "one question twice at temperature 0");
    assert!(asked.iter().all(|it| it.body["messages"][1]["content"].is_string()));
}

#[test]
fn what_can_be_done_already_is_not_trained() {
    let (said, _server) = served(EDIT, "syntax");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, words(&report)), (1, vec!["no_sampling", "no_variance", "no_tokens"]));
    let way = report["verdicts"][1]["try_this"].as_str().unwrap();
    assert!(way.contains("can do this already"), "{report}");
    assert!(report["samples"].as_array().unwrap().iter().all(|it| it["valid"] == true));
    let (said, _server) = served(EDIT, "apply-only");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(words(&report)[1], "context", "{report}");
}

#[test]
fn a_model_here_is_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("model"));
    let words = [
        "--model",
        "./model",
        "--samples",
        "4",
        "--group-size",
        "2",
        "--max-new-tokens",
        "8",
        "--max-prompt-tokens",
        "600",
    ];
    let said = check(dir.path(), &words);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.out.contains("4 answers, mean reward 0.000, variance 0.000"), "{}", said.out);
    let same = "the first question twice at temperature 0: the same answer, the same reward";
    assert!(said.out.contains(same), "{}", said.out);
    assert!(said.out.contains("no  form: ") && said.out.contains("try: "), "{}", said.out);
}

#[test]
fn answers_that_are_lost_are_not_answers_of_reward_zero() {
    let dir = tempfile::tempdir().unwrap();
    let server = FakeServer::start(Flavour::Plain, Brain::Says(EDIT.into()));
    let filtered = r#"{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}"#;
    server.fail("completions", vec![Fault::body(filtered); 3]);
    let url = server.base_url();
    let said = check(dir.path(), &["--base-url", &url, "--reward-mode", "syntax", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let lost = report["samples"].as_array().unwrap().iter().filter(|it| it["reward"].is_null());
    assert_eq!(lost.count(), 3);
    assert!(report["variance"].as_f64().unwrap() == 0.0, "a lost answer was counted: {report}");
    assert_eq!(words(&report)[..2], ["no_sampling", "lost"]);
}

#[test]
fn a_key_that_is_refused_ends_the_check_with_its_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let brain = Brain::Says("x".into());
    let server = FakeServer::start_with(Flavour::Plain, brain, Some("sk-right"));
    let mut command = patchrl(dir.path());
    command.args(["reward", "check", "--base-url", &server.base_url()]);
    command.args(["--api-key-env", "MY_KEY", "--debug-log", "log.jsonl"]).env("MY_KEY", "sk-wrong");
    let said = finish(&mut command);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("refuses the key (status 401)"), "{}", said.err);
    assert!(said.err.contains("hint: name the environment variable"), "{}", said.err);
    let log = fs_err::read_to_string(dir.path().join("log.jsonl")).unwrap();
    assert!(!said.err.contains("sk-wrong") && !log.contains("sk-wrong") && log.contains("401"));
}
