//! Whether a server reads texts as the tokenizer here does.
//!
//! Owns the texts, and the ways in which servers say their tokens. Tokens that mean something else
//! to the sampler than to the trainer train on noise, and nothing else shows it.

use patchrl_agent::PolicyFault;
use patchrl_model::Tokenizer;
use serde_json::{Value, json};

use super::client::OpenAi;
use super::fault::body_of;
use crate::config::Server;

/// Code, white space, numbers, other scripts, and what splitters tell apart.
const TEXTS: [&str; 6] = [
    "def add(a, b):\n    return a + b\n\n\nclass A(object):\n\tpass\n",
    "<<<<<<< SEARCH\n-    x = 0x1F_00 + 12345.678e-9\n=======\n>>>>>>> REPLACE\n",
    "    four, \t a tab,   three;  \r\n and a trailing space ",
    "The quick brown fox can't jump; it's 2024-07-26, isn't it?",
    "naïve café, Füße, Привет мир, 日本語テキスト, 🙂👩‍💻",
    "a/b/c.py::TestCase::test_x[param-1] != foo_bar.BazQux()->{}[]",
];

/// What the comparison came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Every text has the same tokens.
    Same,
    /// The server does not say how it reads a text.
    NotSaid,
}

/// Read a few texts on both sides. Another reading is fatal.
pub fn compare_tokenizers(server: &OpenAi, tokenizer: &Tokenizer) -> Result<Compared, PolicyFault> {
    for text in TEXTS {
        let Some(theirs) = tokens_there(server, text)? else { return Ok(Compared::NotSaid) };
        let ours = tokenizer.encode(text);
        if theirs != ours {
            let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            let from = |tokens: &[u32]| {
                let near: Vec<String> =
                    tokens.iter().skip(at).take(5).map(u32::to_string).collect();
                near.join(" ")
            };
            return Err(PolicyFault::Fatal {
                what: format!(
                    "the server reads a text otherwise than the model here: {} tokens there, {} \
                     here; from token {at} on {} there, {} here, in {text:?}",
                    theirs.len(),
                    ours.len(),
                    from(&theirs),
                    from(&ours)
                ),
                hint: "serve the same model that is trained: the folder of `--model`, with its \
                       own tokenizer"
                    .into(),
            });
        }
    }
    Ok(Compared::Same)
}

/// The server's tokens of `text`, if it says any.
fn tokens_there(server: &OpenAi, text: &str) -> Result<Option<Vec<u32>>, PolicyFault> {
    let model = server.model();
    let body = match server.server() {
        Server::Vllm | Server::Sglang => {
            json!({ "model": model, "prompt": text, "add_special_tokens": false })
        }
        Server::LlamaCpp => {
            json!({ "content": text, "add_special": false, "parse_special": false })
        }
        Server::Auto | Server::Other => return Ok(None),
    };
    let answer = server.until_it_comes(0, &|| false, &|| {
        let answer = server.wire().post("tokenize", &body, server.control_timeout())?;
        match answer.status {
            404 | 405 => Ok(Value::Null),
            _ => body_of(server.wire(), &answer),
        }
    })?;
    let ids = answer["tokens"].as_array();
    let id = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    Ok(ids.and_then(|ids| ids.iter().map(id).collect()))
}
