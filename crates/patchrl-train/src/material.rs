//! What a run learns from.
//!
//! Owns the kinds of material and how each is asked. Which phases a run has follows from it.

use patchrl_agent::{AgentConfig, PromptConfig};
use patchrl_model::Policy;
use patchrl_reward::{Checker, Judge, Mode, Problem, Ready, Shaping};
use patchrl_rollout::{
    At, Drawer, FunctionRoller, Group, Roller, SamplingConfig, Spent, function_prompt,
};

use crate::{Chats, Text, TrainError};

/// What a run learns from.
pub enum Material<'a> {
    /// Text, by its next token: `pretrain`.
    Text(&'a Text),
    /// The assistant's turns of chats: `sft`.
    Chats(&'a Chats),
    /// Tasks of repositories: `sft` on their gold patches, then the curriculum.
    Tasks {
        /// The tasks.
        ready: &'a [Ready],
        /// Who judges.
        judge: &'a Judge,
        /// How they are put to the model.
        prompt: &'a PromptConfig,
        /// Answers are episodes with tools, within these budgets.
        agent: Option<&'a AgentConfig>,
    },
    /// Problems of one function: GRPO on their assertions.
    Functions {
        /// The problems.
        problems: Vec<&'a Problem>,
        /// Who runs the answers.
        checker: Checker<'a>,
        /// What an answer is worth that does not pass.
        shaping: Shaping,
    },
}

impl<'a> Material<'a> {
    /// Problems whose prompts take at most `max_tokens`, and the number of those left out.
    pub fn functions(
        policy: &Policy,
        problems: &'a [Problem],
        max_tokens: usize,
    ) -> Result<(Vec<&'a Problem>, usize), TrainError> {
        let mut fitting = Vec::new();
        for problem in problems {
            if function_prompt(policy, problem)?.tokens.len() <= max_tokens {
                fitting.push(problem);
            }
        }
        let left_out = problems.len() - fitting.len();
        Ok((fitting, left_out))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.documents.len(),
            Self::Chats(chats) => chats.0.len(),
            Self::Tasks { ready, .. } => ready.len(),
            Self::Functions { problems, .. } => problems.len(),
        }
    }

    /// Tokens that may be drawn for one answer; of an agent, all that it may say in its episode.
    pub(crate) fn answer_tokens(&self, sampling: &SamplingConfig) -> usize {
        match self {
            Self::Tasks { agent: Some(agent), .. } => agent.tokens,
            _ => sampling.budget().drawn(),
        }
    }

    /// Draw and judge one group for each of `items`; text and chats are not asked.
    pub(crate) fn roll(
        &self,
        (policy, sampling): (&dyn Drawer, &SamplingConfig),
        (items, mode): (&[usize], Mode),
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Group>, Spent), TrainError> {
        match self {
            Self::Text(_) | Self::Chats(_) => Ok((Vec::new(), Spent::default())),
            Self::Tasks { ready, judge, prompt, agent } => {
                let tasks: Vec<&Ready> = items.iter().map(|&item| &ready[item]).collect();
                let (agent, judge) = (*agent, *judge);
                let roller = Roller { policy, prompt, sampling, judge, agent };
                Ok(roller.roll(&tasks, mode, at, on_token)?)
            }
            Self::Functions { problems, checker, shaping } => {
                let asked: Vec<&Problem> = items.iter().map(|&item| problems[item]).collect();
                let (checker, shaping) = (*checker, *shaping);
                let roller = FunctionRoller { policy, sampling, checker, shaping };
                Ok(roller.roll(&asked, at, on_token)?)
            }
        }
    }
}
