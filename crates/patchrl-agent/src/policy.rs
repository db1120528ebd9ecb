//! Who answers: weights in this process, a server, or a script.
//!
//! Owns the question and the reply, and how a question can fail. Does not know who is asked.

use patchrl_model::Message;
use serde::{Deserialize, Serialize};

/// One turn that is wanted of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The conversation so far.
    pub chat: &'a [Message],
    /// The same as tokens, where the episode knows them: what was sampled stays as it was
    /// sampled. A policy that takes text alone answers `chat`, and its reply says what it read.
    pub tokens: Option<&'a [u32]>,
    /// Tools offered by the server's own protocol; empty where they are part of the text.
    pub tools: &'a [ToolSpec],
    /// Where the reply's randomness comes from.
    pub seed: u64,
    /// Tokens the reply may take.
    pub max_new_tokens: usize,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// What a call names.
    pub name: String,
    /// What it does, in a sentence or two.
    pub description: String,
    /// Its arguments as a JSON schema.
    pub parameters: serde_json::Value,
}

/// What a policy said.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The answer, without a stop token and without what was reasoned apart from it.
    pub text: String,
    /// What a server gave apart as reasoning.
    pub reasoning: Option<String>,
    /// Calls by the server's own protocol.
    pub calls: Vec<ToolCall>,
    /// What was read and sampled, where the policy says it. Without it nothing can be trained
    /// on, and no importance weight be formed.
    pub sampled: Option<Sampled>,
    /// Whether the reply ran into its limit.
    pub truncated: bool,
}

/// A call as the model wrote it; `arguments` need not be JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The server's name of this call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, unparsed.
    pub arguments: String,
}

/// The tokens of one reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Tokens that were read.
    pub prompt: Vec<u32>,
    /// Tokens that were sampled, the stop token included.
    pub tokens: Vec<u32>,
    /// Their log-probabilities at the sampling temperature, one each; empty where unknown.
    pub log_probs: Vec<f32>,
    /// The version of the weights that sampled each token.
    pub versions: Vec<u64>,
}

/// Why there is no reply. None of these is worth a reward of 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// The conversation no longer fits the model: the episode ends so.
    #[error("the conversation does not fit the model: {0}")]
    Overflow(String),
    /// This reply is lost, after all attempts; another may come.
    #[error("no reply: {0}")]
    Lost(String),
    /// No reply will ever come until the user changes something.
    #[error("{what}")]
    Fatal {
        /// What is wrong.
        what: String,
        /// The way out.
        hint: String,
    },
}

/// Something that can be asked.
pub trait Policy: Sync {
    /// One reply, or the reason for none, to each question, in order. They are asked together
    /// so that a policy may batch them.
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>>;
}
