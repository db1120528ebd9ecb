//! Make a new file.

use patchrl_patch::{Block, Tree as _};
use serde::Deserialize;
use serde_json::json;

use super::{Desk, Failure, Tool, checked, read, schema};
use crate::workspace::path;

pub(super) const TOOL: Tool = Tool {
    name: "create",
    description: "Makes a new file with this text.",
    example: r#"{"tool": "create", "path": "src/new.py", "text": "x = 1\n"}"#,
    parameters: || {
        let properties = json!({ "path": { "type": "string" }, "text": { "type": "string" } });
        schema(&properties, &["path", "text"])
    },
    check: |arguments| read::<Arguments>(arguments).map(drop),
    act: |desk, arguments| act(desk, checked(arguments)?),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    text: String,
}

fn act(desk: &mut Desk, arguments: Arguments) -> Result<String, Failure> {
    let path = path(&arguments.path).map_err(Failure::Refused)?;
    let there = desk.workspace.entry(&path).map_err(|e| Failure::Lost(e.to_string()))?;
    if there.is_some() {
        return Err(Failure::Refused(format!("`{path}` exists already; `replace` changes it")));
    }
    let lines = arguments.text.lines().count();
    let block = Block { path: path.clone(), search: String::new(), replace: arguments.text };
    // The rules for what may lie where are those of edits.
    desk.apply(vec![block])?;
    Ok(format!("{path} made, {lines} lines\n"))
}
