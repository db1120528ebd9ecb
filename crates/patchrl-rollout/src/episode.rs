//! Groups of answers for tasks, drawn and judged.
//!
//! Owns the way from a ready task to its judged group. Does not update weights,
//! and decides no reward (`patchrl_reward` does).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use patchrl_agent::{AgentConfig, Format, Played, PromptConfig, SourceFile, messages};
use patchrl_model::{Finish, Message, Sample};
use patchrl_patch::Tree as _;
use patchrl_reward::{Answer, Evidence, FsTree, Judge, Judgement, Mode, Outcome, Parts, Ready};
use patchrl_task::TaskId;

use crate::{Drawer, Drawn, EpisodeRoller, Origin, Player, RolloutError, SamplingConfig};

/// A task as the policy will read it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The task.
    pub task: TaskId,
    /// The rendered chat, special tokens included.
    pub text: String,
    /// The same as tokens; none where only a server knows them.
    pub tokens: Vec<u32>,
    /// The same as turns.
    pub chat: Vec<Message>,
    /// Texts that answers may copy from and the policy does not see, as tokens.
    pub also: Vec<Vec<u32>>,
}

/// A prompt and its group of judged answers.
#[derive(Debug)]
pub struct Group {
    /// What was asked.
    pub prompt: Prompt,
    /// What was answered, in sample order.
    pub attempts: Vec<Attempt>,
}

/// One answer.
#[derive(Debug)]
pub struct Attempt {
    /// Tokens as sampled, those that closed a thought among them and masked, their
    /// log-probabilities, and why sampling ended.
    pub sample: Sample,
    /// The tokens as text, without the stop token.
    pub answer: String,
    /// What it is worth and why.
    pub judgement: Judgement,
    /// The version of the weights that drew each token; 0 for one that was put in.
    pub versions: Vec<u64>,
    /// Where the tokens come from.
    pub origin: Origin,
    /// The whole episode, where the answer is an agent's. Then `sample` holds what was sampled in
    /// all of its turns, and `answer` its last words.
    pub played: Option<Box<Played>>,
}

/// Where the time of a batch of groups went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Prompts and sampling.
    pub sampling: Duration,
    /// Extracting, applying and running tests.
    pub judging: Duration,
    /// Tokens sampled.
    pub tokens: usize,
}

/// Who draws and who judges.
pub struct Roller<'a> {
    /// Who answers.
    pub policy: &'a dyn Drawer,
    /// How tasks are put to it.
    pub prompt: &'a PromptConfig,
    /// How answers are drawn.
    pub sampling: &'a SamplingConfig,
    /// Who says what they are worth.
    pub judge: &'a Judge,
    /// Answers are episodes with tools, within these budgets; `prompt` is not used then.
    pub agent: Option<&'a AgentConfig>,
}

/// The coordinates from which a batch's seeds come.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The run's seed.
    pub run: u64,
    /// The step, counted over all phases.
    pub step: u64,
    /// Answers per task.
    pub group_size: u32,
}

impl Roller<'_> {
    /// The prompt of `ready`: its issue, the files the gold patch touches and those related to
    /// them.
    pub fn prompt(&self, ready: &Ready) -> Result<Prompt, RolloutError> {
        prompt(self.policy, self.prompt, ready)
    }

    /// The same as agents.
    fn episodes<'e>(
        &'e self,
        player: &'e Player<'e>,
        config: &'e AgentConfig,
    ) -> EpisodeRoller<'e> {
        EpisodeRoller {
            policy: &*player.policy,
            voice: player.voice,
            config,
            calling: player.calling,
            max_new_tokens: self.sampling.max_new_tokens,
            judge: self.judge,
        }
    }

    /// The task's files in the form of diffs, for the sampler to copy from.
    fn diff_forms(&self, ready: &Ready) -> Result<Vec<Vec<u32>>, RolloutError> {
        let forms = |file: SourceFile| self.policy.diff_forms(&file.path, &file.text);
        Ok(sources(ready)?.into_iter().flat_map(forms).collect())
    }

    /// Draw and judge one group per task. `on_token` hears how many tokens came.
    pub fn roll(
        &self,
        tasks: &[&Ready],
        mode: Mode,
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Group>, Spent), RolloutError> {
        if let Some(agent) = self.agent {
            let player = self.policy.player(self.sampling, at.step);
            return self.episodes(&player, agent).roll(tasks, mode, at, on_token);
        }
        let started = Instant::now();
        let mut prompts: Vec<Prompt> =
            tasks.iter().map(|ready| self.prompt(ready)).collect::<Result<_, _>>()?;
        if self.prompt.format == Format::Diff {
            for (prompt, ready) in prompts.iter_mut().zip(tasks) {
                prompt.also = self.diff_forms(ready)?;
            }
        }
        let preparing = started.elapsed();
        let judge = |answers: &[Vec<Answer<'_>>]| {
            let of =
                |(ready, answers): (&&Ready, &Vec<_>)| self.judge.judge_group(ready, answers, mode);
            tasks.iter().zip(answers).map(of).collect()
        };
        let ask = Ask { policy: self.policy, sampling: self.sampling, prompts, at };
        let (groups, mut spent) = ask.groups(&judge, on_token)?;
        spent.sampling += preparing;
        Ok((groups, spent))
    }
}

/// Judges the answers of all groups of a batch, by prompt and in order.
pub type JudgeGroups<'j> = dyn Fn(&[Vec<Answer<'_>>]) -> Vec<Vec<Judgement>> + 'j;

/// Prompts that are about to be answered, whoever judges the answers.
pub struct Ask<'a> {
    /// Who answers.
    pub policy: &'a dyn Drawer,
    /// How answers are drawn.
    pub sampling: &'a SamplingConfig,
    /// What is asked.
    pub prompts: Vec<Prompt>,
    /// Where the seeds come from.
    pub at: At,
}

impl Ask<'_> {
    /// Draw all groups in one batch and have them judged. `judge` gets the answers by prompt,
    /// without those that were lost on the way.
    pub fn groups(
        self,
        judge: &JudgeGroups<'_>,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Group>, Spent), RolloutError> {
        let started = Instant::now();
        let drawn = self.policy.draw(&self.prompts, self.sampling, self.at, on_token)?;
        let tokens = drawn.iter().flatten().map(|d| d.sample.count()).sum();
        let mut spent = Spent { sampling: started.elapsed(), tokens, ..Spent::default() };

        let judging = Instant::now();
        let answers: Vec<Vec<Answer<'_>>> = drawn
            .iter()
            .map(|group| {
                let said = group.iter().filter(|d| d.lost.is_none());
                let truncated = |d: &Drawn| d.sample.finish == Finish::Length;
                said.map(|d| Answer { text: &d.answer, truncated: truncated(d) }).collect()
            })
            .collect();
        let judgements = judge(&answers);
        drop(answers);
        let groups = self.prompts.into_iter().zip(drawn).zip(judgements);
        let groups = groups.map(|((prompt, drawn), judgements)| {
            let mut judgements = judgements.into_iter();
            let attempt = |drawn: Drawn| {
                let judgement = match drawn.lost {
                    Some(why) => lost(why),
                    None => judgements.next().unwrap_or_else(|| lost("it was not judged".into())),
                };
                let Drawn { sample, answer, versions, origin, .. } = drawn;
                Attempt { sample, answer, judgement, versions, origin, played: None }
            };
            Group { prompt, attempts: drawn.into_iter().map(attempt).collect() }
        });
        let groups = groups.collect();
        spent.judging = judging.elapsed();
        Ok((groups, spent))
    }
}

/// The word on an answer that never came.
fn lost(why: String) -> Judgement {
    Judgement {
        outcome: Outcome::Lost { why },
        reward: None,
        parts: Parts::default(),
        components: Vec::new(),
        evidence: Evidence::default(),
    }
}

/// The prompt of `ready` for `policy`.
pub fn prompt(
    policy: &dyn Drawer,
    config: &PromptConfig,
    ready: &Ready,
) -> Result<Prompt, RolloutError> {
    let chat = chat(policy, config, ready)?;
    policy.prompt(ready.task.id.clone(), &chat)
}

/// The same as turns.
pub fn chat(
    policy: &dyn Drawer,
    config: &PromptConfig,
    ready: &Ready,
) -> Result<Vec<Message>, RolloutError> {
    let files = sources(ready)?;
    let count = |text: &str| policy.count(text);
    Ok(messages(&ready.task.problem_statement, &files, config, &count))
}

/// The files the gold patch touches, as they are at the base commit, and by path
/// among them those that the task calls related. Files that are not text are left
/// out.
fn sources(ready: &Ready) -> Result<Vec<SourceFile>, RolloutError> {
    let tree = FsTree::new(&ready.base);
    let touched = ready.task.touched_files();
    let mut related: BTreeSet<String> = ready.task.related_files().into_iter().collect();
    related.retain(|path| !touched.contains(path));
    let sorted = !related.is_empty();
    let mut files = Vec::new();
    let all =
        touched.into_iter().map(|it| (it, false)).chain(related.into_iter().map(|it| (it, true)));
    for (path, beside) in all {
        let Some(entry) = tree.entry(&path)? else { continue };
        if let Ok(text) = String::from_utf8(entry.bytes) {
            files.push(SourceFile { path, text, beside });
        }
    }
    if sorted {
        files.sort_by(|a, b| a.path.cmp(&b.path));
    }
    Ok(files)
}
