//! Many episodes at once with one policy, which is asked for all of them together.
//!
//! Owns the loop from question to reply to observation, and what each episode leaves: its trajectory,
//! its token rows and its changes. Decides no reward.

use std::sync::{Arc, Mutex, PoisonError};

use patchrl_model::{ChatTemplate, Message, ModelError, Said, Tokenizer};
use patchrl_patch::Changes;

use crate::episode::{End, Episode};
use crate::protocol::{Calling, opening};
use crate::rows::{Row, Rows};
use crate::thought::{Budget, CLOSING};
use crate::tools::tool_specs;
use crate::trajectory::{Trajectory, Turn, said};
use crate::{AgentConfig, Ground, Overflow, Policy, PolicyFault, Question, Reply};

/// How a conversation becomes tokens, where the tokens of a policy are ours to choose.
#[derive(Clone, Copy, Debug)]
pub struct Voice<'a> {
    /// Turns to text.
    pub chat: &'a ChatTemplate,
    /// Text to tokens.
    pub tokenizer: &'a Tokenizer,
}

/// Who plays, and by which rules.
#[derive(Clone, Copy)]
pub struct Crew<'a> {
    /// Who is asked.
    pub policy: &'a dyn Policy,
    /// The policy's own words; without them it is given text.
    pub voice: Option<Voice<'a>>,
    /// The budgets.
    pub config: &'a AgentConfig,
    /// How calls are made.
    pub calling: Calling,
    /// Tokens of one reply, thinking apart.
    pub max_new_tokens: usize,
    /// Commands that run at the same time.
    pub workers: usize,
}

/// An episode that is to be played.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The files and the sandbox.
    pub ground: &'a Arc<Ground>,
    /// What is to be fixed.
    pub issue: &'a str,
    /// Where its randomness comes from.
    pub seed: u64,
}

/// An episode that was played.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// Turn by turn.
    pub trajectory: Trajectory,
    /// Its tokens; none where the policy does not tell them.
    pub rows: Vec<Row>,
    /// What it changed.
    pub changes: Changes,
}

/// Stands for what the model was shown once.
const LEFT_OUT: &str = "[left out to make room]\n";

impl Crew<'_> {
    /// Play all episodes to their ends; results in the order of `starts`. `on_reply` hears how
    /// many tokens were sampled since it was last told.
    ///
    /// An error is a fault of the user's: no reply will ever come. Everything else ends episodes.
    pub fn play(
        &self,
        starts: &[Start<'_>],
        on_reply: &mut dyn FnMut(usize),
    ) -> Result<Vec<Played>, PolicyFault> {
        let mut actors: Vec<Actor> = starts.iter().map(|start| Actor::new(self, *start)).collect();
        let tools = match self.calling {
            Calling::Native => tool_specs(),
            Calling::Text => Vec::new(),
        };
        loop {
            let mut live: Vec<&mut Actor> = actors
                .iter_mut()
                .filter_map(|actor| actor.is_live(self).then_some(actor))
                .collect();
            if live.is_empty() {
                break;
            }
            let questions: Vec<Question<'_>> =
                live.iter().map(|actor| actor.question(self, &tools)).collect();
            let mut replies = self.policy.ask(&questions);
            let missing = || Err(PolicyFault::Lost("the policy did not answer".to_owned()));
            replies.resize_with(questions.len(), missing);
            drop(questions);
            if let Some(Err(fatal)) =
                replies.iter().find(|r| matches!(r, Err(PolicyFault::Fatal { .. })))
            {
                return Err(fatal.clone());
            }
            let said = replies.iter().flatten().filter_map(|reply| reply.sampled.as_ref());
            on_reply(said.map(|sampled| sampled.tokens.len()).sum());
            self.hear_all(live.drain(..).zip(replies).collect());
        }
        Ok(actors.into_iter().map(Actor::finish).collect())
    }

    /// Tokens of a reply. A thought has its own where the policy goes on from tokens.
    fn budget(&self) -> Budget {
        let thinking_tokens = if self.voice.is_some() { self.config.thinking_tokens } else { 0 };
        Budget { thinking_tokens, max_new_tokens: self.max_new_tokens }
    }

    /// Replies become observations, several at a time: commands run in them.
    fn hear_all(&self, heard: Vec<(&mut Actor, Result<Reply, PolicyFault>)>) {
        let workers = self.workers.clamp(1, heard.len().max(1));
        let queue = Mutex::new(heard.into_iter());
        let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some((actor, reply)) = take() {
                        actor.hear(self, reply);
                    }
                });
            }
        });
    }
}

/// One episode in the making.
struct Actor {
    episode: Episode,
    chat: Vec<Message>,
    opening: usize,
    seed: u64,
    /// Questions asked so far: each has randomness of its own.
    asked: u64,
    rows: Rows,
    turns: Vec<Turn>,
    /// What was said of a reply that is not yet whole.
    draft: Option<Draft>,
}

/// A reply whose thinking was cut at its budget.
struct Draft {
    text: String,
    reasoning: Option<String>,
    /// Tokens sampled, and how many of them after the thought.
    tokens: usize,
    /// Tokens that the rest may take.
    left: usize,
}

impl Actor {
    fn new(crew: &Crew<'_>, start: Start<'_>) -> Self {
        let chat = opening(start.issue, &start.ground.files, crew.calling);
        let mut actor = Self {
            episode: Episode::new(start.ground, crew.config),
            opening: chat.len(),
            chat,
            seed: start.seed,
            asked: 0,
            rows: Rows::default(),
            turns: Vec::new(),
            draft: None,
        };
        if let Some(voice) = crew.voice {
            let tokens = voice.chat.encode(voice.tokenizer, &actor.chat, true);
            actor.begin(tokens);
        }
        actor
    }

    fn begin(&mut self, tokens: Result<Vec<u32>, ModelError>) {
        match tokens {
            Ok(tokens) => self.rows.begin(&tokens),
            Err(e) => self.episode.stop(End::Lost { why: e.to_string() }),
        }
    }

    /// Whether it is to be asked again. One whose conversation has no room left ends here.
    fn is_live(&mut self, crew: &Crew<'_>) -> bool {
        if self.episode.end().is_none() && self.draft.is_none() {
            self.make_room(crew);
        }
        if self.episode.end().is_none() && self.room(crew) == 0 {
            self.episode.stop(End::Overflow);
        }
        self.episode.end().is_none()
    }

    /// Leave out old observations until a whole reply fits, where that is wanted and helps.
    fn make_room(&mut self, crew: &Crew<'_>) {
        let wanted = crew.max_new_tokens.min(crew.config.context_tokens / 4);
        while crew.config.overflow == Overflow::Cut && self.room(crew) < wanted {
            let shown = |m: &&mut Message| m.role == "user" && m.content != LEFT_OUT;
            let later = self.chat.iter_mut().skip(self.opening);
            let mut old: Vec<&mut Message> = later.filter(shown).collect();
            // The last is what the model is to answer.
            old.pop();
            if old.is_empty() {
                return;
            }
            let half = old.len().div_ceil(2);
            for message in old.into_iter().take(half) {
                LEFT_OUT.clone_into(&mut message.content);
            }
            if let Some(voice) = crew.voice {
                let tokens = voice.chat.encode(voice.tokenizer, &self.chat, true);
                self.begin(tokens);
            }
        }
    }

    /// Tokens that the conversation may still grow by.
    fn room(&self, crew: &Crew<'_>) -> usize {
        let bytes = || self.chat.iter().map(|m| m.content.len()).sum::<usize>();
        let used = self.rows.prompt().map_or_else(|| bytes().div_ceil(4), <[u32]>::len);
        crew.config.context_tokens.saturating_sub(used)
    }

    fn question<'q>(&'q self, crew: &Crew<'_>, tools: &'q [crate::ToolSpec]) -> Question<'q> {
        let wanted = match &self.draft {
            Some(draft) => draft.left,
            None => crew.budget().first(),
        };
        Question {
            chat: &self.chat,
            tokens: crew.voice.and_then(|_| self.rows.prompt()),
            tools,
            seed: mix(self.seed, self.asked),
            max_new_tokens: wanted.min(self.room(crew)).min(self.episode.tokens_left()).max(1),
        }
    }

    fn hear(&mut self, crew: &Crew<'_>, reply: Result<Reply, PolicyFault>) {
        self.asked += 1;
        let reply = match reply {
            Ok(reply) => reply,
            Err(PolicyFault::Overflow(_)) => return self.episode.stop(End::Overflow),
            Err(fault) => return self.episode.stop(End::Lost { why: fault.to_string() }),
        };
        let sampled = reply.sampled.as_ref().map(|sampled| sampled.tokens.len());
        let last = reply.sampled.as_ref().and_then(|sampled| sampled.tokens.last().copied());
        if let Some(sampled) = &reply.sampled {
            self.rows.say(sampled);
        }
        if let Some((reply, tokens)) = self.whole(crew, reply, sampled) {
            self.answer(crew, &reply, tokens, last);
        }
    }

    /// The reply, once all of it was said; nothing where the model is to go on with it.
    fn whole(
        &mut self,
        crew: &Crew<'_>,
        mut reply: Reply,
        tokens: Option<usize>,
    ) -> Option<(Reply, Option<usize>)> {
        if let Some(draft) = self.draft.take() {
            reply.text = draft.text + &reply.text;
            reply.reasoning = reply.reasoning.or(draft.reasoning);
            return Some((reply, tokens.map(|tokens| tokens + draft.tokens)));
        }
        let (Some(voice), Some(said), true) = (crew.voice, tokens, reply.truncated) else {
            return Some((reply, tokens));
        };
        let prompt = voice.chat.render(&self.chat, true).unwrap_or_default();
        let Some(rest) = crew.budget().rest(&prompt, &reply.text, said) else {
            return Some((reply, tokens));
        };
        if rest.closes {
            self.rows.read(&voice.tokenizer.encode_with_special(CLOSING));
            reply.text.push_str(CLOSING);
        }
        let Reply { text, reasoning, .. } = reply;
        self.draft = Some(Draft { text, reasoning, tokens: said, left: rest.most });
        None
    }

    /// A whole reply: carry it out, and put what it showed before the model.
    fn answer(&mut self, crew: &Crew<'_>, reply: &Reply, tokens: Option<usize>, last: Option<u32>) {
        let new = self.rows.since();
        let observed = self.episode.reply(reply, tokens);
        let shown = observed.text.clone();
        let number = self.turns.len() as u32 + 1;
        self.turns.push(Turn::new(number, reply, new, observed));
        let content = said(&reply.text, &reply.calls);
        let after = [Message::new("assistant", content), Message::new("user", shown)];
        if self.episode.end().is_none()
            && let Some(voice) = crew.voice
        {
            let said = Said { text: &reply.text, last };
            match voice.chat.continuation(voice.tokenizer, &self.chat, said, &after) {
                Ok(Some(tokens)) => self.rows.read(&tokens),
                Ok(None) => {
                    let chat: Vec<Message> = self.chat.iter().chain(&after).cloned().collect();
                    self.begin(voice.chat.encode(voice.tokenizer, &chat, true));
                }
                Err(e) => self.episode.stop(End::Lost { why: e.to_string() }),
            }
        }
        self.chat.extend(after);
    }

    fn finish(mut self) -> Played {
        let lost = || End::Lost { why: "it was never ended".to_owned() };
        let end = self.episode.end().cloned().unwrap_or_else(lost);
        self.chat.truncate(self.opening);
        Played {
            trajectory: Trajectory { opening: self.chat, turns: self.turns, end },
            rows: self.rows.finish(),
            changes: self.episode.into_changes(),
        }
    }
}

/// The seed of an episode's question (`SplitMix64`).
fn mix(seed: u64, asked: u64) -> u64 {
    let z = seed ^ asked.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
