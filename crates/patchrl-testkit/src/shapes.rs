//! Answers in the shapes of each server, as vLLM 0.33, `SGLang` 0.5.23 and llama.cpp write them.

use serde_json::{Value, json};

use crate::brain::Thought;
use crate::fake::Flavour;

/// Of `/v1/completions`.
pub(crate) fn completion(flavour: Flavour, body: &Value, it: &Thought) -> Value {
    let mut choice = json!({ "index": 0, "text": it.text, "finish_reason": finish(it) });
    choice["logprobs"] = match flavour {
        _ if body["logprobs"].is_null() => Value::Null,
        Flavour::LlamaCpp => json!({ "content": content(it, true) }),
        Flavour::Vllm if body["return_tokens_as_token_ids"] == true => {
            let written: Vec<_> = it.tokens.iter().map(|id| format!("token_id:{id}")).collect();
            json!({ "tokens": written, "token_logprobs": it.log_probs })
        }
        _ => json!({ "tokens": texts(it), "token_logprobs": it.log_probs }),
    };
    if ids_wanted(flavour, body) {
        choice["token_ids"] = json!(it.tokens);
        choice["prompt_token_ids"] = json!(it.prompt);
    }
    versions(flavour, body, it, &mut choice);
    whole("text_completion", body, it, &choice)
}

/// Of `/v1/chat/completions`.
pub(crate) fn chat(flavour: Flavour, body: &Value, it: &Thought) -> Value {
    let message = json!({ "role": "assistant", "content": it.text });
    let mut choice = json!({ "index": 0, "message": message, "finish_reason": finish(it) });
    if body["logprobs"] == true {
        choice["logprobs"] = json!({ "content": content(it, flavour == Flavour::LlamaCpp) });
    }
    versions(flavour, body, it, &mut choice);
    let ids = ids_wanted(flavour, body);
    if ids && flavour == Flavour::Sglang {
        choice["response_token_ids"] = json!(it.tokens);
        choice["prompt_token_ids"] = json!(it.prompt);
    }
    if ids && flavour == Flavour::Vllm {
        choice["token_ids"] = json!(it.tokens);
    }
    let mut answer = whole("chat.completion", body, it, &choice);
    if ids && flavour == Flavour::Vllm {
        answer["prompt_token_ids"] = json!(it.prompt);
    }
    answer
}

/// Of `SGLang`'s `/generate`.
pub(crate) fn generate(it: &Thought, version: &str) -> Value {
    let pairs = it.log_probs.iter().zip(&it.tokens);
    let triples: Vec<_> = pairs.map(|(value, id)| json!([value, id, null])).collect();
    json!({
        "text": it.text, "output_ids": it.tokens,
        "meta_info": {
            "id": "x", "finish_reason": { "type": finish(it) }, "weight_version": version,
            "prompt_tokens": it.prompt.len(), "completion_tokens": it.tokens.len(),
            "output_token_logprobs": triples, "input_token_logprobs": [],
        },
    })
}

fn whole(object: &str, body: &Value, it: &Thought, choice: &Value) -> Value {
    let usage = json!({ "prompt_tokens": it.prompt.len(), "completion_tokens": it.tokens.len() });
    json!({ "id": "x", "object": object, "created": 0, "model": body["model"],
            "choices": [choice], "usage": usage })
}

/// The base weights' own count, which says nothing of adapters.
fn versions(flavour: Flavour, body: &Value, it: &Thought, choice: &mut Value) {
    if flavour == Flavour::Vllm && body["return_weight_versions"] == true {
        let span = json!({ "version": "0", "start": 0, "end": it.tokens.len() });
        choice["weight_versions"] = json!([span]);
    }
}

fn ids_wanted(flavour: Flavour, body: &Value) -> bool {
    matches!(flavour, Flavour::Vllm | Flavour::Sglang) && body["return_token_ids"] == true
}

fn finish(it: &Thought) -> &'static str {
    if it.length { "length" } else { "stop" }
}

fn texts(it: &Thought) -> Vec<String> {
    it.tokens.iter().map(|id| format!("t{id}")).collect()
}

fn content(it: &Thought, ids: bool) -> Vec<Value> {
    let one = |(id, log_prob): (&u32, &f32)| {
        let mut one = json!({ "token": format!("t{id}"), "logprob": log_prob, "top_logprobs": [] });
        if ids {
            one["id"] = json!(id);
        }
        one
    };
    it.tokens.iter().zip(&it.log_probs).map(one).collect()
}
