//! A policy that says its lines in order: for tests, for replaying an episode, and for users who
//! debug a task.

use patchrl_model::Message;

use crate::{Policy, PolicyFault, Question, Reply};

/// Says reply n where n replies were given before. It keeps no state, so many episodes may ask it
/// together; all of them hear the same lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scripted {
    replies: Vec<Reply>,
}

impl Scripted {
    /// A policy that says `replies`, and is lost after the last.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: replies.into_iter().collect() }
    }
}

impl Policy for Scripted {
    fn ask(&self, questions: &[Question<'_>]) -> Vec<Result<Reply, PolicyFault>> {
        let said = |chat: &[Message]| chat.iter().filter(|m| m.role == "assistant").count();
        let reply = |question: &Question<'_>| {
            let at = said(question.chat);
            let end = || PolicyFault::Lost(format!("the script has no reply {}", at + 1));
            self.replies.get(at).cloned().ok_or_else(end)
        };
        questions.iter().map(reply).collect()
    }
}

impl Reply {
    /// A reply of text alone.
    pub fn said(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            reasoning: None,
            calls: Vec::new(),
            sampled: None,
            truncated: false,
        }
    }
}
