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

/// A check of a server that can only be reached through a proxy. No variable of the machine's own
/// is left.
fn through(proxy: &str, variable: &str, base_url: &str) -> Said {
    let dir = tempfile::tempdir().unwrap();
    let text = "rollout: { retries: 1, backoff: 0.01 }\nprompt: { max_tokens: 600 }\n";
    fs_err::write(dir.path().join("run.yaml"), text).unwrap();
    let mut command = patchrl(dir.path());
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env(variable, proxy).args(["reward", "check", "--sandbox", "none"]);
    finish(command.args(["--config", "run.yaml", "--base-url", base_url, "--samples", "5"]))
}

#[test]
fn a_proxy_that_is_in_the_way_is_named_with_the_way_around_it() {
    let server = FakeServer::start(Flavour::Plain, Brain::Says("hi".into()));
    let address = server.base_url().trim_end_matches("/v1").replace("http://", "");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases = [
        (format!("http://me:hunter2@{address}"), vec![403], "gives no way to", "(status 403)"),
        (format!("http://me:hunter2@{address}"), vec![407], "gives no way to", "(status 407)"),
        (address.clone(), vec![502, 502], "gives no way to", "(status 502); 2 attempts"),
        (
            format!("http://me:hunter2@{closed}"),
            vec![],
            "nothing listens at the proxy `http://127",
            "way to",
        ),
        (
            "http://me:hunter2@no.such.invalid:3".into(),
            vec![],
            "the name of the proxy `http://no",
            "cannot be resolved",
        ),
        (format!("socks5h://me:hunter2@{closed}"), vec![], "the proxy `socks5h://127", "SOCKS"),
    ];
    for (proxy, refusals, what, why) in cases {
        for (base_url, end) in
            [("http://policy.example/v1", ":80"), ("https://policy.example/v1", ":443")]
        {
            server.fail(end, refusals.iter().map(|status| Fault::error(*status, "no")));
            let said = through(&proxy, "ALL_PROXY", base_url);
            let (error, hint) = said.err.rsplit_once("hint: ").unwrap_or_default();
            assert_eq!(said.code, 2, "{}", said.err);
            assert!(error.contains(what) && error.contains(why), "{}", said.err);
            assert!(hint.contains("name `policy.example` in `NO_PROXY`"), "{}", said.err);
            assert!(!said.err.contains("hunter2"), "{}", said.err);
        }
    }
}

#[test]
fn a_proxy_that_lets_through_is_gone_through_for_plain_http_too() {
    let server = FakeServer::start(Flavour::Plain, Brain::Says("hi".into()));
    let proxy = server.base_url().trim_end_matches("/v1").to_owned();
    // As many tunnels as there are questions at a time; each is the server itself.
    server.fail(":80", vec![Fault::body(""); 20]);
    let said = through(&proxy, "http_proxy", "http://policy.example/v1");
    assert_eq!(said.code, 1, "{}", said.err);
    let seen = server.seen();
    assert_eq!(seen[0].path, "policy.example:80");
    assert!(seen.iter().any(|it| it.path == "/v1/chat/completions"), "{seen:?}");
}
