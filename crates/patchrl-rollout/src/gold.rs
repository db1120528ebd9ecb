//! What a task's gold patch says, as files and as an agent's turns.
//!
//! Owns the demonstration: look at each file, then change it and submit. Nothing here is shown to
//! a policy that is measured.

use patchrl_agent::{Change, Format, Reply, gold_answer};
use patchrl_patch::{Edit, Patch, Tree as _};
use patchrl_reward::{FsTree, Ready};
use serde_json::json;

use crate::RolloutError;

/// One file of a gold patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldFile {
    /// Path from the repository's root.
    pub path: String,
    /// Its text at the start; empty for a new file.
    pub old: String,
    /// Its text afterwards.
    pub new: String,
}

/// Lines shown above and below a change.
const AROUND: usize = 20;

/// The files of the gold patch; nothing where it does not apply, deletes a file, or touches one
/// that is not text.
pub fn gold_files(ready: &Ready) -> Result<Option<Vec<GoldFile>>, RolloutError> {
    let tree = FsTree::new(&ready.base);
    let Ok(patch) = Patch::parse(&ready.task.patch) else { return Ok(None) };
    let Ok(changes) = Edit::Diff(patch).apply(&tree) else { return Ok(None) };
    let mut files = Vec::new();
    for (path, entry) in changes {
        let old = String::from_utf8(tree.entry(&path)?.map(|e| e.bytes).unwrap_or_default());
        let (Some(new), Ok(old)) = (entry, old) else { return Ok(None) };
        let Ok(new) = String::from_utf8(new.bytes) else { return Ok(None) };
        files.push(GoldFile { path, old, new });
    }
    Ok(Some(files))
}

/// What an agent would say that knows the answer; nothing where the answer cannot be said.
pub fn gold_script(ready: &Ready) -> Result<Option<Vec<Reply>>, RolloutError> {
    let Some(files) = gold_files(ready)? else { return Ok(None) };
    let changes: Vec<Change<'_>> = files
        .iter()
        .map(|file| Change { path: &file.path, old: &file.old, new: &file.new })
        .collect();
    let Some(answer) = gold_answer(&changes, &ready.task.patch, Format::Edit) else {
        return Ok(None);
    };
    let mut replies: Vec<Reply> =
        files.iter().filter(|file| !file.old.is_empty()).map(look).collect();
    replies.push(Reply::said(format!("{answer}\n```tool\n{{\"tool\": \"submit\"}}\n```")));
    Ok(Some(replies))
}

/// The call that shows what is to be changed.
fn look(file: &GoldFile) -> Reply {
    let changed = patchrl_patch::line_changes(&file.old, &file.new);
    let first = changed.first().map_or(0, |(old, _)| old.start);
    let last = changed.last().map_or(0, |(old, _)| old.end);
    let mut call = json!({ "tool": "view", "path": file.path });
    if file.old.lines().count() > last - first + 4 * AROUND {
        call["first"] = json!(first.saturating_sub(AROUND) + 1);
        call["last"] = json!(last + AROUND);
    }
    // With the spaces that the examples have.
    let call = call.to_string().replace("\":", "\": ").replace(",\"", ", \"");
    Reply::said(format!("```tool\n{call}\n```"))
}
