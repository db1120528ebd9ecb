//! The answer a perfect model would give: the gold change in the form the prompt asks for.
//!
//! Owns the target of supervised warm-up. Does not parse answers
//! (`patchrl_patch::extract` does).

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
            let blocks: Option<Vec<String>> = changes.iter().map(edit_block).collect();
            blocks.filter(|b| !b.is_empty()).map(|b| b.join("\n"))
        }
    }
}

/// The smallest SEARCH block that occurs once: the changed lines, with lines
/// above and below added in turn until no other place in the file matches.
fn edit_block(change: &Change<'_>) -> Option<String> {
    let old: Vec<&str> = change.old.lines().collect();
    let new: Vec<&str> = change.new.lines().collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    if new.is_empty() || (head == old.len() && head == new.len()) {
        return None;
    }
    let (mut from, mut below) = (head, tail);
    while from + below > 0 && !occurs_once(&old, &old[from..old.len() - below]) {
        if from > 0 {
            from -= 1;
        } else {
            below -= 1;
        }
    }
    let text = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    Some(format!(
        "### {}\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE",
        change.path,
        text(&old[from..old.len() - below]),
        text(&new[from..new.len() - below])
    ))
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
    fn every_answer_is_extracted_and_applies() {
        use patchrl_patch::{Entry, Mode, extract};
        use std::collections::BTreeMap;
        let texts = ["a\nb\nc\n", "a\nc\n", "a\na\na\n", "b\n", "a\nb\nb\nc\nd\n"];
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
