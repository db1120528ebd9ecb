//! A thought has a budget of its own in answers of one turn, from weights here and from a server.

use patchrl_agent::{CLOSING, PolicyFault};
use patchrl_model::{Finish, Group, Message, Policy};
use patchrl_rollout::{
    Api, At, Drawer, Drawn, Prompt, Remote, RolloutConfig, RolloutError, SamplingConfig,
};
use patchrl_task::TaskId;
use patchrl_testkit::{FakeServer, Flavour};

use crate::{config, open, sampling, with_model};

const AT: At = At { run: 1, step: 3, group_size: 6 };

/// A prompt that leaves the thought open, as some templates do, or does not.
fn prompt(policy: &Policy, opens: bool) -> Prompt {
    let task = TaskId::parse("a__b-1").expect("an id");
    let mut prompt = Drawer::prompt(policy, task, &[Message::new("user", "fix")]).expect("one");
    if opens {
        prompt.text.push_str("<think>\n");
        prompt.tokens.extend(policy.tokenizer.encode("<think>\n"));
    }
    prompt
}

/// Thoughts of ten tokens, answers of twelve.
fn budget() -> SamplingConfig {
    SamplingConfig { thinking_tokens: 10, ..sampling() }
}

fn draw(drawer: &dyn Drawer, prompt: &Prompt, sampling: &SamplingConfig) -> (Vec<Drawn>, usize) {
    let mut heard = 0;
    let prompts = std::slice::from_ref(prompt);
    let drawn = drawer.draw(prompts, sampling, AT, &mut |n| heard += n).expect("answers");
    (drawn.into_iter().flatten().collect(), heard)
}

/// Each answer ended by itself, or was closed by tokens that nobody drew.
fn are_closed(policy: &Policy, prompt: &Prompt, (drawn, heard): &(Vec<Drawn>, usize)) {
    let closing = policy.tokenizer.encode(CLOSING);
    let answers = drawn.iter().map(|it| it.sample.tokens.as_slice()).collect();
    let group = Group { prompt: &prompt.tokens, answers };
    let own = policy.model.log_probs(&group, 1.0).expect("log-probabilities");
    let mut closed = 0;
    for (it, own) in drawn.iter().zip(own) {
        assert_eq!(it.lost, None);
        let (sample, most) = (&it.sample, 22 + closing.len());
        let lengths = [sample.tokens.len(), sample.log_probs.len(), it.versions.len()];
        assert_eq!(lengths, [sample.mask.len(); 3]);
        let cut = sample.tokens.len() > 10;
        closed += usize::from(cut);
        assert!(sample.tokens.len() <= most);
        assert_eq!(sample.tokens.len() == most, sample.finish == Finish::Length);
        assert_eq!(it.answer.contains(CLOSING), cut, "the text is whole: {:?}", it.answer);
        let forced = 10..10 + closing.len();
        assert!(!cut || sample.tokens[forced.clone()] == closing);
        for (at, own) in own.iter().enumerate() {
            let (said, put_in) = (sample.log_probs[at], forced.contains(&at));
            assert_eq!((sample.mask[at], said.is_nan()), (!put_in, put_in));
            assert!(put_in || (said - own).abs() < 1e-3, "{said} and {own}");
        }
    }
    assert!(closed > 2, "{closed} were closed");
    assert_eq!(*heard, drawn.iter().map(|it| it.sample.count()).sum::<usize>());
}

#[test]
fn a_thought_is_closed_and_the_closing_is_masked() {
    let (_dir, policy, _server) = with_model(Flavour::Vllm);
    let thinks = prompt(&policy, true);
    let drawn = draw(&policy, &thinks, &budget());
    are_closed(&policy, &thinks, &drawn);
    let own =
        |it: &Drawn| it.versions.iter().zip(&it.sample.mask).all(|(v, own)| *own == (*v == 3));
    assert!(drawn.0.iter().all(own));
    let again = draw(&policy, &thinks, &budget()).0;
    assert!(again.iter().zip(&drawn.0).all(|(a, b)| a.sample.tokens == b.sample.tokens));
    for (flavour, api) in [
        (Flavour::Vllm, Api::Completions),
        (Flavour::Sglang, Api::Completions),
        (Flavour::Sglang, Api::Generate),
        (Flavour::LlamaCpp, Api::Completions),
    ] {
        let (_dir, policy, server) = with_model(flavour);
        let remote = served(&policy, &server, api);
        are_closed(&policy, &thinks, &draw(&remote, &thinks, &budget()));
    }
}

#[test]
fn an_answer_without_a_thought_is_what_it_is_without_a_budget() {
    let (_dir, policy, server) = with_model(Flavour::Vllm);
    let plain = prompt(&policy, false);
    let remote = served(&policy, &server, Api::Completions);
    let here: &dyn Drawer = &policy;
    for (drawer, goes_on) in [(here, true), (&remote, false)] {
        let (with, _) = draw(drawer, &plain, &budget());
        let (without, _) = draw(drawer, &plain, &sampling());
        for (with, without) in with.iter().zip(&without) {
            let seen = if goes_on { 12 } else { with.sample.tokens.len().min(10) };
            let both = [with, without].map(|it| it.sample.tokens.iter().take(seen));
            assert!(both[0].clone().eq(both[1].clone()));
            assert!(with.sample.tokens.len() <= 12 && with.sample.count() == with.versions.len());
        }
    }
}

#[test]
fn a_server_that_does_not_say_its_tokens_cannot_be_gone_on_with() {
    for retokenize in [false, true] {
        let (_dir, policy, server) = with_model(Flavour::Plain);
        let remote = Remote::of(open(&RolloutConfig { retokenize, ..config(&server) }), &policy);
        let thinks = prompt(&policy, true);
        let fault = remote.draw(&[thinks], &budget(), AT, &mut |_| {}).expect_err("a refusal");
        let RolloutError::Policy(PolicyFault::Fatal { what, hint }) = fault else {
            panic!("{fault}")
        };
        assert!(what.contains("`sampling.thinking_tokens`") && hint.contains("at 0"), "{what}");
    }
}

fn served(policy: &Policy, server: &FakeServer, api: Api) -> Remote {
    Remote::of(open(&RolloutConfig { api, ..config(server) }), policy)
}
