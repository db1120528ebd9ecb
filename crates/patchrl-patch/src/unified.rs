//! What changed, as a git diff.
//!
//! Owns the form: file headers, modes, hunks with three lines of context. Which lines
//! differ is in `script`. No renames, no hashes. Bytes that are not UTF-8 are shown as
//! replacement characters, and files with a NUL only as "differ".

mod script;

use std::fmt::Write as _;
use std::io;
use std::ops::Range;

use self::script::{Change, changes_between};
use crate::diff::quote;
use crate::tree::{Changes, Entry, Mode, Tree};

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Git looks so far for a NUL.
const BINARY_WINDOW: usize = 8000;

/// A diff from `tree` to `tree` with `changes`, as `git diff` would write it. Applying it
/// gives the changes back, if all text is UTF-8. Empty where nothing differs.
pub fn unified(changes: &Changes, tree: &dyn Tree) -> io::Result<String> {
    let mut out = String::new();
    for (path, after) in changes {
        let before = tree.entry(path)?;
        let is_link = |entry: &Option<Entry>| entry.as_ref().map(|it| it.mode == Mode::Symlink);
        match (is_link(&before), is_link(after)) {
            // A link and a file have no common lines: one goes, the other comes.
            (Some(old), Some(new)) if old != new => {
                file(&mut out, path, before.as_ref(), None);
                file(&mut out, path, None, after.as_ref());
            }
            _ => file(&mut out, path, before.as_ref(), after.as_ref()),
        }
    }
    Ok(out)
}

/// The lines of `old` that become lines of `new`, as ranges of `str::lines`, in order and
/// never adjacent.
pub fn line_changes(old: &str, new: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let old: Vec<&[u8]> = old.lines().map(str::as_bytes).collect();
    let new: Vec<&[u8]> = new.lines().map(str::as_bytes).collect();
    changes_between(&old, &new).into_iter().map(|it| (it.old, it.new)).collect()
}

fn file(out: &mut String, path: &str, before: Option<&Entry>, after: Option<&Entry>) {
    if before == after {
        return;
    }
    let (old, new) = (quote("a/", path), quote("b/", path));
    line(out, format_args!("diff --git {old} {new}"));
    match (before.map(|entry| entry.mode), after.map(|entry| entry.mode)) {
        (None, Some(mode)) => line(out, format_args!("new file mode {}", mode.octal())),
        (Some(mode), None) => line(out, format_args!("deleted file mode {}", mode.octal())),
        (Some(old), Some(new)) if old != new => {
            line(out, format_args!("old mode {}", old.octal()));
            line(out, format_args!("new mode {}", new.octal()));
        }
        _ => {}
    }
    let (before_bytes, after_bytes) = (bytes(before), bytes(after));
    if before_bytes == after_bytes {
        return;
    }
    let old = if before.is_some() { end_name(old) } else { "/dev/null".to_owned() };
    let new = if after.is_some() { end_name(new) } else { "/dev/null".to_owned() };
    if is_binary(before_bytes) || is_binary(after_bytes) {
        line(out, format_args!("Binary files {old} and {new} differ"));
        return;
    }
    line(out, format_args!("--- {old}"));
    line(out, format_args!("+++ {new}"));
    hunks(out, &lines(before_bytes), &lines(after_bytes));
}

fn bytes(entry: Option<&Entry>) -> &[u8] {
    entry.map_or(&[], |entry| &entry.bytes)
}

/// A tab after a name with blanks, as git writes it, so that its end is certain.
fn end_name(mut name: String) -> String {
    if name.contains(' ') {
        name.push('\t');
    }
    name
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_WINDOW)].contains(&0)
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn hunks(out: &mut String, old: &[&[u8]], new: &[&[u8]]) {
    let changes = changes_between(old, new);
    let near = |pair: &[Change]| pair[1].old.start - pair[0].old.end <= 2 * CONTEXT;
    let mut rest = changes.as_slice();
    while !rest.is_empty() {
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (group, later) = rest.split_at(count);
        hunk(out, old, new, group);
        rest = later;
    }
}

/// One hunk: changes closer than twice the context, with the lines around them.
fn hunk(out: &mut String, old: &[&[u8]], new: &[&[u8]], group: &[Change]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let lead = first.old.start.min(CONTEXT);
    let tail = (old.len() - last.old.end).min(CONTEXT);
    let old_span = first.old.start - lead..last.old.end + tail;
    let new_span = first.new.start - lead..last.new.end + tail;
    line(out, format_args!("@@ -{} +{} @@", span(&old_span), span(&new_span)));
    let mut at = old_span.start;
    for change in group {
        show(out, ' ', &old[at..change.old.start]);
        show(out, '-', &old[change.old.clone()]);
        show(out, '+', &new[change.new.clone()]);
        at = change.old.end;
    }
    show(out, ' ', &old[at..old_span.end]);
}

/// A range of lines as a hunk header has it.
pub(crate) fn span(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn show(out: &mut String, mark: char, lines: &[&[u8]]) {
    for text in lines {
        out.push(mark);
        out.push_str(&String::from_utf8_lossy(text));
        if !text.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}
