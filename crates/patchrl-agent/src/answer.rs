//! The answer a perfect model would give: the gold change in the form the prompt asks for.
//!
//! Owns the target of supervised warm-up. Does not parse answers
//! (`patchrl_patch::extract` does).

use std::ops::Range;

use patchrl_patch::line_changes;

use crate::prompt::Format;

/// One file before and after the gold patch.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Path from the repository's root.
    pub path: &'a str,
    /// Text at the base commit; empty for a new file.
    pub old: &'a str,
    /// Text after the patch.
    pub new: &'a str,
}

/// The answer for `changes`, or nothing where the form cannot say it (a deletion
/// as an edit block). `diff` is the same change as a unified diff.
pub fn gold_answer(changes: &[Change<'_>], diff: &str, format: Format) -> Option<String> {
    match format {
        Format::Diff => Some(format!("```diff\n{}\n```", diff.trim_end())),
        Format::Edit => {
            let blocks: Option<Vec<String>> = changes.iter().map(edit_blocks).collect();
            blocks.filter(|b| !b.is_empty()).map(|b| b.join("\n"))
        }
    }
}

/// Changes with fewer equal lines between them share a block.
const APART: usize = 8;

/// A SEARCH block for each place that changes, in order. Each is the smallest that occurs
/// once in the file as the blocks before it leave it: the changed lines, with lines above
/// and below added in turn until no other place matches.
fn edit_blocks(change: &Change<'_>) -> Option<String> {
    let old: Vec<&str> = change.old.lines().collect();
    let new: Vec<&str> = change.new.lines().collect();
    let places = places(change);
    if new.is_empty() || places.is_empty() {
        return None;
    }
    let mut blocks = Vec::with_capacity(places.len());
    for (old_lines, new_lines) in places {
        let now = [&new[..new_lines.start], &old[old_lines.start..]].concat();
        let (mut from, mut to) = (new_lines.start, new_lines.start + old_lines.len());
        while (from > 0 || to < now.len()) && !occurs_once(&now, &now[from..to]) {
            if from > 0 {
                from -= 1;
            } else {
                to += 1;
            }
        }
        let above = &now[from..new_lines.start];
        let below = &now[new_lines.start + old_lines.len()..to];
        let text =
            |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        blocks.push(format!(
            "### {}\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE",
            change.path,
            text(&now[from..to]),
            text(&[above, &new[new_lines], below].concat())
        ));
    }
    Some(blocks.join("\n"))
}

/// The lines that change, old and new, close ones together.
fn places(change: &Change<'_>) -> Vec<(Range<usize>, Range<usize>)> {
    let mut places: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    for (old, new) in line_changes(change.old, change.new) {
        match places.last_mut() {
            Some(last) if old.start - last.0.end < APART => {
                (last.0.end, last.1.end) = (old.end, new.end);
            }
            _ => places.push((old, new)),
        }
    }
    places
}

fn occurs_once(lines: &[&str], part: &[&str]) -> bool {
    !part.is_empty() && lines.windows(part.len()).filter(|w| *w == part).count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_the_changed_line() {
        let change = Change { path: "a.py", old: "x\ny\nz\n", new: "x\nY\nz\n" };
        assert_eq!(
            gold_answer(&[change], "", Format::Edit).as_deref(),
            Some("### a.py\n<<<<<<< SEARCH\ny\n=======\nY\n>>>>>>> REPLACE")
        );
    }

    #[test]
    fn a_repeated_line_gets_the_lines_above_it() {
        let change = Change { path: "a.py", old: "a\nr\nb\nr\n", new: "a\nr\nb\nR\n" };
        let answer = gold_answer(&[change], "", Format::Edit).expect("an answer");
        assert!(answer.contains("SEARCH\nb\nr\n=======\nb\nR\n"), "{answer}");
    }

    #[test]
    fn an_insertion_is_anchored_on_a_line_that_exists() {
        let change = Change { path: "a.py", old: "a\nb\n", new: "a\nnew\nb\n" };
        let answer = gold_answer(&[change], "", Format::Edit).expect("an answer");
        assert!(answer.contains("SEARCH\na\n=======\na\nnew\n"), "{answer}");
    }

    #[test]
    fn places_far_apart_get_blocks_of_their_own() {
        let old: String = (0..40).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n").replace("\n30\n", "\n30\nx\n");
        let change = Change { path: "a.py", old: &old, new: &new };
        let answer = gold_answer(&[change], "", Format::Edit).expect("an answer");
        let expected = "### a.py\n<<<<<<< SEARCH\n5\n=======\nfive\n>>>>>>> REPLACE\n\
                        ### a.py\n<<<<<<< SEARCH\n30\n=======\n30\nx\n>>>>>>> REPLACE";
        assert_eq!(answer, expected);
    }

    #[test]
    fn every_answer_is_extracted_and_applies() {
        use patchrl_patch::{Entry, Mode, extract};
        use std::collections::BTreeMap;
        let long = |a: &str, b: &str| format!("a\n{a}{}{b}a\n", "a\nb\n".repeat(9));
        let (one, two, three) = (long("b\n", ""), long("", "c\n"), long("c\n", "b\nb\n"));
        let texts =
            ["a\nb\nc\n", "a\nc\n", "a\na\na\n", "b\n", "a\nb\nb\nc\nd\n", &one, &two, &three];
        for old in texts {
            for new in texts.iter().filter(|n| **n != old) {
                let change = Change { path: "m/x.py", old, new };
                let answer = gold_answer(&[change], "", Format::Edit).expect("an answer");
                let tree = BTreeMap::from([(
                    "m/x.py".to_owned(),
                    Entry { mode: Mode::Regular, bytes: old.as_bytes().to_vec() },
                )]);
                let edit = extract(&answer).expect("extracts").edit;
                let changes = edit.apply(&tree).unwrap_or_else(|e| panic!("{e}: {answer}"));
                let got = changes["m/x.py"].as_ref().expect("kept");
                assert_eq!(String::from_utf8_lossy(&got.bytes), **new, "{answer}");
            }
        }
    }
}
