//! Weights that play: a new model, so what it says is noise, and every episode ends all the same.

use patchrl_agent::AgentConfig;
use patchrl_model::{Group, Scratch};
use patchrl_reward::Mode;
use patchrl_rollout::{At, Embedded, SamplingConfig};

use crate::bench::Bench;

pub(crate) fn weights_play_in_one_batch(bench: &Bench) {
    let sizes = Scratch {
        vocab: 400,
        hidden: 32,
        heads: 2,
        kv_heads: 1,
        layers: 2,
        ffn: 48,
        ..Scratch::default()
    };
    let text = &bench.ready.task.problem_statement;
    let policy = patchrl_model::Policy::from_scratch(&sizes, &[text], 3).unwrap();
    let sampling = SamplingConfig { temperature: 1.0, ..SamplingConfig::default() };
    let config = AgentConfig {
        turns: 3,
        malformed: 9,
        context_tokens: 2040,
        thinking_tokens: 10,
        ..AgentConfig::default()
    };
    let embedded = Embedded::new(&policy, &sampling, 4);
    let roller = patchrl_rollout::EpisodeRoller {
        voice: Some(embedded.voice()),
        max_new_tokens: 24,
        ..bench.roller(&embedded, &config)
    };
    let at = At { run: 1, step: 2, group_size: 3 };
    let mut heard = 0;
    let tasks = [&bench.ready, &bench.other];
    let (groups, spent) =
        roller.roll(&tasks, Mode::Tests, at, &mut |tokens| heard += tokens).unwrap();
    assert_eq!((groups.len(), groups[0].attempts.len()), (2, 3));
    assert!(heard > 0 && heard == spent.tokens);
    for group in &groups {
        for attempt in &group.attempts {
            let played = attempt.played.as_ref().unwrap();
            assert_ne!(played.trajectory.end.as_str(), "lost", "{:?}", played.trajectory.end);
            assert!(attempt.judgement.reward.is_some());
            assert_eq!(played.rows.len(), 1, "nothing was read anew");
            let row = &played.rows[0];
            assert!(row.tokens.starts_with(&group.prompt.tokens));
            // What the sampler reported is what the model says of the row as it is trained.
            let prompt = group.prompt.tokens.len();
            let whole =
                Group { prompt: &row.tokens[..prompt], answers: vec![&row.tokens[prompt..]] };
            let log_probs = policy.model.log_probs(&whole, 1.0).unwrap();
            for (at, own) in log_probs[0].iter().enumerate() {
                let (sampled, reported) = (row.mask[prompt + at], row.log_probs[prompt + at]);
                assert!(!sampled || (reported - own).abs() < 1e-3, "{reported} and {own}");
                assert!(sampled || reported.is_nan());
                assert_eq!(row.versions[prompt + at], if sampled { 4 } else { 0 });
            }
        }
    }
    let same = roller.roll(&tasks, Mode::Tests, at, &mut |_| {}).unwrap().0;
    for (a, b) in groups.iter().zip(&same) {
        let rows = |g: &patchrl_rollout::Group| -> Vec<Vec<u32>> {
            g.attempts.iter().map(|a| a.sample.tokens.clone()).collect()
        };
        assert_eq!(rows(a), rows(b), "the same seeds, the same tokens");
        let distinct: std::collections::BTreeSet<Vec<u32>> = rows(a).into_iter().collect();
        assert_eq!(distinct.len(), 3, "episodes of a group differ");
    }
}
