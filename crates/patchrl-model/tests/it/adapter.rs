//! Adapters: what they change, merging, and PEFT's files.

use std::path::Path;

use patchrl_model::{LoraConfig, Model, ModelError, Target};
use serde_json::{Value, json};

use crate::tiny::{self, Texts};

fn logits(model: &Model) -> Vec<f32> {
    model.logits(&Texts::new(model.config.vocab, 30, &[]).prompt).unwrap()
}

#[test]
fn a_new_adapter_changes_nothing_and_only_it_is_trained() {
    let model = tiny::model(tiny::config(true, true));
    let before = logits(&model);
    let weights = model.params.data().to_vec();
    let lora = LoraConfig { rank: 2, targets: [Target::QProj].into(), ..LoraConfig::default() };
    let mut model = model.with_adapter(lora, 3).unwrap();
    assert_eq!(logits(&model), before);
    // A (2, 20) and B (36, 2) in each of two layers.
    assert_eq!(model.params.data().len(), 2 * (2 * 20 + 36 * 2));
    model.params.data_mut().fill(0.1);
    assert_ne!(logits(&model), before);
    assert_eq!(logits(&model.without_adapter()), before);
    assert_eq!(model.base.as_ref().unwrap().params.data(), weights);
}

#[test]
fn merged_weights_give_the_adapters_logits() {
    for (name, config) in tiny::variants() {
        let model = tiny::adapted(tiny::model(config), &Target::ALL);
        let merged = model.merged();
        assert!(merged.base.is_none());
        for (a, b) in logits(&model).iter().zip(logits(&merged)) {
            assert!((a - b).abs() < 5e-5, "{name}: {a} {b}");
        }
    }
}

#[test]
fn a_written_adapter_is_the_adapter_that_was_written() {
    let base = tiny::model(tiny::config(false, true));
    let model = tiny::adapted(base.clone(), &[Target::KProj, Target::OProj, Target::DownProj]);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("adapter");
    model.save_adapter(&target, Some("owner/name")).unwrap();
    model.save_adapter(&target, Some("owner/name")).unwrap();
    let again = base.load_adapter(&target).unwrap();
    assert_eq!(again.params.data(), model.params.data());
    assert_eq!(again.base.as_ref().unwrap().lora, model.base.as_ref().unwrap().lora);
    assert_eq!(logits(&again), logits(&model));
    assert!(again.load_adapter(&target).unwrap_err().to_string().contains("already"));
    let plain = tiny::model(tiny::config(false, true));
    assert!(
        plain.save_adapter(&target, Some("x")).unwrap_err().to_string().contains("none to write")
    );
}

#[test]
fn what_an_adapter_may_not_say_is_refused_by_name() {
    let base = tiny::model(tiny::config(true, false));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("adapter");
    tiny::adapted(base.clone(), &[Target::QProj]).save_adapter(&target, Some("x")).unwrap();
    let path = target.join("adapter_config.json");
    let good: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    for (field, value, words) in [
        ("peft_type", json!("IA3"), "`peft_type: \"IA3\"`"),
        ("use_dora", json!(true), "`use_dora: true`"),
        ("init_lora_weights", json!("pissa"), "pissa"),
        ("use_next_years_variant", json!(true), "use_next_years_variant"),
        ("use_rslora", json!(true), "`use_rslora: true`"),
        ("bias", json!("all"), "`bias: \"all\"`"),
        ("rank_pattern", json!({"q_proj": 4}), "rank_pattern"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save"),
        ("layers_to_transform", json!([0]), "layers_to_transform"),
        ("target_modules", json!("all-linear"), "all-linear"),
        ("target_modules", json!(["q_proj", "lm_head"]), "lm_head"),
        ("target_modules", json!([]), "target_modules"),
        ("r", json!(0), "`rank` is 0"),
        ("r", json!(1_u64 << 50), "`rank` is"),
        ("r", json!(8000), "asks for"),
        ("r", json!(4), "needs [4, 20]"),
        ("lora_alpha", json!("much"), "`alpha` is NaN"),
        ("target_modules", json!(["k_proj"]), "does not ask for"),
        ("target_modules", json!(["q_proj", "k_proj"]), "no tensor"),
    ] {
        let mut changed = good.clone();
        changed[field] = value;
        fs_err::write(&path, changed.to_string()).unwrap();
        let error = base.clone().load_adapter(&target).unwrap_err();
        // The file's own length stops two of them first, which is as good.
        let short = matches!(&error, ModelError::Damaged { why, .. } if why.contains("asks for"));
        assert!(error.to_string().contains(words) || short, "{field}: {error}");
    }
    fs_err::write(&path, "{").unwrap();
    assert!(base.clone().load_adapter(&target).is_err());
    assert!(base.load_adapter(Path::new("no/such/adapter")).is_err());
}
