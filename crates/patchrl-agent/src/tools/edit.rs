//! Put text in place of a range of lines.

use patchrl_patch::{Changes, Entry, Mode, Tree as _};
use serde::Deserialize;
use serde_json::json;

use super::{Desk, Failure, Tool, checked, numbered, read, schema};
use crate::workspace::path;

/// Lines shown around what was changed.
const AROUND: usize = 3;

pub(super) const TOOL: Tool = Tool {
    name: "edit",
    description: "Puts `text` in place of the lines `first` to `last` of a file. With `last` one \
                  less than `first` it is put before line `first`.",
    example: r#"{"tool": "edit", "path": "src/name.py", "first": 7, "last": 8, "text": "    return 1\n"}"#,
    parameters: || {
        let properties = json!({
            "path": { "type": "string" },
            "first": { "type": "integer", "minimum": 1 },
            "last": { "type": "integer", "minimum": 0 },
            "text": { "type": "string" },
        });
        schema(&properties, &["path", "first", "last", "text"])
    },
    check: |arguments| read::<Arguments>(arguments).map(drop),
    act: |desk, arguments| act(desk, checked(arguments)?),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    first: usize,
    last: usize,
    text: String,
}

fn act(desk: &mut Desk, arguments: Arguments) -> Result<String, Failure> {
    let path = path(&arguments.path).map_err(Failure::Refused)?;
    let text = desk.workspace.text(&path).map_err(Failure::Refused)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (first, last) = (arguments.first, arguments.last);
    if first == 0 || first > lines.len() + 1 || last > lines.len() || last.saturating_add(1) < first
    {
        return Err(Failure::Refused(format!(
            "`{path}` has the lines 1 to {}, so {first} to {last} cannot be replaced",
            lines.len()
        )));
    }
    let mut new = arguments.text;
    let is_last = last == lines.len();
    if !new.is_empty() && !new.ends_with('\n') && (!is_last || text.ends_with('\n')) {
        new.push('\n');
    }
    let mut before = lines[..first - 1].concat();
    if !new.is_empty() && !before.is_empty() && !before.ends_with('\n') {
        before.push('\n');
    }
    let text = [before.as_str(), &new, &lines[last..].concat()].concat();
    let mode = desk.workspace.entry(&path).ok().flatten().map_or(Mode::Regular, |it| it.mode);
    let entry = Entry { mode, bytes: text.clone().into_bytes() };
    desk.workspace
        .change(Changes::from([(path.clone(), Some(entry))]))
        .map_err(Failure::Refused)?;
    let from = first.saturating_sub(AROUND).max(1);
    let to = first - 1 + new.lines().count() + AROUND;
    Ok(format!("{path} is now\n{}", numbered(&text, from, to)))
}
