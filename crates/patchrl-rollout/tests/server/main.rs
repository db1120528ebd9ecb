//! A server as a policy, through its front door and over real HTTP.

mod faults;
mod shapes;
mod thoughts;
mod weights;

use patchrl_agent::{PolicyFault, Question, Reply};
use patchrl_model::{Message, Policy};
use patchrl_rollout::openai::{ApiKey, OpenAi};
use patchrl_rollout::{Api, Engine, RolloutConfig, SamplingConfig};
use patchrl_testkit::{Brain, FakeServer, Flavour, write_model};

/// The settings for `server`, with waits that a test can afford.
fn config(server: &FakeServer) -> RolloutConfig {
    RolloutConfig {
        engine: Engine::Openai,
        base_url: server.base_url(),
        backoff: 0.01,
        retries: 3,
        request_timeout: 10,
        control_timeout: 10,
        ..RolloutConfig::default()
    }
}

fn sampling() -> SamplingConfig {
    SamplingConfig { temperature: 1.0, max_new_tokens: 12, ..SamplingConfig::default() }
}

fn open(config: &RolloutConfig) -> OpenAi {
    OpenAi::open(config, None, &sampling()).expect("a server")
}

/// One question, as tokens and as a chat.
fn ask(server: &OpenAi, seed: u64) -> Result<Reply, PolicyFault> {
    let chat = [Message::new("user", "hello")];
    let question =
        Question { chat: &chat, tokens: Some(&[104, 105]), tools: &[], seed, max_new_tokens: 12 };
    server.ask_each(&[question], &mut |_| {}).remove(0)
}

fn says(flavour: Flavour, text: &str) -> FakeServer {
    FakeServer::start(flavour, Brain::Says(text.into()))
}

/// A small model, and a server that has it.
fn with_model(flavour: Flavour) -> (tempfile::TempDir, Policy, FakeServer) {
    let dir = tempfile::tempdir().expect("a folder");
    write_model(dir.path());
    let policy = Policy::load(dir.path()).expect("a model");
    let server = FakeServer::start(flavour, Brain::Model(Box::new(policy.clone())));
    (dir, policy, server)
}

fn key(text: &str) -> Option<ApiKey> {
    ApiKey::new(text)
}

fn chat_api(server: &FakeServer) -> RolloutConfig {
    RolloutConfig { api: Api::Chat, ..config(server) }
}
