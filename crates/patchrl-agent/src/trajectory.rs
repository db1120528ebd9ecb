//! An episode as data: what it began with, and one JSON object for each turn.
//!
//! Owns the form on disk and playing it again: the recorded replies lead to the same end and the
//! same files.

use patchrl_model::Message;
use serde::{Deserialize, Serialize};

use crate::episode::{End, Observed};
use crate::rows::Row;
use crate::{Reply, Scripted, ToolCall};

/// One turn: a reply and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number, from 1.
    pub turn: u32,
    /// What the model said.
    pub message: String,
    /// What a server gave apart as reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Calls by the server's own protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub native: Vec<ToolCall>,
    /// The reply ran into its limit.
    pub truncated: bool,
    /// Which of the episode's token lists this turn goes on.
    pub row: usize,
    /// Tokens since the turn before: what was read, then what was sampled. (T,)
    pub tokens: Vec<u32>,
    /// 1 for a token that was sampled, 0 for one that was read. (T,)
    pub mask: Vec<u8>,
    /// Log-probabilities; null where a token was read or nothing was reported. (T,)
    pub log_probs: Vec<Option<f32>>,
    /// The version of the weights that sampled each token; 0 where it was read. (T,)
    pub versions: Vec<u64>,
    /// The calls in the message, what was wrong, and what the model was shown.
    #[serde(flatten)]
    pub observed: Observed,
}

/// A whole episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The conversation that it began with.
    pub opening: Vec<Message>,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// Why it ended.
    pub end: End,
}

impl Turn {
    pub(crate) fn new(
        turn: u32,
        reply: &Reply,
        (row, new): (usize, Row),
        observed: Observed,
    ) -> Self {
        Self {
            turn,
            message: reply.text.clone(),
            reasoning: reply.reasoning.clone(),
            native: reply.calls.clone(),
            truncated: reply.truncated,
            row,
            mask: new.mask.iter().map(|sampled| u8::from(*sampled)).collect(),
            log_probs: new.log_probs.iter().map(|p| Some(*p).filter(|p| p.is_finite())).collect(),
            tokens: new.tokens,
            versions: new.versions,
            observed,
        }
    }
}

impl Trajectory {
    /// A policy that says what was said: the same episode once more.
    pub fn script(&self) -> Scripted {
        Scripted::new(self.turns.iter().map(|turn| Reply {
            text: turn.message.clone(),
            reasoning: turn.reasoning.clone(),
            calls: turn.native.clone(),
            sampled: None,
            truncated: turn.truncated,
        }))
    }

    /// The conversation, with every reply and every observation that was answered.
    pub fn messages(&self) -> Vec<Message> {
        let mut chat = self.opening.clone();
        for (at, turn) in self.turns.iter().enumerate() {
            chat.push(Message::new("assistant", said(&turn.message, &turn.native)));
            if at + 1 < self.turns.len() {
                chat.push(Message::new("user", turn.observed.text.clone()));
            }
        }
        chat
    }
}

/// A reply as the conversation keeps it: native calls in the form of the text protocol.
pub(crate) fn said(text: &str, calls: &[ToolCall]) -> String {
    let mut out = text.to_owned();
    for call in calls {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        let arguments = call.arguments.trim();
        let inside = arguments.strip_prefix('{').map(|rest| match rest.trim_start() {
            "}" => "}".to_owned(),
            rest => format!(", {rest}"),
        });
        let inside = inside.unwrap_or_else(|| format!(", \"arguments\": {arguments}}}"));
        out.push_str(&format!("```tool\n{{\"tool\": {:?}{inside}\n```", call.name));
    }
    out
}
