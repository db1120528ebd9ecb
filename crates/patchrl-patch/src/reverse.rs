//! The diff that takes a diff back.
//!
//! Owns swapping the two sides. The data of binary changes is not turned: it may lack the way
//! back.

use std::fmt::Write as _;

use crate::diff::{Claim, FilePatch, Hunk, Move, Patch, Span, quote};

impl Patch {
    /// A git diff from the tree after this patch to the tree before it. Nothing for binary
    /// changes and copies, which have no such text, and for plain diffs that leave open whether a
    /// file is created.
    pub fn reversed(&self) -> Option<String> {
        let mut text = String::new();
        for file in self.files() {
            let open = file.creates == Claim::Open || file.deletes == Claim::Open;
            if file.binary || file.moved == Some(Move::Copy) || open {
                return None;
            }
            header(&mut text, file)?;
            for hunk in &file.hunks {
                turn(&mut text, hunk, self.body(hunk));
            }
        }
        Some(text)
    }
}

fn header(text: &mut String, file: &FilePatch) -> Option<()> {
    let before = file.new.as_deref().or(file.old.as_deref())?;
    let after = file.old.as_deref().or(file.new.as_deref())?;
    let (from, to) = (quote("a/", before), quote("b/", after));
    let _ = writeln!(text, "diff --git {from} {to}");
    let mode = |mode: Option<u32>| format!("{:06o}", mode.unwrap_or(0o100_644));
    match (file.creates, file.deletes) {
        (Claim::Yes, _) => {
            let _ = writeln!(text, "deleted file mode {}", mode(file.new_mode));
        }
        (_, Claim::Yes) => {
            let _ = writeln!(text, "new file mode {}", mode(file.old_mode));
        }
        _ if file.old_mode != file.new_mode && file.new_mode.is_some() => {
            let (old, new) = (mode(file.old_mode), mode(file.new_mode));
            let _ = write!(text, "old mode {new}\nnew mode {old}\n");
        }
        _ => {}
    }
    if file.moved.is_some() {
        let (from, to) = (quote("", before), quote("", after));
        let _ = write!(text, "rename from {from}\nrename to {to}\n");
    }
    if !file.hunks.is_empty() {
        let from = if file.deletes == Claim::Yes { "/dev/null" } else { &from };
        let to = if file.creates == Claim::Yes { "/dev/null" } else { &to };
        let _ = write!(text, "--- {from}\n+++ {to}\n");
    }
    Some(())
}

fn turn(text: &mut String, hunk: &Hunk, body: &str) {
    let span = |span: Span| format!("{},{}", span.start, span.count);
    let _ = writeln!(text, "@@ -{} +{} @@", span(hunk.new), span(hunk.old));
    // Of a run of changes the removed lines come first, whatever came first before.
    let mut added = String::new();
    let mut last_was_added = false;
    for line in body.split_inclusive('\n') {
        let (turned, to_added) = match line.as_bytes().first() {
            Some(b'+') => (format!("-{}", &line[1..]), false),
            Some(b'-') => (format!("+{}", &line[1..]), true),
            Some(b'\\') => (line.to_owned(), last_was_added),
            _ => {
                text.push_str(&std::mem::take(&mut added));
                (line.to_owned(), false)
            }
        };
        last_was_added = to_added;
        if to_added { added.push_str(&turned) } else { text.push_str(&turned) }
    }
    text.push_str(&added);
}
