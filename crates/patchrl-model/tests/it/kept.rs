//! Conversations that go on from what was read of them, to the bit.

use patchrl_model::{Kept, Model, Request, Sampling, Target, generate, generate_kept};

use crate::tiny::{self, Texts};

const HOW: Sampling =
    Sampling { temperature: 0.8, top_p: 1.0, top_k: 0, max_new_tokens: 9, stop: Vec::new() };

/// Conversations that begin alike, each going on with its reply and a text of the next length, with
/// what is kept and without.
fn converse(model: &Model, kept: &mut Kept<'_>, lengths: &[usize], many: usize, limit: usize) {
    let text = Texts::new(model.config.vocab, 300, lengths);
    let mut chats = vec![text.prompt.clone(); many];
    for (turn, new) in text.answers.iter().enumerate() {
        let seed = |chat: usize| (turn * many + chat) as u64;
        let requests: Vec<Request<'_>> =
            chats.iter().enumerate().map(|(at, it)| Request::new(it, [seed(at)])).collect();
        let fresh = generate(model, &requests, &HOW, &mut |_| {}).unwrap();
        let going_on = generate_kept(kept, &requests, &HOW).unwrap();
        assert!(kept.bytes() <= limit, "{} bytes", kept.bytes());
        for (at, (fresh, going_on)) in fresh.iter().zip(&going_on).enumerate() {
            let bits = |it: &[f32]| it.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(fresh[0].tokens, going_on[0].tokens, "turn {turn}, chat {at}");
            let (a, b) = (bits(&fresh[0].log_probs), bits(&going_on[0].log_probs));
            assert_eq!(a, b, "turn {turn}, chat {at}");
            chats[at].extend(&fresh[0].tokens);
            chats[at].extend(new);
        }
    }
}

#[test]
fn a_turn_that_goes_on_has_the_bits_of_one_read_anew() {
    for (name, mut config) in tiny::variants() {
        config.max_positions = 2048;
        let model = tiny::model(config);
        for model in [tiny::adapted(model.clone(), &Target::ALL), model] {
            let mut kept = Kept::new(&model, usize::MAX);
            converse(&model, &mut kept, &[1, 90, 246, 3], 2, usize::MAX);
            assert!(kept.spared() > 1000, "{name}: {} tokens", kept.spared());
        }
    }
}

/// Sums that a product makes in several parts: more than 512 of them, and few rows of an adapter.
#[test]
fn long_sums_have_the_same_bits_too() {
    let config = tiny::config(true, false);
    let sizes = patchrl_model::Config { hidden: 600, ffn: 1100, max_positions: 2048, ..config };
    let model = tiny::model(sizes);
    for model in [tiny::adapted(model.clone(), &Target::ALL), model] {
        let mut kept = Kept::new(&model, usize::MAX);
        converse(&model, &mut kept, &[130, 20, 300, 1, 110, 400, 5], 1, usize::MAX);
        assert!(kept.spared() > 2000, "{} tokens", kept.spared());
    }
}

#[test]
fn what_is_kept_stays_within_its_limit() {
    let mut config = tiny::config(true, false);
    config.max_positions = 2048;
    let model = tiny::model(config);
    // Two layers of keys and values of two heads of six numbers.
    let token = 2 * 2 * 2 * 6 * 4 + 4;
    for (tokens, least) in [(0, 0), (299, 0), (700, 1000), (1500, 2000)] {
        let limit = tokens * token + 1000;
        let mut kept = Kept::new(&model, limit);
        converse(&model, &mut kept, &[100, 40, 200, 60], 4, limit);
        // Others come, and take the place of those that ended.
        converse(&model, &mut kept, &[30, 30, 30], 1, limit);
        assert!(kept.spared() >= least, "{tokens}: {} tokens", kept.spared());
    }
}
