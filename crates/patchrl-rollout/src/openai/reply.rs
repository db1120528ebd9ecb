//! A server's answer as a reply.
//!
//! Owns what counts as a reply and what does not: a filtered, aborted or half answer is lost, an
//! answer of reasoning alone is the model's only where its limit cut it off.

use patchrl_agent::{Reply, Sampled, ToolCall};
use serde_json::Value;

use super::fault::{Trouble, no_form};
use super::tokens::{self, Told};
use super::wire::Wire;
use crate::config::Api;

/// Calls in one answer that are read.
const MOST_CALLS: usize = 64;

/// What was asked.
pub(super) struct Asked<'a> {
    pub(super) api: Api,
    /// The prompt, where it went as tokens.
    pub(super) prompt: Option<&'a [u32]>,
    /// The version of the weights that was named.
    pub(super) version: u64,
    /// Whether the server's log-probabilities are those of the drawing temperature.
    pub(super) log_probs: bool,
}

/// How an answer ended.
enum End {
    Stop,
    Length,
}

/// Read the reply in `body`.
pub(super) fn read(wire: &Wire, asked: &Asked<'_>, body: &Value) -> Result<Reply, Trouble> {
    if asked.api == Api::Generate {
        return generated(wire, asked, body);
    }
    let Some(choices) = body["choices"].as_array() else {
        return Err(no_form(wire, "choices", body));
    };
    let Some(choice) = choices.first() else {
        return Err(Trouble::again(format!("`{}` answered with no choice", wire.address())));
    };
    let end = end(wire, &choice["finish_reason"])?;
    let (mut text, mut reasoning, mut calls) = (None, None, Vec::new());
    if asked.api == Api::Chat {
        let message = &choice["message"];
        if !message.is_object() {
            return Err(no_form(wire, "choices[0].message", body));
        }
        text = Some(content(&message["content"]));
        reasoning = [&message["reasoning_content"], &message["reasoning"]]
            .into_iter()
            .find_map(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned);
        calls = message["tool_calls"].as_array().map(|it| self::calls(it)).unwrap_or_default();
    } else if let Some(plain) = choice["text"].as_str() {
        text = Some(plain.to_owned());
    }
    let Some(text) = text else { return Err(no_form(wire, "choices[0].text", body)) };
    if let Some(thought) = &reasoning
        && text.is_empty()
        && calls.is_empty()
        && matches!(end, End::Stop)
    {
        return Err(Trouble::Lost(format!(
            "`{}` gave {} characters of reasoning and no answer: its reasoning parser took all of \
             it, or the model never left its thoughts",
            wire.address(),
            thought.chars().count()
        )));
    }
    let sampled = sampled(asked, tokens::of_choice(body, choice), |n| {
        tokens::versions(body, choice, n, asked.version)
    });
    Ok(Reply { text, reasoning, calls, sampled, truncated: matches!(end, End::Length) })
}

fn generated(wire: &Wire, asked: &Asked<'_>, body: &Value) -> Result<Reply, Trouble> {
    if !body["meta_info"].is_object() {
        return Err(no_form(wire, "meta_info", body));
    }
    let reason = &body["meta_info"]["finish_reason"];
    let end = end(wire, if reason.is_object() { &reason["type"] } else { reason })?;
    let told = tokens::of_generate(body);
    let text = match body["text"].as_str() {
        Some(text) => text.to_owned(),
        // `--skip-tokenizer-init`: tokens alone.
        None if told.tokens.is_some() => String::new(),
        None => return Err(no_form(wire, "text", body)),
    };
    let versions = |n| tokens::versions(body, &Value::Null, n, asked.version);
    let sampled = sampled(asked, told, versions);
    let truncated = matches!(end, End::Length);
    Ok(Reply { text, reasoning: None, calls: Vec::new(), sampled, truncated })
}

/// The tokens of an answer, where prompt and answer are both known.
fn sampled(
    asked: &Asked<'_>,
    told: Told,
    versions: impl FnOnce(usize) -> Vec<u64>,
) -> Option<Sampled> {
    let tokens = told.tokens?;
    let prompt = told.prompt.or_else(|| asked.prompt.map(<[u32]>::to_vec))?;
    let versions = versions(tokens.len());
    let log_probs = if asked.log_probs { told.log_probs } else { Vec::new() };
    Some(Sampled { prompt, tokens, log_probs, versions })
}

fn end(wire: &Wire, reason: &Value) -> Result<End, Trouble> {
    let at = wire.address();
    match reason.as_str() {
        Some("stop" | "tool_calls" | "function_call" | "eos" | "end_turn") => Ok(End::Stop),
        Some("length" | "max_tokens") => Ok(End::Length),
        Some("content_filter") => {
            Err(Trouble::Lost(format!("`{at}` filtered the answer (`content_filter`)")))
        }
        Some(other) => {
            Err(Trouble::again(format!("`{at}` ended the answer with `{}`", wire.quote(other))))
        }
        None => Err(Trouble::again(format!("`{at}` sent an answer that has not ended"))),
    }
}

/// Text, or a list of parts of which some are text.
fn content(value: &Value) -> String {
    let parts = value.as_array().into_iter().flatten();
    value
        .as_str()
        .map_or_else(|| parts.filter_map(|part| part["text"].as_str()).collect(), str::to_owned)
}

fn calls(values: &[Value]) -> Vec<ToolCall> {
    let call = |value: &Value| {
        let function = &value["function"];
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            // Some servers give the object itself.
            other => other.to_string(),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ToolCall { id: text(&value["id"]), name: text(&function["name"]), arguments }
    };
    values.iter().take(MOST_CALLS).map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_as(api: Api, body: &Value) -> Result<Reply, Trouble> {
        let wire = Wire::new("http://h:1/v1", None, None);
        let asked = Asked { api, prompt: Some(&[1, 2]), version: 4, log_probs: true };
        read(&wire, &asked, body)
    }

    fn chat(message: &Value, reason: &str) -> Result<Reply, Trouble> {
        let body = json!({"choices": [{"message": message, "finish_reason": reason}]});
        read_as(Api::Chat, &body)
    }

    #[test]
    fn a_reply_without_token_ids_has_no_sampled_part() {
        let reply = read_as(
            Api::Completions,
            &json!({"choices": [{"text": "hi", "finish_reason": "length"}]}),
        );
        let reply = reply.expect("a reply");
        assert_eq!((reply.text.as_str(), reply.sampled, reply.truncated), ("hi", None, true));
    }

    #[test]
    fn reasoning_alone_is_an_answer_only_where_the_limit_cut_it() {
        let thought = json!({"content": null, "reasoning_content": "hm"});
        assert!(matches!(chat(&thought, "stop"), Err(Trouble::Lost(_))));
        let cut = chat(&thought, "length").expect("a reply");
        assert_eq!((cut.text.as_str(), cut.reasoning.as_deref()), ("", Some("hm")));
        assert!(cut.truncated);
        // Nothing at all is what the model said.
        assert_eq!(chat(&json!({"content": ""}), "stop").expect("a reply").text, "");
    }

    #[test]
    fn calls_come_as_they_were_written() {
        let message = json!({"content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "view", "arguments": "{\"path\": "}},
            {"function": {"name": "run", "arguments": {"x": 1}}}, 7]});
        let reply = chat(&message, "tool_calls").expect("a reply");
        let calls: Vec<_> = reply.calls.iter().map(|c| (&*c.name, &*c.arguments)).collect();
        assert_eq!(calls, [("view", "{\"path\": "), ("run", "{\"x\":1}"), ("", "")]);
    }

    #[test]
    fn what_is_no_reply_says_which() {
        let body = |choices: Value| read_as(Api::Completions, &json!({ "choices": choices }));
        assert!(matches!(read_as(Api::Completions, &json!([1])), Err(Trouble::Doubtful { .. })));
        assert!(matches!(body(json!([])), Err(Trouble::Again { .. })));
        assert!(matches!(body(json!([{"text": "x"}])), Err(Trouble::Again { .. })));
        for (reason, lost) in [("content_filter", true), ("abort", false), ("error", false)] {
            let fault = body(json!([{"text": "x", "finish_reason": reason}]));
            assert_eq!(matches!(fault, Err(Trouble::Lost(_))), lost, "{reason}");
        }
        assert!(matches!(
            read_as(Api::Generate, &json!({"text": "x"})),
            Err(Trouble::Doubtful { .. })
        ));
    }

    #[test]
    fn generate_speaks_in_its_own_form() {
        let body = json!({"text": "ab", "output_ids": [5, 6], "meta_info": {
            "finish_reason": {"type": "stop", "matched": 6}, "weight_version": "default",
            "output_token_logprobs": [[-0.5, 5, null], [-0.25, 6, null]]}});
        let reply = read_as(Api::Generate, &body).expect("a reply");
        let sampled = reply.sampled.expect("tokens");
        assert_eq!((sampled.prompt, sampled.tokens), (vec![1, 2], vec![5, 6]));
        assert_eq!((sampled.log_probs, sampled.versions), (vec![-0.5, -0.25], vec![4, 4]));
    }
}
