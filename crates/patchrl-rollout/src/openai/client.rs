//! The policy: questions to a server, so many at a time, each until there is a reply or none will
//! come.
//!
//! Owns the attempts and the waits between them, and which weights are asked for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use patchrl_agent::{Policy, PolicyFault, Question, Reply};
use serde_json::Value;

use super::fault::{self, Trouble, body_of};
use super::key::ApiKey;
use super::limit::Limit;
use super::log::Log;
use super::reply::{self, Asked};
use super::request::{self, Addressee, Drawing};
use super::wire::Wire;
use crate::SamplingConfig;
use crate::config::{Api, RolloutConfig, Server};

/// The longest wait between two attempts that we choose ourselves.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How often a wait looks whether it was broken off.
const TICK: Duration = Duration::from_millis(20);

/// A server that answers. Clones share its connections, its limit and the weights it is asked for.
#[derive(Clone)]
pub struct OpenAi {
    shared: Arc<Shared>,
    drawing: Drawing,
}

struct Shared {
    wire: Wire,
    config: RolloutConfig,
    server: Server,
    limit: Limit,
    target: RwLock<Target>,
    /// Whether it has ever given a reply.
    answered: AtomicBool,
}

/// The weights that are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// What the server calls its own weights.
    pub(crate) base: String,
    /// And the adapter on them.
    pub(crate) adapter: Option<String>,
    pub(crate) version: u64,
}

impl OpenAi {
    /// Reach the server, and find out which it is and what its model is called.
    pub fn open(
        config: &RolloutConfig,
        key: Option<ApiKey>,
        sampling: &SamplingConfig,
    ) -> Result<Self, PolicyFault> {
        let log = match &config.debug_log {
            Some(path) => Some(Log::open(path).map_err(|e| PolicyFault::Fatal {
                what: format!("the debug log cannot be written ({e})"),
                hint: "name another file as `rollout.debug_log`".into(),
            })?),
            None => None,
        };
        let wire = Wire::new(&config.base_url, key, log);
        let shared = Shared {
            wire,
            config: config.clone(),
            server: config.server,
            limit: Limit::new(config.concurrency.max(1)),
            target: RwLock::default(),
            answered: AtomicBool::new(false),
        };
        let mut client = Self { shared: Arc::new(shared), drawing: drawing(sampling, Vec::new()) };
        client.introduce()?;
        Ok(client)
    }

    /// The same server asked with other numbers; `stop` ends an answer beside the server's own.
    #[must_use]
    pub fn drawing(&self, sampling: &SamplingConfig, stop: Vec<u32>) -> Self {
        Self { shared: Arc::clone(&self.shared), drawing: drawing(sampling, stop) }
    }

    /// Which server it is.
    pub fn server(&self) -> Server {
        self.shared.server
    }

    /// How it is asked.
    pub fn config(&self) -> &RolloutConfig {
        &self.shared.config
    }

    /// What the server calls its own weights, without any adapter.
    pub fn model(&self) -> String {
        self.target().base
    }

    /// The version of the weights that are asked for.
    pub fn version(&self) -> u64 {
        self.target().version
    }

    /// Break off what is under way, from any thread. Nothing is asked afterwards.
    pub fn cancel(&self) {
        self.shared.wire.stop();
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.shared.wire
    }

    pub(crate) fn control_timeout(&self) -> Duration {
        Duration::from_secs(self.shared.config.control_timeout)
    }

    pub(crate) fn target(&self) -> Target {
        self.shared.target.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn aim(&self, target: Target) {
        *self.shared.target.write().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// As [`Policy::ask`]; `hear` gets each reply when it comes.
    pub fn ask_each(
        &self,
        questions: &[Question<'_>],
        hear: &mut dyn FnMut(&Result<Reply, PolicyFault>),
    ) -> Vec<Result<Reply, PolicyFault>> {
        let next = AtomicUsize::new(0);
        let fatal: OnceLock<PolicyFault> = OnceLock::new();
        let mut replies: Vec<_> = questions.iter().map(|_| None).collect();
        let (send, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.shared.config.concurrency.min(questions.len()) {
                let send = send.clone();
                let work = || {
                    let send = send;
                    while let Some((at, question)) = Some(next.fetch_add(1, Ordering::SeqCst))
                        .and_then(|at| Some((at, questions.get(at)?)))
                    {
                        let reply = self.one(question, &fatal);
                        if send.send((at, reply)).is_err() {
                            break;
                        }
                    }
                };
                scope.spawn(work);
            }
            drop(send);
            for (at, reply) in receive {
                hear(&reply);
                replies[at] = Some(reply);
            }
        });
        let unasked = || Err(PolicyFault::Lost("it was never asked".into()));
        replies.into_iter().map(|reply| reply.unwrap_or_else(unasked)).collect()
    }

    /// One reply; what will never come ends the waits of the others.
    fn one(
        &self,
        question: &Question<'_>,
        fatal: &OnceLock<PolicyFault>,
    ) -> Result<Reply, PolicyFault> {
        let _place = self.shared.limit.enter();
        let reply =
            self.until_it_comes(question.seed, &|| fatal.get().is_some(), &|| match fatal.get() {
                Some(_) => Err(Trouble::Stopped),
                None => self.attempt(question),
            });
        match reply {
            Err(PolicyFault::Lost(_)) if fatal.get().is_some() => {
                Err(fatal.get().cloned().unwrap_or(PolicyFault::Lost(String::new())))
            }
            Err(fault) => {
                if matches!(fault, PolicyFault::Fatal { .. }) {
                    let _ = fatal.set(fault.clone());
                }
                Err(fault)
            }
            Ok(reply) => {
                self.shared.answered.store(true, Ordering::SeqCst);
                Ok(reply)
            }
        }
    }

    fn attempt(&self, question: &Question<'_>) -> Result<Reply, Trouble> {
        let Shared { wire, config, server, .. } = &*self.shared;
        let target = self.target();
        let to = Addressee {
            server: *server,
            api: config.api,
            base: &target.base,
            adapter: target.adapter.as_deref(),
            drawing: &self.drawing,
        };
        let (path, body) = request::of(&to, question)?;
        let most = Duration::from_secs(config.request_timeout);
        let answer = match config.api {
            Api::Generate => wire.post(path, &body, most)?,
            Api::Completions | Api::Chat => wire.ask(path, &body, most)?,
        };
        let body = body_of(wire, &answer)?;
        // llama.cpp says those of the distribution before it is sharpened or flattened.
        let log_probs =
            *server != Server::LlamaCpp || (self.drawing.temperature - 1.0).abs() < f32::EPSILON;
        let prompt = question.tokens.filter(|_| config.api != Api::Chat);
        let asked = Asked { api: config.api, prompt, version: target.version, log_probs };
        reply::read(wire, &asked, &body)
    }

    /// Attempts until one gives something, none will, or there were enough. `seed` spreads the
    /// waits of many that failed together.
    pub(crate) fn until_it_comes<T>(
        &self,
        seed: u64,
        given_up: &dyn Fn() -> bool,
        attempt: &dyn Fn() -> Result<T, Trouble>,
    ) -> Result<T, PolicyFault> {
        let most = self.shared.config.retries.saturating_add(1);
        let answered = || self.shared.answered.load(Ordering::SeqCst);
        let mut tried = 0;
        loop {
            tried += 1;
            let trouble = match attempt() {
                Ok(it) => return Ok(it),
                Err(trouble) => trouble,
            };
            let after = match &trouble {
                Trouble::Again { after, .. } => *after,
                Trouble::Doubtful { .. } => None,
                _ => return Err(trouble.into_fault(1, answered())),
            };
            if tried >= most || !self.wait(self.pause(tried, seed, after), given_up) {
                return Err(trouble.into_fault(tried, answered()));
            }
        }
    }

    /// How long to wait after so many attempts.
    fn pause(&self, tried: u32, seed: u64, after: Option<Duration>) -> Duration {
        let config = &self.shared.config;
        if let Some(after) = after {
            return after.min(Duration::from_secs(config.request_timeout));
        }
        let first = Duration::try_from_secs_f64(config.backoff).unwrap_or(LONGEST_WAIT);
        let doubled = first.saturating_mul(1 << (tried - 1).min(16)).min(LONGEST_WAIT);
        // Between a half and the whole.
        doubled.mul_f64(
            0.5 + 0.5 * (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64
                / (1_u64 << 24) as f64,
        )
    }

    /// Whether the wait came to its end.
    fn wait(&self, pause: Duration, given_up: &dyn Fn() -> bool) -> bool {
        let until = Instant::now() + pause;
        loop {
            if self.shared.wire.is_stopped() || given_up() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// Ask for the list of models: the server is there, the key is right, its owner names it.
    fn introduce(&mut self) -> Result<(), PolicyFault> {
        let most = self.control_timeout();
        let listed = self.until_it_comes(0, &|| false, &|| {
            let answer = self.wire().list("models", most)?;
            match answer.status {
                // Some servers have no list; what is wrong otherwise the first question shows.
                404 | 405 if self.shared.config.model.is_some() => Ok(Value::Null),
                _ => body_of(self.wire(), &answer),
            }
        })?;
        let first = &listed["data"][0];
        let config = &self.shared.config;
        let server = match config.server {
            Server::Auto => match first["owned_by"].as_str() {
                Some("vllm") => Server::Vllm,
                Some("sglang") => Server::Sglang,
                Some("llamacpp") => Server::LlamaCpp,
                _ => Server::Other,
            },
            named => named,
        };
        let model = config.model.clone().or_else(|| first["id"].as_str().map(str::to_owned));
        let Some(model) = model else {
            let trouble = fault::no_form(self.wire(), "data[0].id", &listed);
            return Err(trouble.into_fault(1, false));
        };
        if config.api == Api::Generate && server != Server::Sglang {
            return Err(PolicyFault::Fatal {
                what: format!("`{}` is not SGLang, which has `generate`", self.wire().address()),
                hint: "set `rollout.api: completions`, or `rollout.server: sglang` if it is".into(),
            });
        }
        self.aim(Target { base: model, adapter: None, version: 0 });
        // Nobody else has a share in it yet.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.server = server;
        }
        Ok(())
    }
}

impl Policy for OpenAi {
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>> {
        self.ask_each(questions, &mut |_| {})
    }
}

fn drawing(sampling: &SamplingConfig, stop: Vec<u32>) -> Drawing {
    let SamplingConfig { temperature, top_p, top_k, .. } = *sampling;
    Drawing { temperature, top_p, top_k, stop }
}
