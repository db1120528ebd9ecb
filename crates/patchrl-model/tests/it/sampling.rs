//! Sampling against the full forward pass.

use patchrl_model::{
    Finish, Group, Model, ModelError, Request, Sample, Sampling, Target, generate,
};

use crate::tiny::{self, Texts};

fn sampling(temperature: f32) -> Sampling {
    Sampling { temperature, top_p: 1.0, top_k: 0, max_new_tokens: 20, stop: Vec::new() }
}

fn sample(model: &Model, requests: &[Request<'_>], sampling: &Sampling) -> Vec<Vec<Sample>> {
    generate(model, requests, sampling, &mut |_| {}).unwrap()
}

/// Logits after `prompt` and `answer`, (vocab,).
fn next(model: &Model, prompt: &[u32], answer: &[u32]) -> Vec<f32> {
    let logits = model.logits(&[prompt, answer].concat()).unwrap();
    logits[logits.len() - model.config.vocab..].to_vec()
}

/// Ids from the most likely down.
fn ranked(logits: &[f32]) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    ids
}

/// Every switch of the skeleton, with an adapter and without.
fn models() -> impl Iterator<Item = (&'static str, Model)> {
    tiny::variants().into_iter().flat_map(|(name, config)| {
        let model = tiny::model(config);
        [(name, tiny::adapted(model.clone(), &Target::ALL)), (name, model)]
    })
}

#[test]
fn greedy_takes_the_largest_logit_of_the_full_pass() {
    for (name, model) in models() {
        // Shorter than the windows of `tiny::variants`: the answer leaves them on its way.
        let texts = Texts::new(model.config.vocab, 13, &[]);
        let request = Request { prompt: &texts.prompt, seeds: vec![1, 2] };
        let samples = &sample(&model, &[request], &sampling(0.0))[0];
        assert_eq!(samples[0], samples[1]);
        assert_eq!(samples[0].tokens.len(), 20);
        for at in 0..20 {
            let logits = next(&model, &texts.prompt, &samples[0].tokens[..at]);
            assert_eq!(samples[0].tokens[at] as usize, ranked(&logits)[0], "{name}: token {at}");
        }
    }
}

#[test]
fn log_probs_are_those_of_the_scorer() {
    for (name, model) in models() {
        let texts = Texts::new(model.config.vocab, 33, &[]);
        let mut how = sampling(0.7);
        (how.top_k, how.top_p) = (9, 0.9);
        let request = Request { prompt: &texts.prompt, seeds: (0..11).collect() };
        let samples = &sample(&model, &[request], &how)[0];
        assert!(samples.iter().any(|sample| sample.tokens != samples[0].tokens));
        let answers = samples.iter().map(|sample| sample.tokens.as_slice()).collect();
        let group = Group { prompt: &texts.prompt, answers };
        let scores = model.log_probs(&group, 0.7).unwrap();
        for (sample, scores) in samples.iter().zip(&scores) {
            assert_eq!(sample.finish, Finish::Length);
            for (got, want) in sample.log_probs.iter().zip(scores) {
                assert!((got - want).abs() < 1e-4, "{name}: {got} is not {want}");
            }
        }
    }
}

#[test]
fn truncation_never_picks_outside() {
    let model = tiny::model(tiny::config(true, false));
    let texts = Texts::new(model.config.vocab, 12, &[]);
    for (top_k, top_p) in [(3, 1.0), (0, 0.5), (5, 0.6)] {
        let mut how = sampling(1.3);
        (how.top_k, how.top_p, how.max_new_tokens) = (top_k, top_p, 8);
        let request = Request { prompt: &texts.prompt, seeds: (0..40).collect() };
        for sample in &sample(&model, &[request], &how)[0] {
            for at in 0..sample.tokens.len() {
                let logits = next(&model, &texts.prompt, &sample.tokens[..at]);
                let mut ids = ranked(&logits);
                if top_k > 0 {
                    ids.truncate(top_k);
                }
                let weight = |id: usize| f64::from(logits[id] / 1.3).exp();
                let total: f64 = ids.iter().map(|&id| weight(id)).sum();
                let place = ids.iter().position(|&id| id == sample.tokens[at] as usize).unwrap();
                let before: f64 = ids[..place].iter().map(|&id| weight(id)).sum();
                assert!(before < (f64::from(top_p) + 1e-4) * total, "rank {place} of {ids:?}");
            }
        }
    }
}

#[test]
fn a_sample_does_not_depend_on_its_neighbours() {
    let model = tiny::adapted(tiny::model(tiny::config(true, false)), &Target::ALL);
    let texts = Texts::new(model.config.vocab, 50, &[21, 7]);
    let how = sampling(1.0);
    let prompts = [&texts.prompt, &texts.answers[0], &texts.answers[1]];
    let seeds = [vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10], vec![], vec![2, 77]];
    let requests: Vec<Request<'_>> = prompts
        .iter()
        .zip(&seeds)
        .map(|(prompt, seeds)| Request { prompt, seeds: seeds.clone() })
        .collect();
    let mut drawn = 0;
    let together = generate(&model, &requests, &how, &mut |count| drawn += count).unwrap();
    assert_eq!(drawn, 12 * 20);
    for ((prompt, seeds), together) in prompts.iter().zip(&seeds).zip(&together) {
        assert_eq!(together.len(), seeds.len());
        for (&seed, together) in seeds.iter().zip(together) {
            let alone = sample(&model, &[Request { prompt, seeds: vec![seed] }], &how);
            assert_eq!(&alone[0][0], together, "seed {seed}");
        }
    }
}

#[test]
fn answers_end_at_a_stop_token_or_at_the_limit() {
    let mut model = tiny::model(tiny::config(true, false));
    let texts = Texts::new(model.config.vocab, 10, &[]);
    let mut how = sampling(1.5);
    how.stop = vec![3, 4, 5, 6, 7, 8];
    let request = Request { prompt: &texts.prompt, seeds: (0..30).collect() };
    let samples = &sample(&model, std::slice::from_ref(&request), &how)[0];
    assert!(samples.iter().any(|sample| sample.finish == Finish::Stop));
    for sample in samples {
        let stop = sample.tokens.iter().position(|token| how.stop.contains(token));
        let finish = if stop.is_some() { Finish::Stop } else { Finish::Length };
        assert_eq!(sample.finish, finish);
        assert_eq!(sample.tokens.len(), stop.map_or(20, |at| at + 1));
    }
    model.config.max_positions = 13;
    let short = &sample(&model, std::slice::from_ref(&request), &sampling(1.0))[0][0];
    assert_eq!((short.tokens.len(), short.finish), (3, Finish::Length));
    model.config.max_positions = 10;
    let refused = generate(&model, &[request], &how, &mut |_| {});
    assert!(matches!(refused, Err(ModelError::TooLong { tokens: 11, limit: 10 })));
}

#[test]
fn bad_input_is_an_error() {
    let model = tiny::model(tiny::config(true, false));
    let ask = |prompt: &[u32], how: &Sampling| {
        generate(&model, &[Request { prompt, seeds: vec![0] }], how, &mut |_| {}).unwrap_err()
    };
    assert!(matches!(ask(&[], &sampling(1.0)), ModelError::EmptyPrompt));
    assert!(matches!(ask(&[37], &sampling(1.0)), ModelError::TokenOutOfRange { token: 37, .. }));
    assert!(matches!(
        ask(&[1], &sampling(-1.0)),
        ModelError::BadSampling { name: "temperature", .. }
    ));
    let how = Sampling { top_p: 0.0, ..sampling(1.0) };
    assert!(matches!(ask(&[1], &how), ModelError::BadSampling { name: "top_p", .. }));
    let group = Group { prompt: &[1, 2], answers: vec![&[1, 99]] };
    assert!(matches!(
        model.forward(&group, 1.0),
        Err(ModelError::TokenOutOfRange { token: 99, .. })
    ));
    assert!(matches!(model.log_probs(&group, 0.0), Err(ModelError::BadSampling { .. })));
}
