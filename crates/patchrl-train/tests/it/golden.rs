//! Every loss, KL estimate, aggregation, sampler weight and advantage against the numbers that
//! TRL and verl themselves give for the same inputs. `golden/README.md` says how to make them.

use std::collections::BTreeMap;

use patchrl_train::GrpoConfig;
use patchrl_train::grpo::{Extent, Form, Health, Scale, Scored, Tally, advantages};
use serde::Deserialize;

const TRL: &str = include_str!("../../golden/trl.json");
const VERL: &str = include_str!("../../golden/verl.json");

/// The largest relative error of a value or of a derivative that is let pass.
const TOLERANCE: f64 = 1e-5;

#[derive(Deserialize)]
struct Golden {
    constant_length: usize,
    inputs: BTreeMap<String, Case>,
    results: Vec<Expected>,
    #[serde(default)]
    estimates: Vec<Estimate>,
}

#[derive(Deserialize)]
struct Case {
    answers: Vec<Row>,
    rewards: Vec<Vec<Option<f32>>>,
}

#[derive(Deserialize)]
struct Row {
    logp: Vec<f32>,
    old: Vec<f32>,
    reference: Vec<f32>,
    /// Null where the sampler could not say.
    sampled: Vec<Option<f32>>,
    mask: Vec<bool>,
}

#[derive(Deserialize)]
struct Expected {
    inputs: String,
    config: serde_json::Value,
    advantages: Vec<f64>,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    health: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Estimate {
    inputs: String,
    scale: Scale,
    eps: f64,
    advantages: Vec<Option<f64>>,
}

/// What our loss says of a case.
struct Got {
    loss: f64,
    gradient: Vec<Vec<f32>>,
    health: Health,
}

/// The step that an update takes, on given log-probabilities: rejections, denominators, losses.
fn evaluate(config: &GrpoConfig, case: &Case, scores: &[f64], limit: usize) -> Got {
    let loss = config.loss();
    let sampled: Vec<Vec<f32>> = case
        .answers
        .iter()
        .map(|row| row.sampled.iter().map(|s| s.unwrap_or(f32::NAN)).collect())
        .collect();
    let mut answers: Vec<Scored<'_>> = case
        .answers
        .iter()
        .zip(&sampled)
        .zip(scores)
        .map(|((row, sampled), &advantage)| Scored {
            logp: &row.logp,
            old: &row.old,
            reference: Some(&row.reference),
            sampled,
            mask: &row.mask,
            advantage: advantage as f32,
        })
        .collect();
    let nothing = [false; 16];
    for answer in &mut answers {
        if !loss.correction.keeps(answer) {
            answer.mask = &nothing[..answer.mask.len()];
        }
    }
    let counted = |a: &Scored<'_>| a.mask.iter().filter(|m| **m).count();
    let mut rest = answers.iter();
    let extents: Vec<Extent> = case
        .rewards
        .iter()
        .map(|g| Extent {
            trained: rest.by_ref().take(g.len()).map(counted).collect(),
            idle: Vec::new(),
        })
        .collect();
    let divisors = config.denominator(limit).divisors(&extents).concat();
    let mut tally = Tally::default();
    let gradient =
        answers.iter().zip(divisors).map(|(a, d)| loss.answer(a, d, &mut tally)).collect();
    Got { loss: tally.loss, gradient, health: tally.health() }
}

/// Relative, to 1e-6 where there is less: in the case `far` a trainer's own float64 loses
/// derivatives of 1e-12 between terms of 20.
fn error(got: f64, want: f64) -> f64 {
    (got - want).abs() / want.abs().max(1e-6)
}

fn health(got: &Health, name: &str) -> f64 {
    match name {
        "kl" => got.kl,
        "drift" => got.drift,
        "clipped" => got.clipped_low + got.clipped_high,
        "clipped_low" => got.clipped_low,
        "clipped_high" => got.clipped_high,
        "clipped_dual" => got.clipped_dual,
        "weight_mean" => got.weight_mean,
        "effective" => got.effective,
        other => panic!("no such part of an update's health: {other}"),
    }
}

/// Compare all, and say how many numbers were compared and what the worst error is.
fn compare(text: &str) -> (usize, f64) {
    let golden: Golden = serde_json::from_str(text).expect("golden numbers");
    let (mut compared, mut worst) = (0, 0.0_f64);
    for expected in &golden.results {
        let config: GrpoConfig =
            serde_json::from_value(expected.config.clone()).expect("a configuration");
        let case = &golden.inputs[&expected.inputs];
        let got = evaluate(&config, case, &expected.advantages, golden.constant_length);
        let place = format!("{} {}", expected.inputs, expected.config);
        let mut check = |what: &str, got: f64, want: f64| {
            let error = error(got, want);
            assert!(error < TOLERANCE, "{place}: {what} is {got}, but theirs is {want}");
            compared += 1;
            worst = worst.max(error);
        };
        check("the loss", got.loss, expected.loss);
        for (row, want) in got.gradient.iter().zip(&expected.gradient) {
            assert_eq!(row.len(), want.len(), "{place}");
            for (got, want) in row.iter().zip(want) {
                check("a derivative", f64::from(*got), *want);
            }
        }
        // TRL counts the clips of a whole answer's ratio once per answer, we per token.
        if config.loss().form == Form::Token {
            for (name, want) in &expected.health {
                check(name, health(&got.health, name), *want);
            }
        }
    }
    (compared, worst)
}

#[test]
fn losses_equal_trl() {
    let (compared, worst) = compare(TRL);
    println!("TRL: {compared} numbers, worst relative error {worst:.1e}");
    assert!(compared > 2_000, "only {compared} numbers were compared");
}

#[test]
fn losses_equal_verl() {
    let (compared, worst) = compare(VERL);
    println!("verl: {compared} numbers, worst relative error {worst:.1e}");
    assert!(compared > 2_000, "only {compared} numbers were compared");
}

/// Advantages of a case, the silent groups' as zeros and the lost answers' as nothing.
fn estimate(case: &Case, scale: Scale, eps: f64) -> Vec<Option<f32>> {
    let got = advantages(&case.rewards, scale, eps);
    let zeros = |group: &Vec<Option<f32>>| group.iter().map(|r| r.map(|_| 0.0)).collect();
    got.into_iter()
        .zip(&case.rewards)
        .flat_map(|(a, group)| a.unwrap_or_else(|| zeros(group)))
        .collect()
}

#[test]
fn advantages_equal_trl_and_verl() {
    let mut compared = BTreeMap::<&str, usize>::new();
    let mut check = |name, got: Vec<Option<f32>>, want: Vec<Option<f64>>| {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert_eq!(got.is_some(), want.is_some());
            let (got, want) = (f64::from(got.unwrap_or(0.0)), want.unwrap_or(0.0));
            assert!(error(got, want) < TOLERANCE, "{name}: {got}, but theirs is {want}");
            *compared.entry(name).or_default() += 1;
        }
    };
    let trl: Golden = serde_json::from_str(TRL).expect("golden numbers");
    for expected in &trl.results {
        let config: GrpoConfig =
            serde_json::from_value(expected.config.clone()).expect("a configuration");
        let case = &trl.inputs[&expected.inputs];
        let got = estimate(case, config.advantage_scale, config.advantage_eps);
        // TRL keeps a lost answer, with an advantage of 0.
        let lost = |(want, reward): (&f64, &Option<f32>)| reward.map(|_| *want);
        let rewards = case.rewards.concat();
        check("TRL", got, expected.advantages.iter().zip(&rewards).map(lost).collect());
    }
    let verl: Golden = serde_json::from_str(VERL).expect("golden numbers");
    for expected in &verl.estimates {
        let got = estimate(&verl.inputs[&expected.inputs], expected.scale, expected.eps);
        check("verl", got, expected.advantages.clone());
    }
    assert!(compared["TRL"] > 500 && compared["verl"] > 50, "{compared:?}");
}
