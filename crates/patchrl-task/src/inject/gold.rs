//! The known answer to an injected bug, as a git diff.

use std::fmt::Write as _;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// The git diff that turns `buggy` into `clean`, as one hunk; empty if they are equal.
pub fn gold_patch(path: &str, buggy: &str, clean: &str) -> String {
    let old: Vec<&str> = buggy.split_inclusive('\n').collect();
    let new: Vec<&str> = clean.split_inclusive('\n').collect();
    if old == new {
        return String::new();
    }
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - before;
    let after =
        old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let from = before.saturating_sub(CONTEXT);
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let old_stop = (old_end + CONTEXT).min(old.len());
    let new_stop = (new_end + CONTEXT).min(new.len());

    let mut diff = format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        diff,
        "@@ -{} +{} @@",
        hunk_range(from, old_stop - from),
        hunk_range(from, new_stop - from)
    );
    let parts = [
        (' ', &old[from..before]),
        ('-', &old[before..old_end]),
        ('+', &new[before..new_end]),
        (' ', &old[old_end..old_stop]),
    ];
    for (sign, lines) in parts {
        for line in lines {
            diff.push(sign);
            diff.push_str(line);
            if !line.ends_with('\n') {
                diff.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    diff
}

/// Takes a [`gold_patch`] back: the buggy text, given the clean one. None if the patch is of
/// another text or has another form.
pub(crate) fn undo(patch: &str, clean: &str) -> Option<String> {
    let (_, hunk) = patch.split_once("\n@@ -")?;
    let (ranges, body) = hunk.split_once(" @@\n")?;
    let (_, new) = ranges.split_once(" +")?;
    let (start, length) = new.split_once(',').unwrap_or((new, "1"));
    let (start, length): (usize, usize) = (start.parse().ok()?, length.parse().ok()?);
    let mut sides = [String::new(), String::new()];
    for line in body.split_inclusive('\n') {
        match (line.get(..1)?, line.get(1..)?) {
            (" ", text) => sides.iter_mut().for_each(|side| side.push_str(text)),
            ("-", text) => sides[0].push_str(text),
            ("+", text) => sides[1].push_str(text),
            _ => return None,
        }
    }
    let lines: Vec<&str> = clean.split_inclusive('\n').collect();
    let from = if length == 0 { start } else { start.checked_sub(1)? };
    let end = from.checked_add(length)?;
    if lines.get(from..end)?.concat() != sides[1] {
        return None;
    }
    Some([&lines[..from].concat(), &sides[0], &lines[end..].concat()].map(String::as_str).concat())
}

/// Start and length as git writes them: a length of one is left out, an empty side starts at the
/// line before.
fn hunk_range(from: usize, length: usize) -> String {
    match length {
        0 => format!("{from},0"),
        1 => (from + 1).to_string(),
        _ => format!("{},{length}", from + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_three_lines_around_it() {
        let clean = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        assert_eq!(
            gold_patch("p/x.py", &clean.replace("e\n", "E\n"), clean),
            "diff --git a/p/x.py b/p/x.py\n--- a/p/x.py\n+++ b/p/x.py\n\
             @@ -2,7 +2,7 @@\n b\n c\n d\n-E\n+e\n f\n g\n h\n"
        );
        let removed = gold_patch("x", "a\n", "a\nb\nc\n");
        assert!(removed.ends_with("@@ -1 +1,3 @@\n a\n+b\n+c\n"), "{removed}");
        assert!(
            gold_patch("x", "", "a").ends_with("@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n")
        );
        assert_eq!(gold_patch("x", clean, clean), "");
    }

    #[test]
    fn a_patch_can_be_taken_back() {
        let clean = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        for buggy in ["", "x\n", "b\nc\nd\ne\nf\ng\nh\ni\n", "a\nb\nc\nd\ne\nx\n", "y\n"] {
            let patch = gold_patch("x", buggy, clean);
            assert_eq!(undo(&patch, clean).as_deref(), Some(buggy), "{patch}");
            assert_eq!(undo(&patch, "other\n"), None);
        }
        for rubbish in ["", "\n@@ -1 +1 @@\né", "\n@@ -1 +0,9 @@\n", "\n@@ -1 +9,99999999999 @@\n"]
        {
            assert_eq!(undo(rubbish, clean), None);
        }
    }
}
