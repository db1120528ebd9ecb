//! A model small enough to differentiate by hand, and a group for it.

use patchrl_model::{
    Config, Family, Group, LoraConfig, Model, Params, Real, RopeScaling, Target, Window,
};

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
        rope_scaling: RopeScaling::None,
        rms_eps: 1e-5,
        tied,
        family: if qkv_bias { Family::Qwen2 } else { Family::Llama },
        window: None,
        max_positions: 512,
        bos: None,
        eos: Vec::new(),
        pad: None,
    }
}

/// Every switch of the skeleton, with a name for messages.
pub(crate) fn variants() -> Vec<(&'static str, Config)> {
    let with = |tied: bool, change: &dyn Fn(&mut Config)| {
        let mut config = config(tied, false);
        change(&mut config);
        config
    };
    let llama3 = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64.0 };
    vec![
        ("llama, tied", with(true, &|_| {})),
        ("llama, untied", with(false, &|_| {})),
        ("llama 3", with(false, &|c| c.rope_scaling = llama3)),
        ("deepseek", with(false, &|c| c.rope_scaling = RopeScaling::Linear { factor: 4.0 })),
        ("mistral", with(false, &|c| windowed(c, Family::Mistral, 0))),
        ("qwen 2, tied", with(true, &|c| c.family = Family::Qwen2)),
        ("qwen 2, window", with(false, &|c| windowed(c, Family::Qwen2, 1))),
        ("qwen 3", with(true, &|c| c.family = Family::Qwen3)),
        ("qwen 3, untied", with(false, &|c| windowed(c, Family::Qwen3, 1))),
    ]
}

fn windowed(config: &mut Config, family: Family, first_layer: usize) {
    config.family = family;
    config.window = Some(Window { size: 17, first_layer });
}

/// `model` under an adapter with B away from zero, so that every gradient is.
pub(crate) fn adapted(model: Model, targets: &[Target]) -> Model {
    let lora = LoraConfig { rank: 3, alpha: 5.0, targets: targets.iter().copied().collect() };
    let mut model = model.with_adapter(lora, 1).unwrap();
    let mut stream = Stream(19);
    model.params.data_mut().iter_mut().for_each(|x| *x = 0.6 * stream.next());
    model
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
    Model::new(config, params)
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
    pub(crate) fn weights(&self, seed: u64) -> Vec<Vec<Real>> {
        let mut stream = Stream(seed);
        let mut weight = |answer: &Vec<u32>| answer.iter().map(|_| stream.next()).collect();
        self.answers.iter().map(&mut weight).collect()
    }
}

/// Numbers in [-0.5, 0.5), always the same.
pub(crate) struct Stream(pub(crate) u64);

impl Stream {
    pub(crate) fn next(&mut self) -> Real {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as Real / (1_u64 << 24) as Real - 0.5
    }

    fn token(&mut self, vocab: usize) -> u32 {
        ((self.next() + 0.5) * vocab as Real) as u32
    }
}
