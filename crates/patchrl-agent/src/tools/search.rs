//! Find a text in the files.

use serde::Deserialize;
use serde_json::json;

use super::{Desk, Failure, Tool, checked, read, schema};
use crate::observation::shorten;
use crate::workspace::path;

/// Places that are shown; more are counted.
const SHOWN: usize = 50;
/// Bytes read of all files together: more than a large repository's source.
const MAX_READ: usize = 256 << 20;
/// Larger files are not searched.
const MAX_FILE: usize = 4 << 20;

pub(super) const TOOL: Tool = Tool {
    name: "search",
    description: "Finds a text, as it is written, in all files or below a path.",
    example: r#"{"tool": "search", "text": "def parse", "path": "src"}"#,
    parameters: || {
        let properties = json!({
            "text": { "type": "string" },
            "path": { "type": "string", "description": "a file or a folder; left out, all files" },
        });
        schema(&properties, &["text"])
    },
    check: |arguments| match read::<Arguments>(arguments)?.text.lines().count() {
        1 => Ok(()),
        _ => Err("`text` must be one line, and not empty".into()),
    },
    act: |desk, arguments| act(desk, &checked(arguments)?),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    text: String,
    path: Option<String>,
}

fn act(desk: &mut Desk, arguments: &Arguments) -> Result<String, Failure> {
    let below = match arguments.path.as_deref().map(|p| p.trim().trim_end_matches('/')) {
        None | Some("" | "." | "/workspace") => String::new(),
        Some(written) => path(written).map_err(Failure::Refused)?,
    };
    let wanted = arguments.text.trim_end_matches(['\n', '\r']);
    let inside = |file: &&&str| {
        below.is_empty()
            || file.strip_prefix(below.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    let files = desk.workspace.files();
    let (mut shown, mut found, mut in_files, mut bytes, mut passed_over) =
        (String::new(), 0, 0, 0, 0);
    for file in files.iter().filter(inside) {
        // Links, binary files and files that are not UTF-8 have no lines to show.
        let Ok(text) = desk.workspace.text(file) else { continue };
        if text.len() > MAX_FILE || bytes + text.len() > MAX_READ {
            passed_over += 1;
            continue;
        }
        bytes += text.len();
        let before = found;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.contains(wanted)) {
            if found < SHOWN {
                shown.push_str(&format!("{file}:{}: {}\n", at + 1, shorten(line)));
            }
            found += 1;
        }
        in_files += usize::from(found > before);
    }
    if found == 0 {
        shown.push_str("found nowhere\n");
    }
    if found > SHOWN {
        shown.push_str(&format!("[{} more places; {in_files} files in all]\n", found - SHOWN));
    }
    if passed_over > 0 {
        shown.push_str(&format!("[{passed_over} files are too large and were not searched]\n"));
    }
    Ok(shown)
}
