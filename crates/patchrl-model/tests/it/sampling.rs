//! Sampling against the full forward pass.

use patchrl_model::{
    Activations, Drafts, Finish, Group, Model, ModelError, Part, Request, Sample, Sampling, Step,
    Target, generate, generate_in_parts, generate_with,
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
        let request = Request::new(&texts.prompt, vec![1, 2]);
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
        let request = Request::new(&texts.prompt, 0..11);
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
        let request = Request::new(&texts.prompt, 0..40);
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
        .map(|(prompt, seeds)| Request::new(prompt, seeds.clone()))
        .collect();
    let mut drawn = 0;
    let together = generate(&model, &requests, &how, &mut |count| drawn += count).unwrap();
    assert_eq!(drawn, 12 * 20);
    for ((prompt, seeds), together) in prompts.iter().zip(&seeds).zip(&together) {
        assert_eq!(together.len(), seeds.len());
        for (&seed, together) in seeds.iter().zip(together) {
            let alone = sample(&model, &[Request::new(prompt, vec![seed])], &how);
            assert_eq!(&alone[0][0], together, "seed {seed}");
        }
    }
}

/// Samples, and what the steps did in total.
fn drafted(
    model: &Model,
    requests: &[Request<'_>],
    sampling: &Sampling,
    drafts: Drafts,
) -> (Vec<Vec<Sample>>, Step) {
    let mut total = Step { rows: 0, tokens: 0 };
    let samples = generate_with(model, requests, sampling, drafts, &mut |step| {
        total.rows += step.rows;
        total.tokens += step.tokens;
    });
    (samples.unwrap(), total)
}

#[test]
fn copying_ahead_changes_no_bit() {
    for (name, model) in models() {
        let texts = Texts::new(model.config.vocab, 40, &[9]);
        let prompts = [&texts.prompt, &texts.answers[0]];
        let requests = prompts.map(|prompt| Request::new(prompt, 0..5));
        // Cold and truncated, so that answers repeat themselves.
        for (temperature, top_k, stop) in
            [(0.0, 0, vec![]), (0.4, 3, vec![1, 2, 3]), (1.0, 0, vec![5])]
        {
            let how = Sampling { top_k, stop, max_new_tokens: 60, ..sampling(temperature) };
            let (plain, steps) = drafted(&model, &requests, &how, Drafts::Fixed(0));
            assert_eq!(steps.rows, steps.tokens);
            for drafts in [Drafts::Fixed(1), Drafts::Fixed(3), Drafts::Fixed(40), Drafts::Measured]
            {
                let (samples, steps) = drafted(&model, &requests, &how, drafts);
                assert_eq!(samples, plain, "{name}, temperature {temperature}, {drafts:?}");
                if drafts != Drafts::Measured {
                    assert!(steps.rows > steps.tokens, "{name}: no draft was refused");
                }
            }
        }
    }
}

#[test]
fn texts_beside_the_prompt_are_copied_and_not_seen() {
    let model = tiny::model(tiny::config(true, false));
    let texts = Texts::new(model.config.vocab, 10, &[]);
    let how = sampling(1.0);
    let mut request = Request::new(&texts.prompt, [4]);
    let plain = sample(&model, std::slice::from_ref(&request), &how);
    request.also = vec![plain[0][0].tokens.clone()];
    let mut steps = Vec::new();
    let copied = generate_with(&model, &[request], &how, Drafts::Fixed(9), &mut |step| {
        steps.push(step.tokens);
    });
    assert_eq!(copied.unwrap(), plain);
    assert_eq!(steps, [1, 10, 9]);
}

#[test]
fn copying_ahead_keeps_the_distribution() {
    let model = tiny::model(tiny::config(true, false));
    let texts = Texts::new(model.config.vocab, 200, &[]);
    let how = Sampling { max_new_tokens: 4, ..sampling(1.0) };
    let request = Request::new(&texts.prompt, 0..20_000);
    let (samples, steps) = drafted(&model, &[request], &how, Drafts::Fixed(2));
    // Every token that is seen again has a copy behind it, of two tokens where that many are left.
    assert!(steps.rows > 100_000, "{steps:?}");
    let probabilities = |answer: &[u32]| {
        let weights: Vec<f64> =
            next(&model, &texts.prompt, answer).iter().map(|&z| f64::from(z).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / sum).enumerate()
    };
    // Of the second and third token together, over all first tokens: both had copies.
    let vocab = model.config.vocab;
    let mut want = vec![0.0; vocab * vocab];
    for (first, p) in probabilities(&[]) {
        for (second, q) in probabilities(&[first as u32]) {
            for (third, r) in probabilities(&[first as u32, second as u32]) {
                want[second * vocab + third] += 20_000.0 * p * q * r;
            }
        }
    }
    let mut counts = vec![0.0; vocab * vocab];
    for sample in &samples[0] {
        counts[sample.tokens[1] as usize * vocab + sample.tokens[2] as usize] += 1.0;
    }
    // Cells that expect under 5 samples count as one.
    let (mut cells, mut rest) = (Vec::new(), (0.0, 0.0));
    for (&want, &count) in want.iter().zip(&counts) {
        if want < 5.0 {
            rest = (rest.0 + want, rest.1 + count);
        } else {
            cells.push((want, count));
        }
    }
    cells.push(rest);
    let chi: f64 =
        cells.iter().map(|(want, count): &(f64, f64)| (count - want).powi(2) / want).sum();
    let freedom = cells.len() as f64 - 1.0;
    // 3 deviations: a true distribution fails once in a thousand seeds.
    assert!(
        cells.len() > 500 && (chi - freedom).abs() < 3.0 * (2.0 * freedom).sqrt(),
        "{chi}, {freedom}"
    );
    println!("chi-square {chi:.0} with {freedom} degrees of freedom, {steps:?}");
}

#[test]
fn answers_end_at_a_stop_token_or_at_the_limit() {
    let mut model = tiny::model(tiny::config(true, false));
    let texts = Texts::new(model.config.vocab, 10, &[]);
    let mut how = sampling(1.5);
    how.stop = vec![3, 4, 5, 6, 7, 8];
    let request = Request::new(&texts.prompt, 0..30);
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
fn an_answer_in_parts_is_the_answer_in_one_but_for_what_is_put_in() {
    for (name, model) in models() {
        let texts = Texts::new(model.config.vocab, 13, &[]);
        let mut how = sampling(1.0);
        how.stop = vec![3];
        let one = Request::new(&texts.prompt, 0..9);
        let whole = &sample(&model, std::slice::from_ref(&one), &how)[0];
        let parts = Request { most: 6, ..one };
        let go_on = |read: &[u32], most| {
            let next = |at: usize, said: &[u32]| {
                assert!(at == 0 && [6, 17].contains(&said.len()), "asked at the end of a part");
                (said.len() == 6).then(|| Part { read: read.to_vec(), most })
            };
            let mut heard = 0;
            let requests = std::slice::from_ref(&parts);
            let drawn =
                generate_in_parts(&model, requests, &how, &next, &mut |n| heard += n).unwrap();
            assert_eq!(heard, drawn[0].iter().map(Sample::count).sum::<usize>(), "{name}");
            drawn[0].clone()
        };
        assert_eq!(go_on(&[], 14), *whole, "{name}");
        let put_in = [7, 9, 11];
        let answers = go_on(&put_in, 8);
        assert!(answers.iter().any(|it| it.finish == Finish::Length));
        let tokens = answers.iter().map(|it| it.tokens.as_slice()).collect();
        let scores = model.log_probs(&Group { prompt: &texts.prompt, answers: tokens }, 1.0);
        for ((it, whole), scores) in answers.iter().zip(whole).zip(scores.unwrap()) {
            if it.tokens.len() < 7 {
                assert_eq!(it, whole, "{name}: it ended by itself");
                continue;
            }
            assert_eq!(it.tokens[..6], whole.tokens[..6], "{name}");
            assert_eq!(it.tokens[6..9], put_in, "{name}");
            assert_eq!(it.tokens.len() == 17, it.finish == Finish::Length, "{name}");
            for (at, (drawn, own)) in it.mask.iter().zip(scores).enumerate() {
                let said = it.log_probs[at];
                assert_eq!((*drawn, said.is_nan()), (!(6..9).contains(&at), !drawn));
                assert!(!drawn || (said - own).abs() < 1e-4, "{name}: {said} is not {own}");
            }
        }
        // The limit of all leaves one token after what is put in, or none at all.
        (how.max_new_tokens, how.stop) = (10, Vec::new());
        let next = |_: usize, _: &[u32]| Some(Part { read: put_in.to_vec(), most: 8 });
        for (most, tokens) in [(6, 10), (7, 7)] {
            let request = Request { most, ..Request::new(&texts.prompt, [1]) };
            let one = generate_in_parts(&model, &[request], &how, &next, &mut |_| {}).unwrap();
            assert_eq!((one[0][0].tokens.len(), one[0][0].finish), (tokens, Finish::Length));
        }
    }
}

#[test]
fn bad_input_is_an_error() {
    let model = tiny::model(tiny::config(true, false));
    let ask = |prompt: &[u32], how: &Sampling| {
        generate(&model, &[Request::new(prompt, vec![0])], how, &mut |_| {}).unwrap_err()
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
        model.forward(&group, 1.0, Activations::Keep),
        Err(ModelError::TokenOutOfRange { token: 99, .. })
    ));
    assert!(matches!(model.log_probs(&group, 0.0), Err(ModelError::BadSampling { .. })));
}
