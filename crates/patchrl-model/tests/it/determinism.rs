//! Same inputs, same bytes.

use patchrl_model::{Activations, Model, Params, Request, Sampling, generate};

use crate::tiny::{self, Texts};

fn update(model: &Model) -> (Vec<u32>, Vec<u32>) {
    let texts = Texts::new(model.config.vocab, 200, &[60, 61, 5]);
    let forward = model.forward(&texts.group(), 0.9, Activations::Keep).unwrap();
    let scores = forward.log_probs().iter().flatten().map(|x| x.to_bits()).collect();
    let mut grads = Params::zeros(&model.config);
    forward.backward(&texts.weights(13), &mut grads).unwrap();
    (scores, grads.data().iter().map(|x| x.to_bits()).collect())
}

#[test]
fn two_updates_have_the_same_bits() {
    // Wide enough that products are split over threads.
    let mut config = tiny::config(true, true);
    (config.hidden, config.ffn, config.head_dim, config.vocab) = (120, 200, 20, 700);
    let model = tiny::model(config);
    let first = update(&model);
    for _ in 0..3 {
        assert!(update(&model) == first);
    }
    let how =
        Sampling { temperature: 1.0, top_p: 0.95, top_k: 0, max_new_tokens: 12, stop: Vec::new() };
    let texts = Texts::new(model.config.vocab, 40, &[]);
    let request = Request::new(&texts.prompt, 0..9);
    let draw = || generate(&model, std::slice::from_ref(&request), &how, &mut |_| {}).unwrap();
    assert_eq!(draw(), draw());
}
