//! One episode: from calls to observations, until something ends it.
//!
//! Owns the budgets and the ends. Knows no policy (see `crew`) and no reward. Everything that a
//! model can do ends as data: as an observation that says what was wrong, or as an [`End`].

use std::sync::Arc;
use std::time::Duration;

use patchrl_patch::Changes;
use serde::{Deserialize, Serialize};

use crate::action::{self, Call};
use crate::observation::cut;
use crate::protocol::forms;
use crate::tools::{self, Desk, Failure};
use crate::workspace::Workspace;
use crate::{AgentConfig, Ground, Reply};

/// Why an episode ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum End {
    /// The model said that it is done.
    Submitted,
    /// It had all its turns.
    Turns,
    /// It said all the tokens that it may.
    Tokens,
    /// Its commands took all the time that they may.
    Time,
    /// The conversation no longer fits the model, or `agent.context_tokens`.
    Overflow,
    /// It did the same again and again, and saw the same.
    Repeated,
    /// Several replies in a row held no call that could be carried out.
    Malformed,
    /// Our fault: the sandbox, or a policy without an answer. Says nothing about the model.
    Lost {
        /// What broke.
        why: String,
    },
}

impl End {
    /// The machine word of this end, as records spell it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Time => "time",
            Self::Overflow => "overflow",
            Self::Repeated => "repeated",
            Self::Malformed => "malformed",
            Self::Lost { .. } => "lost",
        }
    }
}

/// What came of one reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The calls that were read in it.
    pub calls: Vec<Call>,
    /// What was wrong with it, if something was.
    pub complaint: Option<String>,
    /// What the model is shown.
    #[serde(rename = "observation")]
    pub text: String,
}

/// An episode that goes on or has ended.
pub struct Episode {
    desk: Desk,
    turns: u32,
    malformed: u32,
    repeats: u32,
    last: Option<Observed>,
    tokens: usize,
    end: Option<End>,
}

impl Episode {
    /// An episode on `ground`. Nothing is started: sandboxes come with the first command.
    pub fn new(ground: &Arc<Ground>, config: &AgentConfig) -> Self {
        let workspace = Workspace::new(Arc::clone(ground));
        let config = config.clone();
        let desk = Desk { workspace, config, spent: Duration::ZERO, submitted: false };
        Self { desk, turns: 0, malformed: 0, repeats: 0, last: None, tokens: 0, end: None }
    }

    /// Why it ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// What differs from the tree at the start.
    pub fn changes(&self) -> &Changes {
        self.desk.workspace.changes()
    }

    /// The same, when all is over.
    pub fn into_changes(self) -> Changes {
        self.desk.workspace.into_changes()
    }

    /// Tokens that may still be said.
    pub(crate) fn tokens_left(&self) -> usize {
        self.desk.config.tokens.saturating_sub(self.tokens)
    }

    /// End it for a reason that lies outside; the first reason stays.
    pub(crate) fn stop(&mut self, end: End) {
        self.end.get_or_insert(end);
    }

    /// Carry out a reply. `tokens` is what it took, where that is known. After the end nothing
    /// happens any more.
    pub fn reply(&mut self, reply: &Reply, tokens: Option<usize>) -> Observed {
        // Without a count, four bytes are a token.
        self.tokens += tokens.unwrap_or(reply.text.len().div_ceil(4));
        self.act(action::calls(reply))
    }

    /// Carry out calls, or answer what was wrong with them.
    pub fn act(&mut self, calls: Result<Vec<Call>, String>) -> Observed {
        if self.end.is_some() {
            return Observed::default();
        }
        self.turns += 1;
        let observed = match calls {
            Ok(calls) => self.carry_out(calls),
            Err(why) => {
                self.malformed += 1;
                let text = format!("{why}.\n{}", forms());
                Observed { calls: Vec::new(), complaint: Some(why), text }
            }
        };
        self.count_repeats(&observed);
        if let Some(end) = self.limit() {
            self.stop(end);
        }
        self.last = Some(observed.clone());
        observed
    }

    fn carry_out(&mut self, calls: Vec<Call>) -> Observed {
        let several = calls.len() > 1;
        let room = self.desk.config.observation_bytes / calls.len().max(1);
        let (mut text, mut complaint, mut done) = (String::new(), None, false);
        for (at, call) in calls.iter().enumerate() {
            if several {
                text.push_str(&format!("[{}]\n", action::named(&call.tool)));
            }
            let failed = match tools::act(&mut self.desk, call) {
                Ok(shown) => {
                    done = true;
                    text.push_str(&cut(&shown, room));
                    false
                }
                Err(Failure::Refused(why)) => {
                    done = true;
                    text.push_str(&cut(&why, room));
                    true
                }
                Err(Failure::Malformed(why)) => {
                    text.push_str(&cut(&why, room));
                    complaint.get_or_insert(why);
                    true
                }
                Err(Failure::Lost(why)) => {
                    self.stop(End::Lost { why });
                    true
                }
            };
            let left = calls.len() - at - 1;
            // What was meant to follow an edit is not meant to follow none.
            if failed && left > 0 {
                text.push_str(&format!("[{left} calls after it were not carried out]\n"));
            }
            if failed || self.desk.submitted {
                break;
            }
        }
        self.malformed = if done { 0 } else { self.malformed + 1 };
        Observed { calls, complaint, text }
    }

    fn count_repeats(&mut self, observed: &Observed) {
        let same = !observed.calls.is_empty() && self.last.as_ref() == Some(observed);
        self.repeats = if same { self.repeats + 1 } else { 1 };
    }

    /// The limit that has been reached, if one has.
    fn limit(&self) -> Option<End> {
        let config = &self.desk.config;
        let ends = [
            (self.desk.submitted, End::Submitted),
            (self.malformed >= config.malformed, End::Malformed),
            (self.repeats >= config.repeats, End::Repeated),
            (self.tokens >= config.tokens, End::Tokens),
            (self.desk.spent.as_secs() >= config.seconds, End::Time),
            (self.turns >= config.turns, End::Turns),
        ];
        ends.into_iter().find(|(reached, _)| *reached).map(|(_, end)| end)
    }
}
