//! The same network in f64: `cargo test -p patchrl-model --features double --test double`.
//!
//! In f32 the two ways of computing a group differ by rounding, which could hide a small mistake.
//! Here nothing but 1e-10 is left of it.

#[path = "it/tiny.rs"]
mod tiny;

use patchrl_model::{Activations, Group, Model, Params, Real, Target};

use crate::tiny::Texts;

#[test]
fn a_shared_prompt_gives_the_gradients_of_separate_sequences() {
    let (mut worst, mut cases) = (0.0_f64, 0);
    for (name, config) in tiny::variants() {
        for (prompt, answers) in [(150, [140, 3, 0, 1, 31]), (1, [9, 1, 0, 40, 2])] {
            let texts = Texts::new(config.vocab, prompt, &answers);
            for adapter in [false, true] {
                let mut model = tiny::model(config.clone());
                if adapter {
                    model = tiny::adapted(model, &Target::ALL);
                }
                let error = shared_against_separate(&model, &texts);
                assert!(error < 1e-10, "{name}, adapter {adapter}, prompt {prompt}: {error:e}");
                (worst, cases) = (worst.max(error), cases + 1);
            }
        }
    }
    println!("{cases} cases, worst relative error {worst:e}");
    assert!(worst > 0.0, "the two ways are one");
}

/// Relative L2 distance of the gradients over all parameters in training.
fn shared_against_separate(model: &Model, texts: &Texts) -> f64 {
    let (slopes, swings) = (texts.weights(13), texts.weights(14));
    let mut shared = model.params.zeros_like();
    add(model, &texts.group(), (&slopes, &swings), &mut shared);
    let mut separate = model.params.zeros_like();
    for ((answer, slopes), swings) in texts.answers.iter().zip(&slopes).zip(&swings) {
        let group = Group { prompt: &texts.prompt, answers: vec![answer] };
        let of_one = (std::slice::from_ref(slopes), std::slice::from_ref(swings));
        add(model, &group, of_one, &mut separate);
    }
    let norm = |x: &mut dyn Iterator<Item = Real>| x.map(|x| x * x).sum::<Real>().sqrt();
    let gap = &mut shared.data().iter().zip(separate.data()).map(|(a, b)| a - b);
    norm(gap) / norm(&mut separate.data().iter().copied())
}

fn add(
    model: &Model,
    group: &Group<'_>,
    (slopes, swings): (&[Vec<Real>], &[Vec<Real>]),
    grads: &mut Params,
) {
    let forward = model.forward(group, 0.8, Activations::Keep).expect("a forward pass");
    forward.backward_with(slopes, swings, grads).expect("a backward pass");
}
