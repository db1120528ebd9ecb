//! A whole update on a model of a few thousand parameters.

use std::path::Path;

use patchrl_model::{Activations, Config, Group, Model, Params};
use patchrl_train::grpo::{Answer, Batch, Update, Updater};
use patchrl_train::{AdamW, AdamWConfig, GrpoConfig};
use serde_json::json;

const PROMPT: [u32; 4] = [3, 17, 5, 9];
const TOKENS: [&[u32]; 3] = [&[4, 8, 15, 16, 23], &[7], &[1, 2, 30]];
const ADVANTAGES: [f32; 3] = [0.75, -0.5, -0.25];

fn model(seed: u32) -> Model {
    let hf = json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": 32, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "eos_token_id": 31, "hidden_act": "silu",
    });
    let config = Config::from_hf(&hf, Path::new("config.json")).expect("a configuration");
    let mut params = Params::zeros(&config);
    let mut state = seed;
    for value in params.data_mut() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *value = 0.6 * (state as f32 / u32::MAX as f32 - 0.5);
    }
    Model::new(config, params)
}

fn config(text: &str) -> GrpoConfig {
    serde_json::from_str(text).expect("a configuration")
}

/// The sampler's log-probabilities: the model's own.
fn sampled(model: &Model) -> Vec<Vec<f32>> {
    let group = Group { prompt: &PROMPT, answers: TOKENS.to_vec() };
    model.log_probs(&group, 1.0).expect("log-probabilities")
}

fn answers(sampled: &[Vec<f32>]) -> Vec<Answer<'_>> {
    TOKENS
        .iter()
        .zip(sampled)
        .zip(ADVANTAGES)
        .enumerate()
        .map(|(i, ((tokens, sampled), advantage))| Answer::whole(tokens, sampled, advantage, i))
        .collect()
}

fn batch<'a>(answers: &[Answer<'a>], idle: &[usize]) -> Batch<'a> {
    Batch { prompt: &PROMPT, answers: answers.to_vec(), idle: idle.to_vec(), group: 0 }
}

/// The last pass's gradient, the weights afterwards, and the report.
fn run(config: &GrpoConfig, batches: Vec<Batch<'_>>) -> (Vec<f32>, Vec<f32>, Update) {
    let (mut model, reference) = (model(1), model(2));
    let mut grads = Params::zeros(&model.config);
    let mut optimizer = AdamW::new(AdamWConfig::default(), grads.data().len());
    let report = Updater {
        model: &mut model,
        reference: (config.kl_coef > 0.0).then_some(&reference),
        optimizer: &mut optimizer,
        grads: &mut grads,
        loss: config.loss(),
        denominator: config.denominator(8),
        temperature: 1.0,
        activations: Activations::Keep,
    }
    .run(batches, config.updates_per_step, 0.01)
    .expect("an update");
    (grads.data().to_vec(), model.params.data().to_vec(), report)
}

/// d loss / d logp of `-min(r A, clip(r) A) + 0.02 k3` over `tokens`: the mission's loss, in the
/// order of operations that its recorded runs were made with.
fn slope_reference(logp: f32, old: f32, reference: f32, advantage: f32, tokens: f32) -> f32 {
    let ratio = f64::from(logp - old).exp();
    let advantage = f64::from(advantage);
    let bounded = ratio.clamp(1.0 - f64::from(0.2_f32), 1.0 + f64::from(0.2_f32));
    let slope = if bounded * advantage < ratio * advantage { 0.0 } else { -ratio * advantage };
    let gap = f64::from(reference - logp).clamp(-20.0, 20.0);
    (slope + f64::from(0.02_f32) * (1.0 - gap.exp())) as f32 / tokens
}

#[test]
fn the_default_is_the_mission_s_loss_bit_for_bit() {
    let (mut policy, reference) = (model(1), model(2));
    let own = sampled(&policy);
    let group = Group { prompt: &PROMPT, answers: TOKENS.to_vec() };
    let frozen = reference.log_probs(&group, 1.0).expect("log-probabilities");
    let mut grads = Params::zeros(&policy.config);
    let mut optimizer = AdamW::new(AdamWConfig::default(), grads.data().len());
    let mut moved = 0;
    for _ in 0..3 {
        grads.data_mut().fill(0.0);
        let forward = policy.forward(&group, 1.0, Activations::Keep).expect("a forward pass");
        let logp = forward.log_probs().to_vec();
        let slopes: Vec<Vec<f32>> = (0..TOKENS.len())
            .map(|a| {
                let of = |t: usize| {
                    slope_reference(logp[a][t], own[a][t], frozen[a][t], ADVANTAGES[a], 9.0)
                };
                (0..TOKENS[a].len()).map(of).collect()
            })
            .collect();
        moved =
            logp.concat().iter().zip(own.concat()).filter(|(l, o)| (*l - o).abs() > 0.2).count();
        forward.backward(&slopes, &mut grads).expect("a backward pass");
        optimizer.step(policy.params.data_mut(), grads.data(), &[], 0.01).expect("a step");
    }
    assert!(moved > 0, "no ratio left the clip");
    let batches = vec![batch(&answers(&own), &[])];
    let (got, weights, report) = run(&config(r#"{"updates_per_step":3}"#), batches);
    assert!(got == grads.data() && weights == policy.params.data(), "not the same bits");
    assert!(report.health.clipped_low + report.health.clipped_high > 0.0);
    assert!(report.health.kl > 0.0 && report.entropy > 0.0);
}

#[test]
fn a_step_does_not_depend_on_how_it_is_cut() {
    let own = sampled(&model(1));
    let answers = answers(&own);
    for text in [r#"{"loss":"dapo"}"#, r#"{"loss":"grpo"}"#, r#"{"loss":"dr-grpo"}"#] {
        let (whole, _, one) = run(&config(text), vec![batch(&answers, &[])]);
        let cut = vec![batch(&answers[..1], &[]), batch(&answers[1..], &[])];
        let (parts, _, two) = run(&config(text), cut);
        let norm = whole.iter().map(|g| g * g).sum::<f32>().sqrt();
        let apart = whole.iter().zip(&parts).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt();
        assert!(apart / norm < 1e-6, "{text}: {apart} of {norm}");
        assert!((one.loss - two.loss).abs() < 1e-6, "{text}: {} and {}", one.loss, two.loss);
    }
}

#[test]
fn an_answer_that_the_sampler_did_not_mean_leaves_the_step() {
    let own = sampled(&model(1));
    let mut other = own.clone();
    other[0][2] -= 9.0;
    let reject = config(r#"{"sampler_reject":"outlier"}"#);
    let (grads, _, report) = run(&reject, vec![batch(&answers(&other), &[])]);
    assert_eq!((report.rejected, report.tokens), (1, 4));
    let (want, ..) = run(&config("{}"), vec![batch(&answers(&own)[1..], &[])]);
    assert!(grads == want, "the rest is not trained as if alone");
    // TRL counts it among the answers of a mean.
    let counted = r#"{"sampler_reject":"outlier","loss":"grpo","masked_answers":"count"}"#;
    let (grads, ..) = run(&config(counted), vec![batch(&answers(&other), &[])]);
    let mean = config(r#"{"loss":"grpo","masked_answers":"count"}"#);
    let (want, ..) = run(&mean, vec![batch(&answers(&own)[1..], &[0])]);
    assert!(grads == want, "it is not counted");
}

#[test]
fn idle_answers_only_count() {
    let own = sampled(&model(1));
    let (alone, _, report) = run(&config("{}"), vec![batch(&answers(&own), &[])]);
    // 9 tokens are trained on; 9 more halve every derivative, in this group or in another.
    let beside = vec![batch(&answers(&own), &[]), batch(&[], &[6, 3])];
    for batches in [vec![batch(&answers(&own), &[9])], beside] {
        let (halved, _, with) = run(&config("{}"), batches);
        assert!(alone.iter().zip(&halved).all(|(a, h)| (a - 2.0 * h).abs() <= 1e-6 * a.abs()));
        assert_eq!(with.tokens, report.tokens);
    }
    let (_, weights, nothing) = run(&config("{}"), vec![batch(&[], &[9])]);
    assert!(weights == model(1).params.data(), "a step without a token moved the weights");
    assert_eq!(nothing, Update::default());
}

#[test]
fn the_entropy_bonus_is_taken_off_the_loss_and_pulls_entropy_up() {
    let policy = model(1);
    let own = sampled(&policy);
    let still = |sampled| -> Vec<Answer<'_>> {
        answers(sampled).into_iter().map(|a| Answer { advantage: 0.0, ..a }).collect()
    };
    let with = config(r#"{"kl_coef":0,"entropy_coef":0.3}"#);
    let (grads, _, report) = run(&with, vec![batch(&still(&own), &[])]);
    let bonus = f64::from(0.3_f32) * report.entropy;
    assert!((report.loss + bonus).abs() < 1e-9, "{} is not -{bonus}", report.loss);
    let group = Group { prompt: &PROMPT, answers: TOKENS.to_vec() };
    let entropy = |model: &Model| {
        let forward = model.forward(&group, 1.0, Activations::Keep).expect("a forward pass");
        forward.entropy().iter().flatten().sum::<f32>()
    };
    let mut moved = policy.clone();
    for (weight, slope) in moved.params.data_mut().iter_mut().zip(&grads) {
        *weight -= slope;
    }
    let (before, after) = (entropy(&policy), entropy(&moved));
    assert!(after > before + 1e-3, "{after} after {before}");
    let (none, ..) = run(&config(r#"{"kl_coef":0}"#), vec![batch(&still(&own), &[])]);
    assert!(none.iter().all(|&slope| slope == 0.0));
}

/// The gradient of the sum over tokens of `-slope * logp`, one slope per answer and token.
fn gradient(batches: &[(&[u32], &[u32], Vec<f32>)]) -> Vec<f32> {
    let model = model(1);
    let mut grads = Params::zeros(&model.config);
    for (prompt, answer, slopes) in batches {
        let forward = model
            .forward(&Group { prompt, answers: vec![answer] }, 1.0, Activations::Keep)
            .expect("a pass");
        forward.backward(&[slopes.iter().map(|s| -s).collect()], &mut grads).expect("a pass");
    }
    grads.data().to_vec()
}

fn apart(got: &[f32], want: &[f32]) -> f32 {
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| x * x).sum::<f32>().sqrt();
    let size = norm(&mut want.iter().copied());
    norm(&mut got.iter().zip(want).map(|(a, b)| a - b)) / size
}

#[test]
fn what_an_agent_read_is_context_and_carries_no_loss() {
    let mask = [true, true, false, false, true];
    let own = sampled(&model(1));
    // A sampler says nothing about what it did not sample.
    let mut known = own[0].clone();
    (known[2], known[3]) = (f32::NAN, f32::NAN);
    let masked = Answer { mask: Some(&mask), ..Answer::whole(TOKENS[0], &known, 0.75, 0) };
    let other = Answer::whole(TOKENS[1], &own[1], -0.5, 1);
    let both = config(r#"{"loss":"dapo","kl_coef":0}"#);
    let (got, _, report) = run(&both, vec![batch(&[masked, other], &[])]);
    assert_eq!(report.tokens, 4);
    let a = 0.75 / 4.0;
    let want = gradient(&[
        (&PROMPT, TOKENS[0], vec![a, a, 0.0, 0.0, a]),
        (&PROMPT, TOKENS[1], vec![-0.5 / 4.0]),
    ]);
    assert!(apart(&got, &want) < 1e-6, "{}", apart(&got, &want));
}

#[test]
fn the_rows_of_an_episode_are_one_answer_to_every_mean() {
    let own = sampled(&model(1));
    let anew: [u32; 3] = [2, 2, 6];
    let group = Group { prompt: &anew, answers: vec![TOKENS[2]] };
    let second = model(1).log_probs(&group, 1.0).expect("log-probabilities");
    let rows = |row: usize| match row {
        0 => Answer::whole(TOKENS[0], &own[0], 0.75, 0),
        _ => Answer::whole(TOKENS[2], &second[0], 0.75, 0),
    };
    let other = Answer::whole(TOKENS[1], &own[1], -0.5, 1);
    // Two episodes: 5 and 3 tokens, and 1. Each token of the first is one of 8 in one of 2.
    for (text, first, last) in [
        (r#"{"loss":"grpo","kl_coef":0}"#, 0.75 / 16.0, -0.5 / 2.0),
        (r#"{"loss":"bnpo","kl_coef":0}"#, 0.75 / 9.0, -0.5 / 9.0),
        (r#"{"loss":"dapo","kl_coef":0}"#, 0.75 / 9.0, -0.5 / 9.0),
        (r#"{"loss":"dr-grpo","kl_coef":0}"#, 0.75 / 16.0, -0.5 / 16.0),
    ] {
        let batches = vec![
            batch(&[rows(0), other.clone()], &[]),
            Batch { prompt: &anew, answers: vec![rows(1)], idle: Vec::new(), group: 0 },
        ];
        let (got, ..) = run(&config(text), batches);
        let want = gradient(&[
            (&PROMPT, TOKENS[0], vec![first; 5]),
            (&anew, TOKENS[2], vec![first; 3]),
            (&PROMPT, TOKENS[1], vec![last]),
        ]);
        assert!(apart(&got, &want) < 1e-6, "{text}: {}", apart(&got, &want));
    }
}
