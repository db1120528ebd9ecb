//! `patchrl patch`: find, apply and show patches; JSONL in, JSONL out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand};
use patchrl_patch::{Changes, Edit, Entry, Mode, Patch, Placed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::jsonl::{self, Line};
use crate::printer;

/// `patchrl patch ...`
#[derive(Debug, Subcommand)]
pub(crate) enum PatchCommand {
    /// Find the edit in a model's answer: `{"output"}` in, `{"rule", "paths", "patch" |
    /// "blocks", "error"}` out.
    Extract(Input),
    /// Apply a diff as `git apply` does: `{"files", "patch"}` in, `{"applied", "reason",
    /// "hunks", "files"}` out.
    Apply(Input),
    /// Show what changed as a git diff: `{"before", "after"}` in, `{"patch", "error"}` out.
    Diff(Input),
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// File with one JSON object a line; standard input if left out.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(crate) fn run(command: &PatchCommand) -> anyhow::Result<Exit> {
    let (input, answer): (_, fn(Line) -> Value) = match command {
        PatchCommand::Extract(input) => (input, extract),
        PatchCommand::Apply(input) => (input, apply),
        PatchCommand::Diff(input) => (input, diff),
    };
    jsonl::each(jsonl::open(input.file.as_deref())?, printer::stream(), answer)?;
    Ok(Exit::Success)
}

/// A file of a record: its mode, and its content as text or as base64.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "regular")]
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

fn regular() -> String {
    Mode::Regular.octal().to_owned()
}

type Files = BTreeMap<String, File>;

impl File {
    fn entry(&self) -> Result<Entry, String> {
        let mode = [Mode::Regular, Mode::Executable, Mode::Symlink]
            .into_iter()
            .find(|mode| mode.octal() == self.mode)
            .ok_or_else(|| format!("`{}` is not a file mode of git", self.mode))?;
        let bytes = match (&self.text, &self.base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(text)) => BASE64.decode(text).map_err(|e| format!("bad base64: {e}"))?,
            _ => return Err("a file has either `text` or `base64`".to_owned()),
        };
        Ok(Entry { mode, bytes })
    }

    /// As text, unless it is not UTF-8 or the record had the file as base64.
    fn of(entry: Entry, before: Option<&Self>) -> Self {
        let mode = entry.mode.octal().to_owned();
        let was_base64 = before.is_some_and(|file| file.base64.is_some());
        match String::from_utf8(entry.bytes) {
            Ok(text) if !was_base64 => Self { mode, text: Some(text), base64: None },
            Ok(text) => Self { mode, text: None, base64: Some(BASE64.encode(text)) },
            Err(e) => Self { mode, text: None, base64: Some(BASE64.encode(e.as_bytes())) },
        }
    }
}

fn tree(files: &Files) -> Result<BTreeMap<String, Entry>, String> {
    files
        .iter()
        .map(|(path, file)| {
            let entry = file.entry().map_err(|why| format!("`{path}`: {why}"))?;
            Ok((path.clone(), entry))
        })
        .collect()
}

fn extract(line: Line) -> Value {
    #[derive(Deserialize)]
    struct Record {
        output: String,
    }
    let found = jsonl::parse::<Record>(line).and_then(|record| {
        patchrl_patch::extract(&record.output).map_err(|fault| fault.to_string())
    });
    match found {
        Ok(found) => {
            let rule = found.rule.as_str();
            let paths = found.edit.paths();
            match &found.edit {
                Edit::Diff(patch) => {
                    json!({ "rule": rule, "paths": paths, "patch": patch.to_string(), "error": null })
                }
                Edit::Blocks(blocks) => {
                    let blocks: Vec<Value> = blocks
                        .iter()
                        .map(
                            |b| json!({ "path": b.path, "search": b.search, "replace": b.replace }),
                        )
                        .collect();
                    json!({ "rule": rule, "paths": paths, "blocks": blocks, "error": null })
                }
            }
        }
        Err(error) => json!({ "rule": null, "error": error }),
    }
}

fn apply(line: Line) -> Value {
    #[derive(Deserialize)]
    struct Record {
        files: Files,
        patch: String,
    }
    let mut placed = Vec::new();
    let attempt = || -> Result<Result<BTreeMap<String, Option<File>>, Refusal>, String> {
        let record: Record = jsonl::parse(line)?;
        let tree = tree(&record.files)?;
        let file = |(path, entry): (String, Option<Entry>)| {
            let file = entry.map(|entry| File::of(entry, record.files.get(&path)));
            (path, file)
        };
        let changes = applied(&record.patch, &tree, &mut placed);
        Ok(changes.map(|changes| changes.into_iter().map(file).collect()))
    };
    let (files, reason, detail, error) = match attempt() {
        Ok(Ok(files)) => (Some(files), None, None, None),
        Ok(Err((reason, detail))) => (None, Some(reason), Some(detail), None),
        Err(error) => (None, None, None, Some(error)),
    };
    let hunks: Vec<Value> = placed
        .iter()
        .map(|it| json!({ "path": it.path, "hunk": it.number, "line": it.line }))
        .collect();
    let mut answer = json!({
        "applied": files.is_some(),
        "reason": reason,
        "detail": detail,
        "hunks": hunks,
        "files": files.unwrap_or_default(),
    });
    if let Some(error) = error {
        answer["error"] = error.into();
    }
    answer
}

/// A machine word and a sentence.
type Refusal = (&'static str, String);

fn applied(
    text: &str,
    tree: &BTreeMap<String, Entry>,
    placed: &mut Vec<Placed>,
) -> Result<Changes, Refusal> {
    let patch = Patch::parse(text).map_err(|fault| ("malformed", fault.to_string()))?;
    Edit::Diff(patch)
        .apply_noting(tree, placed)
        .map_err(|fault| (fault.as_str(), fault.to_string()))
}

fn diff(line: Line) -> Value {
    #[derive(Deserialize)]
    struct Record {
        before: Files,
        after: Files,
    }
    let made = jsonl::parse::<Record>(line).and_then(|record| {
        let (before, after) = (tree(&record.before)?, tree(&record.after)?);
        let mut changes: Changes = before
            .keys()
            .filter(|path| !after.contains_key(*path))
            .map(|p| (p.clone(), None))
            .collect();
        changes.extend(after.into_iter().map(|(path, entry)| (path, Some(entry))));
        patchrl_patch::unified(&changes, &before).map_err(|error| error.to_string())
    });
    match made {
        Ok(patch) => json!({ "patch": patch, "error": null }),
        Err(error) => json!({ "patch": null, "error": error }),
    }
}
