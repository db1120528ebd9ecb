//! `style_check`, and the added lines of a change that it and the guard look at.
//!
//! Reads text only: a formatter or linter of the user's own is a `command`.

use patchrl_patch::{Changes, Entry, Mode, Patch, Tree};

/// Lines up to this many characters are never too long.
const WIDTH: usize = 120;

/// The lines that a change adds to one text file.
pub(crate) struct Added {
    pub(crate) path: String,
    /// Text before; empty for a new file.
    pub(crate) before: String,
    pub(crate) after: String,
    /// Numbers (from 1) in the text after, and the lines without their ends.
    pub(crate) lines: Vec<(usize, String)>,
    /// The last of `lines` ends the file and has no line end.
    pub(crate) is_open: bool,
}

/// What `changes` adds, file by file. Files that are not text add no lines.
pub(crate) fn added(changes: &Changes, tree: &dyn Tree) -> std::io::Result<Vec<Added>> {
    let mut all = Vec::new();
    for (path, entry) in changes {
        let Some(after) = entry.as_ref().filter(|entry| entry.mode != Mode::Symlink) else {
            continue;
        };
        let before = tree.entry(path)?.filter(|entry| entry.mode != Mode::Symlink);
        let one = Changes::from([(path.clone(), Some(after.clone()))]);
        let diff = patchrl_patch::unified(&one, tree)?;
        let before = before
            .map_or(String::new(), |it: Entry| String::from_utf8_lossy(&it.bytes).into_owned());
        let lines = plus_lines(&diff);
        let is_open = !after.bytes.ends_with(b"\n")
            && lines.last().is_some_and(|(_, line)| after.bytes.ends_with(line.as_bytes()));
        let after = String::from_utf8_lossy(&after.bytes).into_owned();
        all.push(Added { path: path.clone(), before, after, lines, is_open });
    }
    Ok(all)
}

/// The added lines of a diff of one file, read by the counts of its hunks.
fn plus_lines(diff: &str) -> Vec<(usize, String)> {
    let Ok(patch) = Patch::parse(diff) else {
        return Vec::new();
    };
    let mut hunks = patch.files().iter().flat_map(|file| &file.hunks);
    let (mut left, mut number) = (0, 0);
    let mut lines = Vec::new();
    for line in diff.split('\n') {
        if left == 0 {
            if line.starts_with("@@ ")
                && let Some(hunk) = hunks.next()
            {
                left = hunk.new.count + hunk.removed;
                number = hunk.new.start as usize;
            }
            continue;
        }
        if let Some(added) = line.strip_prefix('+') {
            lines.push((number, added.to_owned()));
        }
        number += usize::from(!line.starts_with(['-', '\\']));
        left -= u64::from(!line.starts_with('\\'));
    }
    lines
}

/// Share of the added lines that keep to the form of their file; 1 where none is added.
pub(crate) fn style(added: &[Added]) -> f64 {
    let all: usize = added.iter().map(|file| file.lines.len()).sum();
    if all == 0 {
        return 1.0;
    }
    let good: usize = added.iter().map(Added::good_lines).sum();
    good as f64 / all as f64
}

impl Added {
    fn good_lines(&self) -> usize {
        let longest = self.before.lines().map(|line| line.chars().count()).max();
        let width = longest.unwrap_or(0).max(WIDTH);
        let starts = |c: char| self.before.lines().any(|line| line.starts_with(c));
        let wrong = match (starts('\t'), starts(' ')) {
            (true, false) => Some(' '),
            (false, true) => Some('\t'),
            _ => None,
        };
        let is_good = |(_, line): &&(usize, String)| {
            let line = line.strip_suffix('\r').unwrap_or(line);
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            !line.ends_with([' ', '\t'])
                && !wrong.is_some_and(|c| indent.contains(c))
                && line.chars().count() <= width
        };
        let good = self.lines.iter().filter(is_good).count();
        let had_end = self.before.is_empty() || self.before.ends_with('\n');
        good - usize::from(
            self.is_open && had_end && self.lines.last().is_some_and(|l| is_good(&l)),
        )
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(before: &str, after: &str) -> f64 {
        let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
        let tree = BTreeMap::from([("a.py".to_owned(), entry(before))]);
        let changes = Changes::from([("a.py".to_owned(), Some(entry(after)))]);
        style(&added(&changes, &tree).unwrap())
    }

    #[test]
    fn each_fault_costs_its_line() {
        let base = "def f():\n    return 1\n";
        assert_eq!(of(base, "def f():\n    return 2\n"), 1.0);
        assert_eq!(of(base, "def f():\n    return 2 \n"), 0.0);
        assert_eq!(of(base, "def f():\n\treturn 2\n"), 0.0);
        assert_eq!(of(base, "def f():\n    return 2\n    x\n    y = 1 \n"), 2.0 / 3.0);
        assert_eq!(of(base, &format!("{base}# {}\n", "x".repeat(120))), 0.0);
        assert_eq!(of(&format!("#{}\n", "x".repeat(200)), &"y".repeat(150)), 0.0);
        assert_eq!(of(base, "def f():\n    return 2"), 0.0);
        assert_eq!(of("x", "y"), 1.0);
        assert_eq!(of(base, "def f():\n"), 1.0);
    }
}
