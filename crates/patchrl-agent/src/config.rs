//! `agent:` in a configuration: the budgets of an episode.

use serde::{Deserialize, Serialize};

/// How far an episode may go, and how much it sees at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// Replies of the model.
    pub turns: u32,
    /// Tokens the model may say in all of them. Where a policy does not count its tokens, four
    /// bytes of text are one.
    pub tokens: usize,
    /// Tokens of the conversation, what is read and what is said.
    pub context_tokens: usize,
    /// What happens when they are used up.
    pub overflow: Overflow,
    /// Seconds that an episode's commands may take together. The time a model takes to answer is
    /// not the episode's.
    pub seconds: u64,
    /// Seconds of one command.
    pub command_seconds: u64,
    /// Bytes of one observation. The first and the last half are kept, at line ends where there
    /// are any, and what is left out is counted.
    pub observation_bytes: usize,
    /// Replies in a row without a call that can be carried out, at which an episode ends.
    pub malformed: u32,
    /// How often in a row the same call may give the same observation before the episode ends.
    pub repeats: u32,
    /// Tokens of a `<think>` part before it is closed by force; 0 sets it no limit of its own.
    /// The closing tokens are not the model's, and are not trained on.
    pub thinking_tokens: usize,
}

/// What happens to a conversation that no longer fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The episode ends.
    #[default]
    End,
    /// The older half of what the model was shown is left out, and the rest is read anew: a row of
    /// tokens of its own in training. The episode ends where that does not help.
    Cut,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            turns: 20,
            tokens: 8192,
            context_tokens: 8192,
            overflow: Overflow::End,
            seconds: 600,
            command_seconds: 30,
            observation_bytes: 4000,
            malformed: 3,
            repeats: 3,
            thinking_tokens: 0,
        }
    }
}

impl AgentConfig {
    /// What serde cannot check: the first thing that is wrong, by its key.
    pub fn check(&self) -> Result<(), String> {
        let at_least = [
            ("turns", u64::from(self.turns), 1),
            ("tokens", self.tokens as u64, 1),
            ("context_tokens", self.context_tokens as u64, 64),
            ("seconds", self.seconds, 1),
            ("command_seconds", self.command_seconds, 1),
            ("observation_bytes", self.observation_bytes as u64, 200),
            ("malformed", u64::from(self.malformed), 1),
            ("repeats", u64::from(self.repeats), 1),
        ];
        match at_least.iter().find(|(_, value, least)| value < least) {
            Some((key, value, least)) => {
                Err(format!("`agent.{key}` is {value}, but it must be at least {least}"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AgentConfig;

    #[test]
    fn a_budget_of_nothing_is_named() {
        assert_eq!(AgentConfig::default().check(), Ok(()));
        let fault = AgentConfig { turns: 0, ..AgentConfig::default() }.check().unwrap_err();
        assert!(fault.contains("`agent.turns` is 0"), "{fault}");
    }
}
