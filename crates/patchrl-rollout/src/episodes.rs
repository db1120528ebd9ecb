//! Groups of episodes with tools: played together, judged on fresh trees.
//!
//! Owns the way from a ready task to its group of judged episodes. The reward is of the files that
//! an episode leaves, as the judge finds them; nothing that ran in the episode decides it.

use std::sync::Arc;
use std::time::Instant;

use patchrl_agent::{
    AgentConfig, Calling, Crew, DROPPINGS, End, Ground, Played, Policy, Start, Voice, opening,
};
use patchrl_model::{Finish, Sample};
use patchrl_reward::{FsTree, Judge, Judgement, Mode, Outcome, Ready, Work};

use crate::{At, Attempt, Group, Origin, Prompt, RolloutError, Spent, sample_seed};

/// Who plays and who judges.
#[derive(Clone, Copy)]
pub struct EpisodeRoller<'a> {
    /// Who answers.
    pub policy: &'a dyn Policy,
    /// How its conversations become tokens, where that is ours to say.
    pub voice: Option<Voice<'a>>,
    /// The budgets.
    pub config: &'a AgentConfig,
    /// How calls are made.
    pub calling: Calling,
    /// Tokens of one reply.
    pub max_new_tokens: usize,
    /// Who says what the files are worth, and where commands run.
    pub judge: &'a Judge,
}

/// Where the episodes of a task start. Commands run where `judge` runs tests, within its limits.
pub fn ground(ready: &Ready, judge: &Judge) -> Result<Arc<Ground>, RolloutError> {
    let tree = FsTree::new(&ready.base);
    let files = tree.files(&DROPPINGS)?;
    let (tests, tests_take_files) = ready.own_tests();
    let job = ready.bench(judge.limits().clone());
    let runner = Arc::clone(judge.places());
    Ok(Arc::new(Ground { tree: Arc::new(tree), files, job, tests, tests_take_files, runner }))
}

impl EpisodeRoller<'_> {
    /// Play and judge one group per task. `on_token` hears how many tokens came.
    pub fn roll(
        &self,
        tasks: &[&Ready],
        mode: Mode,
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Group>, Spent), RolloutError> {
        let started = Instant::now();
        let seeds = |ready: &Ready| -> Vec<u64> {
            (0..at.group_size).map(|n| sample_seed(at.run, at.step, &ready.task.id, n)).collect()
        };
        let asked: Vec<(&Ready, Vec<u64>)> =
            tasks.iter().map(|ready| (*ready, seeds(ready))).collect();
        let played = self.play(&asked, on_token)?;
        let mut spent = Spent { sampling: started.elapsed(), ..Spent::default() };
        let judging = Instant::now();
        let mut groups = Vec::with_capacity(tasks.len());
        for (ready, played) in tasks.iter().zip(played) {
            let judgements = self.judge(ready, &played, mode);
            let prompt = self.prompt(ready, &played)?;
            let attempts = played.into_iter().zip(judgements);
            let attempts: Vec<Attempt> =
                attempts.map(|(played, judgement)| attempt(played, judgement)).collect();
            spent.tokens += attempts.iter().map(|a| a.sample.tokens.len()).sum::<usize>();
            groups.push(Group { prompt, attempts });
        }
        spent.judging = judging.elapsed();
        Ok((groups, spent))
    }

    /// Play an episode for each seed of each task, all together.
    pub fn play(
        &self,
        asked: &[(&Ready, Vec<u64>)],
        on_token: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Played>>, RolloutError> {
        let grounds: Vec<Arc<Ground>> =
            asked.iter().map(|(ready, _)| ground(ready, self.judge)).collect::<Result<_, _>>()?;
        let starts: Vec<Start<'_>> = asked
            .iter()
            .zip(&grounds)
            .flat_map(|((ready, seeds), ground)| {
                let issue = ready.task.problem_statement.as_str();
                seeds.iter().map(move |&seed| Start { ground, issue, seed })
            })
            .collect();
        let crew = Crew {
            policy: self.policy,
            voice: self.voice,
            config: self.config,
            calling: self.calling,
            max_new_tokens: self.max_new_tokens,
            workers: self.judge.workers(),
        };
        let mut played = crew.play(&starts, on_token)?.into_iter();
        Ok(asked.iter().map(|(_, seeds)| played.by_ref().take(seeds.len()).collect()).collect())
    }

    /// Judge the episodes of one task.
    pub fn judge(&self, ready: &Ready, played: &[Played], mode: Mode) -> Vec<Judgement> {
        let work = |played: &'_ Played| played.trajectory.end != End::Submitted;
        let works: Vec<Work<'_>> = played
            .iter()
            .map(|one| Work { changes: &one.changes, unfinished: work(one) })
            .collect();
        let judged = self.judge.judge_works(ready, &works, mode);
        let lost = |(judgement, played): (Judgement, &Played)| match &played.trajectory.end {
            // What was left half done through our fault says nothing about the model.
            End::Lost { why } => {
                Judgement { outcome: Outcome::Lost { why: why.clone() }, reward: None, ..judgement }
            }
            _ => judgement,
        };
        judged.into_iter().zip(played).map(lost).collect()
    }

    /// What all episodes of the task read first.
    fn prompt(&self, ready: &Ready, played: &[Played]) -> Result<Prompt, RolloutError> {
        let chat = if let Some(first) = played.first() {
            first.trajectory.opening.clone()
        } else {
            let files = FsTree::new(&ready.base).files(&DROPPINGS)?;
            opening(&ready.task.problem_statement, &files, self.calling)
        };
        let (text, tokens) = if let Some(voice) = self.voice {
            (voice.chat.render(&chat, true)?, voice.chat.encode(voice.tokenizer, &chat, true)?)
        } else {
            (chat.iter().map(|m| format!("{}\n", m.content)).collect(), Vec::new())
        };
        Ok(Prompt { task: ready.task.id.clone(), text, tokens, chat, also: Vec::new() })
    }
}

/// An episode as an answer of a group: its sampled tokens in order, its last words.
fn attempt(played: Played, judgement: Judgement) -> Attempt {
    let finish = match played.trajectory.end {
        End::Submitted => Finish::Stop,
        _ => Finish::Length,
    };
    let mut sample = Sample::drawn(Vec::new(), Vec::new(), finish);
    let mut versions = Vec::new();
    for row in &played.rows {
        for (at, _) in row.mask.iter().enumerate().filter(|(_, sampled)| **sampled) {
            sample.tokens.push(row.tokens[at]);
            sample.log_probs.push(row.log_probs[at]);
            sample.mask.push(true);
            versions.push(row.versions[at]);
        }
    }
    let origin = if played.rows.is_empty() { Origin::Unknown } else { Origin::Sampled };
    let answer = played.trajectory.turns.last().map(|t| t.message.clone()).unwrap_or_default();
    Attempt { sample, answer, judgement, versions, origin, played: Some(Box::new(played)) }
}
