//! Groups of answers to problems of one function.
//!
//! Owns the way from a problem to its judged group. What an answer is worth
//! `patchrl_reward::Checker` says.

use patchrl_agent::function_messages;
use patchrl_reward::{Answer, Checker, Judgement, Problem, Shaping};
use patchrl_task::TaskId;

use crate::{Ask, At, Drawer, Group, Prompt, RolloutError, SamplingConfig, Spent};

/// Who draws and who runs.
pub struct FunctionRoller<'a> {
    /// Who answers.
    pub policy: &'a dyn Drawer,
    /// How answers are drawn.
    pub sampling: &'a SamplingConfig,
    /// Who runs them.
    pub checker: Checker<'a>,
    /// What an answer is worth that does not pass.
    pub shaping: Shaping,
}

impl FunctionRoller<'_> {
    /// Draw and judge one group per problem. `on_token` hears how many tokens came.
    pub fn roll(
        &self,
        problems: &[&Problem],
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Group>, Spent), RolloutError> {
        let prompts = problems.iter().map(|problem| function_prompt(self.policy, problem));
        let prompts = prompts.collect::<Result<_, _>>()?;
        let judge = |answers: &[Vec<Answer<'_>>]| self.judge(problems, answers);
        Ask { policy: self.policy, sampling: self.sampling, prompts, at }.groups(&judge, on_token)
    }

    /// All groups in one go, so that the workers do not wait for each other's.
    fn judge(&self, problems: &[&Problem], answers: &[Vec<Answer<'_>>]) -> Vec<Vec<Judgement>> {
        let asked: Vec<(&Problem, Answer<'_>)> = problems
            .iter()
            .zip(answers)
            .flat_map(|(problem, answers)| answers.iter().map(|answer| (*problem, *answer)))
            .collect();
        let mut judged = self.checker.judge(&asked, self.shaping).into_iter();
        answers.iter().map(|group| judged.by_ref().take(group.len()).collect()).collect()
    }
}

/// The prompt of `problem` for `policy`.
pub fn function_prompt(policy: &dyn Drawer, problem: &Problem) -> Result<Prompt, RolloutError> {
    let id = TaskId::parse(&format!("function-{}", problem.id.replace('/', "-")))
        .map_err(|_| RolloutError::ProblemId(problem.id.clone()))?;
    policy.prompt(id, &function_messages(&problem.statement, &problem.asserts))
}
