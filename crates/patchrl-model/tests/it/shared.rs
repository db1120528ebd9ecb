//! A group with one prompt against its answers as sequences of their own: the same gradients.

use patchrl_model::{Activations, Group, Model, Params, Real, Target};

use crate::tiny::{self, Texts};

/// Relative: what rounding leaves, with room.
const BOUND: f64 = if size_of::<Real>() == 8 { 1e-10 } else { 1e-5 };

#[test]
fn a_shared_prompt_gives_the_gradients_of_separate_sequences() {
    let (mut worst, mut cases) = (0.0_f64, 0);
    for (name, config) in tiny::variants() {
        // Several attention blocks, answers across a block's border and beyond a window; ragged,
        // of one token, empty; and a prompt of one token.
        for (prompt, answers) in [(150, [140, 3, 0, 1, 31]), (1, [9, 1, 0, 40, 2])] {
            let texts = Texts::new(config.vocab, prompt, &answers);
            for adapter in [false, true] {
                let mut model = tiny::model(config.clone());
                if adapter {
                    model = tiny::adapted(model, &Target::ALL);
                }
                let error = shared_against_separate(&model, &texts);
                assert!(error < BOUND, "{name}, adapter {adapter}, prompt {prompt}: {error:e}");
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
    f64::from(norm(gap) / norm(&mut separate.data().iter().copied()))
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
