//! The short form of a configuration: the names that articles and other trainers use.
//!
//! Owns their translation into the keys of [`Settings`], which may stand beside them in the
//! same file; `rollout` may hold keys of both. What is resolved and printed is always the long form.
//!
//! | short | long |
//! |---|---|
//! | `algorithm: grpo` | the only one |
//! | `base_model` | `model`; a well-known name gets its owner (`Qwen2.5-Coder-32B` is `Qwen/Qwen2.5-Coder-32B`) |
//! | `env.type: swegym` | tasks of real repositories with their tests, the only kind |
//! | `env.task_set` | `tasks`; looked for when a run starts |
//! | `rollout.num_candidates` | `train.grpo.group_size` |
//! | `rollout.async` | answers of a step are judged side by side (`false`: `workers: 1`); an update waits for its own answers unless `rollout.staleness` is above 0 |
//! | `rollout.max_steps` | turns of an episode at most; episodes have one turn, so 1 or more |
//! | `batch_size` | `train.grpo.tasks_per_step` |
//! | `learning_rate` | `train.grpo.lr` |
//! | `total_steps` | steps of the one phase, whose mode is `reward.type` (`tests` if there is none) |

use patchrl_reward::Mode;
use patchrl_train::PhaseConfig;
use serde::Deserialize;
use serde_norway::{Mapping, Value};

use super::Settings;

/// Keys of the short form alone.
const KEYS: [&str; 6] =
    ["algorithm", "base_model", "env", "batch_size", "learning_rate", "total_steps"];
/// Those under `rollout`, beside the ones of the long form.
const ROLLOUT_KEYS: [&str; 3] = ["num_candidates", "async", "max_steps"];

/// Owners of models that are known by their bare names.
const OWNERS: [(&str, &str); 4] = [
    ("Qwen", "Qwen"),
    ("deepseek-coder", "deepseek-ai"),
    ("SmolLM", "HuggingFaceTB"),
    ("Mistral", "mistralai"),
];

/// The keys as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mission {
    algorithm: Option<String>,
    base_model: Option<String>,
    env: Env,
    rollout: Rollout,
    batch_size: Option<usize>,
    learning_rate: Option<f32>,
    total_steps: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Env {
    r#type: Option<String>,
    task_set: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rollout {
    num_candidates: Option<u32>,
    r#async: Option<bool>,
    max_steps: Option<u64>,
}

/// Take the short form's keys out of a file; nothing where it has none.
pub(super) fn take(file: &mut Mapping) -> Option<Mapping> {
    let mut short: Mapping =
        KEYS.iter().filter_map(|key| Some((Value::from(*key), file.remove(*key)?))).collect();
    if let Some(rollout) = file.get_mut("rollout").and_then(Value::as_mapping_mut) {
        let own: Mapping = ROLLOUT_KEYS
            .iter()
            .filter_map(|key| Some((Value::from(*key), rollout.remove(*key)?)))
            .collect();
        if !own.is_empty() {
            short.insert("rollout".into(), Value::Mapping(own));
        }
    }
    (!short.is_empty()).then_some(short)
}

impl Mission {
    /// Put the keys into the settings, or say which asks for something else than we do.
    pub(super) fn apply(self, settings: &mut Settings) -> Result<(), String> {
        if let Some(other) = self.algorithm.filter(|name| name != "grpo") {
            return Err(format!("`algorithm` is `{other}`, but the algorithm here is `grpo`"));
        }
        if let Some(other) = self.env.r#type.filter(|name| name != "swegym") {
            return Err(format!(
                "`env.type` is `{other}`, but the one kind of environment is `swegym`: repositories \
                 with their tests; leave the key out"
            ));
        }
        if self.rollout.max_steps == Some(0) {
            return Err("`rollout.max_steps` is 0, but an answer takes one step".into());
        }
        if let Some(name) = self.base_model {
            settings.model = with_owner(name);
        }
        if self.rollout.r#async == Some(false) {
            settings.workers = 1;
        }
        let grpo = &mut settings.train.grpo;
        put(&mut settings.tasks, self.env.task_set);
        put(&mut grpo.group_size, self.rollout.num_candidates);
        put(&mut grpo.tasks_per_step, self.batch_size);
        put(&mut grpo.lr, self.learning_rate);
        if let Some(steps) = self.total_steps {
            let mode = settings.reward.preset.unwrap_or(Mode::Tests);
            settings.train.curriculum = vec![PhaseConfig { mode, steps }];
        }
        Ok(())
    }

    /// Does it say how many steps to take?
    pub(super) fn has_steps(&self) -> bool {
        self.total_steps.is_some()
    }
}

fn with_owner(name: String) -> String {
    let bare = !name.contains('/') && !name.starts_with('.');
    match OWNERS.iter().find(|(start, _)| bare && name.starts_with(start)) {
        Some((_, owner)) => format!("{owner}/{name}"),
        None => name,
    }
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MISSION: &str = include_str!("../../../../configs/mission.yaml");

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text, Path::new("m.yaml")).map_err(|e| e.to_string())
    }

    #[test]
    fn the_mission_s_file_loads_as_it_stands() {
        let settings = parse(MISSION).expect("settings");
        assert_eq!(settings.model, "Qwen/Qwen2.5-Coder-32B");
        assert_eq!(settings.tasks, "SWE-bench-verified-train");
        let grpo = &settings.train.grpo;
        assert_eq!((grpo.group_size, grpo.tasks_per_step, grpo.lr), (16, 32, 1e-6));
        let phase = PhaseConfig { mode: Mode::RuleBased, steps: 10_000 };
        assert_eq!(settings.train.curriculum, [phase]);
        let components = settings.reward.components.as_ref().expect("components");
        assert_eq!(components.len(), 3);
        let printed = serde_norway::to_string(&settings).expect("YAML");
        assert_eq!(parse(&printed), Ok(settings));
    }

    #[test]
    fn what_we_do_not_do_is_refused_by_name() {
        for (text, word) in [
            ("algorithm: ppo\n", "`algorithm` is `ppo`"),
            ("env: { type: gridworld }\n", "`env.type` is `gridworld`"),
            ("rollout: { max_steps: 0 }\n", "`rollout.max_steps`"),
            ("rollout: { candidates: 4 }\n", "candidates"),
            ("total_steps: 5\ntrain: { curriculum: [] }\n", "`train.curriculum`"),
            ("reward: { type: swerl }\ntrain: { curriculum: [] }\n", "`train.curriculum`"),
            ("reward: { components: [] }\n", "`reward.components` is empty"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn the_short_form_stands_beside_the_long_one() {
        let text = "base_model: ./model\nrollout: { async: false }\nreward: { type: swerl }\nprompt: { max_tokens: 9 }\n";
        let settings = parse(text).expect("settings");
        assert_eq!((settings.model.as_str(), settings.workers), ("./model", 1));
        assert_eq!(settings.prompt.max_tokens, 9);
        let phases: Vec<Mode> = settings.train.curriculum.iter().map(|p| p.mode).collect();
        assert_eq!(phases, [Mode::Swerl]);
        let text =
            "rollout: { num_candidates: 3, engine: openai, base_url: 'http://h/v1', staleness: 2 }";
        let settings = parse(text).expect("settings");
        assert_eq!((settings.train.grpo.group_size, settings.rollout.staleness), (3, 2));
    }
}
