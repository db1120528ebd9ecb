//! Weights that reach a server: by adapter, by checkpoint, or not.

use patchrl_agent::PolicyFault;
use patchrl_model::{Group, LoraConfig, Policy};
use patchrl_rollout::{Handover, HandoverKind, RolloutConfig, RolloutError};
use patchrl_testkit::{Change, FakeServer, Fault, Flavour};

use crate::{ask, config, open, with_model};

/// `policy` under an adapter that changes what it says.
fn adapted(policy: &Policy, seed: u64) -> Policy {
    let mut policy = policy.clone();
    let lora = LoraConfig { rank: 2, alpha: 4.0, ..LoraConfig::default() };
    policy.model = policy.model.with_adapter(lora, seed).expect("an adapter");
    let mut state = seed as u32;
    for value in policy.model.params.data_mut() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *value = 0.5 * (state as f32 / u32::MAX as f32 - 0.5);
    }
    policy
}

/// The mean distance of a reply's log-probabilities from those of `policy`.
fn distance(policy: &Policy, reply: &patchrl_agent::Reply) -> f32 {
    let sampled = reply.sampled.as_ref().expect("tokens");
    let group = Group { prompt: &sampled.prompt, answers: vec![&sampled.tokens] };
    let own = policy.model.log_probs(&group, 1.0).expect("log-probabilities");
    let apart = own[0].iter().zip(&sampled.log_probs).map(|(a, b)| (a - b).abs());
    apart.sum::<f32>() / sampled.tokens.len() as f32
}

#[test]
fn each_adapter_answers_as_itself_and_leaves_in_time() {
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let (dir, policy, server) = with_model(flavour);
        let config = RolloutConfig { staleness: 1, ..config(&server) };
        let client = open(&config);
        let handover = Handover::open(client.clone(), true, dir.path()).expect("a way");
        for version in 0..5 {
            let adapted = adapted(&policy, version + 1);
            handover.publish(&adapted, version).expect("handed over");
            let reply = ask(&client, version).expect("a reply");
            assert!(distance(&adapted, &reply) < 1e-4, "{flavour:?} {version}");
            assert!(distance(&policy, &reply) > 1e-2, "the adapter says nothing else");
            let versions = reply.sampled.expect("tokens").versions;
            assert!(versions.iter().all(|it| *it == version), "{versions:?}");
            let live: Vec<String> =
                (version.saturating_sub(1)..=version).map(|v| format!("policy-v{v}")).collect();
            assert_eq!(server.loaded(), live);
        }
        let left = || fs_err::read_dir(dir.path().join("handover")).expect("a folder").count();
        assert_eq!(left(), 2);
        // A run that goes on begins with nothing there.
        Handover::open(client, true, dir.path()).expect("a way");
        assert!(left() == 0 && server.loaded().is_empty());
    }
}

#[test]
fn what_an_earlier_run_left_is_taken_away() {
    let (dir, policy, server) = with_model(Flavour::Vllm);
    let handover = Handover::open(open(&config(&server)), true, dir.path()).expect("a way");
    handover.publish(&adapted(&policy, 1), 7).expect("handed over");
    let other = dir.path().join("other");
    let again = Handover::open(open(&config(&server)), true, &other).expect("a way");
    assert!(server.loaded().is_empty());
    again.publish(&adapted(&policy, 2), 7).expect("handed over");
    let history: Vec<Change> =
        server.history().into_iter().filter(|it| !matches!(it, Change::Answered(_))).collect();
    let name = || "policy-v7".to_owned();
    assert_eq!(
        history,
        [
            Change::Flushed,
            Change::Loaded(name()),
            Change::Unloaded(name()),
            Change::Flushed,
            Change::Loaded(name())
        ]
    );
}

#[test]
fn whole_weights_are_read_from_the_disk() {
    let (dir, policy, server) = with_model(Flavour::Sglang);
    let client = open(&config(&server));
    let handover = Handover::open(client.clone(), false, dir.path()).expect("a way");
    let mut other = policy.clone();
    other.model = adapted(&policy, 3).model.merged();
    handover.publish(&other, 9).expect("handed over");
    let reply = ask(&client, 1).expect("a reply");
    assert!(distance(&other, &reply) < 1e-4 && distance(&policy, &reply) > 1e-2);
    assert!(reply.sampled.expect("tokens").versions.iter().all(|it| *it == 9));
    let weights = |history: Vec<Change>| -> Vec<Change> {
        let other = |it: &Change| !matches!(it, Change::Answered(_) | Change::Flushed);
        history.into_iter().filter(other).collect()
    };
    let updated = Change::Updated("policy-v9".into());
    assert_eq!(weights(server.history()), [Change::Paused, updated, Change::Resumed]);

    // One that refuses goes on answering.
    let no = r#"{"success": false, "message": "no such folder"}"#;
    server.fail("/update_weights_from_disk", [Fault::body(no)]);
    let refused = handover.publish(&policy, 10).expect_err("a refusal").to_string();
    assert!(refused.contains("no such folder"), "{refused}");
    let reply = ask(&client, 1).expect("a reply");
    assert!(reply.sampled.expect("tokens").versions.iter().all(|it| *it == 9));
    assert_eq!(weights(server.history())[3..], [Change::Paused, Change::Resumed]);
}

fn refusal(server: &FakeServer, change: impl FnOnce(&mut RolloutConfig), lora: bool) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let mut config = config(server);
    change(&mut config);
    match Handover::open(open(&config), lora, dir.path()) {
        Err(RolloutError::Policy(PolicyFault::Fatal { what, hint })) => format!("{what} / {hint}"),
        other => panic!("no refusal: {:?}", other.err()),
    }
}

#[test]
fn a_way_that_does_not_exist_is_refused_before_the_first_step() {
    let (_dir, _, vllm) = with_model(Flavour::Vllm);
    let (_dir, _, sglang) = with_model(Flavour::Sglang);
    let (_dir, _, llama) = with_model(Flavour::LlamaCpp);
    let nothing = |_: &mut RolloutConfig| {};
    assert!(refusal(&vllm, nothing, false).contains("train.lora"));
    assert!(refusal(&sglang, |c| c.staleness = 2, false).contains("staleness: 0"));
    assert!(refusal(&llama, nothing, true).contains("handover: none"));
    assert!(refusal(&sglang, |c| c.handover = HandoverKind::Lora, false).contains("train.lora"));
}

#[test]
fn a_refused_adapter_says_how_the_server_must_be_started() {
    let (dir, policy, server) = with_model(Flavour::Vllm);
    let handover = Handover::open(open(&config(&server)), true, dir.path()).expect("a way");
    server.fail("/load_lora_adapter", [Fault::Status(404, "", r#"{"detail":"Not Found"}"#.into())]);
    let refused = handover.publish(&adapted(&policy, 1), 0).expect_err("a refusal");
    let RolloutError::Policy(PolicyFault::Fatal { hint, .. }) = refused else {
        panic!("{refused}")
    };
    assert!(hint.contains("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"), "{hint}");
    // What passes is waited for, also where the first attempt came through unheard.
    server.fail("/load_lora_adapter", [Fault::error(503, "busy"), Fault::Cut]);
    handover.publish(&adapted(&policy, 1), 0).expect("handed over");
    assert_eq!(server.loaded(), ["policy-v0"]);
}
