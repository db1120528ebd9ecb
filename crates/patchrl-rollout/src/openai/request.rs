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
pub(super) struct Drawing {
    /// 0 is greedy.
    pub(super) temperature: f32,
    /// Probability mass kept.
    pub(super) top_p: f32,
    /// Tokens kept; 0 keeps all.
    pub(super) top_k: usize,
    /// Tokens that end an answer, beside the server's own.
    pub(super) stop: Vec<u32>,
}

/// Whom a question is for.
pub(super) struct Addressee<'a> {
    pub(super) server: Server,
    pub(super) api: Api,
    /// What the server calls its own weights.
    pub(super) base: &'a str,
    /// And the adapter on them.
    pub(super) adapter: Option<&'a str>,
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
    weights(to, &mut body);
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
    weights(to, &mut body);
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

/// Which weights answer. vLLM takes an adapter for a model; `SGLang` reads a model's name only where
/// it says `base:adapter`, and would answer without the adapter.
fn weights(to: &Addressee<'_>, body: &mut Map<String, Value>) {
    match (to.adapter, to.server) {
        (Some(adapter), Server::Sglang) => {
            body.insert("model".into(), json!(to.base));
            body.insert("lora_path".into(), json!(adapter));
        }
        (adapter, _) => {
            body.insert("model".into(), json!(adapter.unwrap_or(to.base)));
        }
    }
}

/// What completions and chat share.
fn common(to: &Addressee<'_>, question: &Question<'_>, body: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| body.insert(key.into(), value);
    put("max_tokens", json!(question.max_new_tokens));
    put("temperature", json!(to.drawing.temperature));
    put("top_p", json!(to.drawing.top_p));
    put("seed", json!(seed(question.seed)));
    put("stream", json!(false));
    // What is left out a server takes from the model's folder or from its own habits, and would
    // draw from another distribution than the one that is trained.
    match to.server {
        Server::Vllm | Server::Sglang => {
            put("top_k", json!(top_k(to.drawing)));
            put("min_p", json!(0.0));
            put("repetition_penalty", json!(1.0));
        }
        Server::LlamaCpp => {
            put("top_k", json!(to.drawing.top_k));
            put("min_p", json!(0.0));
            put("repeat_penalty", json!(1.0));
        }
        Server::Auto | Server::Other => {}
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
    let mut body = json!({
        "input_ids": tokens_of(question, "generate")?,
        "sampling_params": {
            "max_new_tokens": question.max_new_tokens,
            "temperature": to.drawing.temperature,
            "top_p": to.drawing.top_p,
            "top_k": top_k(to.drawing),
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "sampling_seed": seed(question.seed),
            "stop_token_ids": to.drawing.stop,
        },
        "return_logprob": true,
        "stream": false,
    });
    if let Some(adapter) = to.adapter {
        body["lora_path"] = json!(adapter);
    }
    Ok(body)
}

/// -1 keeps all.
fn top_k(drawing: &Drawing) -> i64 {
    if drawing.top_k == 0 { -1 } else { drawing.top_k as i64 }
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

#[cfg(test)]
mod tests {
    use patchrl_agent::ToolSpec;
    use patchrl_model::Message;

    use super::*;

    fn body(server: Server, api: Api, adapter: Option<&str>) -> Value {
        let drawing = Drawing { temperature: 0.7, top_p: 1.0, top_k: 5, stop: vec![9] };
        let to = Addressee { server, api, base: "base", adapter, drawing: &drawing };
        let schema = json!({ "type": "object" });
        let tool = ToolSpec {
            name: "view".into(),
            description: "Show a file.".into(),
            parameters: schema,
        };
        let question = Question {
            chat: &[Message::new("user", "hi")],
            tokens: Some(&[1, 2]),
            tools: &[tool],
            seed: u64::MAX - 7,
            max_new_tokens: 12,
        };
        of(&to, &question).expect("a body").1
    }

    #[test]
    fn an_adapter_is_named_as_each_server_reads_it() {
        let of = |server, api| body(server, api, Some("policy-v3"));
        assert_eq!(of(Server::Vllm, Api::Completions)["model"], "policy-v3");
        for api in [Api::Completions, Api::Chat] {
            let sglang = of(Server::Sglang, api);
            assert_eq!(
                (&sglang["model"], &sglang["lora_path"]),
                (&json!("base"), &json!("policy-v3"))
            );
        }
        assert_eq!(of(Server::Sglang, Api::Generate)["lora_path"], "policy-v3");
        assert!(body(Server::Sglang, Api::Generate, None)["lora_path"].is_null());
    }

    #[test]
    fn a_server_that_is_not_known_gets_the_protocol_alone() {
        let known: Vec<String> = ["model", "prompt", "max_tokens", "temperature", "top_p", "seed"]
            .map(str::to_owned)
            .into();
        let plain = body(Server::Other, Api::Completions, None);
        let keys = plain.as_object().expect("an object").keys();
        let beyond: Vec<&String> = keys.filter(|it| !known.contains(it)).collect();
        assert_eq!(beyond, ["stream"]);
        assert!(plain["seed"].as_u64().is_some_and(|seed| seed < 1 << 31));
        let vllm = body(Server::Vllm, Api::Completions, None);
        assert_eq!((&vllm["logprobs"], &vllm["stop_token_ids"]), (&json!(0), &json!([9])));
        assert_eq!(vllm["top_k"], 5);
        // Nothing is left to the model's folder or to a server's habits.
        for (server, penalty) in [
            (Server::Vllm, "repetition_penalty"),
            (Server::Sglang, "repetition_penalty"),
            (Server::LlamaCpp, "repeat_penalty"),
        ] {
            let body = body(server, Api::Completions, None);
            assert_eq!((&body["min_p"], &body[penalty]), (&json!(0.0), &json!(1.0)), "{server:?}");
        }
        let generate = body(Server::Sglang, Api::Generate, None);
        assert_eq!(generate["sampling_params"]["repetition_penalty"], 1.0);
    }

    #[test]
    fn tools_go_with_a_chat() {
        let chat = body(Server::Other, Api::Chat, None);
        assert_eq!(chat["messages"], json!([{ "role": "user", "content": "hi" }]));
        assert_eq!(chat["tools"][0]["type"], "function");
        assert_eq!(chat["tools"][0]["function"]["name"], "view");
        assert!(body(Server::Other, Api::Completions, None)["tools"].is_null());
    }
}
