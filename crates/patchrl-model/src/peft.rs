//! Adapters on disk, as PEFT writes them: `adapter_config.json`, `adapter_model.safetensors`.
//!
//! Owns which of PEFT's settings mean something here; the others must be off. Dropout is
//! PEFT's business while it trains: it is read over, and none is applied here.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::params::Layout;
use crate::policy::Draft;
use crate::weights::{self, TensorFile as _, safetensors};
use crate::{LoraConfig, Model, ModelError, Target};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// Settings that change nothing here, whatever they say.
const SILENT: [&str; 14] = [
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "inference_mode",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "target_modules",
    "task_type",
];
/// Values that leave a setting off. Every setting that is not above must have one of them, so
/// that a variant which does not exist yet is not taken for plain `LoRA`.
const OFF: [&str; 7] = ["null", "false", "{}", "[]", "\"none\"", "true", "\"gaussian\""];
/// The one that may be `true` or `gaussian`: how an adapter began, which is over. Its other
/// values change the base model.
const INIT: &str = "init_lora_weights";

impl Model {
    /// Write the adapter as a folder, whole or not at all. `base_model` tells PEFT what belongs
    /// under it, where it is not said: a path, or a name on the hub.
    pub fn save_adapter(&self, folder: &Path, base_model: Option<&str>) -> Result<(), ModelError> {
        let Some(base) = &self.base else {
            return Err(ModelError::Adapter("the model has none to write".into()));
        };
        let draft = Draft::start(folder)?;
        let path = draft.path().join(CONFIG);
        let text = format!("{:#}\n", to_peft(&base.lora, base_model));
        fs_err::write(&path, text).map_err(|e| ModelError::write(&path, e))?;
        safetensors::write(&draft.path().join(WEIGHTS), &self.params)?;
        draft.publish()
    }

    /// Freeze the weights under the adapter in `folder`.
    pub fn load_adapter(self, folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(CONFIG);
        let text = fs_err::read_to_string(&path)
            .map_err(|e| ModelError::io("cannot read the adapter's configuration", e))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|e| ModelError::Damaged { path: path.clone(), why: e.to_string() })?;
        let lora = from_peft(&value, &path)?;
        let layout = Layout::adapter(&self.config, &lora);
        let mut file = safetensors::Folder::single(&folder.join(WEIGHTS))?;
        if let Some(name) = file.names().find(|name| !layout.has(name)) {
            let what = format!("tensor `{name}`, which `{CONFIG}` does not ask for");
            return Err(ModelError::UnsupportedAdapter { path: file.path().into(), what });
        }
        let params = weights::load(layout, &mut file)?;
        self.under(lora, params)
    }
}

fn to_peft(lora: &LoraConfig, base_model: Option<&str>) -> Value {
    json!({
        "base_model_name_or_path": base_model,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": lora.rank,
        "target_modules": lora.targets,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": false,
    })
}

fn from_peft(value: &Value, path: &Path) -> Result<LoraConfig, ModelError> {
    let unsupported = |field: &str| {
        let what = format!("`{field}: {}`", value[field]);
        ModelError::UnsupportedAdapter { path: path.into(), what }
    };
    if value["peft_type"] != "LORA" {
        return Err(unsupported("peft_type"));
    }
    for (field, given) in value.as_object().into_iter().flatten() {
        let off = &OFF[..if field == INIT { OFF.len() } else { 5 }];
        if !SILENT.contains(&field.as_str()) && !off.contains(&given.to_string().as_str()) {
            return Err(unsupported(field));
        }
    }
    let target = |name: &Value| Target::ALL.into_iter().find(|target| *name == target.as_str());
    let targets = value["target_modules"].as_array().into_iter().flatten().map(target);
    let targets: Option<BTreeSet<Target>> = targets.collect();
    let lora = LoraConfig {
        rank: value["r"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        alpha: value["lora_alpha"].as_f64().unwrap_or(f64::NAN) as f32,
        targets: targets.filter(|t| !t.is_empty()).ok_or_else(|| unsupported("target_modules"))?,
    };
    lora.check().map_err(|why| ModelError::Damaged { path: path.into(), why })?;
    Ok(lora)
}
