//! The derivative of every loss against finite differences of its value.

use patchrl_train::GrpoConfig;
use patchrl_train::grpo::{Scored, Tally};

const CONFIGS: &[&str] = &[
    r#"{"loss":"grpo"}"#,
    r#"{"loss":"bnpo","kl_coef":0}"#,
    r#"{"loss":"dr-grpo","kl_estimator":"k1"}"#,
    r#"{"loss":"dapo","kl_estimator":"k2","dual_clip":1.5}"#,
    r#"{"loss":"dapo","kl_gradient":"ratio","kl_coef":0.3}"#,
    r#"{"loss":"dapo","kl_estimator":"k1","kl_gradient":"ratio","kl_coef":0.3}"#,
    r#"{"loss":"dapo","kl_estimator":"k2","kl_gradient":"ratio","bounds":"verl","kl_coef":0.3}"#,
    r#"{"loss":"dapo","sampler_weight":"token-truncate","sampler_weight_high":1.2}"#,
    r#"{"loss":"gspo","clip_low":0.2,"clip_high":0.2}"#,
    r#"{"loss":"gspo","clip_low":0.2,"clip_high":0.2,"kl_gradient":"ratio","kl_coef":0.3}"#,
    r#"{"loss":"gspo","clip_low":0.2,"clip_high":0.2,"sampler_weight":"token-mask","sampler_weight_low":0.9}"#,
    r#"{"loss":"sapo"}"#,
    r#"{"loss":"sapo","sapo_tau_positive":2.0,"kl_coef":0}"#,
    r#"{"loss":"cispo"}"#,
    r#"{"loss":"cispo","cispo_clip":"cap","clip_high":1.1,"sampler_weight":"sequence-truncate"}"#,
];

const LOGP: [f32; 5] = [-1.0, -0.5, -2.5, -1.25, -0.75];
const OLD: [f32; 5] = [-1.125, -1.5, -1.5, -1.25, -0.625];
const REFERENCE: [f32; 5] = [-0.75, -0.625, -2.0, -1.0, -1.5];
const SAMPLED: [f32; 5] = [-1.0, -1.625, -1.375, -1.25, -0.875];
const MASK: [bool; 5] = [true, true, true, false, true];

/// Log-probabilities under the trained weights, those of the step's start, and the sampler's.
#[derive(Clone)]
struct Policies([[f32; 5]; 3]);

/// Loss and derivative of one answer, divided by nothing.
fn loss(config: &GrpoConfig, Policies(policies): &Policies, advantage: f32) -> (f64, Vec<f32>) {
    let mut tally = Tally::default();
    let [logp, old, sampled] = policies;
    let scored = Scored { logp, old, reference: Some(&REFERENCE), sampled, mask: &MASK, advantage };
    let slopes = config.loss().answer(&scored, 1.0, &mut tally);
    (tally.loss, slopes)
}

impl Policies {
    const HERE: Self = Self([LOGP, OLD, SAMPLED]);

    /// The first `policies` moved by `h` at token `t`, exactly: all are multiples of a power of two.
    fn moved(policies: usize, t: usize, h: f32) -> Self {
        let mut moved = Self::HERE;
        moved.0[..policies].iter_mut().for_each(|values| values[t] += h);
        moved
    }
}

#[test]
fn every_slope_is_the_derivative() {
    let h = 1.0 / 2048.0;
    for text in CONFIGS {
        let config: GrpoConfig = serde_json::from_str(text).expect("a configuration");
        for advantage in [0.75, -0.75] {
            let (_, slopes) = loss(&config, &Policies::HERE, advantage);
            assert!(slopes.iter().any(|s| s.abs() > 0.01), "{text} has no slope to compare");
            for (t, slope) in slopes.iter().enumerate() {
                // CISPO's ratio and the sampler's are constants: hold them by moving both ends.
                let policies = if text.contains("cispo") { 3 } else { 1 };
                let at = |h: f32| loss(&config, &Policies::moved(policies, t, h), advantage).0;
                let numeric = (at(h) - at(-h)) / f64::from(2.0 * h);
                let error = (numeric - f64::from(*slope)).abs();
                assert!(error < 2e-6, "{text}, {advantage}, token {t}: {slope}, not {numeric}");
            }
        }
    }
}

#[test]
fn a_straight_through_slope_is_that_of_k2() {
    let parse = |text: &str| -> GrpoConfig { serde_json::from_str(text).expect("a configuration") };
    let k2 = parse(r#"{"kl_coef":0.3,"kl_estimator":"k2"}"#);
    let k3 = parse(r#"{"kl_coef":0.3}"#);
    let both = parse(r#"{"kl_coef":0.3,"kl_gradient":"straight-through"}"#);
    let of = |config: &GrpoConfig| loss(config, &Policies::HERE, 0.75);
    assert_eq!(of(&both).1, of(&k2).1);
    assert_eq!(of(&both).0.to_bits(), of(&k3).0.to_bits());
    assert_ne!(of(&k3).1, of(&k2).1);
}
