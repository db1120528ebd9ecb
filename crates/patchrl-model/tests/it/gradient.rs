//! Gradients against finite differences of a float64 reference, and shared against unshared.

use std::borrow::Cow;

use patchrl_model::{Activations, Model, Target};

use crate::_reference::{self, Weights};
use crate::tiny::{self, Stream, Texts};

const TEMPERATURE: f32 = 0.8;

/// One tensor: its name, its gradient by the engine, its finite differences.
struct Row {
    name: String,
    gradient: Vec<f32>,
    /// Index and difference of single entries.
    entries: Vec<(usize, f64)>,
    /// A direction and the difference along it.
    along: (Vec<f64>, f64),
}

#[test]
fn every_trainable_tensor_gets_a_gradient() {
    for (name, config) in tiny::variants() {
        let in_layer =
            9 + if config.qkv_bias() { 3 } else { 0 } + if config.qk_norm() { 2 } else { 0 };
        let tensors = 2 + 2 * in_layer + usize::from(!config.tied);
        let model = tiny::model(config);
        let rows_full = rows(&model);
        assert_eq!(rows_full.len(), tensors, "{name}");
        assert_eq!(faults(&rows_full), Vec::<String>::new(), "{name}");
        let rows = rows(&tiny::adapted(model, &Target::ALL));
        assert_eq!(rows.len(), 2 * 2 * 7);
        assert_eq!(faults(&rows), Vec::<String>::new(), "{name}, adapter");
    }
    let some =
        tiny::adapted(tiny::model(tiny::config(true, true)), &[Target::VProj, Target::UpProj]);
    let rows = rows(&some);
    assert_eq!((rows.len(), faults(&rows)), (2 * 2 * 2, Vec::new()));
}

#[test]
fn a_missing_gradient_is_reported_by_name() {
    let sound = rows(&tiny::model(tiny::config(false, true)));
    for planted in 0..sound.len() {
        let mut rows = rows_with(&sound, planted, |gradient| gradient.fill(0.0));
        assert_eq!(named(&faults(&rows)), [sound[planted].name.as_str()]);
        rows = rows_with(&sound, planted, |gradient| gradient.iter_mut().for_each(|g| *g *= 1.01));
        assert_eq!(named(&faults(&rows)), [sound[planted].name.as_str()]);
        rows = rows_with(&sound, planted, |gradient| gradient[0] = f32::NAN);
        assert_eq!(named(&faults(&rows)), [sound[planted].name.as_str()]);
    }
}

/// Sentences about tensors whose gradient is missing, not finite, or not the finite difference.
fn faults(rows: &[Row]) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows {
        let size = norm(&row.gradient);
        if !size.is_finite() {
            faults.push(format!("{}: not finite", row.name));
            continue;
        }
        if size == 0.0 {
            faults.push(format!("{}: no gradient arrives", row.name));
            continue;
        }
        // Single entries may be tiny by chance; they are held to the tensor's scale.
        let scale = size / (row.gradient.len() as f64).sqrt();
        let wrong_entry = row.entries.iter().find(|(at, want)| {
            (f64::from(row.gradient[*at]) - want).abs() > 1e-3 * want.abs().max(scale)
        });
        let (direction, want) = &row.along;
        let got: f64 = direction.iter().zip(&row.gradient).map(|(d, &g)| d * f64::from(g)).sum();
        if let Some((at, want)) = wrong_entry {
            faults.push(format!("{}: entry {at} is {}, not {want}", row.name, row.gradient[*at]));
        } else if (got - want).abs() > 1e-3 * want.abs() {
            faults.push(format!("{}: along a direction {got}, not {want}", row.name));
        }
    }
    faults
}

fn rows(model: &Model) -> Vec<Row> {
    // Longer than the windows of `tiny::variants`.
    let texts = Texts::new(model.config.vocab, 15, &[5, 1, 0, 7]);
    let (weights, swings) = (texts.weights(13), texts.weights(14));
    let mut gradient = model.params.zeros_like();
    let forward = model.forward(&texts.group(), TEMPERATURE, Activations::Keep).unwrap();
    forward.backward_with(&weights, &swings, &mut gradient).unwrap();
    let mut reference = _reference::weights(&model.params);
    let loss = |reference: &Weights| {
        let weights64 = whole(model, reference);
        let scores =
            _reference::scores(&model.config, &weights64, &texts.group(), f64::from(TEMPERATURE));
        let slopes = weights.iter().flatten().zip(swings.iter().flatten());
        let terms = scores.iter().flatten().zip(slopes);
        terms.map(|((logp, h), (&w, &s))| logp * f64::from(w) + h * f64::from(s)).sum::<f64>()
    };
    let tensors: Vec<_> =
        model.params.tensors().map(|(name, range, _)| (name.to_owned(), range)).collect();
    let mut stream = Stream(17);
    tensors
        .into_iter()
        .map(|(name, range)| {
            let gradient = gradient.data()[range.clone()].to_vec();
            let mut difference = |direction: &[f64]| {
                let before = reference[&name].clone();
                let mut at = |step: f64| {
                    let moved = before.iter().zip(direction).map(|(x, d)| x + step * d);
                    reference.insert(name.clone(), moved.collect());
                    loss(&reference)
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                reference.insert(name.clone(), before);
                slope
            };
            let single = |at: usize| {
                (0..range.len()).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>()
            };
            let picks = [0, range.len() / 3, range.len() - 1];
            let entries = picks.map(|at| (at, difference(&single(at)))).to_vec();
            // Mostly along the gradient, so that a slope of zero is not a matter of chance.
            let size = norm(&gradient) / (gradient.len() as f64).sqrt();
            let direction: Vec<f64> =
                gradient.iter().map(|&g| f64::from(g) / size + f64::from(stream.next())).collect();
            let slope = difference(&direction);
            Row { name, gradient, entries, along: (direction, slope) }
        })
        .collect()
}

/// The network's weights from those in training.
fn whole<'w>(model: &Model, trained: &'w Weights) -> Cow<'w, Weights> {
    let Some(base) = &model.base else { return Cow::Borrowed(trained) };
    Cow::Owned(_reference::merged(&_reference::weights(&base.params), trained, &base.lora))
}

fn rows_with(rows: &[Row], planted: usize, change: impl Fn(&mut [f32])) -> Vec<Row> {
    rows.iter()
        .enumerate()
        .map(|(at, row)| {
            let mut gradient = row.gradient.clone();
            if at == planted {
                change(&mut gradient);
            }
            Row {
                name: row.name.clone(),
                gradient,
                entries: row.entries.clone(),
                along: row.along.clone(),
            }
        })
        .collect()
}

fn named(faults: &[String]) -> Vec<&str> {
    faults.iter().map(|fault| fault.split(':').next().unwrap()).collect()
}

fn norm(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

#[test]
fn log_probs_and_logits_match_the_reference() {
    for (name, config) in tiny::variants() {
        let model = tiny::model(config);
        matches_the_reference(name, &tiny::adapted(model.clone(), &Target::ALL));
        matches_the_reference(name, &model);
    }
}

fn matches_the_reference(name: &str, model: &Model) {
    let texts = Texts::new(model.config.vocab, 140, &[12, 0, 1, 130]);
    let group = texts.group();
    let trained = _reference::weights(&model.params);
    let weights = whole(model, &trained);
    let want = _reference::scores(&model.config, &weights, &group, f64::from(TEMPERATURE));
    let forward = model.forward(&group, TEMPERATURE, Activations::Keep).unwrap();
    assert_eq!(forward.log_probs(), model.log_probs(&group, TEMPERATURE).unwrap());
    for (got, (want, _)) in forward.log_probs().iter().flatten().zip(want.iter().flatten()) {
        assert!((f64::from(*got) - want).abs() < 2e-5, "{name}: {got} is not {want}");
    }
    let logits = model.logits(&texts.prompt).unwrap();
    let want = _reference::logits(&model.config, &weights, &texts.prompt).concat();
    for (got, want) in logits.iter().zip(&want) {
        assert!((f64::from(*got) - want).abs() < 5e-5, "{name}: {got} is not {want}");
    }
}

#[test]
fn entropy_is_that_of_the_whole_distribution() {
    let model = tiny::model(tiny::config(true, false));
    let texts = Texts::new(model.config.vocab, 4, &[3]);
    let forward = model.forward(&texts.group(), TEMPERATURE, Activations::Keep).unwrap();
    let weights = _reference::weights(&model.params);
    let want = _reference::scores(&model.config, &weights, &texts.group(), f64::from(TEMPERATURE));
    for (got, (_, want)) in forward.entropy()[0].iter().zip(&want[0]) {
        assert!((f64::from(*got) - want).abs() < 1e-5, "{got} is not {want}");
    }
}

#[test]
fn layers_computed_again_give_the_same_gradients() {
    for (name, config) in tiny::variants() {
        let model = tiny::model(config);
        let texts = Texts::new(model.config.vocab, 15, &[5, 1, 0, 7]);
        let [kept, again] = [Activations::Keep, Activations::Recompute].map(|activations| {
            let mut grads = model.params.zeros_like();
            let forward = model.forward(&texts.group(), TEMPERATURE, activations).unwrap();
            forward.backward(&texts.weights(13), &mut grads).unwrap();
            grads
        });
        assert_eq!(kept.data(), again.data(), "{name}");
    }
}
