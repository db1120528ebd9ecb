//! What can go wrong between a question and its reply, told apart.
//!
//! Owns the words for it, what is worth another attempt, and each one's way out. No fault is an
//! answer: none of them is ever worth a reward.

use std::time::Duration;

use patchrl_agent::PolicyFault;
use serde_json::Value;

use super::wire::{Answer, Wire};

/// One attempt that gave no reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// It may go better in a moment.
    Again { what: String, after: Option<Duration> },
    /// It may go better in a moment where the server has answered before; else the user has to
    /// change something.
    Doubtful { what: String, hint: String },
    /// The question does not fit the model.
    Overflow(String),
    /// This reply is no use, and another attempt would be another draw.
    Lost(String),
    /// Nothing will ever come.
    Fatal { what: String, hint: String },
    /// We broke it off.
    Stopped,
}

impl Trouble {
    pub(super) fn again(what: String) -> Self {
        Self::Again { what, after: None }
    }

    pub(super) fn unreachable(what: String) -> Self {
        Self::Doubtful {
            what,
            hint: "start the server, or correct `rollout.base_url`; a run that stopped goes on \
                   with `--resume`"
                .into(),
        }
    }

    pub(crate) fn fatal(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Fatal { what: what.into(), hint: hint.into() }
    }

    /// In words.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Again { what, .. }
            | Self::Doubtful { what, .. }
            | Self::Fatal { what, .. }
            | Self::Overflow(what)
            | Self::Lost(what) => what.clone(),
            Self::Stopped => "it was broken off".into(),
        }
    }

    /// What the one who asked hears after `attempts`; `answered`: the server has given a reply
    /// before.
    pub(super) fn into_fault(self, attempts: u32, answered: bool) -> PolicyFault {
        let times = |what: String| match attempts {
            0 | 1 => what,
            n => format!("{what}; {n} attempts"),
        };
        match self {
            Self::Doubtful { what, hint } if !answered => {
                PolicyFault::Fatal { what: times(what), hint }
            }
            Self::Again { what, .. } | Self::Doubtful { what, .. } => {
                PolicyFault::Lost(times(what))
            }
            Self::Overflow(what) => PolicyFault::Overflow(what),
            Self::Lost(what) => PolicyFault::Lost(what),
            Self::Fatal { what, hint } => PolicyFault::Fatal { what, hint },
            Self::Stopped => PolicyFault::Lost("it was broken off".into()),
        }
    }
}

/// The JSON of an answer that is one, or what is wrong with it.
pub(super) fn body_of(wire: &Wire, answer: &Answer) -> Result<Value, Trouble> {
    let at = wire.address();
    if (300..400).contains(&answer.status) {
        let to = answer.location.as_deref().map_or("elsewhere", |to| to);
        let to = wire.quote(to.split('?').next().unwrap_or_default());
        return Err(Trouble::fatal(
            format!("`{at}` sends questions on to `{to}` (status {})", answer.status),
            "that is a sign-in page or another address: take the address of the API itself as \
             `rollout.base_url`",
        ));
    }
    let text = String::from_utf8_lossy(&answer.body);
    if !answer.is_ok() {
        let said = said(wire, &text);
        return Err(of_status(wire, answer.status, &said, answer.retry_after));
    }
    let body: Value = match serde_json::from_slice(&answer.body) {
        Ok(body) => body,
        Err(_) if is_page(&text) => return Err(page(at)),
        Err(e) => {
            return Err(Trouble::again(format!("`{at}` sent a body that is not whole JSON ({e})")));
        }
    };
    match &body["error"] {
        Value::Null | Value::Bool(false) => Ok(body),
        error => Err(in_body(wire, error)),
    }
}

/// An error object with status 200: some gateways pass on what they heard so.
fn in_body(wire: &Wire, error: &Value) -> Trouble {
    let said = said(wire, &error.to_string());
    let number = |key: &str| {
        let value = &error[key];
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).and_then(|n| u16::try_from(n).ok())
    };
    let status = number("code").or_else(|| number("status")).or_else(|| number("status_code"));
    match status.filter(|status| (400..600).contains(status)) {
        Some(status) => of_status(wire, status, &said, None),
        None if is_overflow(&said) => Trouble::Overflow(said),
        None => Trouble::again(format!("`{}` answered with an error: {said}", wire.address())),
    }
}

fn of_status(wire: &Wire, status: u16, said: &str, after: Option<Duration>) -> Trouble {
    let at = wire.address();
    let lower = said.to_ascii_lowercase();
    let told = if said.is_empty() { String::new() } else { format!(": {said}") };
    let gone = ["insufficient_quota", "billing", "credit"].iter().any(|it| lower.contains(it));
    match status {
        401 | 403 => Trouble::fatal(
            format!("`{at}` refuses the key (status {status}){told}"),
            "name the environment variable that holds the key as `rollout.api_key_env` \
             (`--api-key-env`), and check that the key may use this model",
        ),
        407 => Trouble::fatal(
            format!("a proxy on the way to `{at}` wants to know who asks (status 407){told}"),
            "give the proxy's user in `HTTPS_PROXY`, or name the host in `NO_PROXY`",
        ),
        // llama-cpp-python says so with status 500.
        400 | 422 | 500 if is_text_wanted(&lower) => Trouble::fatal(
            format!("`{at}` takes prompts as text alone (status {status})"),
            "set `rollout.api: chat`; a server that takes no tokens says none either, and \
             `rollout.retokenize: true` trains on the text encoded again",
        ),
        402 => out_of_quota(at, status, &told),
        429 if gone => out_of_quota(at, status, &told),
        408 | 409 | 425 | 429 | 500..600 => {
            let why = if status == 429 { "has too much to do" } else { "failed" };
            Trouble::Again { what: format!("`{at}` {why} (status {status}){told}"), after }
        }
        _ if is_overflow(said) => Trouble::Overflow(said.to_owned()),
        413 => Trouble::Overflow(format!("`{at}` takes no question of this size (status 413)")),
        404 if lower.contains("model") || lower.contains("lora") => Trouble::fatal(
            format!("`{at}` does not have the model (status 404){told}"),
            format!("`curl {at}/v1/models` lists those it has; name one as `rollout.model`"),
        ),
        404 | 405 => Trouble::fatal(
            format!("`{at}` does not know the address it was asked at (status {status}){told}"),
            "`rollout.base_url` ends in `/v1` for most servers; `rollout.api` may be one that \
             this server does not have",
        ),
        _ => Trouble::fatal(
            format!("`{at}` refuses the question (status {status}){told}"),
            "`rollout.server` says what is sent beside the protocol's own fields; \
             `rollout.debug_log` shows the question",
        ),
    }
}

fn out_of_quota(at: &str, status: u16, told: &str) -> Trouble {
    Trouble::fatal(
        format!("the account at `{at}` is used up (status {status}){told}"),
        "top it up, then go on with `--resume`",
    )
}

fn page(at: &str) -> Trouble {
    Trouble::fatal(
        format!("`{at}` answered with a web page, not with JSON"),
        "that is a sign-in page, a dashboard or the wrong path: `rollout.base_url` is the address \
         of the API, which ends in `/v1` for most servers",
    )
}

/// An answer in JSON that has not the protocol's form.
pub(super) fn no_form(wire: &Wire, missing: &str, body: &Value) -> Trouble {
    Trouble::Doubtful {
        what: format!(
            "`{}` answered without `{missing}`: {}",
            wire.address(),
            wire.quote(&body.to_string())
        ),
        hint: "that is not an OpenAI-compatible answer: check `rollout.base_url` and `rollout.api`"
            .into(),
    }
}

/// What a server said of its error: the message in any of the forms there are.
fn said(wire: &Wire, text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let inner = if value["error"].is_object() { &value["error"] } else { &value };
    let of = |key: &str| inner[key].as_str().filter(|text| !text.is_empty());
    let message = of("message").or_else(|| of("detail")).or_else(|| of("error"));
    let mut said = match message {
        Some(message) => message.to_owned(),
        None if is_page(text) => "a web page".to_owned(),
        None => text.to_owned(),
    };
    if let (Some(_), Some(code)) = (message, of("code").or_else(|| of("type"))) {
        said = format!("{said} ({code})");
    }
    wire.quote(&said)
}

fn is_page(text: &str) -> bool {
    let start = text.trim_start().get(..9).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml")
}

/// Whether a message says that a prompt of tokens was not understood.
fn is_text_wanted(lower: &str) -> bool {
    let text = ["valid string", "must be a string", "expected a string", "be of type string"];
    lower.contains("prompt") && text.iter().any(|words| lower.contains(words))
}

/// Whether a message says that prompt and answer do not fit the model's context, in the words of
/// vLLM, `SGLang`, llama.cpp, TGI and the hosted services.
fn is_overflow(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    [
        "context_length_exceeded",
        "exceed_context_size",
        "maximum context length",
        "context length of",
        "exceeds the available context size",
        "exceed context window",
        "longer than the maximum model length",
        "longer than the model's context length",
        "maximum model length",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "max_new_tokens` must be <= ",
        "reduce the length",
    ]
    .iter()
    .any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::key::ApiKey;

    type Is<'a> = &'a dyn Fn(&Trouble) -> bool;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.as_bytes().to_vec(), retry_after: None, location: None }
    }

    fn trouble(status: u16, body: &str) -> Trouble {
        let wire = Wire::new("http://h:1/v1", ApiKey::new("sk-secret"), None);
        body_of(&wire, &answer(status, body)).expect_err(body)
    }

    #[test]
    fn each_fault_is_its_own() {
        let again = |t: &Trouble| matches!(t, Trouble::Again { .. });
        let fatal = |t: &Trouble| matches!(t, Trouble::Fatal { .. });
        let overflow = |t: &Trouble| matches!(t, Trouble::Overflow(_));
        let cases: [(u16, &str, Is<'_>, &str); 18] = [
            (401, r#"{"error":{"message":"Incorrect API key: sk-secret"}}"#, &fatal, "****"),
            (403, "", &fatal, "status 403"),
            (404, r#"{"detail":"Not Found"}"#, &fatal, "address"),
            (404, r#"{"error":{"message":"The model `x` does not exist."}}"#, &fatal, "the model"),
            (429, r#"{"error":{"message":"slow down"}}"#, &again, "slow down"),
            (429, r#"{"error":{"code":"insufficient_quota","message":"x"}}"#, &fatal, "used up"),
            (502, "<html>bad gateway", &again, "a web page"),
            (200, "<!DOCTYPE html><title>Sign in", &fatal, "web page"),
            (200, r#"{"error":{"code":502,"message":"upstream"}}"#, &again, "upstream"),
            (200, r#"{"error":{"code":"401","message":"no"}}"#, &fatal, "key"),
            (200, r#"{"error":"strange"}"#, &again, "strange"),
            (200, r#"{"choices":[{"text":"cut"#, &again, "not whole JSON"),
            (
                400,
                r#"{"message":"This model's maximum context length is 64 tokens."}"#,
                &overflow,
                "64",
            ),
            (
                400,
                r#"{"error":{"message":"the request exceeds the available context size"}}"#,
                &overflow,
                "size",
            ),
            (200, r#"{"error":{"code":"context_length_exceeded"}}"#, &overflow, "context"),
            (413, "", &overflow, "413"),
            (
                500,
                r#"{"error":{"message":"[{'loc': ('body', 'prompt', 'str'), 'msg': 'Input should be a valid string'}]"}}"#,
                &fatal,
                "as text alone",
            ),
            (422, r#"{"detail":[{"msg":"bad seed"}]}"#, &fatal, "bad seed"),
        ];
        for (status, body, is, words) in cases {
            let found = trouble(status, body);
            assert!(is(&found) && found.what().contains(words), "{status} {body}: {found:?}");
            assert!(!format!("{found:?}").contains("sk-secret"), "{found:?}");
        }
    }

    #[test]
    fn a_redirect_is_not_followed_with_the_key() {
        let wire = Wire::new("http://h:1/v1", None, None);
        let mut sent_on = answer(302, "");
        sent_on.location = Some("https://login.example.com/oauth?state=hunter2".into());
        let what = body_of(&wire, &sent_on).expect_err("a refusal").what();
        assert!(what.contains("login.example.com/oauth") && !what.contains("hunter2"), "{what}");
    }

    #[test]
    fn doubt_ends_a_run_only_where_nothing_ever_came() {
        let doubt = || Trouble::unreachable("nothing listens".into());
        assert!(matches!(doubt().into_fault(3, false), PolicyFault::Fatal { .. }));
        assert_eq!(
            doubt().into_fault(3, true),
            PolicyFault::Lost("nothing listens; 3 attempts".into())
        );
    }
}
