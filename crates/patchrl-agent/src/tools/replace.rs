//! SEARCH/REPLACE: lines of a file, found by their text, become other lines.

use patchrl_patch::Block;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Desk, Failure, Tool, read, schema};
use crate::workspace::path;

pub(super) const TOOL: Tool = Tool {
    name: "replace",
    description: "Finds the lines `search`, which must occur once in the file, and puts `replace` \
                  there.",
    example: r#"{"tool": "replace", "path": "src/name.py", "search": "    return 0\n", "replace": "    return 1\n"}"#,
    parameters: || {
        let text = || json!({ "type": "string" });
        let properties = json!({ "path": text(), "search": text(), "replace": text() });
        schema(&properties, &["path", "search", "replace"])
    },
    check: |arguments| blocks(arguments).map(drop),
    act: |desk, arguments| act(desk, blocks(arguments).map_err(Failure::Malformed)?),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    path: String,
    search: String,
    replace: String,
}

/// As blocks of a reply's text are kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    blocks: Vec<Value>,
}

fn blocks(arguments: &super::Arguments) -> Result<Vec<Block>, String> {
    let written = if arguments.contains_key("blocks") {
        let one = |value: Value| One::deserialize(value).map_err(|e| e.to_string());
        read::<Several>(arguments)?.blocks.into_iter().map(one).collect::<Result<_, _>>()?
    } else {
        vec![read::<One>(arguments)?]
    };
    if written.is_empty() {
        return Err("there is no block".into());
    }
    Ok(written
        .into_iter()
        .map(|it| Block { path: it.path, search: whole(it.search), replace: whole(it.replace) })
        .collect())
}

/// Whole lines, as a block has them.
fn whole(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn act(desk: &mut Desk, mut blocks: Vec<Block>) -> Result<String, Failure> {
    for block in &mut blocks {
        block.path = path(&block.path).map_err(Failure::Refused)?;
        if block.search.is_empty() {
            return Err(Failure::Refused(format!(
                "the search text for `{}` is empty; `create` makes a new file",
                block.path
            )));
        }
    }
    Ok(desk
        .apply(blocks)?
        .iter()
        .map(|it| format!("{} changed at line {}\n", it.path, it.line))
        .collect())
}
