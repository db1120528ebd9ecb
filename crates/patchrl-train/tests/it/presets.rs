//! A preset is its trainer's defaults, and what is written goes over it.

use patchrl_train::grpo::{Aggregation, CispoClip, LossName, Preset, Scale, Weight};
use patchrl_train::{GrpoConfig, TrainConfig};
use serde_json::{Map, Value, json};

fn parse(value: Value) -> GrpoConfig {
    serde_json::from_value(value).expect("a configuration")
}

/// The defaults that the trainer's own configuration gave, by our keys, against the preset's.
fn assert_defaults(preset: &str, golden: &str) {
    let golden: Value = serde_json::from_str(golden).expect("golden numbers");
    let defaults: &Map<String, Value> = golden["defaults"].as_object().expect("defaults");
    assert!(defaults.len() > 8, "{preset}");
    let ours = parse(json!({ "preset": preset }));
    let mut theirs = defaults.clone();
    theirs.insert("preset".into(), preset.into());
    assert_eq!(parse(Value::Object(theirs)), ours, "{preset} differs from its trainer's defaults");
}

#[test]
fn presets_are_their_trainers_defaults() {
    assert_defaults("trl-1.16", include_str!("../../golden/trl.json"));
    assert_defaults("verl-0.9", include_str!("../../golden/verl.json"));
}

#[test]
fn nothing_written_is_the_mission() {
    let config = GrpoConfig::default();
    assert_eq!(parse(json!({})), config);
    assert_eq!(parse(json!({ "preset": "mission" })), config);
    assert_eq!((config.group_size, config.lr, config.kl_coef), (4, 5e-6, 0.02));
    assert_eq!((config.loss, config.aggregation), (LossName::Dapo, Aggregation::TokenMean));
    assert_eq!((config.advantage_scale, config.sampler_weight), (Scale::None, Weight::Off));
}

#[test]
fn what_is_written_goes_over_the_preset() {
    let config = parse(json!({ "preset": "verl-0.9", "dual_clip": 0, "group_size": 5 }));
    assert_eq!((config.dual_clip, config.group_size, config.lr), (0.0, 5, 1e-6));
    let printed = serde_json::to_value(&config).expect("JSON");
    assert_eq!(parse(printed), config);
}

#[test]
fn a_loss_brings_its_own_aggregation_and_clips() {
    let of = |preset: &str, loss: &str| parse(json!({ "preset": preset, "loss": loss }));
    assert_eq!(of("verl-0.9", "gspo").aggregation, Aggregation::TokenMean);
    assert_eq!(of("trl-1.16", "gspo").aggregation, Aggregation::SequenceMean);
    assert_eq!(of("mission", "dr_grpo").aggregation, Aggregation::Constant);
    assert_eq!((of("mission", "gspo").clip_low, of("trl-1.16", "gspo").clip_low), (3e-4, 0.2));
    assert_eq!(of("trl-1.16", "cispo").cispo_clip, CispoClip::Cap);
    assert_eq!(
        of("verl-0.9", "cispo").loss().ratio.0.to_bits(),
        (1.0 - f64::from(0.2_f32)).to_bits()
    );
    assert_eq!((of("verl-0.9", "dapo").dual_clip, of("verl-0.9", "gspo").dual_clip), (3.0, 0.0));
    assert_eq!(of("paper", "sapo").preset, Preset::Paper);
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    for (grpo, words) in [
        (json!({ "group_size": 1 }), "`grpo.group_size` is 1"),
        (json!({ "updates_per_step": 0 }), "`grpo.updates_per_step` is 0"),
        (json!({ "sapo_tau_negative": 0 }), "`grpo.sapo_tau_negative` is 0"),
        (json!({ "drift_limit": -1 }), "`grpo.drift_limit` is -1"),
        (json!({ "clip_low": 1.5 }), "`grpo.clip_low` must be in 0 to 1"),
        (json!({ "dual_clip": 1.1 }), "`grpo.dual_clip` is 1.1"),
        (json!({ "preset": "trl-1.16", "loss": "cispo" }), "`cispo_clip: cap`"),
        (json!({ "sampler_weight_low": 3 }), "`grpo.sampler_weight_low` is 3"),
        (json!({ "sampler_reject_high": 0 }), "`grpo.sampler_reject_low` is 0.0001"),
        (json!({ "resample_attempts": 1, "silent_groups": "keep" }), "`grpo.resample_attempts`"),
    ] {
        let config = TrainConfig { grpo: parse(grpo), ..TrainConfig::default() };
        let why = config.check().expect_err(words);
        assert!(why.contains(words), "{why}");
    }
    for preset in ["mission", "paper", "trl-1.16", "verl-0.9"] {
        for loss in ["grpo", "bnpo", "dr-grpo", "dapo", "gspo", "sapo"] {
            let grpo = parse(json!({ "preset": preset, "loss": loss }));
            assert_eq!(TrainConfig { grpo, ..TrainConfig::default() }.check(), Ok(()));
        }
    }
}
