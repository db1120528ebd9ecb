//! Tokens, log-probabilities and versions of weights, in every shape in which servers say them.
//!
//! Owns the shapes of vLLM 0.33, `SGLang` 0.5.23 and llama.cpp. A shape that is not whole counts as
//! not there: half of an answer's tokens would be trained on as if they were all.

use serde_json::Value;

/// Log-probabilities this little above 0 are rounding.
const ROUNDING: f64 = 1e-3;

/// What was found of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// Tokens that were read.
    pub(super) prompt: Option<Vec<u32>>,
    /// Tokens that were sampled.
    pub(super) tokens: Option<Vec<u32>>,
    /// Of each of them; unknown ones are NaN. Empty where there are none.
    pub(super) log_probs: Vec<f32>,
}

/// From one of `choices` of completions or chat, and the whole body around it.
pub(super) fn of_choice(body: &Value, choice: &Value) -> Told {
    let first = |keys: &[&Value]| keys.iter().find_map(|value| ids(value));
    let log_probs = &choice["logprobs"];
    // Chat: one object a token. llama.cpp names the token's id in it.
    let content = log_probs["content"].as_array();
    let tokens = first(&[&choice["token_ids"], &choice["response_token_ids"], &choice["tokens"]])
        .or_else(|| content?.iter().map(|it| id(&it["id"])).collect())
        .or_else(|| content?.iter().map(|it| written_id(&it["token"])).collect())
        .or_else(|| log_probs["tokens"].as_array()?.iter().map(written_id).collect());
    let values: Option<Vec<f32>> = content
        .map(|it| it.iter().map(|it| log_prob(&it["logprob"])).collect())
        .or_else(|| Some(log_probs["token_logprobs"].as_array()?.iter().map(log_prob).collect()));
    let prompt = first(&[&choice["prompt_token_ids"], &body["prompt_token_ids"]]);
    Told { prompt, log_probs: matching(values, tokens.as_deref()), tokens }
}

/// From an answer of `SGLang`'s `/generate`.
pub(super) fn of_generate(body: &Value) -> Told {
    let meta = &body["meta_info"];
    // Each is `[log-probability, id, text or null]`.
    let pairs = |key: &str| meta[key].as_array();
    let given = pairs("output_token_logprobs");
    let tokens =
        ids(&body["output_ids"]).or_else(|| given?.iter().map(|triple| id(&triple[1])).collect());
    let values = given.map(|it| it.iter().map(|triple| log_prob(&triple[0])).collect());
    // Empty unless `logprob_start_len` asks for them: what went in is what was read.
    let read = pairs("input_token_logprobs").filter(|it| !it.is_empty());
    let prompt = read.and_then(|it| it.iter().map(|triple| id(&triple[1])).collect());
    Told { prompt, log_probs: matching(values, tokens.as_deref()), tokens }
}

/// The version that drew each of `count` tokens. Servers say spans (`weight_versions`) or one word
/// for all (`weight_version`); what they leave open was drawn by `asked`, the version whose name
/// was in the question.
pub(super) fn versions(body: &Value, choice: &Value, count: usize, asked: u64) -> Vec<u64> {
    let meta = &body["meta_info"]["weight_version"];
    let one = [meta, &body["weight_version"], &choice["weight_version"]];
    let all = one.into_iter().find_map(version).unwrap_or(asked);
    let mut versions = vec![all; count];
    for span in choice["weight_versions"].as_array().into_iter().flatten() {
        let end = |key: &str| span[key].as_u64().and_then(|n| usize::try_from(n).ok());
        if let (Some(version), Some(start), Some(end)) =
            (version(&span["version"]), end("start"), end("end"))
            && let Some(part) = versions.get_mut(start..end.min(count))
        {
            part.fill(version);
        }
    }
    versions
}

/// The name under which a version is loaded.
pub(crate) fn name_of(version: u64) -> String {
    format!("{PREFIX}{version}")
}

/// What all such names begin with.
pub(crate) const PREFIX: &str = "policy-v";

/// A version by our name for it. A bare number is the server's own count, which begins elsewhere.
fn version(value: &Value) -> Option<u64> {
    value.as_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Log-probabilities that belong to the tokens; nothing where their number is another.
fn matching(values: Option<Vec<f32>>, tokens: Option<&[u32]>) -> Vec<f32> {
    match (values, tokens) {
        (Some(values), Some(tokens)) if values.len() == tokens.len() => values,
        _ => Vec::new(),
    }
}

fn ids(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(id).collect()
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok())
}

/// `token_id:123`, as vLLM writes it with `return_tokens_as_token_ids`.
fn written_id(value: &Value) -> Option<u32> {
    value.as_str()?.strip_prefix("token_id:")?.parse().ok()
}

/// NaN where there is none.
fn log_prob(value: &Value) -> f32 {
    match value.as_f64() {
        Some(value) if value.is_finite() && value <= ROUNDING => value.min(0.0) as f32,
        _ => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_shape_says_the_same() {
        let cases = [
            // vLLM, completions.
            json!({"choices": [{"token_ids": [5, 6], "prompt_token_ids": [1, 2],
                   "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-0.5, -0.25]}}]}),
            // vLLM, `return_tokens_as_token_ids`.
            json!({"choices": [{"prompt_token_ids": [1, 2], "logprobs":
                   {"tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-0.5, -0.25]}}]}),
            // vLLM, chat.
            json!({"prompt_token_ids": [1, 2], "choices": [{"token_ids": [5, 6], "logprobs":
                   {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}}]}),
            // vLLM, chat with written ids.
            json!({"prompt_token_ids": [1, 2], "choices": [{"logprobs": {"content": [
                   {"token": "token_id:5", "logprob": -0.5}, {"token": "token_id:6", "logprob": -0.25}]}}]}),
            // SGLang, chat.
            json!({"choices": [{"prompt_token_ids": [1, 2], "response_token_ids": [5, 6], "logprobs":
                   {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}}]}),
            // llama.cpp.
            json!({"prompt_token_ids": [1, 2], "choices": [{"logprobs": {"content": [
                   {"id": 5, "token": "a", "logprob": -0.5}, {"id": 6, "token": "b", "logprob": -0.25}]}}]}),
        ];
        let want = Told {
            prompt: Some(vec![1, 2]),
            tokens: Some(vec![5, 6]),
            log_probs: vec![-0.5, -0.25],
        };
        for body in cases {
            assert_eq!(of_choice(&body, &body["choices"][0]), want, "{body}");
        }
        // SGLang's own, with and without `output_ids`.
        let mut body = json!({"output_ids": [5, 6], "meta_info": {
            "input_token_logprobs": [[null, 1, null], [-3.0, 2, null]],
            "output_token_logprobs": [[-0.5, 5, null], [-0.25, 6, "b"]]}});
        assert_eq!(of_generate(&body), want);
        body.as_object_mut().expect("an object").remove("output_ids");
        assert_eq!(of_generate(&body), want);
    }

    #[test]
    fn what_is_not_whole_is_not_there() {
        let of = |choice: Value| of_choice(&json!({}), &choice);
        assert_eq!(of(json!({"text": "x"})), Told::default());
        for bad in [json!([1, -2]), json!([1, "2"]), json!([1, 4_294_967_296_u64]), json!("12")] {
            assert_eq!(of(json!({"token_ids": bad})).tokens, None);
        }
        let short = of(json!({"token_ids": [1, 2, 3], "logprobs": {"token_logprobs": [-1.0]}}));
        assert_eq!((short.tokens, short.log_probs.len()), (Some(vec![1, 2, 3]), 0));
        let odd = of(json!({"token_ids": [1, 2, 3],
                            "logprobs": {"token_logprobs": [null, 0.0002, 7.0]}}));
        assert!(odd.log_probs[0].is_nan() && odd.log_probs[2].is_nan());
        assert!(odd.log_probs[1] == 0.0);
    }

    #[test]
    fn a_version_is_that_of_each_token() {
        let body = json!({});
        let spans = json!({"weight_versions": [
            {"version": "policy-v3", "start": 0, "end": 2}, {"version": "policy-v4", "start": 2, "end": 9},
            {"version": "policy-v5", "start": 7, "end": 3}, {"version": "policy-v6", "start": -1}]});
        assert_eq!(versions(&body, &spans, 4, 9), [3, 3, 4, 4]);
        let sglang = json!({"meta_info": {"weight_version": "policy-v7"}});
        assert_eq!(versions(&sglang, &json!({}), 2, 9), [7, 7]);
        // The server's own count of its base weights says nothing of ours.
        let own = json!({"meta_info": {"weight_version": "default"}});
        assert_eq!(
            versions(
                &own,
                &json!({"weight_versions": [{"version": "0", "start": 0, "end": 2}]}),
                2,
                9
            ),
            [9, 9]
        );
    }
}
