//! Conversations to learn from: JSON lines `{"messages": [{"role", "content"}]}`.
//!
//! Owns the form and its faults. Every turn of the assistant becomes one example: what comes
//! before it is its prompt, tokenized as when the model is asked, and carries no loss.

use std::io::{BufRead as _, Read as _};
use std::path::Path;

use patchrl_model::{Message, Policy};
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

    /// An example per turn of the assistant that has at most `max_tokens`. A `share` of the chats, drawn from `seed`, is held out.
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
                let chat = &self.0[at];
                let turns = (0..chat.len()).filter(|&at| is_assistant(&chat[at]));
                let mut examples: Vec<Example> =
                    turns.map(|at| turn(policy, chat, at)).collect::<Result<_, _>>()?;
                let all = examples.len();
                examples.retain(|it| it.prompt.len() + it.answer.len() <= max_tokens);
                too_long += all - examples.len();
                Ok(examples)
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

/// The turn at `at` as an answer to all before it.
fn turn(policy: &Policy, chat: &[Message], at: usize) -> Result<Example, TrainError> {
    let prompt = policy.prompt(&chat[..at])?;
    let mut answer = policy.tokenizer.encode(&chat[at].content);
    answer.extend(policy.tokenizer.eos().first());
    Ok(Example { prompt, answer })
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
    fn every_turn_of_the_assistant_is_an_example_after_its_prompt() {
        let chats = read(&format!("{LINE}\n\n{LINE}\n")).unwrap();
        assert_eq!(chats.0.len(), 2);
        let sizes =
            Scratch { vocab: 259, hidden: 8, heads: 2, layers: 1, ffn: 8, ..Scratch::default() };
        let policy = Policy::from_scratch(&sizes, &["x"], 0).unwrap();
        let lessons = chats.lessons(&policy, 1000, (0, 0.4)).unwrap();
        assert_eq!((lessons.trained.len(), lessons.held_out.len(), lessons.too_long), (2, 2, 0));
        let second = &lessons.trained[1];
        let text = |tokens: &[u32]| policy.tokenizer.decode_with_special(tokens);
        assert_eq!(text(&second.answer), "d<|im_end|>");
        assert_eq!(
            text(&second.prompt),
            "<|im_start|>user\na<|im_end|><|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n\
             <|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
        );
        let ends =
            |tokens: &[u32]| tokens.iter().filter(|t| policy.tokenizer.eos()[0] == **t).count();
        assert_eq!(ends(&second.prompt), 3, "a text's own marker ended a turn");
        let lessons = chats.lessons(&policy, second.prompt.len(), (0, 0.0)).unwrap();
        assert_eq!((lessons.trained.len(), lessons.too_long), (2, 2));
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
