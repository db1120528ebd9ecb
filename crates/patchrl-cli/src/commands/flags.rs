//! Flags that several commands take.

use std::path::{Path, PathBuf};

use clap::Args;
use patchrl_rollout::{Api, Engine};
use patchrl_sandbox::{Docker, DockerSettings, SandboxError, Tell};

use crate::printer;
use crate::settings::{Environment, SandboxChoice, Settings};

/// Over a model and tasks: each takes precedence over the same key of the configuration file.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file; flags take precedence over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A folder, a GGUF file, `smollm2-135m`, or `owner/name` on the hub.
    #[arg(long)]
    model: Option<String>,
    /// `toy`, a file of rows (JSONL, JSON, gz, zst, Parquet), or a data set of the hub:
    /// `lite`, `verified`, `owner/name:split` ...
    #[arg(long, value_name = "FILE|NAME")]
    tasks: Option<String>,
    /// Folder with local clones of the tasks' repositories, bare or not.
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    /// Where tests run.
    #[arg(long, value_enum)]
    sandbox: Option<SandboxChoice>,
    /// Seed of every draw and every order.
    #[arg(long)]
    seed: Option<u64>,
    /// Tokens a prompt may take.
    #[arg(long)]
    max_prompt_tokens: Option<usize>,
    /// Print a JSON object at the end.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Common {
    /// Whether `--model` was given.
    pub(crate) fn names_a_model(&self) -> bool {
        self.model.is_some()
    }

    /// The configuration file, or the defaults, under these flags. Not yet checked.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let mut s = match &self.config {
            Some(file) => Settings::load(file)?,
            None => Settings::default(),
        };
        set(&mut s.model, self.model.clone());
        set(&mut s.tasks, self.tasks.clone());
        if self.repos.is_some() {
            s.repos.clone_from(&self.repos);
        }
        set(&mut s.sandbox, self.sandbox);
        set(&mut s.train.seed, self.seed);
        set(&mut s.prompt.max_tokens, self.max_prompt_tokens);
        Ok(s)
    }
}

/// A server that draws the answers, in place of weights in this process.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Draw the answers from this OpenAI-compatible server, such as `http://127.0.0.1:8000/v1`.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Name of the environment variable that holds the server's key.
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    /// What the server calls the model; left out, the first it lists.
    #[arg(long, value_name = "ID")]
    served_model: Option<String>,
    /// Requests to the server at the same time.
    #[arg(long)]
    concurrency: Option<usize>,
    /// File for requests and answers as JSON lines, without keys.
    #[arg(long, value_name = "FILE")]
    debug_log: Option<PathBuf>,
}

impl ServerFlags {
    /// As [`ServerFlags::over`] for questions alone: without the model's own template, which a
    /// model that is named brings, only the server can render a prompt.
    pub(crate) fn over_asking(&self, s: &mut Settings, named: bool) {
        self.over(s);
        if s.rollout.is_remote() && !named {
            s.rollout.api = Api::Chat;
        }
    }

    /// Put the flags over the settings.
    pub(crate) fn over(&self, s: &mut Settings) {
        if let Some(url) = &self.base_url {
            s.rollout.base_url.clone_from(url);
            if !s.rollout.is_remote() {
                s.rollout.engine = Engine::Openai;
                s.weigh_answers();
            }
        }
        let some = |flag: &Option<String>, key: &mut Option<String>| {
            if flag.is_some() {
                key.clone_from(flag);
            }
        };
        some(&self.api_key_env, &mut s.rollout.api_key_env);
        some(&self.served_model, &mut s.rollout.model);
        set(&mut s.rollout.concurrency, self.concurrency);
        if self.debug_log.is_some() {
            s.rollout.debug_log.clone_from(&self.debug_log);
        }
    }
}

/// Which container engine.
#[derive(Debug, Args)]
pub(crate) struct EngineFlags {
    /// Socket of Docker or Podman: `unix://PATH` or `tcp://HOST:PORT`. Else `DOCKER_HOST`,
    /// else the usual places.
    #[arg(long, value_name = "ADDRESS")]
    docker_host: Option<String>,
}

impl EngineFlags {
    /// The engine with default limits; what it has to say goes to the user.
    pub(crate) fn connect(&self, environment: &Environment) -> Result<Docker, SandboxError> {
        Docker::connect(&DockerSettings {
            host: self.docker_host.clone().or_else(|| environment.docker_host.clone()),
            tell: Tell::new(|notice| printer::say(&notice.to_string())),
            ..DockerSettings::default()
        })
    }

    /// Whether the user named one.
    pub(crate) fn named(&self, environment: &Environment) -> bool {
        self.docker_host.is_some() || environment.docker_host.is_some()
    }
}

/// Refuse settings that flags have made impossible.
pub(crate) fn checked(settings: Settings) -> anyhow::Result<Settings> {
    settings.check(Path::new("flags"))?;
    Ok(settings)
}

/// Put a flag's value in place, if it was given.
pub(crate) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
