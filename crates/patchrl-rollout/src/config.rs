//! `rollout:` in a configuration: who draws the answers.
//!
//! Owns the keys, their defaults and what serde cannot check of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whose weights answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Those in this process.
    #[default]
    Embedded,
    /// Those of a server that speaks `OpenAI`'s protocol.
    Openai,
}

/// Which server it is, for what the protocol leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// It is asked.
    #[default]
    Auto,
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp's own server.
    LlamaCpp,
    /// Any other: only what the protocol itself has is sent.
    Other,
}

/// What the server is asked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// `/v1/completions`: the prompt is rendered here, and goes as tokens where it is known as
    /// tokens.
    #[default]
    Completions,
    /// `/v1/chat/completions`: the server renders the prompt, and tools are its own.
    Chat,
    /// `/generate` of `SGLang`: tokens in, tokens out.
    Generate,
}

/// How new weights reach the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoverKind {
    /// `lora` where an adapter is trained, else `disk`.
    #[default]
    Auto,
    /// A PEFT folder for each version, loaded and unloaded by name (vLLM, `SGLang`).
    Lora,
    /// Whole checkpoints that the server reads from the disk (`SGLang`).
    Disk,
    /// Not at all: the server keeps the weights it has, and its answers grow older.
    None,
}

/// Who draws the answers, and how a server is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RolloutConfig {
    /// `embedded`, or `openai` for a server.
    pub engine: Engine,
    /// Where the server listens, such as `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// Name of the environment variable that holds the key. The key itself is written nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// What the server calls the model; left out, the first one it lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Which server it is.
    pub server: Server,
    /// What it is asked by.
    pub api: Api,
    /// Requests at the same time.
    pub concurrency: usize,
    /// Seconds one attempt at an answer may take.
    pub request_timeout: u64,
    /// Seconds that loading weights, a health check and the like may take.
    pub control_timeout: u64,
    /// Further attempts at an answer after one that failed on the way.
    pub retries: u32,
    /// Seconds before the first of them; each further one waits twice as long, half a minute at
    /// most. A server that says how long to wait is believed.
    pub backoff: f64,
    /// Requests and answers go here as JSON lines, without keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_log: Option<PathBuf>,
    /// How new weights reach the server.
    pub handover: HandoverKind,
    /// Folder for weights on their way to the server; left out, `handover/` of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover_dir: Option<PathBuf>,
    /// The same folder as the server sees it, where that is another path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_dir: Option<PathBuf>,
    /// Updates that weights may be behind when they draw. 0 waits for each update; above it, the
    /// next answers are drawn while an update runs.
    pub staleness: u64,
    /// Train on answers whose tokens the server does not say, encoded again from their text. They
    /// are marked, and have no importance weight.
    pub retokenize: bool,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            engine: Engine::Embedded,
            base_url: String::new(),
            api_key_env: None,
            model: None,
            server: Server::Auto,
            api: Api::Completions,
            concurrency: 16,
            request_timeout: 600,
            control_timeout: 120,
            retries: 5,
            backoff: 0.5,
            debug_log: None,
            handover: HandoverKind::Auto,
            handover_dir: None,
            server_dir: None,
            staleness: 0,
            retokenize: false,
        }
    }
}

/// More would be refused by most systems' limit on open files.
const MOST_AT_ONCE: usize = 1024;
/// Further back, an importance weight says nothing.
const MOST_STALE: u64 = 64;

impl RolloutConfig {
    /// Whether a server draws.
    pub fn is_remote(&self) -> bool {
        self.engine == Engine::Openai
    }

    /// What serde cannot check: the first thing that is wrong, by its key.
    pub fn check(&self) -> Result<(), String> {
        if !self.is_remote() {
            return match self.base_url.as_str() {
                "" if self.staleness == 0 => Ok(()),
                "" => Err("`rollout.staleness` is above 0, but the embedded engine draws from \
                           the weights that are trained; set `rollout.engine: openai`"
                    .into()),
                _ => Err("`rollout.base_url` is given, but `rollout.engine` is `embedded`; set \
                          it to `openai`"
                    .into()),
            };
        }
        self.check_url()?;
        let counts = [
            ("concurrency", self.concurrency as u64),
            ("request_timeout", self.request_timeout),
            ("control_timeout", self.control_timeout),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, v)| *v == 0) {
            return Err(format!("`rollout.{key}` is 0, but it must be at least 1"));
        }
        if !(0.0..=30.0).contains(&self.backoff) {
            return Err(format!("`rollout.backoff` is {}, not in 0 to 30", self.backoff));
        }
        if self.concurrency > MOST_AT_ONCE {
            return Err(format!("`rollout.concurrency` is above {MOST_AT_ONCE}"));
        }
        if self.staleness > MOST_STALE {
            return Err(format!("`rollout.staleness` is above {MOST_STALE}"));
        }
        if self.api == Api::Generate && !matches!(self.server, Server::Auto | Server::Sglang) {
            return Err("`rollout.api: generate` is SGLang's own; `completions` is for the \
                        others"
                .into());
        }
        Ok(())
    }

    fn check_url(&self) -> Result<(), String> {
        let url = &self.base_url;
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!(
                "`rollout.base_url` is `{}`, but it must be an address such as \
                 `http://127.0.0.1:8000/v1`",
                without_secrets(url)
            ));
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if !matches!(scheme, "http" | "https") || host.is_empty() {
            return Err(format!(
                "`rollout.base_url` is `{}`, but it must begin with http:// or https:// and a host",
                without_secrets(url)
            ));
        }
        if host.contains('@') || rest.contains(['?', '#']) {
            return Err(
                "`rollout.base_url` holds a user, a query or a fragment; keys belong into \
                        the environment variable that `rollout.api_key_env` names"
                    .into(),
            );
        }
        Ok(())
    }
}

/// An address without what may be a key.
fn without_secrets(url: &str) -> &str {
    if url.contains('@') { "(an address with a user)" } else { url.split('?').next().unwrap_or("") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(base_url: &str) -> RolloutConfig {
        RolloutConfig {
            engine: Engine::Openai,
            base_url: base_url.into(),
            ..RolloutConfig::default()
        }
    }

    #[test]
    fn an_address_is_checked_and_a_key_in_it_is_not_repeated() {
        assert_eq!(with("http://127.0.0.1:8000/v1").check(), Ok(()));
        for bad in ["", "localhost:8000", "ftp://x", "http://", "http:///v1"] {
            assert!(with(bad).check().is_err(), "{bad}");
        }
        for leak in ["https://u:hunter2@h/v1", "u:hunter2@h", "https://h/v1?key=hunter2"] {
            let why = with(leak).check().expect_err(leak);
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn a_server_that_is_not_asked_for_is_no_silent_default() {
        let forgotten = RolloutConfig { engine: Engine::Embedded, ..with("http://h/v1") };
        assert!(forgotten.check().expect_err("a refusal").contains("`rollout.engine`"));
        let stale = RolloutConfig { staleness: 1, ..RolloutConfig::default() };
        assert!(stale.check().expect_err("a refusal").contains("`rollout.staleness`"));
    }
}
