//! What an agent can do: one file for each tool, and the table of them.
//!
//! Owns the table and the three ways a call can go wrong. A new tool is a file here and a line in
//! [`TOOLS`].

mod create;
mod edit;
mod replace;
mod run;
mod search;
mod submit;
mod test;
mod view;

use std::time::Duration;

use patchrl_patch::{Block, Edit, Placed};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::action::{Call, named};
use crate::workspace::Workspace;
use crate::{AgentConfig, ToolSpec};

/// A tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// For the model, in a sentence or two.
    pub(crate) description: &'static str,
    /// A call of it, as JSON.
    pub(crate) example: &'static str,
    /// The JSON schema of its arguments.
    pub(crate) parameters: fn() -> Value,
    /// Whether it can take these arguments, without doing anything.
    pub(crate) check: fn(&Arguments) -> Result<(), String>,
    /// Do it; what the model is shown.
    pub(crate) act: fn(&mut Desk, &Arguments) -> Result<String, Failure>,
}

/// The arguments of a call.
pub(crate) type Arguments = Map<String, Value>;

/// All tools, in the order in which the model is told of them.
pub(crate) const TOOLS: &[Tool] = &[
    view::TOOL,
    search::TOOL,
    edit::TOOL,
    replace::TOOL,
    create::TOOL,
    run::TOOL,
    test::TOOL,
    submit::TOOL,
];

/// What a tool works on.
pub(crate) struct Desk {
    pub(crate) workspace: Workspace,
    pub(crate) config: AgentConfig,
    /// Wall time of the episode's commands so far.
    pub(crate) spent: Duration,
    pub(crate) submitted: bool,
}

impl Desk {
    /// Put blocks into the files, all or none; where each found its place.
    fn apply(&mut self, blocks: Vec<Block>) -> Result<Vec<Placed>, Failure> {
        let mut placed = Vec::new();
        let changes = Edit::Blocks(blocks).apply_noting(&self.workspace, &mut placed);
        let changes = changes.map_err(|fault| {
            if fault.is_ours() {
                Failure::Lost(fault.to_string())
            } else {
                Failure::Refused(format!("nothing was changed: {fault}"))
            }
        })?;
        self.workspace.change(changes).map_err(Failure::Refused)?;
        Ok(placed)
    }
}

/// Why a call showed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It has the wrong form. Counted.
    Malformed(String),
    /// It was understood and cannot be done.
    Refused(String),
    /// Our fault.
    Lost(String),
}

/// Carry out a call.
pub(crate) fn act(desk: &mut Desk, call: &Call) -> Result<String, Failure> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == call.tool) else {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        return Err(Failure::Malformed(format!(
            "there is no tool `{}`; there are {}",
            named(&call.tool),
            names.join(", ")
        )));
    };
    (tool.check)(&call.arguments).map_err(|why| {
        Failure::Malformed(format!("`{}`: {why}\nas in {}", tool.name, tool.example))
    })?;
    (tool.act)(desk, &call.arguments)
}

/// The tools as a server's own protocol offers them.
pub fn tool_specs() -> Vec<ToolSpec> {
    let spec = |tool: &Tool| ToolSpec {
        name: tool.name.to_owned(),
        description: tool.description.to_owned(),
        parameters: (tool.parameters)(),
    };
    TOOLS.iter().map(spec).collect()
}

/// Arguments in a tool's own form.
fn read<T: DeserializeOwned>(arguments: &Arguments) -> Result<T, String> {
    T::deserialize(Value::Object(arguments.clone())).map_err(|e| e.to_string())
}

/// The same, once [`Tool::check`] has passed.
fn checked<T: DeserializeOwned>(arguments: &Arguments) -> Result<T, Failure> {
    read(arguments).map_err(Failure::Malformed)
}

/// The schema of an object with these properties.
fn schema(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required,
            "additionalProperties": false })
}

/// Lines `first` to `last` (from 1, both included) with their numbers.
fn numbered(text: &str, first: usize, last: usize) -> String {
    let shown = text.lines().enumerate().skip(first.saturating_sub(1));
    shown
        .take(last.saturating_sub(first) + 1)
        .map(|(at, line)| format!("{:>5} {}\n", at + 1, crate::observation::shorten(line)))
        .collect()
}
