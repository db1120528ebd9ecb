//! Run a command on the files as they are, and keep what it changes.

use serde::Deserialize;
use serde_json::json;

use super::{Desk, Failure, Tool, checked, read, schema};
use crate::command::{self, Keep};

/// Bytes of a command's text.
const LONGEST: usize = 16 << 10;

pub(super) const TOOL: Tool = Tool {
    name: "run",
    description: "Runs a shell command in the repository, without network. What it changes in \
                  files stays, if it ends within its time.",
    example: r#"{"tool": "run", "command": "python3 -c 'import name; print(name.f(1))'"}"#,
    parameters: || schema(&json!({ "command": { "type": "string" } }), &["command"]),
    check: |arguments| {
        let command = read::<Arguments>(arguments)?.command;
        match command.len() {
            0 => Err("`command` is empty".into()),
            _ if command.contains('\0') => Err("`command` holds a zero byte".into()),
            n if n > LONGEST => Err(format!("`command` has {n} bytes, but at most {LONGEST}")),
            _ => Ok(()),
        }
    },
    act: |desk, arguments| {
        let Arguments { command } = checked(arguments)?;
        act(desk, command)
    },
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
}

fn act(desk: &mut Desk, command: String) -> Result<String, Failure> {
    let argv = ["/bin/sh".to_owned(), "-c".to_owned(), command];
    command::run(desk, &argv, Keep::Changes)
}
