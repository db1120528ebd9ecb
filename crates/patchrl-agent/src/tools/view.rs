//! Show a file with line numbers, or list a folder.

use std::collections::BTreeMap;

use patchrl_patch::Tree as _;
use serde::Deserialize;
use serde_json::json;

use super::{Desk, Failure, Tool, checked, numbered, read, schema};
use crate::workspace::path;

/// Lines shown where no end is asked for.
const LINES: usize = 200;
/// Names of a folder that are listed.
const NAMES: usize = 200;

pub(super) const TOOL: Tool = Tool {
    name: "view",
    description: "Shows a file with line numbers, from line `first` to `last`, or lists a folder.",
    example: r#"{"tool": "view", "path": "src/name.py", "first": 1, "last": 80}"#,
    parameters: || {
        let properties = json!({
            "path": { "type": "string", "description": "a file or a folder; `.` is the repository" },
            "first": { "type": "integer", "minimum": 1 },
            "last": { "type": "integer", "minimum": 1 },
        });
        schema(&properties, &["path"])
    },
    check: |arguments| read::<Arguments>(arguments).map(drop),
    act: |desk, arguments| act(desk, &checked(arguments)?),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    first: Option<usize>,
    last: Option<usize>,
}

fn act(desk: &mut Desk, arguments: &Arguments) -> Result<String, Failure> {
    let written = arguments.path.trim().trim_end_matches('/');
    if matches!(written, "" | "." | "/workspace") {
        return Ok(list(desk, ""));
    }
    let path = path(written).map_err(Failure::Refused)?;
    if desk.workspace.is_directory(&path).map_err(|e| Failure::Lost(e.to_string()))? {
        return Ok(list(desk, &format!("{path}/")));
    }
    let text = desk.workspace.text(&path).map_err(Failure::Refused)?;
    let lines = text.lines().count();
    let first = arguments.first.unwrap_or(1).max(1);
    let last = arguments.last.unwrap_or(first.saturating_add(LINES - 1)).min(lines);
    if lines == 0 {
        return Ok(format!("`{path}` is empty\n"));
    }
    if first > last {
        return Err(Failure::Refused(format!("`{path}` has the lines 1 to {lines}")));
    }
    let head = format!("{path}, lines {first} to {last} of {lines}\n");
    Ok(head + &numbered(&text, first, last))
}

/// What lies in a folder: its files, and its folders with their number of files.
fn list(desk: &Desk, folder: &str) -> String {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let files = desk.workspace.files();
    for inside in files.iter().filter_map(|file| file.strip_prefix(folder)) {
        let end = inside.find('/').map_or(inside.len(), |slash| slash + 1);
        *names.entry(&inside[..end]).or_default() += 1;
    }
    let line = |(name, count): (&&str, &usize)| {
        if name.ends_with('/') { format!("{name} ({count} files)\n") } else { format!("{name}\n") }
    };
    let more = names.len().saturating_sub(NAMES);
    let listed: String = names.iter().take(NAMES).map(line).collect();
    if more > 0 { format!("{listed}[{more} more]\n") } else { listed }
}
