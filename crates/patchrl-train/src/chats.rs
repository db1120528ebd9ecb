//! Conversations to learn from: JSON lines `{"messages": [{"role", "content"}]}`.
//!
//! Owns the form and its faults. A conversation is one row of tokens: the assistant's turns are
//! learnt, everything else is read, tokenized as when the model is asked. Where the template writes
//! earlier turns in another way than they were read, a new row starts.

use std::io::{BufRead as _, Read as _};
use std::path::Path;

use patchrl_model::{Message, Policy, Said};
use patchrl_rollout::order;
use serde::Deserialize;

use crate::TrainError;
use crate::lessons::{Lessons, hold_out};
use crate::sft::Example;

/// Conversations, each with at least one turn of the assistant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chats(pub Vec<Vec<Message>>);

/// Bytes of one line and of a file, at most.
const MAX_LINE: usize = 4 << 20;
const MAX_FILE: u64 = 1 << 30;

#[derive(Deserialize)]
struct Row {
    messages: Vec<Message>,
}

impl Chats {
    /// Read a file of JSON lines.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let bad = |why: String| TrainError::data(path, why);
        let kind = fs_err::metadata(path).map_err(|e| bad(e.to_string()))?;
        if !kind.is_file() {
            return Err(bad("it is no file".into()));
        }
        let file = fs_err::File::open(path).map_err(|e| bad(e.to_string()))?;
        if kind.len() > MAX_FILE {
            return Err(bad(format!("it is larger than {} MiB; cut it", MAX_FILE >> 20)));
        }
        let mut chats = Vec::new();
        let mut lines = std::io::BufReader::new(file.take(MAX_FILE));
        let mut line = Vec::new();
        for number in 1_usize.. {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(|e| bad(e.to_string()))? == 0 {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let chat = chat(&line).map_err(|why| bad(format!("line {number}: {why}")))?;
            chats.push(chat);
        }
        if chats.is_empty() { Err(bad("it holds no chat".into())) } else { Ok(Self(chats)) }
    }

    /// The rows of every chat, up to `max_tokens` each. A `share` of the chats, drawn from `seed`,
    /// is held out.
    pub(crate) fn lessons(
        &self,
        policy: &Policy,
        max_tokens: usize,
        (seed, share): (u64, f64),
    ) -> Result<Lessons, TrainError> {
        let mut too_long = 0;
        let chats: Vec<Vec<Example>> = order(seed, 0, self.0.len())
            .into_iter()
            .map(|at| {
                let (rows, left_out) = rows(policy, &self.0[at], max_tokens)?;
                too_long += left_out;
                Ok(rows)
            })
            .collect::<Result<_, TrainError>>()?;
        let (trained, held_out) = hold_out(chats, share);
        let (trained, held_out) = (trained.concat(), held_out.concat());
        Ok(Lessons { trained, held_out, too_long })
    }
}

fn chat(line: &[u8]) -> Result<Vec<Message>, String> {
    if line.len() > MAX_LINE {
        return Err(format!("it is longer than {} MiB", MAX_LINE >> 20));
    }
    let row: Row = serde_json::from_slice(line)
        .map_err(|e| format!("it is no {{\"messages\": [{{\"role\", \"content\"}}]}}: {e}"))?;
    if !row.messages.iter().any(is_assistant) {
        return Err("no turn is the assistant's, so there is nothing to learn".into());
    }
    Ok(row.messages)
}

fn is_assistant(message: &Message) -> bool {
    message.role == "assistant"
}

/// The rows of a chat, and how many of its turns are too far from its start to fit.
fn rows(
    policy: &Policy,
    chat: &[Message],
    max_tokens: usize,
) -> Result<(Vec<Example>, usize), TrainError> {
    let turns: Vec<usize> = (0..chat.len()).filter(|&at| is_assistant(&chat[at])).collect();
    let mut rows: Vec<Example> = Vec::new();
    let mut left_out = 0;
    // The turn that the last row ends with.
    let mut last = None;
    for &at in &turns {
        let mut answer = policy.tokenizer.encode(&chat[at].content);
        answer.extend(policy.tokenizer.eos().first());
        let rest = match last {
            Some(before) => between(policy, chat, (before, at))?,
            None => None,
        };
        let row = match (rest, rows.last_mut()) {
            (Some(rest), Some(row)) => {
                let len = row.prompt.len() + row.answer.len() + rest.len() + answer.len();
                if len <= max_tokens {
                    row.mask.resize(row.mask.len() + rest.len(), false);
                    row.mask.resize(row.mask.len() + answer.len(), true);
                    row.answer.extend(rest);
                    row.answer.extend(answer);
                    last = Some(at);
                    continue;
                }
                None
            }
            _ => Some(Example::whole(policy.prompt(&chat[..at])?, answer)),
        };
        match row.filter(|it| it.prompt.len() + it.answer.len() <= max_tokens) {
            Some(row) => {
                rows.push(row);
                last = Some(at);
            }
            None => left_out += 1,
        }
    }
    Ok((rows, left_out))
}

/// What is read between the turns at `before` and `at`, after the first's stop token.
fn between(
    policy: &Policy,
    chat: &[Message],
    (before, at): (usize, usize),
) -> Result<Option<Vec<u32>>, TrainError> {
    let text = chat[before].content.as_str();
    let said = Said { text, last: policy.tokenizer.eos().first().copied() };
    let after = &chat[before..at];
    Ok(policy.chat.continuation(&policy.tokenizer, &chat[..before], said, after)?)
}

#[cfg(test)]
mod tests {
    use patchrl_model::Scratch;

    use super::*;

    const LINE: &str = r#"{"id": 1, "messages": [{"role": "user", "content": "a<|im_end|>"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}"#;

    fn read(text: &str) -> Result<Chats, TrainError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chats.jsonl");
        fs_err::write(&path, text).unwrap();
        Chats::read(&path)
    }

    #[test]
    fn the_turns_of_the_assistant_are_learnt_and_the_rest_is_read() {
        let chats = read(&format!("{LINE}\n\n{LINE}\n")).unwrap();
        assert_eq!(chats.0.len(), 2);
        let sizes =
            Scratch { vocab: 259, hidden: 8, heads: 2, layers: 1, ffn: 8, ..Scratch::default() };
        let policy = Policy::from_scratch(&sizes, &["x"], 0).unwrap();
        let lessons = chats.lessons(&policy, 1000, (0, 0.4)).unwrap();
        assert_eq!((lessons.trained.len(), lessons.held_out.len(), lessons.too_long), (1, 1, 0));
        let row = &lessons.trained[0];
        let text = |tokens: &[u32]| policy.tokenizer.decode_with_special(tokens);
        assert_eq!(
            text(&row.prompt),
            "<|im_start|>user\na<|im_end|><|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(
            text(&row.answer),
            "b<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\nd<|im_end|>"
        );
        let learnt = row.answer.iter().zip(&row.mask).filter(|(_, learnt)| **learnt);
        let learnt: Vec<u32> = learnt.map(|(token, _)| *token).collect();
        assert_eq!(text(&learnt), "b<|im_end|>d<|im_end|>");
        let eos = policy.tokenizer.eos()[0];
        let ends = |tokens: &[u32]| tokens.iter().filter(|t| **t == eos).count();
        assert_eq!(ends(&row.prompt), 1, "a text's own marker ended a turn");
        // As the model is asked for the last turn.
        let asked = policy.prompt(&chats.0[0][..3]).unwrap();
        let whole = [row.prompt.as_slice(), &row.answer].concat();
        assert_eq!(whole[..asked.len()], asked[..]);
        let lessons = chats.lessons(&policy, whole.len() - 1, (0, 0.0)).unwrap();
        assert_eq!((lessons.trained.len(), lessons.too_long), (2, 2));
        assert_eq!(text(&lessons.trained[0].answer), "b<|im_end|>");
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, why) in [
            ("", "no chat"),
            ("{}\n", "line 1"),
            ("\n[1]\n", "line 2"),
            (r#"{"messages": [{"role": "user", "content": "a"}]}"#, "nothing to learn"),
            (r#"{"messages": [{"role": "assistant", "content": [1]}]}"#, "line 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(why) && error.is_usage(), "{error}");
        }
    }
}
