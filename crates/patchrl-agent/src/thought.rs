//! A `<think>` part with a budget of its own.
//!
//! Owns when a thought is closed by force, the words that close it, and what is left for the answer
//! after it. Who draws the tokens, and who masks those of the closing, is the caller's.

/// Closes a thought whose budget is spent.
pub const CLOSING: &str = "\n</think>\n\n";

/// Tokens that a reply may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Of its thought; 0 sets that no limit of its own.
    pub thinking_tokens: usize,
    /// Of the rest of it; where the thought has no limit, of all.
    pub max_new_tokens: usize,
}

/// How a reply goes on that came to the end of [`Budget::first`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Whether [`CLOSING`] is put in first.
    pub closes: bool,
    /// Tokens that may follow.
    pub most: usize,
}

impl Budget {
    /// Tokens before [`Budget::rest`] is to be asked.
    pub fn first(self) -> usize {
        if self.thinking_tokens > 0 { self.thinking_tokens } else { self.max_new_tokens }
    }

    /// Tokens of a whole reply that may be drawn.
    pub fn drawn(self) -> usize {
        self.thinking_tokens.saturating_add(self.max_new_tokens)
    }

    /// Tokens of a whole reply at most. Those of the closing are no more than its bytes.
    pub fn most(self) -> usize {
        let closing = if self.thinking_tokens > 0 { CLOSING.len() } else { 0 };
        self.drawn().saturating_add(closing)
    }

    /// What follows `said`, the `tokens` after `prompt` that were cut off; nothing where the reply
    /// is over. Some templates open the thought themselves.
    pub fn rest(self, prompt: &str, said: &str, tokens: usize) -> Option<Rest> {
        if self.thinking_tokens == 0 {
            return None;
        }
        let opened =
            said.trim_start().starts_with("<think>") || prompt.trim_end().ends_with("<think>");
        let most =
            if opened { self.max_new_tokens } else { self.max_new_tokens.saturating_sub(tokens) };
        let closes = opened && !said.contains("</think>");
        (most > 0).then_some(Rest { closes, most })
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Rest};

    #[test]
    fn a_thought_is_closed_only_where_it_is_open() {
        let budget = Budget { thinking_tokens: 40, max_new_tokens: 60 };
        let rest = |closes, most| Some(Rest { closes, most });
        for (prompt, said, left) in [
            ("", "\n<think>hm", rest(true, 60)),
            ("<think>\n", "hm", rest(true, 60)),
            ("", "<think>hm</think>\nso", rest(false, 60)),
            ("<think>\n", "hm</think>\nso", rest(false, 60)),
            ("", "so", rest(false, 20)),
        ] {
            assert_eq!(budget.rest(prompt, said, 40), left, "{prompt:?} {said:?}");
        }
        assert_eq!(budget.rest("", "so", 60), None);
        assert_eq!((budget.first(), budget.drawn(), budget.most()), (40, 100, 111));
        let none = Budget { thinking_tokens: 0, ..budget };
        assert_eq!((none.first(), none.most(), none.rest("", "<think>hm", 40)), (60, 60, None));
    }
}
