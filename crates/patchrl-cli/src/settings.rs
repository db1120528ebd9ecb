//! Settings: the file as written, the flags over it, and the environment.
//!
//! Owns precedence (flag, environment, file, default) and the refusal of keys
//! that do not exist. The only place that reads environment variables.

mod mission;

use std::path::{Path, PathBuf};

use patchrl_agent::{AgentConfig, PromptConfig};
use patchrl_eval::EvalConfig;
use patchrl_model::Scratch;
use patchrl_reward::RewardConfig;
use patchrl_rollout::openai::ApiKey;
use patchrl_rollout::{Api, RolloutConfig, SamplingConfig};
use patchrl_train::grpo::Weight;
use patchrl_train::{PhaseConfig, TextConfig, TrainConfig};
use serde::{Deserialize, Serialize};
use serde_norway::Value;
use sha2::{Digest as _, Sha256};

use crate::exit::usage;

/// A configuration file as the user writes it. Every key has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// A folder, a GGUF file, `smollm2-135m`, or `owner/name` on the hub.
    pub(crate) model: String,
    /// `toy`, a file of SWE-bench rows, or a data set of the hub.
    pub(crate) tasks: String,
    /// Folder with local mirrors of the tasks' repositories.
    pub(crate) repos: Option<PathBuf>,
    /// `local`, or `none` to run tests without any protection.
    pub(crate) sandbox: SandboxChoice,
    /// Evaluations at the same time.
    pub(crate) workers: usize,
    /// Seconds one run of a task's tests may take.
    pub(crate) test_timeout: u64,
    /// Train on this many tasks at most; 0 takes all.
    pub(crate) train_limit: usize,
    /// `train pretrain` begins with a new model of these sizes, and not with `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from_scratch: Option<Scratch>,
    /// Text to pretrain on.
    pub(crate) text: TextConfig,
    /// `train sft` learns from these chats (JSON lines), or from the solutions of `mbpp`, and not
    /// from tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chats: Option<PathBuf>,
    /// Problems of one function.
    pub(crate) mbpp: MbppData,
    /// The reward's numbers, its components and its guard.
    pub(crate) reward: RewardConfig,
    /// Answers are episodes of an agent with tools, within these budgets, and not of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<AgentConfig>,
    /// How tasks are put to the model.
    pub(crate) prompt: PromptConfig,
    /// How answers are drawn.
    pub(crate) sampling: SamplingConfig,
    /// Who draws them.
    pub(crate) rollout: RolloutConfig,
    /// What is done to the weights.
    pub(crate) train: TrainConfig,
    /// What happens to a run that needs more memory than is left.
    pub(crate) memory: MemoryCheck,
    /// How held-out tasks are measured.
    pub(crate) eval: EvalConfig,
}

/// MBPP's file, and which of its problems are for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MbppData {
    /// `mbpp.jsonl` as published, also `.gz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// First and last `task_id` to train on.
    pub(crate) train: (u64, u64),
    /// First and last `task_id` to measure on.
    pub(crate) held_out: (u64, u64),
}

impl Default for MbppData {
    /// The parts that the paper gives.
    fn default() -> Self {
        Self { file: None, train: (601, 974), held_out: (11, 510) }
    }
}

/// What happens to a run whose longest group will not fit into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MemoryCheck {
    /// It does not begin.
    #[default]
    Refuse,
    /// It begins, and says so: answers are seldom all as long as they may be.
    Warn,
}

/// Where tests run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxChoice {
    /// The strongest tier this machine gives; refused where it gives none.
    #[default]
    Local,
    /// A container of the image that a task names; tasks without one run locally.
    Docker,
    /// No protection at all, by name only.
    None,
}

impl Default for Settings {
    fn default() -> Self {
        let phase = |mode, steps| PhaseConfig { mode, steps };
        let curriculum = vec![
            phase(patchrl_reward::Mode::Syntax, 10),
            phase(patchrl_reward::Mode::ApplyOnly, 10),
            phase(patchrl_reward::Mode::Tests, 20),
        ];
        Self {
            model: "smollm2-135m".into(),
            tasks: "toy".into(),
            repos: None,
            sandbox: SandboxChoice::Local,
            workers: 2,
            test_timeout: 300,
            train_limit: 0,
            from_scratch: None,
            text: TextConfig::default(),
            chats: None,
            mbpp: MbppData::default(),
            reward: RewardConfig::default(),
            agent: None,
            prompt: PromptConfig::default(),
            sampling: SamplingConfig::default(),
            rollout: RolloutConfig::default(),
            train: TrainConfig { curriculum, ..TrainConfig::default() },
            memory: MemoryCheck::default(),
            eval: EvalConfig::default(),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The file is not there or not readable.
    #[error("cannot read the configuration `{path}`")]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A key that does not exist.
    #[error("`{path}` has the key `{key}`, which does not exist")]
    UnknownKey {
        /// Which file.
        path: PathBuf,
        /// The key as written, with its place.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// A word that is none of those a key may have.
    #[error("`{path}`: `{key}` is `{value}`, but it must be one of {known}")]
    UnknownValue {
        /// Which file.
        path: PathBuf,
        /// The key, with its place.
        key: String,
        /// The value as written.
        value: String,
        /// What it may be, each in backticks.
        known: String,
        /// The value that was probably meant.
        nearest: Option<String>,
    },
    /// A value of the wrong form.
    #[error("`{path}`: {why}")]
    Form {
        /// Which file.
        path: PathBuf,
        /// The parser's word, with line and column.
        why: String,
    },
    /// A value that serde cannot check.
    #[error("`{path}`: {why}")]
    Value {
        /// Which file, or `flags`.
        path: PathBuf,
        /// Key and reason.
        why: String,
    },
}

impl SettingsError {
    /// The way out.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey { nearest: Some(meant), .. }
            | Self::UnknownValue { nearest: Some(meant), .. } => {
                Some(format!("did you mean `{meant}`?"))
            }
            Self::UnknownKey { .. } => {
                Some("`patchrl config show` prints every key with its default".into())
            }
            Self::Read { .. } => Some("check the path, or leave `--config` out".into()),
            _ => None,
        }
    }
}

impl Settings {
    /// Read and check a file.
    pub(crate) fn load(path: &Path) -> Result<Self, SettingsError> {
        let text = fs_err::read_to_string(path)
            .map_err(|source| SettingsError::Read { path: path.into(), source })?;
        Self::parse(&text, path)
    }

    /// Parse and check a text; `path` is for errors.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let fault = |e: serde_norway::Error| read_fault(&e.to_string(), path);
        let wrong = |why: String| SettingsError::Value { path: path.into(), why };
        let mut file: Value = serde_norway::from_str(text).map_err(fault)?;
        let has_curriculum =
            file.get("train").is_some_and(|train| train.get("curriculum").is_some());
        let weighs = file
            .get("train")
            .and_then(|train| train.get("grpo"))
            .is_some_and(|grpo| grpo.get("sampler_weight").is_some());
        let short = file.as_mapping_mut().and_then(mission::take);
        let mut settings: Self = match &short {
            // Straight from the text, so that faults name their line.
            None => serde_norway::from_str(text).map_err(fault)?,
            Some(_) => serde_norway::from_value(file).map_err(fault)?,
        };
        let mut steps_given = false;
        if let Some(short) = short {
            let mission: mission::Mission =
                serde_norway::from_value(Value::Mapping(short)).map_err(fault)?;
            steps_given = mission.has_steps();
            mission.apply(&mut settings).map_err(wrong)?;
        }
        settings.choose_phase(has_curriculum, steps_given).map_err(wrong)?;
        if settings.rollout.is_remote() && !weighs {
            settings.weigh_answers();
        }
        settings.check(path)?;
        Ok(settings)
    }

    /// `reward.type` (or a number of steps) stands for a curriculum of one phase.
    fn choose_phase(&mut self, has_curriculum: bool, steps_given: bool) -> Result<(), String> {
        let chosen = self.reward.preset.take();
        if has_curriculum && (chosen.is_some() || steps_given) {
            let key = if steps_given { "total_steps" } else { "reward.type" };
            return Err(format!(
                "`{key}` and `train.curriculum` both say what to train on; leave one of them out"
            ));
        }
        if let (Some(mode), false) = (chosen, steps_given) {
            let steps = self.train.curriculum.iter().map(|phase| phase.steps).sum();
            self.train.curriculum = vec![PhaseConfig { mode, steps }];
        }
        Ok(())
    }

    /// Answers of a server are of weights that are older or computed otherwise: where nothing else
    /// is asked for, each token counts by its truncated importance weight.
    pub(crate) fn weigh_answers(&mut self) {
        let grpo = &mut self.train.grpo;
        if grpo.sampler_weight == Weight::Off {
            grpo.sampler_weight = Weight::TokenTruncate;
        }
    }

    /// Whether the thoughts of answers of one turn have a limit of their own.
    pub(crate) fn thoughts_have_a_budget(&self) -> bool {
        self.sampling.thinking_tokens > 0 && self.agent.is_none()
    }

    /// What serde cannot check; `path` names where the values came from.
    pub(crate) fn check(&self, path: &Path) -> Result<(), SettingsError> {
        let wrong = |why: String| SettingsError::Value { path: path.into(), why };
        self.train.check().map_err(|why| wrong(why.replacen('`', "`train.", 1)))?;
        self.sampling.check().map_err(wrong)?;
        self.rollout.check().map_err(wrong)?;
        let chats = self.rollout.is_remote() && self.rollout.api == Api::Chat;
        if chats && self.thoughts_have_a_budget() {
            return Err(wrong(
                "`sampling.thinking_tokens` needs a server that goes on from tokens, and by chat it \
                 takes none; set `rollout.api: completions` and name the model here (`--model`), \
                 or leave the thought without a budget of its own (0)"
                    .into(),
            ));
        }
        if let Some(agent) = &self.agent {
            agent.check().map_err(wrong)?;
            let swerl = |phase: &PhaseConfig| phase.mode == patchrl_reward::Mode::Swerl;
            if self.train.curriculum.iter().any(swerl) {
                return Err(wrong(
                    "`agent` and the reward `swerl` do not go together: it reads the text of an \
                     answer, and an agent leaves files"
                        .into(),
                ));
            }
        }
        if let Some(sizes) = &self.from_scratch {
            sizes.check().map_err(|why| wrong(why.replacen('`', "`from_scratch.", 1)))?;
        }
        self.reward.resolve().map_err(|fault| wrong(fault.to_string()))?;
        if self.workers == 0 {
            return Err(wrong("`workers` is 0, so nothing would be judged".into()));
        }
        if self.test_timeout == 0 {
            return Err(wrong("`test_timeout` is 0, so every test run would time out".into()));
        }
        if self.eval.samples == 0 {
            return Err(wrong("`eval.samples` is 0, so nothing would be measured".into()));
        }
        Ok(())
    }

    /// Hash of what decides a run's numbers: a resume under another is refused.
    pub(crate) fn digest(&self, task_ids: &[&str]) -> anyhow::Result<String> {
        let text = serde_json::to_string(&(self.deciding(), task_ids))?;
        let hash = Sha256::digest(text.as_bytes());
        Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The first key in which a run begun under `other` would have had other numbers, with
    /// its value there and here.
    pub(crate) fn first_change(&self, other: &Self) -> anyhow::Result<Option<[String; 3]>> {
        // By way of the text, in which an f32 has the digits that a user writes.
        let json = |settings: &Self| -> serde_json::Result<serde_json::Value> {
            serde_json::from_str(&serde_json::to_string(&settings.deciding())?)
        };
        Ok(first_change("", &json(other)?, &json(self)?))
    }

    /// Without what may change while a run goes on.
    fn deciding(&self) -> Self {
        let mut decides = self.clone();
        decides.workers = 1;
        decides.memory = MemoryCheck::default();
        decides.train.checkpoint_every = 1;
        decides.train.keep_checkpoints = 1;
        decides.eval = EvalConfig::default();
        let RolloutConfig { engine, model, api, handover, staleness, retokenize, .. } =
            decides.rollout;
        decides.rollout = RolloutConfig {
            engine,
            model,
            api,
            handover,
            staleness,
            retokenize,
            ..RolloutConfig::default()
        };
        decides
    }
}

fn first_change(
    key: &str,
    old: &serde_json::Value,
    new: &serde_json::Value,
) -> Option<[String; 3]> {
    match (old.as_object(), new.as_object()) {
        (Some(old), Some(new)) => old.iter().find_map(|(name, old)| {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            first_change(&key, old, new.get(name).unwrap_or(&serde_json::Value::Null))
        }),
        _ if old == new => None,
        _ => Some([key.to_owned(), old.to_string(), new.to_string()]),
    }
}

/// serde's message as an error of ours: an unknown key or word is told apart and its
/// nearest valid neighbour looked up.
fn read_fault(message: &str, path: &Path) -> SettingsError {
    let path = path.to_path_buf();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let place =
        |what| message.split_once(what).map(|(place, _)| place.trim().trim_end_matches(':'));
    let Some((written, known)) = quoted.split_first() else {
        return SettingsError::Form { path, why: message.to_owned() };
    };
    let nearest = nearest(written, known);
    match (place("unknown field"), place("unknown variant")) {
        (Some(""), _) => SettingsError::UnknownKey { path, key: (*written).to_owned(), nearest },
        (Some(place), _) => {
            SettingsError::UnknownKey { path, key: format!("{place}.{written}"), nearest }
        }
        (None, Some(key)) if !key.is_empty() => SettingsError::UnknownValue {
            path,
            key: key.to_owned(),
            value: (*written).to_owned(),
            known: known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            nearest,
        },
        _ => SettingsError::Form { path, why: message.to_owned() },
    }
}

/// The word of `known` that starts as `written` does or is spelt most like it.
fn nearest(written: &str, known: &[&str]) -> Option<String> {
    let distance = |word: &str| {
        if word.starts_with(written) { 0 } else { strsim::damerau_levenshtein(written, word) }
    };
    known
        .iter()
        .map(|word| (distance(word), *word))
        .filter(|(distance, word)| *distance <= word.len().max(3) / 2)
        .min()
        .map(|(_, word)| word.to_owned())
}

/// What the environment says.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// Models, mirrors of the toy set, interpreters' environments, prepared trees.
    pub(crate) cache: PathBuf,
    /// Records of running sandboxes, for `sandbox reap`.
    pub(crate) state: PathBuf,
    /// Where the hub is, if not at its own place.
    pub(crate) hub: Option<String>,
    /// Bearer token for the hub.
    pub(crate) hub_token: Option<String>,
    /// Where the container engine listens, as Docker's own tools read it.
    pub(crate) docker_host: Option<String>,
}

impl Environment {
    /// Read it once, at the start.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn read() -> Self {
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let home = var("HOME").map(PathBuf::from);
        let below = |folder: &str| home.clone().map(|h| h.join(folder));
        let cache = var("PATCHRL_CACHE")
            .map(PathBuf::from)
            .or_else(|| var("XDG_CACHE_HOME").map(|c| PathBuf::from(c).join("patchrl")))
            .or_else(|| below(".cache/patchrl"))
            .unwrap_or_else(|| std::env::temp_dir().join("patchrl-cache"));
        Self {
            state: cache.join("state"),
            cache,
            hub: var("HF_ENDPOINT"),
            hub_token: var("HF_TOKEN"),
            docker_host: var("DOCKER_HOST"),
        }
    }
}

impl Environment {
    /// The key that the variable `name` holds. It is read when it is needed and kept nowhere else.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn key(name: &str) -> anyhow::Result<ApiKey> {
        let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let Some(value) = value else {
            return Err(usage(
                format!("the environment variable `{name}` is not set, so there is no key"),
                format!("`export {name}=...`, or leave `rollout.api_key_env` out"),
            ));
        };
        ApiKey::new(&value).ok_or_else(|| {
            usage(
                format!("what `{name}` holds can be no key: it has white space or other signs"),
                "copy the key again, without quotation marks",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> SettingsError {
        Settings::parse(text, Path::new("x.yaml")).expect_err("a fault")
    }

    #[test]
    fn a_misspelt_key_names_itself_and_its_neighbour() {
        let error = fault("train:\n  grpo:\n    group_sise: 8\n");
        let text = format!("{error} / {}", error.hint().unwrap_or_default());
        assert_eq!(
            text,
            "`x.yaml` has the key `train.grpo.group_sise`, which does not exist / did you mean `group_size`?"
        );
    }

    #[test]
    fn an_unknown_word_names_its_key_and_its_neighbour() {
        let error = fault("train:\n  grpo:\n    preset: trl\n");
        let text = format!("{error} / {}", error.hint().unwrap_or_default());
        assert_eq!(
            text,
            "`x.yaml`: `train.grpo.preset` is `trl`, but it must be one of `mission`, `paper`, \
             `trl-1.16`, `verl-0.9` / did you mean `trl-1.16`?"
        );
        let hint = fault("train:\n  grpo:\n    loss: dpao\n").hint();
        assert_eq!(hint.as_deref(), Some("did you mean `dapo`?"));
    }

    #[test]
    fn a_preset_of_a_trainer_gives_way_to_what_is_written() {
        let text = "train: { grpo: { preset: trl-1.16, lr: 2.0e-6 } }";
        let settings = Settings::parse(text, Path::new("x.yaml")).expect("settings");
        let grpo = &settings.train.grpo;
        assert_eq!((grpo.group_size, grpo.lr, grpo.kl_coef), (8, 2e-6, 0.0));
    }

    #[test]
    fn a_group_of_one_is_refused() {
        let error = fault("train:\n  grpo:\n    group_size: 1\n").to_string();
        assert_eq!(
            error,
            "`x.yaml`: `train.grpo.group_size` is 1, but a group needs at least 2 samples"
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        let settings = Settings::default();
        let text = serde_norway::to_string(&settings).expect("YAML");
        assert_eq!(Settings::parse(&text, Path::new("x.yaml")).expect("settings"), settings);
    }
}
