//! Say that the bug is fixed.

use serde::Deserialize;
use serde_json::json;

use super::{Tool, checked, read, schema};

pub(super) const TOOL: Tool = Tool {
    name: "submit",
    description: "Ends the work; the files are judged as they are.",
    example: r#"{"tool": "submit"}"#,
    parameters: || schema(&json!({}), &[]),
    check: |arguments| read::<Arguments>(arguments).map(drop),
    act: |desk, arguments| {
        let Arguments {} = checked(arguments)?;
        desk.submitted = true;
        Ok("submitted\n".to_owned())
    },
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {}
