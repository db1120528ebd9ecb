//! Each fault provoked: what is said, what is tried again, what ends everything.

use std::time::{Duration, Instant};

use patchrl_agent::{Policy as _, PolicyFault, Question};
use patchrl_rollout::openai::OpenAi;
use patchrl_rollout::{Api, RolloutConfig, Server};
use patchrl_testkit::{FakeServer, Fault, Flavour};

use crate::{ask, chat_api, config, key, open, sampling, says};

/// What came of one question, in a word.
fn word(fault: &PolicyFault) -> &'static str {
    match fault {
        PolicyFault::Overflow(_) => "overflow",
        PolicyFault::Lost(_) => "lost",
        PolicyFault::Fatal { .. } => "fatal",
    }
}

/// A fault on every attempt at an answer: its kind, words that are in it, and the attempts made.
fn provoke(fault: &Fault, api: Api) -> (PolicyFault, usize) {
    let server = says(Flavour::Vllm, "hi");
    server.fail("completions", vec![fault.clone(); 9]);
    let open = open(&RolloutConfig { api, ..config(&server) });
    let found = ask(&open, 1).expect_err("a fault");
    (found, server.seen().iter().filter(|it| it.path.ends_with("completions")).count())
}

#[test]
fn each_fault_has_its_kind_its_words_and_its_number_of_attempts() {
    let whole = |body: serde_json::Value| Fault::body(body.to_string());
    let json = |text: &str| whole(serde_json::from_str(text).expect("JSON"));
    let message = |content: &str, reason: &str| {
        json(&format!(
            r#"{{"choices":[{{"message":{{"content":{content},"reasoning_content":"hm"}},"finish_reason":"{reason}"}}]}}"#
        ))
    };
    let cases = [
        (Fault::error(401, "bad key"), Api::Completions, "fatal", "refuses the key", 1),
        (Fault::error(404, "no model `base`"), Api::Completions, "fatal", "not have the model", 1),
        (
            json(r#"{"error":{"message":"upstream","code":502}}"#),
            Api::Completions,
            "lost",
            "upstream; 4 attempts",
            4,
        ),
        (json(r#"{"id":"x"}"#), Api::Completions, "fatal", "without `choices`", 4),
        (json(r#"{"choices":[]}"#), Api::Completions, "lost", "no choice", 4),
        (message("null", "stop"), Api::Chat, "lost", "reasoning and no answer", 1),
        (
            Fault::error(400, "maximum context length is 8 tokens"),
            Api::Completions,
            "overflow",
            "8 tokens",
            1,
        ),
        (Fault::error(429, "slow down"), Api::Completions, "lost", "has too much to do", 4),
        (Fault::error(503, "loading"), Api::Completions, "lost", "status 503", 4),
        (Fault::body(r#"{"choices":[{"#), Api::Completions, "lost", "not whole JSON", 4),
        (Fault::Cut, Api::Completions, "lost", "broke", 4),
        (Fault::Close, Api::Completions, "lost", "broke", 4),
        (Fault::Huge(65 << 20), Api::Completions, "lost", "more than 64 MiB", 1),
        (Fault::body("<!DOCTYPE html>Sign in"), Api::Completions, "fatal", "web page", 1),
        (
            Fault::Status(302, "Location: https://sso.example.com/oauth\r\n", String::new()),
            Api::Completions,
            "fatal",
            "sso.example.com",
            1,
        ),
        (
            json(r#"{"choices":[{"text":"x","finish_reason":"content_filter"}]}"#),
            Api::Completions,
            "lost",
            "filtered",
            1,
        ),
    ];
    for (fault, api, kind, words, attempts) in cases {
        let (found, tried) = provoke(&fault, api);
        let said = found.to_string();
        assert!(word(&found) == kind && said.contains(words), "{fault:?}: {found:?}");
        assert_eq!(tried, attempts, "{fault:?}: {found:?}");
        if let PolicyFault::Fatal { hint, .. } = &found {
            assert!(!hint.is_empty(), "{fault:?} has no way out");
        }
    }
}

#[test]
fn an_answer_at_the_limit_is_an_answer() {
    let server = says(Flavour::Vllm, "a text of more than twelve letters");
    let reply = ask(&open(&config(&server)), 1).expect("a reply");
    assert!(reply.truncated);
    let limit = r#"{"choices":[{"message":{"content":null,"reasoning_content":"hm"},"finish_reason":"length"}]}"#;
    server.fail("completions", [Fault::body(limit)]);
    let reply = ask(&open(&chat_api(&server)), 1).expect("a reply");
    assert_eq!((reply.text.as_str(), reply.truncated), ("", true));
}

#[test]
fn what_passes_is_waited_for_and_a_server_that_says_how_long_is_believed() {
    let server = says(Flavour::Vllm, "hi");
    let wait = Fault::Status(429, "Retry-After: 0.3\r\n", "{}".into());
    server.fail("completions", [wait, Fault::error(500, "x"), Fault::Close]);
    let server_side = open(&config(&server));
    let started = Instant::now();
    assert_eq!(ask(&server_side, 1).expect("a reply").text, "hi");
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn a_wait_until_a_date_is_counted_by_the_servers_clock() {
    let server = says(Flavour::Vllm, "hi");
    let until = |headers| Fault::Status(503, headers, "{}".into());
    server.fail(
        "completions",
        [
            until(
                "Date: Thu, 29 Feb 2024 23:59:59 GMT\r\n\
                 Retry-After: Fri, 01 Mar 2024 00:00:00 GMT\r\n",
            ),
            until(
                "Date: Thu, 29 Feb 2024 23:59:59 GMT\r\n\
                 Retry-After: Thu, 01 Feb 2024 00:00:00 GMT\r\n",
            ),
            until("Retry-After: the day after tomorrow\r\n"),
        ],
    );
    let open = open(&config(&server));
    let started = Instant::now();
    assert_eq!(ask(&open, 1).expect("a reply").text, "hi");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn nothing_there_is_said_with_the_address() {
    let server = says(Flavour::Vllm, "hi");
    let config = config(&server);
    drop(server);
    // The listener closes when it looks up.
    std::thread::sleep(Duration::from_millis(50));
    let fault = OpenAi::open(&config, None, &sampling()).err().expect("a fault");
    let PolicyFault::Fatal { what, hint } = fault else { panic!("{fault:?}") };
    assert!(
        what.contains("nothing listens at `http://127.0.0.1:") || what.contains("broke"),
        "{what}"
    );
    assert!(what.contains("4 attempts") && hint.contains("start the server"), "{what} / {hint}");
}

#[test]
fn a_name_that_nobody_knows_is_said() {
    let server = says(Flavour::Vllm, "hi");
    let base_url = "http://no.such.invalid:8000/v1".to_owned();
    let nowhere = RolloutConfig { base_url, retries: 0, ..config(&server) };
    let fault = OpenAi::open(&nowhere, None, &sampling()).err().expect("a fault");
    assert!(matches!(&fault, PolicyFault::Fatal { what, .. } if what.contains("no.such.invalid")));
}

#[test]
fn a_server_that_went_away_costs_answers_and_not_the_run() {
    let server = says(Flavour::Vllm, "hi");
    let open = open(&config(&server));
    ask(&open, 1).expect("a reply");
    server.fail("completions", vec![Fault::body(r#"{"id":"x"}"#); 4]);
    assert!(matches!(ask(&open, 2), Err(PolicyFault::Lost(_))));
    assert_eq!(ask(&open, 3).expect("a reply").text, "hi");
}

#[test]
fn a_proxy_that_refuses_is_said() {
    // A loopback address is never asked through a proxy, so this one is asked for what is not.
    let proxy = says(Flavour::Plain, "hi");
    proxy.fail("", vec![Fault::error(407, "who are you?"); 9]);
    let open = OpenAi::open(&config(&proxy), None, &sampling());
    let fault = open.err().expect("a fault").to_string();
    assert!(fault.contains("proxy") && fault.contains("status 407"), "{fault}");
}

#[test]
fn an_attempt_ends_at_its_time_and_is_made_again() {
    let server = says(Flavour::Vllm, "hi");
    server.fail("completions", [Fault::Late(Duration::from_secs(40))]);
    let open = open(&RolloutConfig { request_timeout: 1, ..config(&server) });
    let started = Instant::now();
    assert_eq!(ask(&open, 1).expect("a reply").text, "hi");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn what_is_broken_off_ends_at_once() {
    let server = says(Flavour::Vllm, "hi");
    server.pace(Duration::from_secs(40));
    let open = open(&RolloutConfig { request_timeout: 60, ..config(&server) });
    let other = open.clone();
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            other.cancel();
        });
        assert!(matches!(ask(&open, 1), Err(PolicyFault::Lost(why)) if why.contains("broken off")));
    });
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(ask(&open, 2).is_err(), "nothing is asked afterwards");
}

#[test]
fn what_no_attempt_can_mend_is_not_asked_of_the_rest() {
    let server = says(Flavour::Vllm, "hi");
    server.fail("completions", vec![Fault::error(401, "bad key"); 99]);
    let open = open(&RolloutConfig { concurrency: 2, ..config(&server) });
    let question =
        Question { chat: &[], tokens: Some(&[1]), tools: &[], seed: 1, max_new_tokens: 4 };
    let replies = open.ask(&[question; 40]);
    assert!(replies.iter().all(|it| matches!(it, Err(PolicyFault::Fatal { .. }))));
    let asked = server.seen().iter().filter(|it| it.path.ends_with("completions")).count();
    assert!(asked <= 3, "{asked} questions with a key that is refused");
}

#[test]
fn the_key_is_sent_and_shown_to_nobody() {
    let server = FakeServer::start_with(
        Flavour::Vllm,
        patchrl_testkit::Brain::Says("hi".into()),
        Some("sk-hunter2"),
    );
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("logs/debug.jsonl");
    let with_log = RolloutConfig { debug_log: Some(log.clone()), ..config(&server) };
    let refused = OpenAi::open(&with_log, key("sk-wrong"), &sampling()).err().expect("a fault");
    assert!(matches!(&refused, PolicyFault::Fatal { hint, .. } if hint.contains("api_key_env")));
    let open = OpenAi::open(&with_log, key("sk-hunter2\n"), &sampling()).expect("a server");
    server.fail("completions", [Fault::error(400, "no such thing, sk-hunter2")]);
    let fault = format!("{:?}", ask(&open, 1));
    ask(&open, 2).expect("a reply");
    let text = fs_err::read_to_string(&log).expect("a log");
    assert_eq!(text.lines().count(), 4, "{text}");
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(line["url"].is_string() && line["status"].is_u64(), "{line}");
    }
    for shown in [&text, &fault, &format!("{:?}", key("sk-hunter2"))] {
        assert!(!shown.contains("hunter2") && shown.contains("****"), "{shown}");
    }
    assert!(server.seen().iter().any(|it| it.key.as_deref() == Some("Bearer sk-hunter2")));
}

#[test]
fn sixty_four_questions_at_a_time_have_sixty_four_answers() {
    let server = says(Flavour::Vllm, "hi");
    let open = open(&RolloutConfig { concurrency: 64, request_timeout: 60, ..config(&server) });
    let prompts: Vec<[u32; 1]> = (0..64).map(|n| [n]).collect();
    let questions: Vec<Question<'_>> = prompts
        .iter()
        .map(|it| Question { chat: &[], tokens: Some(it), tools: &[], seed: 1, max_new_tokens: 4 })
        .collect();
    let mut heard = 0;
    // None is answered before all have come.
    server.hold();
    let replies = std::thread::scope(|scope| {
        let asked = scope.spawn(|| open.ask_each(&questions, &mut |_| heard += 1));
        let started = Instant::now();
        while server.most_at_once() < 64 && started.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.go_on();
        asked.join().expect("replies")
    });
    assert_eq!((server.most_at_once(), heard), (64, 64));
    for (at, reply) in replies.into_iter().enumerate() {
        let sampled = reply.expect("a reply").sampled.expect("tokens");
        assert_eq!(sampled.prompt, [at as u32], "answers keep their order");
    }
}

#[test]
fn the_limit_holds_over_all_who_ask() {
    let server = says(Flavour::Vllm, "hi");
    server.pace(Duration::from_millis(5));
    let open = open(&RolloutConfig { concurrency: 3, ..config(&server) });
    let question =
        Question { chat: &[], tokens: Some(&[1]), tools: &[], seed: 1, max_new_tokens: 4 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(open.ask(&[question; 8]).iter().all(Result::is_ok)));
        }
    });
    assert!((1..=3).contains(&server.most_at_once()), "{}", server.most_at_once());
}

#[test]
fn a_server_is_known_by_its_list() {
    for (flavour, want) in [
        (Flavour::Vllm, Server::Vllm),
        (Flavour::Sglang, Server::Sglang),
        (Flavour::LlamaCpp, Server::LlamaCpp),
        (Flavour::Plain, Server::Other),
    ] {
        let server = says(flavour, "hi");
        let open = open(&config(&server));
        assert_eq!((open.server(), open.model().as_str()), (want, "base"));
    }
    let server = says(Flavour::Vllm, "hi");
    let generate = RolloutConfig { api: Api::Generate, ..config(&server) };
    let fault = OpenAi::open(&generate, None, &sampling()).err().expect("a fault");
    assert!(fault.to_string().contains("is not SGLang"), "{fault}");
}
