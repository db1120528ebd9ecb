//! From a reply to the calls in it.
//!
//! Owns the text protocol and how a call that cannot be read is answered. The forms are those
//! that [`crate::protocol`] shows the model: SEARCH/REPLACE blocks, exactly as in answers of one
//! turn, and fences named `tool` with one JSON object. A reply may hold several; blocks come
//! first, then fences in their order. Native calls of a server are the same calls.

use patchrl_patch::{Edit, ExtractFault, extract};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Reply, ToolCall};

/// Calls of one reply that are carried out.
const MOST: usize = 8;
/// Bytes of one call.
const LARGEST: usize = 1 << 20;

/// One call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// The calls of a reply, or what is wrong with it, in words for the model.
pub(crate) fn calls(reply: &Reply) -> Result<Vec<Call>, String> {
    let calls = if reply.calls.is_empty() {
        in_text(&reply.text)?
    } else {
        reply.calls.iter().map(native).collect::<Result<_, _>>()?
    };
    match calls.len() {
        0 if reply.truncated => Err("your reply ran into its limit before a call was whole".into()),
        0 => Err("your reply holds no call".into()),
        n if n > MOST => Err(format!("your reply holds {n} calls, but {MOST} are the most")),
        _ => Ok(calls),
    }
}

fn native(call: &ToolCall) -> Result<Call, String> {
    let arguments = object(&call.arguments, &format!("the arguments of `{}`", named(&call.name)))?;
    Ok(Call { tool: call.name.clone(), arguments })
}

fn in_text(text: &str) -> Result<Vec<Call>, String> {
    let text = after_thinking(text)?;
    let (fences, rest) = fences(text)?;
    // A block inside a call's text is no block of the reply.
    let mut calls = blocks(&rest)?;
    for fence in fences {
        let mut arguments = object(&fence, "the call")?;
        let Some(Value::String(tool)) = arguments.remove("tool") else {
            return Err("a call names its tool: {\"tool\": \"view\", ...}".into());
        };
        calls.push(Call { tool, arguments });
    }
    Ok(calls)
}

fn after_thinking(text: &str) -> Result<&str, String> {
    match text.rsplit_once("</think>") {
        Some((_, said)) => Ok(said),
        None if text.trim_start().starts_with("<think>") => {
            Err("your reply ended while you were thinking".into())
        }
        None => Ok(text),
    }
}

/// SEARCH/REPLACE blocks as one call.
fn blocks(text: &str) -> Result<Vec<Call>, String> {
    match extract(text) {
        Ok(found) => match found.edit {
            Edit::Blocks(blocks) => {
                let of = |b: &patchrl_patch::Block| json!({ "path": b.path, "search": b.search, "replace": b.replace });
                let list: Vec<Value> = blocks.iter().map(of).collect();
                let arguments = Map::from_iter([("blocks".to_owned(), Value::Array(list))]);
                Ok(vec![Call { tool: "replace".into(), arguments }])
            }
            Edit::Diff(_) => Ok(Vec::new()),
        },
        Err(fault) if text.contains("<<<<<<< SEARCH") => Err(blame(&fault)),
        Err(_) => Ok(Vec::new()),
    }
}

fn blame(fault: &ExtractFault) -> String {
    format!("the SEARCH/REPLACE block cannot be read: {fault}")
}

/// What stands in the fences named `tool`, and the text without them.
fn fences(text: &str) -> Result<(Vec<String>, String), String> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (&mut open, line.trim()) {
            (None, "```tool") => open = Some(String::new()),
            (None, _) => {
                rest.push_str(line);
                rest.push('\n');
            }
            (Some(_), "```") => found.extend(open.take()),
            (Some(inside), _) if inside.len() + line.len() > LARGEST => return Err(too_large()),
            (Some(inside), _) => {
                inside.push_str(line);
                inside.push('\n');
            }
        }
    }
    match open {
        Some(_) => Err("the ```tool fence is not closed with a line ```".into()),
        None => Ok((found, rest)),
    }
}

fn object(text: &str, what: &str) -> Result<Map<String, Value>, String> {
    if text.len() > LARGEST {
        return Err(too_large());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{what} is JSON, but not an object: {{\"tool\": \"view\", ...}}")),
        Err(e) => Err(format!("{what} is not JSON: {e}")),
    }
}

fn too_large() -> String {
    format!("a call holds at most {LARGEST} bytes")
}

/// A name that a model gave, fit to be shown.
pub(crate) fn named(name: &str) -> String {
    let clean = crate::observation::printable(name.as_bytes()).replace(['\n', '\t'], " ");
    clean.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let calls = calls(&Reply::said(text))?;
        Ok(calls
            .iter()
            .map(|c| format!("{} {}", c.tool, Value::Object(c.arguments.clone())))
            .collect())
    }

    #[test]
    fn each_form_is_read() {
        let fence = "I look.\n```tool\n{\"tool\": \"view\", \"path\": \"a.py\"}\n```\n";
        assert_eq!(read(fence).unwrap(), [r#"view {"path":"a.py"}"#]);
        let block = "### a.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n";
        let edit = r#"replace {"blocks":[{"path":"a.py","search":"x\n","replace":"y\n"}]}"#;
        assert_eq!(read(block).unwrap(), [edit]);
        let both = format!("{fence}{block}```tool\n{{\"tool\":\"submit\"}}\n```");
        assert_eq!(read(&both).unwrap(), [edit, r#"view {"path":"a.py"}"#, "submit {}"]);
        let inside = block.replace('\n', "\\n");
        let quoted = format!(
            "```tool\n{{\"tool\": \"create\", \"path\": \"a\", \"text\": \"{inside}\"}}\n```"
        );
        assert!(read(&quoted).unwrap()[0].starts_with("create"));
        let thought = format!("<think>\n```tool\n{{}}\n```\n</think>\n{fence}");
        assert_eq!(read(&thought).unwrap().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        for (text, why) in [
            ("", "no call"),
            ("I would fix it.", "no call"),
            ("<think>hm", "thinking"),
            ("```tool\n{\"tool\": 1}\n```", "names its tool"),
            ("```tool\n[1]\n```", "not an object"),
            ("```tool\nview a.py\n```", "not JSON"),
            ("```tool\n{}", "not closed"),
            ("### a.py\n<<<<<<< SEARCH\nx\n", "SEARCH/REPLACE"),
            (&"```tool\n{\"tool\":\"submit\"}\n```\n".repeat(9), "9 calls"),
            (&format!("```tool\n{}\n```", "x".repeat(2 << 20)), "at most"),
            (&format!("```tool\n{}\n```", "[".repeat(100_000)), "not JSON"),
        ] {
            let got = read(text).unwrap_err();
            assert!(got.contains(why), "{got}");
        }
        let cut = Reply { truncated: true, ..Reply::said("```to") };
        assert!(calls(&cut).unwrap_err().contains("limit"));
    }

    #[test]
    fn native_calls_are_the_same_calls() {
        let call = |arguments: &str| {
            let call =
                ToolCall { id: "1".into(), name: "view".into(), arguments: arguments.into() };
            calls(&Reply { calls: vec![call], ..Reply::said("") })
        };
        assert_eq!(call(r#"{"path": "a"}"#).unwrap()[0].tool, "view");
        assert!(call("{").unwrap_err().contains("arguments of `view`"));
    }
}
