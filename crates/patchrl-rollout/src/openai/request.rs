//! A question in the form in which each server takes it.
//!
//! Owns the fields that are sent. What goes beyond the protocol is sent to servers that are known
//! to take it.

use patchrl_agent::Question;
use serde_json::{Map, Value, json};

use super::fault::Trouble;
use crate::config::{Api, Server};

/// How tokens are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// 0 is greedy.
    pub temperature: f32,
    /// Probability mass kept.
    pub top_p: f32,
    /// Tokens kept; 0 keeps all.
    pub top_k: usize,
    /// Tokens that end an answer, beside the server's own.
    pub stop: Vec<u32>,
}

/// Whom a question is for.
pub(super) struct Addressee<'a> {
    pub(super) server: Server,
    pub(super) api: Api,
    /// What the server calls the weights.
    pub(super) model: &'a str,
    /// Whether `model` is an adapter.
    pub(super) adapter: bool,
    pub(super) drawing: &'a Drawing,
}

/// Path and body of a question.
pub(super) fn of(
    to: &Addressee<'_>,
    question: &Question<'_>,
) -> Result<(&'static str, Value), Trouble> {
    Ok(match to.api {
        Api::Completions => ("completions", completions(to, question)?),
        Api::Chat => ("chat/completions", chat(to, question)),
        Api::Generate => ("generate", generate(to, question)?),
    })
}

fn completions(to: &Addressee<'_>, question: &Question<'_>) -> Result<Value, Trouble> {
    let mut body = Map::new();
    body.insert("model".into(), json!(to.model));
    body.insert("prompt".into(), json!(tokens_of(question, "completions")?));
    common(to, question, &mut body);
    match to.server {
        // The token that was drawn, and no others beside it.
        Server::Vllm => body.insert("logprobs".into(), json!(0)),
        Server::Sglang | Server::LlamaCpp => body.insert("logprobs".into(), json!(1)),
        Server::Auto | Server::Other => None,
    };
    Ok(Value::Object(body))
}

fn chat(to: &Addressee<'_>, question: &Question<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(to.model));
    body.insert("messages".into(), json!(question.chat));
    common(to, question, &mut body);
    match to.server {
        Server::Vllm | Server::Sglang => body.insert("logprobs".into(), json!(true)),
        Server::LlamaCpp => {
            body.insert("top_logprobs".into(), json!(1));
            body.insert("logprobs".into(), json!(true))
        }
        Server::Auto | Server::Other => None,
    };
    if to.server == Server::Sglang {
        body.insert("return_prompt_token_ids".into(), json!(true));
    }
    if !question.tools.is_empty() {
        let tool = |tool| json!({ "type": "function", "function": tool });
        body.insert("tools".into(), question.tools.iter().map(tool).collect());
    }
    Value::Object(body)
}

/// What completions and chat share.
fn common(to: &Addressee<'_>, question: &Question<'_>, body: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| body.insert(key.into(), value);
    put("max_tokens", json!(question.max_new_tokens));
    put("temperature", json!(to.drawing.temperature));
    put("top_p", json!(to.drawing.top_p));
    put("seed", json!(seed(question.seed)));
    put("stream", json!(false));
    let known = !matches!(to.server, Server::Auto | Server::Other);
    if known && to.drawing.top_k > 0 {
        put("top_k", json!(to.drawing.top_k));
    }
    if matches!(to.server, Server::Vllm | Server::Sglang) {
        put("return_token_ids", json!(true));
        if !to.drawing.stop.is_empty() {
            put("stop_token_ids", json!(to.drawing.stop));
        }
    }
    if to.server == Server::Vllm {
        put("return_weight_versions", json!(true));
    }
}

fn generate(to: &Addressee<'_>, question: &Question<'_>) -> Result<Value, Trouble> {
    let top_k = if to.drawing.top_k == 0 { -1 } else { to.drawing.top_k as i64 };
    let mut body = json!({
        "input_ids": tokens_of(question, "generate")?,
        "sampling_params": {
            "max_new_tokens": question.max_new_tokens,
            "temperature": to.drawing.temperature,
            "top_p": to.drawing.top_p,
            "top_k": top_k,
            "sampling_seed": seed(question.seed),
            "stop_token_ids": to.drawing.stop,
        },
        "return_logprob": true,
        "stream": false,
    });
    if to.adapter {
        body["lora_path"] = json!(to.model);
    }
    Ok(body)
}

fn tokens_of<'q>(question: &Question<'q>, api: &str) -> Result<&'q [u32], Trouble> {
    question.tokens.ok_or_else(|| {
        Trouble::fatal(
            format!("the question is known as text alone, and `rollout.api: {api}` takes tokens"),
            "set `rollout.api: chat`, or name the same model's files with `--model`",
        )
    })
}

/// Servers take seeds of 31 bits.
fn seed(seed: u64) -> u64 {
    (seed ^ (seed >> 32)) & 0x7fff_ffff
}
