//! What changed, as Python's `difflib.unified_diff` writes it.
//!
//! Owns [`python_lines`] (`str.splitlines`) and [`python_diff`]. The SWE-RL reward
//! compares texts made by these, so that every byte counts. For a diff that git applies
//! see [`crate::unified()`].

use std::fmt::Write as _;
use std::ops::Range;

use crate::similarity::{Block, LONGEST, Prepared, TooLong};
use crate::unified::span;

/// Lines of context around a change, Python's default.
const CONTEXT: usize = 3;

/// The lines of `text` as `str.splitlines` cuts them, without their ends: besides `\n`,
/// `\r` and `\r\n` also at `\v`, `\f`, `\x1c` to `\x1e`, `\x85`, U+2028 and U+2029.
pub fn python_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if !matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        ) {
            continue;
        }
        lines.push(&text[start..at]);
        let mut end = at + c.len_utf8();
        if c == '\r' && rest.next_if(|(_, c)| *c == '\n').is_some() {
            end += 1;
        }
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

/// `"\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm=""))`
/// without the two lines that name the files; empty if no line differs. Files of more than
/// [`LONGEST`] lines are too long.
pub fn python_diff(old: &str, new: &str) -> Result<String, TooLong> {
    let (old, new) = (python_lines(old), python_lines(new));
    if let Some(lines) = [old.len(), new.len()].into_iter().find(|lines| *lines > LONGEST) {
        return Err(TooLong(lines));
    }
    // difflib compares lines with its default, and so must this.
    let blocks = Prepared::new(new.iter().copied(), true).blocks(old.iter().copied());
    let mut out = String::new();
    for group in groups(&changes(blocks, old.len(), new.len())) {
        hunk(&mut out, &old, &new, &group);
    }
    out.pop();
    Ok(out)
}

/// A run of lines that are equal on both sides, or that one side has in place of the other's.
#[derive(Clone)]
struct Run {
    equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// All runs in order: `SequenceMatcher.get_opcodes`.
fn changes(mut blocks: Vec<Block>, old: usize, new: usize) -> Vec<Run> {
    blocks.sort_unstable();
    blocks.push(Block { a: old, b: new, len: 0 });
    let mut runs: Vec<Run> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for block in blocks {
        if i < block.a || j < block.b {
            runs.push(Run { equal: false, old: i..block.a, new: j..block.b });
        }
        (i, j) = (block.a + block.len, block.b + block.len);
        match runs.last_mut() {
            // Blocks that touch are one.
            Some(run) if run.equal => (run.old.end, run.new.end) = (i, j),
            _ if block.len > 0 => {
                runs.push(Run { equal: true, old: block.a..i, new: block.b..j });
            }
            _ => {}
        }
    }
    runs
}

/// Runs that share a hunk: `SequenceMatcher.get_grouped_opcodes`.
fn groups(runs: &[Run]) -> Vec<Vec<Run>> {
    let head = |run: &Run| Run {
        equal: true,
        old: run.old.start..run.old.end.min(run.old.start + CONTEXT),
        new: run.new.start..run.new.end.min(run.new.start + CONTEXT),
    };
    let tail = |run: &Run| Run {
        equal: true,
        old: run.old.start.max(run.old.end.saturating_sub(CONTEXT))..run.old.end,
        new: run.new.start.max(run.new.end.saturating_sub(CONTEXT))..run.new.end,
    };
    let mut groups = Vec::new();
    let mut group: Vec<Run> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let (first, last) = (at == 0, at + 1 == runs.len());
        match run {
            run if !run.equal => group.push(run.clone()),
            run if first => group.push(tail(run)),
            run if last => group.push(head(run)),
            run if run.old.len() > 2 * CONTEXT => {
                group.push(head(run));
                groups.push(std::mem::replace(&mut group, vec![tail(run)]));
            }
            run => group.push(run.clone()),
        }
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|run| !run.equal));
    groups
}

fn hunk(out: &mut String, old: &[&str], new: &[&str], group: &[Run]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let (removed, added) = (first.old.start..last.old.end, first.new.start..last.new.end);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "@@ -{} +{} @@", span(&removed), span(&added));
    for run in group {
        if run.equal {
            show(out, ' ', &old[run.old.clone()]);
        } else {
            show(out, '-', &old[run.old.clone()]);
            show(out, '+', &new[run.new.clone()]);
        }
    }
}

fn show(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_says() {
        // From CPython 3.11: the list of `text.splitlines()`.
        assert_eq!(python_lines(""), [""; 0]);
        assert_eq!(python_lines("\n"), [""]);
        assert_eq!(python_lines("a\r\nb\rc\n\rd"), ["a", "b", "c", "", "d"]);
        assert_eq!(
            python_lines("a\u{b}b\u{c}c\u{1c}d\u{1d}e\u{1e}f\u{1f}g"),
            ["a", "b", "c", "d", "e", "f\u{1f}g"]
        );
        assert_eq!(
            python_lines("a\u{85}b\u{2028}c\u{2029}d\u{2030}"),
            ["a", "b", "c", "d\u{2030}"]
        );
    }

    #[test]
    fn a_diff_is_python_s() {
        let old = (1..=20).map(|n| format!("{n}\n")).collect::<String>();
        let new = old.replace("5\n6\n", "five\n").replace("17\n", "").replace("14\n", "14\nx\n");
        let text = python_diff(&old, &new).unwrap();
        let expected = "@@ -2,8 +2,7 @@\n 2\n 3\n 4\n-5\n-6\n+five\n 7\n 8\n 9\n\
                        @@ -12,9 +11,9 @@\n 12\n 13\n 14\n+x\n 15\n 16\n-17\n 18\n 19\n 20";
        assert_eq!(text, expected);
        assert_eq!(python_diff("a", "a\n").unwrap(), "");
        assert_eq!(python_diff("", "a\n").unwrap(), "@@ -0,0 +1 @@\n+a");
    }
}
