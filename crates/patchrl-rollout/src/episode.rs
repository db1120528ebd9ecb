//! Groups of answers for tasks, drawn by the embedded policy and judged.
//!
//! Owns the way from a ready task to its judged group. Does not update weights,
//! and decides no reward (`patchrl_reward` does).

use std::time::{Duration, Instant};

use patchrl_agent::{AgentConfig, Calling, Format, Played, PromptConfig, SourceFile, messages};
use patchrl_model::{Finish, Message, Policy, Request, Sample, diff_forms};
use patchrl_patch::Tree as _;
use patchrl_reward::{Answer, FsTree, Judge, Judgement, Mode, Ready};
use patchrl_task::TaskId;

use crate::{Embedded, EpisodeRoller, RolloutError, SamplingConfig, sample_seed};

/// A task as the policy will read it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The task.
    pub task: TaskId,
    /// The rendered chat, special tokens included.
    pub text: String,
    /// The same as tokens.
    pub tokens: Vec<u32>,
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
    /// Tokens as sampled, their log-probabilities, and why sampling ended.
    pub sample: Sample,
    /// The tokens as text, without the stop token.
    pub answer: String,
    /// What it is worth and why.
    pub judgement: Judgement,
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
    /// The weights that answer.
    pub policy: &'a Policy,
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
    /// The prompt of `ready`: its issue and the files the gold patch touches.
    pub fn prompt(&self, ready: &Ready) -> Result<Prompt, RolloutError> {
        prompt(self.policy, self.prompt, ready)
    }

    /// The same weights as an agent.
    fn episodes<'e>(
        &'e self,
        embedded: &'e Embedded<'e>,
        config: &'e AgentConfig,
    ) -> EpisodeRoller<'e> {
        EpisodeRoller {
            policy: embedded,
            voice: Some(embedded.voice()),
            config,
            calling: Calling::Text,
            max_new_tokens: self.sampling.max_new_tokens,
            judge: self.judge,
        }
    }

    /// The task's files in the form of diffs, for the sampler to copy from.
    fn diff_forms(&self, ready: &Ready) -> Result<Vec<Vec<u32>>, RolloutError> {
        let forms = |file: SourceFile| diff_forms(&file.path, &file.text, &self.policy.tokenizer);
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
            let version = at.step;
            let embedded = Embedded { policy: self.policy, sampling: self.sampling, version };
            return self.episodes(&embedded, agent).roll(tasks, mode, at, on_token);
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
    /// The weights that answer.
    pub policy: &'a Policy,
    /// How answers are drawn.
    pub sampling: &'a SamplingConfig,
    /// What is asked.
    pub prompts: Vec<Prompt>,
    /// Where the seeds come from.
    pub at: At,
}

impl Ask<'_> {
    /// Draw all groups in one batch and have them judged. `judge` gets the answers by prompt.
    pub fn groups(
        self,
        judge: &JudgeGroups<'_>,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Group>, Spent), RolloutError> {
        let started = Instant::now();
        let At { run, step, group_size } = self.at;
        let requests: Vec<Request<'_>> = self
            .prompts
            .iter()
            .map(|p| {
                let seeds = (0..group_size).map(|n| sample_seed(run, step, &p.task, n));
                Request { also: p.also.clone(), ..Request::new(&p.tokens, seeds) }
            })
            .collect();
        let sampling = self.sampling.resolve(self.policy.tokenizer.eos().to_vec());
        let sampled = patchrl_model::generate(&self.policy.model, &requests, &sampling, on_token)?;
        let tokens = sampled.iter().flatten().map(|s| s.tokens.len()).sum();
        let mut spent = Spent { sampling: started.elapsed(), tokens, ..Spent::default() };

        let judging = Instant::now();
        let decode = |s: &Sample| self.policy.tokenizer.decode(&s.tokens);
        let texts: Vec<Vec<String>> =
            sampled.iter().map(|samples| samples.iter().map(decode).collect()).collect();
        let answers: Vec<Vec<Answer<'_>>> = texts
            .iter()
            .zip(&sampled)
            .map(|(texts, samples)| {
                let pairs = texts.iter().zip(samples);
                pairs
                    .map(|(text, s)| Answer { text, truncated: s.finish == Finish::Length })
                    .collect()
            })
            .collect();
        let judgements = judge(&answers);
        drop(answers);
        let groups = self.prompts.into_iter().zip(sampled).zip(texts).zip(judgements);
        let groups = groups.map(|(((prompt, samples), texts), judgements)| {
            let attempts = samples.into_iter().zip(texts).zip(judgements);
            let attempt =
                |((sample, answer), judgement)| Attempt { sample, answer, judgement, played: None };
            Group { prompt, attempts: attempts.map(attempt).collect() }
        });
        let groups = groups.collect();
        spent.judging = judging.elapsed();
        Ok((groups, spent))
    }
}

/// The prompt of `ready` for `policy`.
pub fn prompt(
    policy: &Policy,
    config: &PromptConfig,
    ready: &Ready,
) -> Result<Prompt, RolloutError> {
    let chat = chat(policy, config, ready)?;
    Prompt::of(policy, ready.task.id.clone(), &chat)
}

/// The same as turns.
pub fn chat(
    policy: &Policy,
    config: &PromptConfig,
    ready: &Ready,
) -> Result<Vec<Message>, RolloutError> {
    let files = sources(ready)?;
    let count = |text: &str| policy.tokenizer.encode(text).len();
    Ok(messages(&ready.task.problem_statement, &files, config, &count))
}

impl Prompt {
    /// `chat` as `policy` will read it.
    pub fn of(policy: &Policy, task: TaskId, chat: &[Message]) -> Result<Self, RolloutError> {
        let text = policy.chat.render(chat, true)?;
        let tokens = policy.prompt(chat)?;
        Ok(Self { task, text, tokens, also: Vec::new() })
    }
}

/// The files the gold patch touches, as they are at the base commit. Files that
/// are not text are left out.
fn sources(ready: &Ready) -> Result<Vec<SourceFile>, RolloutError> {
    let tree = FsTree::new(&ready.base);
    let mut files = Vec::new();
    for path in ready.task.touched_files() {
        let Some(entry) = tree.entry(&path)? else { continue };
        if let Ok(text) = String::from_utf8(entry.bytes) {
            files.push(SourceFile { path, text });
        }
    }
    Ok(files)
}
