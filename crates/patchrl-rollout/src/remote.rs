//! Groups of answers from a server.
//!
//! Owns the way from a prompt to a server's tokens and back: tokens go in and come out as they
//! are, wherever the server says them; what it does not say is marked, never guessed in silence.

use patchrl_agent::{CLOSING, Calling, PolicyFault, Question, Reply, Sampled, Voice};
use patchrl_model::{ChatTemplate, Finish, Message, Policy, Sample, Tokenizer};
use patchrl_task::TaskId;

use crate::openai::OpenAi;
use crate::{
    Api, At, Drawer, Drawn, Origin, Player, Prompt, RolloutError, SamplingConfig, sample_seed,
};

/// Characters of a token, for a budget where nobody can count.
const CHARACTERS_PER_TOKEN: usize = 3;

/// What came back on a question.
type Heard = Result<Reply, PolicyFault>;

/// An answer that is wanted.
struct Asked<'a> {
    prompt: &'a Prompt,
    /// Where the randomness of its first part comes from, and of its second.
    seeds: (u64, u64),
}

/// A server, with what is known here of the model it serves.
pub struct Remote {
    server: OpenAi,
    language: Option<Language>,
}

/// How the model that the server has reads and writes.
struct Language {
    tokenizer: Tokenizer,
    chat: ChatTemplate,
    /// Ids are below this.
    vocab: u32,
}

impl Remote {
    /// A server alone: it is asked in text, and nothing can be trained on what it says unless it
    /// says its tokens.
    pub fn new(server: OpenAi) -> Self {
        Self { server, language: None }
    }

    /// A server that has the same model as `policy`.
    pub fn of(server: OpenAi, policy: &Policy) -> Self {
        let language = Language {
            tokenizer: policy.tokenizer.clone(),
            chat: policy.chat.clone(),
            vocab: policy.model.config.vocab as u32,
        };
        Self { server, language: Some(language) }
    }

    /// The server.
    pub fn server(&self) -> &OpenAi {
        &self.server
    }

    /// The word on a thought that cannot be closed by force, since nobody says its tokens.
    pub fn cannot_go_on() -> PolicyFault {
        PolicyFault::Fatal {
            what: "`sampling.thinking_tokens` needs the tokens of an answer, and the server does \
                   not say them"
                .into(),
            hint: "leave `sampling.thinking_tokens` at 0, or serve the model with vLLM, SGLang or \
                   llama.cpp, which say them by `rollout.api: completions`"
                .into(),
        }
    }

    /// What came to the end of its first part, with its second.
    fn finished(
        &self,
        first: Vec<Drawn>,
        asked: &[Asked<'_>],
        (server, sampling): (&OpenAi, &SamplingConfig),
        hear: &mut dyn FnMut(&Heard),
    ) -> Result<Vec<Drawn>, RolloutError> {
        let mut drawn = first;
        let mut cut = Vec::new();
        for (at, (one, asked)) in drawn.iter_mut().zip(asked).enumerate() {
            if one.lost.is_some() || one.sample.finish == Finish::Stop {
                continue;
            }
            let tokens = one.sample.tokens.len();
            let Some(rest) = sampling.budget().rest(&asked.prompt.text, &one.answer, tokens) else {
                continue;
            };
            let (Some(language), Origin::Sampled) = (&self.language, one.origin) else {
                return Err(Self::cannot_go_on().into());
            };
            if rest.closes {
                one.put_in(&language.tokenizer.encode_with_special(CLOSING));
            }
            let read = [asked.prompt.tokens.as_slice(), &one.sample.tokens].concat();
            cut.push((at, read, rest.most));
        }
        let questions: Vec<Question<'_>> = cut
            .iter()
            .map(|(at, read, most)| Question {
                chat: &asked[*at].prompt.chat,
                tokens: Some(read),
                tools: &[],
                seed: asked[*at].seeds.1,
                max_new_tokens: *most,
            })
            .collect();
        let replies = server.ask_each(&questions, hear);
        drop(questions);
        for (reply, (at, read, _)) in replies.into_iter().zip(cut) {
            let rest = self.heard(&read, reply)?;
            let one = &mut drawn[at];
            match (&self.language, &rest.lost, rest.origin) {
                (_, Some(_), _) => *one = rest,
                (Some(language), None, Origin::Sampled) => {
                    one.go_on(rest);
                    one.answer = language.tokenizer.decode(&one.sample.tokens);
                }
                _ => return Err(Self::cannot_go_on().into()),
            }
        }
        Ok(drawn)
    }

    /// A reply to `prompt`, or the word on one that did not come.
    fn heard(&self, prompt: &[u32], reply: Heard) -> Result<Drawn, RolloutError> {
        match reply {
            Ok(reply) => Ok(self.drawn(prompt, reply)),
            Err(fatal @ PolicyFault::Fatal { .. }) => Err(fatal.into()),
            Err(fault) => Ok(Drawn::lost(fault.to_string())),
        }
    }

    fn drawn(&self, prompt: &[u32], reply: Reply) -> Drawn {
        let Reply { text, sampled, truncated, .. } = reply;
        let finish = if truncated { Finish::Length } else { Finish::Stop };
        let made = match (&self.language, sampled) {
            (None, Some(it)) => {
                let (sample, versions) = of_sampled(it, finish);
                (text, sample, versions, Origin::Sampled)
            }
            (Some(language), Some(it)) => {
                if let Some(why) = language.objection(prompt, &it) {
                    return Drawn::lost(why);
                }
                let (mut sample, mut versions) = of_sampled(it, finish);
                language.close(&mut sample, &mut versions);
                let answer = language.tokenizer.decode(&sample.tokens);
                (answer, sample, versions, Origin::Sampled)
            }
            (Some(language), None) if self.server.config().retokenize => {
                let tokens = language.encode_again(&text, finish);
                let (log_probs, version) = (vec![f32::NAN; tokens.len()], self.server.version());
                let versions = vec![version; tokens.len()];
                (text, Sample::drawn(tokens, log_probs, finish), versions, Origin::Retokenized)
            }
            (_, None) => {
                let sample = Sample::drawn(Vec::new(), Vec::new(), finish);
                (text, sample, Vec::new(), Origin::Unknown)
            }
        };
        let (answer, sample, versions, origin) = made;
        Drawn { sample, answer, versions, origin, lost: None }
    }
}

impl Language {
    /// What speaks against training on these tokens.
    fn objection(&self, prompt: &[u32], it: &Sampled) -> Option<String> {
        if it.prompt != prompt {
            let at = it.prompt.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            return Some(format!(
                "the server read {} tokens where {} were meant, and others from token {at} on: its \
                 chat template or its tokenizer is another",
                it.prompt.len(),
                prompt.len()
            ));
        }
        let strange = it.tokens.iter().find(|id| **id >= self.vocab)?;
        Some(format!("the server sampled token {strange}, but the model here has {}", self.vocab))
    }

    /// The tokens that the text would have, which may be others than those that made it.
    fn encode_again(&self, text: &str, finish: Finish) -> Vec<u32> {
        let mut tokens = self.tokenizer.encode(text);
        if finish == Finish::Stop {
            tokens.extend(self.tokenizer.eos().first());
        }
        tokens
    }

    /// Some servers leave out the token that ended the answer. Where there is but one such, it is
    /// known.
    fn close(&self, sample: &mut Sample, versions: &mut Vec<u64>) {
        let ends = self.tokenizer.eos();
        let ended = sample.tokens.last().is_some_and(|last| ends.contains(last));
        if let ([end], Finish::Stop, false) = (ends, sample.finish, ended) {
            sample.tokens.push(*end);
            sample.log_probs.push(f32::NAN);
            sample.mask.push(true);
            versions.extend(versions.last().copied().or(Some(0)));
        }
    }
}

impl Drawer for Remote {
    fn count(&self, text: &str) -> usize {
        match &self.language {
            Some(language) => language.tokenizer.encode(text).len(),
            None => text.chars().count() / CHARACTERS_PER_TOKEN,
        }
    }

    fn prompt(&self, task: TaskId, chat: &[Message]) -> Result<Prompt, RolloutError> {
        let (text, tokens) = if let Some(it) = &self.language {
            (it.chat.render(chat, true)?, it.chat.encode(&it.tokenizer, chat, true)?)
        } else {
            let turn = |it: &Message| format!("[{}]\n{}\n", it.role, it.content);
            (chat.iter().map(turn).collect(), Vec::new())
        };
        Ok(Prompt { task, text, tokens, chat: chat.to_vec(), also: Vec::new() })
    }

    /// By `chat` the server renders conversations and has tools of its own.
    fn player<'a>(&'a self, sampling: &'a SamplingConfig, _version: u64) -> Player<'a> {
        let ours = self.language.as_ref().filter(|_| self.server.config().api != Api::Chat);
        let stop = ours.map_or_else(Vec::new, |it| it.tokenizer.eos().to_vec());
        let voice = ours.map(|it| Voice { chat: &it.chat, tokenizer: &it.tokenizer });
        let calling = if voice.is_some() { Calling::Text } else { Calling::Native };
        Player { policy: Box::new(self.server.drawing(sampling, stop)), voice, calling }
    }

    fn draw(
        &self,
        prompts: &[Prompt],
        sampling: &SamplingConfig,
        at: At,
        on_token: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<Drawn>>, RolloutError> {
        let stop = self.language.as_ref().map_or_else(Vec::new, |it| it.tokenizer.eos().to_vec());
        let server = self.server.drawing(sampling, stop);
        let seed = |prompt: &Prompt, n| sample_seed(at.run, at.step, &prompt.task, n);
        // No group has so many answers that a second part's number were another's first.
        let ask = |prompt, n| Asked { prompt, seeds: (seed(prompt, n), seed(prompt, !n)) };
        let group = |prompt| (0..at.group_size).map(move |n| (prompt, n));
        let asked: Vec<Asked<'_>> =
            prompts.iter().flat_map(group).map(|(prompt, n)| ask(prompt, n)).collect();
        let questions: Vec<Question<'_>> = asked
            .iter()
            .map(|Asked { prompt, seeds }| Question {
                chat: &prompt.chat,
                tokens: self.language.is_some().then_some(prompt.tokens.as_slice()),
                tools: &[],
                seed: seeds.0,
                max_new_tokens: sampling.budget().first(),
            })
            .collect();
        let mut hear = |reply: &Heard| {
            let tokens = reply.as_ref().ok().and_then(|it| it.sampled.as_ref());
            on_token(tokens.map_or(0, |it| it.tokens.len()));
        };
        let replies = server.ask_each(&questions, &mut hear).into_iter().zip(&asked);
        let first: Vec<Drawn> = replies
            .map(|(reply, asked)| self.heard(&asked.prompt.tokens, reply))
            .collect::<Result<_, _>>()?;
        let drawn = self.finished(first, &asked, (&server, sampling), &mut hear)?;
        let mut drawn = drawn.into_iter();
        let size = at.group_size as usize;
        Ok(prompts.iter().map(|_| drawn.by_ref().take(size).collect()).collect())
    }
}

/// Log-probabilities that the server did not say are NaN.
fn of_sampled(it: Sampled, finish: Finish) -> (Sample, Vec<u64>) {
    let Sampled { tokens, mut log_probs, versions, .. } = it;
    log_probs.resize(tokens.len(), f32::NAN);
    (Sample::drawn(tokens, log_probs, finish), versions)
}
