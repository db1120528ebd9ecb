//! Run the repository's own tests on the files as they are.
//!
//! Not the tests that decide the reward: those are put in place when the episode is over, on a
//! fresh tree. Nothing that tests write is kept.

use std::sync::Arc;

use patchrl_patch::Tree as _;
use serde::Deserialize;
use serde_json::json;

use super::{Desk, Failure, Tool, checked, read, schema};
use crate::command::{self, Keep};
use crate::workspace::path;

/// Files that one call may name.
const MOST: usize = 50;

pub(super) const TOOL: Tool = Tool {
    name: "test",
    description: "Runs the repository's tests, all of them or those of the files named.",
    example: r#"{"tool": "test", "files": ["tests/test_name.py"]}"#,
    parameters: || {
        let files = json!({ "type": "array", "items": { "type": "string" } });
        schema(&json!({ "files": files }), &[])
    },
    check: |arguments| match read::<Arguments>(arguments)?.files.len() {
        0..=MOST => Ok(()),
        n => Err(format!("{n} files are named, but at most {MOST} may be")),
    },
    act: |desk, arguments| act(desk, &checked(arguments)?),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    files: Vec<String>,
}

fn act(desk: &mut Desk, arguments: &Arguments) -> Result<String, Failure> {
    let ground = Arc::clone(&desk.workspace.ground);
    if ground.tests.is_empty() {
        return Err(Failure::Refused("no test command is known for this repository".into()));
    }
    let mut argv = ground.tests.clone();
    let mut note = "";
    if !ground.tests_take_files && !arguments.files.is_empty() {
        note = "[all tests: this runner takes no files]\n";
    }
    for written in &arguments.files {
        let path = path(written).map_err(Failure::Refused)?;
        let there = desk.workspace.entry(&path).ok().flatten().is_some()
            || desk.workspace.is_directory(&path).unwrap_or(false);
        if !there || path.starts_with('-') {
            return Err(Failure::Refused(format!("there is no file `{path}`")));
        }
        if ground.tests_take_files {
            argv.push(path);
        }
    }
    Ok(note.to_owned() + &command::run(desk, &argv, Keep::Nothing)?)
}
