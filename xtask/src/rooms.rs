//! Whether a newcomer would find things: names, headers and lengths of files.

use std::path::Path;

use anyhow::Result;

use crate::sources;
use crate::workspace::Workspace;

/// Names under which nobody looks for anything.
const NAMELESS: &[&str] =
    &["util", "utils", "common", "helpers", "misc", "base", "core", "manager", "types"];
/// Longest file.
const LINES: usize = 800;

/// All that is wrong, one line each.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for package in workspace.members() {
        for file in sources::rust_files(&package.folder().join("src"))? {
            let text = fs_err::read_to_string(&file)?;
            let path = file.strip_prefix(package.folder()).unwrap_or(&file);
            for fault in faults(path, &text) {
                wrong.push(format!("{}/{}: {fault}", package.name, path.display()));
            }
        }
    }
    Ok(wrong)
}

fn faults(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let nameless = |part: &str| NAMELESS.contains(&part.trim_end_matches(".rs"));
    if path.iter().filter_map(|part| part.to_str()).any(nameless) {
        faults.push("is named after nothing; name it by the noun someone will search for".into());
    }
    if !text.starts_with("//!") {
        faults.push("opens without a `//!` header that says what it owns".into());
    }
    let lines = text.lines().count();
    if lines > LINES {
        faults.push(format!("has {lines} lines, more than {LINES}; split it by noun"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::faults;
    use std::path::Path;

    #[test]
    fn each_fault_is_told() {
        assert!(faults(Path::new("src/rope.rs"), "//! Angles.\n").is_empty());
        assert_eq!(faults(Path::new("src/utils.rs"), "fn main() {}\n").len(), 2);
        assert_eq!(faults(Path::new("src/core/x.rs"), &"//! x\n".repeat(801)).len(), 2);
    }
}
