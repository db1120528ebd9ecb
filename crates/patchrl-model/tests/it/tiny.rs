//! A model small enough to differentiate by hand, and a group for it.

use patchrl_model::{Config, Group, Model, Params};

/// Odd sizes on purpose: nothing is a multiple of a vector register.
pub(crate) fn config(tied: bool, qkv_bias: bool) -> Config {
    Config {
        layers: 2,
        hidden: 20,
        heads: 6,
        kv_heads: 2,
        head_dim: 6,
        ffn: 26,
        vocab: 37,
        rope_theta: 1000.0,
        rms_eps: 1e-5,
        tied,
        qkv_bias,
        max_positions: 512,
        bos: None,
        eos: Vec::new(),
        pad: None,
    }
}

pub(crate) fn model(config: Config) -> Model {
    let mut params = Params::zeros(&config);
    let mut stream = Stream(7);
    for x in params.data_mut() {
        *x = 0.8 * stream.next();
    }
    let names: Vec<String> = params.tensors().map(|(name, ..)| name.to_owned()).collect();
    for name in names.iter().filter(|name| name.contains("norm")) {
        params.tensor_mut(name).unwrap().iter_mut().for_each(|x| *x += 1.0);
    }
    Model { config, params }
}

/// Tokens of a prompt and of answers with the given lengths.
pub(crate) struct Texts {
    pub(crate) prompt: Vec<u32>,
    pub(crate) answers: Vec<Vec<u32>>,
}

impl Texts {
    pub(crate) fn new(vocab: usize, prompt: usize, answers: &[usize]) -> Self {
        let mut stream = Stream(11);
        let mut text = |length: usize| (0..length).map(|_| stream.token(vocab)).collect();
        Self { prompt: text(prompt), answers: answers.iter().map(|&length| text(length)).collect() }
    }

    pub(crate) fn group(&self) -> Group<'_> {
        Group { prompt: &self.prompt, answers: self.answers.iter().map(Vec::as_slice).collect() }
    }

    /// One factor per answer token, of both signs.
    pub(crate) fn weights(&self) -> Vec<Vec<f32>> {
        let mut stream = Stream(13);
        let mut weight = |answer: &Vec<u32>| answer.iter().map(|_| stream.next()).collect();
        self.answers.iter().map(&mut weight).collect()
    }
}

/// Numbers in [-0.5, 0.5), always the same.
pub(crate) struct Stream(pub(crate) u64);

impl Stream {
    pub(crate) fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
    }

    fn token(&mut self, vocab: usize) -> u32 {
        ((self.next() + 0.5) * vocab as f32) as u32
    }
}
