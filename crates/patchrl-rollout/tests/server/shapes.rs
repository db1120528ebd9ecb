//! Tokens and log-probabilities of real weights, through every server and every way to ask it.

use patchrl_agent::{Policy as _, Question};
use patchrl_model::{Group, Message};
use patchrl_rollout::openai::{Compared, compare_tokenizers};
use patchrl_rollout::{Api, At, Drawer as _, Origin, Remote, RolloutConfig};
use patchrl_task::TaskId;
use patchrl_testkit::Flavour;

use crate::{config, open, sampling, with_model};

/// Every way, and whether tokens and log-probabilities come back by it.
const WAYS: [(Flavour, Api, bool); 7] = [
    (Flavour::Vllm, Api::Completions, true),
    (Flavour::Vllm, Api::Chat, true),
    (Flavour::Sglang, Api::Completions, true),
    (Flavour::Sglang, Api::Chat, true),
    (Flavour::Sglang, Api::Generate, true),
    (Flavour::LlamaCpp, Api::Completions, true),
    (Flavour::Plain, Api::Completions, false),
];

#[test]
fn what_is_sampled_is_what_is_known_of_it() {
    for (flavour, api, known) in WAYS {
        let (_dir, policy, server) = with_model(flavour);
        let open = open(&RolloutConfig { api, ..config(&server) });
        let chat = [Message::new("user", "fix it")];
        let prompt = policy.prompt(&chat).expect("a prompt");
        let question = Question {
            chat: &chat,
            tokens: Some(&prompt),
            tools: &[],
            seed: 7,
            max_new_tokens: 12,
        };
        let reply = open.ask(&[question]).remove(0).expect("a reply");
        assert_eq!(reply.sampled.is_some(), known, "{flavour:?} {api:?}");
        let Some(sampled) = reply.sampled else { continue };
        assert_eq!(sampled.prompt, prompt, "{flavour:?} {api:?}");
        assert_eq!(sampled.versions, vec![0; sampled.tokens.len()]);
        let group = Group { prompt: &prompt, answers: vec![&sampled.tokens] };
        let own = policy.model.log_probs(&group, 1.0).expect("log-probabilities");
        for (a, b) in own[0].iter().zip(&sampled.log_probs) {
            assert!((a - b).abs() < 1e-4, "{flavour:?} {api:?}: {a} and {b}");
        }
        assert_eq!(sampled.log_probs.len(), sampled.tokens.len());
    }
}

#[test]
fn a_group_from_a_server_has_tokens_or_says_that_it_has_none() {
    for (flavour, retokenize, origin) in [
        (Flavour::Vllm, false, Origin::Sampled),
        (Flavour::Plain, false, Origin::Unknown),
        (Flavour::Plain, true, Origin::Retokenized),
    ] {
        let (_dir, policy, server) = with_model(flavour);
        let remote = Remote::of(open(&RolloutConfig { retokenize, ..config(&server) }), &policy);
        let task = TaskId::parse("a__b-1").expect("an id");
        let prompt = remote.prompt(task, &[Message::new("user", "fix it")]).expect("a prompt");
        let at = At { run: 1, step: 3, group_size: 4 };
        let groups = remote.draw(&[prompt], &sampling(), at, &mut |_| {}).expect("groups");
        assert_eq!(groups[0].len(), 4);
        for drawn in &groups[0] {
            assert_eq!((drawn.origin, drawn.lost.as_deref()), (origin, None));
            assert_eq!(drawn.sample.tokens.len(), drawn.sample.log_probs.len());
            assert_eq!(drawn.sample.tokens.len(), drawn.versions.len());
            assert_eq!(drawn.sample.tokens.is_empty(), origin == Origin::Unknown);
            let unknown = drawn.sample.log_probs.iter().all(|it| it.is_nan());
            assert_eq!(unknown, origin != Origin::Sampled);
        }
    }
}

#[test]
fn an_embedded_group_and_a_served_one_read_the_same_prompt() {
    let (_dir, policy, server) = with_model(Flavour::Vllm);
    let remote = Remote::of(open(&config(&server)), &policy);
    let chat = [Message::new("system", "s"), Message::new("user", "<|im_end|> é")];
    let task = TaskId::parse("a__b-1").expect("an id");
    let here = patchrl_rollout::Drawer::prompt(&policy, task.clone(), &chat).expect("a prompt");
    let there = remote.prompt(task, &chat).expect("a prompt");
    assert_eq!((here.tokens, here.text), (there.tokens, there.text));
}

#[test]
fn tokenizers_are_compared_where_the_server_says_its_own() {
    for (flavour, want) in [
        (Flavour::Vllm, Compared::Same),
        (Flavour::Sglang, Compared::Same),
        (Flavour::LlamaCpp, Compared::Same),
        (Flavour::Plain, Compared::NotSaid),
    ] {
        let (_dir, policy, server) = with_model(flavour);
        let open = open(&config(&server));
        assert_eq!(compare_tokenizers(&open, &policy.tokenizer), Ok(want));
    }
    let (_dir, policy, server) = with_model(Flavour::Vllm);
    let other = r#"{"tokens": [100, 101, 1]}"#;
    server.fail("/tokenize", [patchrl_testkit::Fault::body(other)]);
    let fault = compare_tokenizers(&open(&config(&server)), &policy.tokenizer);
    let said = fault.expect_err("another reading").to_string();
    assert!(said.contains("from token 2 on 1 there, 102 32"), "{said}");
}
