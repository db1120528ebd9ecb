//! From text to file patches: where a file starts, and its hunks.
//!
//! Owns the walk over the text and the line counts of hunks. Header lines are read in
//! `header`. Follows `git apply` (2.47) in what it accepts; a text that ends inside a hunk
//! is told apart from one with wrong counts.

use super::binary::{self, Block, BlockFault};
use super::header::{Header, Strip};
use super::{Claim, FilePatch, Hunk, Span};
use crate::fault::DiffFault;

/// All file patches of a text, in order. At least one, or a fault.
pub(super) fn files(text: &str) -> Result<Vec<FilePatch>, DiffFault> {
    let strip = Strip::default();
    let mut reader = Reader { text, at: 0, line: 1, strip, inflatable: binary::MOST };
    let mut files = Vec::new();
    while reader.at < text.len() {
        match reader.file() {
            Ok(Some(file)) => files.push(file),
            Ok(None) => break,
            // Git stops there, and goes on to apply the files before it.
            Err(DiffFault::Binary { .. }) if !files.is_empty() => break,
            Err(fault) => return Err(fault),
        }
    }
    if files.is_empty() { Err(DiffFault::Empty) } else { Ok(files) }
}

/// A place in the text. `line` is the number of the line that starts at `at`.
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    strip: Strip,
    /// What binary data may still inflate to.
    inflatable: u64,
}

impl<'t> Reader<'t> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The current line with its newline; empty at the end.
    pub(super) fn peek(&self) -> &'t str {
        first_line(self.rest())
    }

    pub(super) fn skip(&mut self, line: &str) {
        self.at += line.len();
        self.line += 1;
    }

    fn file(&mut self) -> Result<Option<FilePatch>, DiffFault> {
        let Some((header, start)) = self.find_header()? else { return Ok(None) };
        let head = start..self.at;
        let mut hunks = Vec::new();
        while self.rest().len() > 4 && self.rest().starts_with("@@ -") {
            hunks.push(self.hunk()?);
        }
        let mut file = FilePatch {
            old: header.old,
            new: header.new,
            creates: header.creates,
            deletes: header.deletes,
            moved: header.moved,
            old_mode: header.old_mode,
            new_mode: header.new_mode,
            binary: false,
            blobs: header.blobs,
            data: None,
            hunks,
            head,
            tail: self.at..self.at,
        };
        self.settle_claims(&mut file)?;
        if file.hunks.is_empty() {
            self.binary(&mut file)?;
            if !file.binary && !changes_metadata(&file) {
                return Err(self.header_fault("patch with only garbage"));
            }
        }
        Ok(Some(file))
    }

    /// Skip prose up to a file header and read it. Gives the header and where it starts.
    fn find_header(&mut self) -> Result<Option<(Header, usize)>, DiffFault> {
        let mut header = Header::default();
        // A `diff --git` line with nothing under it still gives its names to what follows.
        let mut lone = None;
        loop {
            let line = self.peek();
            let start = self.at;
            if line.is_empty() {
                return Ok(None);
            }
            if line.len() < 6 {
                self.skip(line);
                continue;
            }
            if line.starts_with("@@ -") && hunk_header(line).is_some() {
                return Err(DiffFault::NoHeader { line: self.line });
            }
            if self.rest().len() < line.len() + 6 {
                return Ok(None);
            }
            if line.starts_with("diff --git ") {
                let strip = self.strip;
                header.read_git(self, strip)?;
                let first = *lone.get_or_insert(start);
                if self.at > start + line.len() {
                    return Ok(Some((header, first)));
                }
                continue;
            }
            if let Some((first, second)) = plain_header(self.rest()) {
                header.read_plain(first, second, &mut self.strip, self.line)?;
                self.skip(first);
                self.skip(second);
                return Ok(Some((header, lone.unwrap_or(start))));
            }
            self.skip(line);
        }
    }

    fn hunk(&mut self) -> Result<Hunk, DiffFault> {
        let start = self.at;
        let line = self.peek();
        let Some((old, new)) = hunk_header(line) else {
            return Err(DiffFault::Corrupt { line: self.line });
        };
        self.skip(line);
        let body = self.at;
        let mut counts = Counts { old: old.count, new: new.count, ..Counts::default() };
        while !counts.are_met() {
            let line = self.peek();
            if line.is_empty() {
                return Err(DiffFault::Short { line: self.line });
            }
            if !line.ends_with('\n') || !counts.take(line) {
                return Err(DiffFault::Corrupt { line: self.line });
            }
            self.skip(line);
        }
        if counts.added + counts.removed == 0 {
            return Err(DiffFault::Corrupt { line: self.line });
        }
        if self.rest().len() > 12 && self.rest().starts_with("\\ ") {
            self.skip(self.peek());
        }
        Ok(Hunk {
            old,
            new,
            added: counts.added,
            removed: counts.removed,
            has_trailing_context: counts.trailing,
            whole: start..self.at,
            body: body..self.at,
        })
    }

    /// Lines on the old side rule out a creation, lines on the new side a deletion, and
    /// several hunks both. The rest stays open until the tree is seen.
    fn settle_claims(&self, file: &mut FilePatch) -> Result<(), DiffFault> {
        let several = file.hunks.len() > 1;
        let has_old = file.hunks.iter().any(|hunk| hunk.old.count > 0);
        let has_new = file.hunks.iter().any(|hunk| hunk.new.count > 0);
        if file.creates == Claim::Open && (has_old || several) {
            file.creates = Claim::No;
        }
        if file.deletes == Claim::Open && (has_new || several) {
            file.deletes = Claim::No;
        }
        if file.creates == Claim::Yes && has_old {
            return Err(self.header_fault("new file depends on old contents"));
        }
        if file.deletes == Claim::Yes && has_new {
            return Err(self.header_fault("deleted file still has contents"));
        }
        Ok(())
    }

    /// Take the data of a binary change, or the line that says there is one.
    fn binary(&mut self, file: &mut FilePatch) -> Result<(), DiffFault> {
        let line = self.peek();
        if line == "GIT binary patch\n" {
            self.skip(line);
            let line = self.line;
            let fault = DiffFault::Binary { line, why: "unrecognized binary patch" };
            file.data = Some(self.block()?.ok_or(fault)?);
            // A second block leads back. Git only checks it.
            self.block()?;
        } else if line.ends_with(" differ\n")
            && (line.starts_with("Binary files ") || line.starts_with("Files "))
        {
            self.skip(line);
        } else {
            return Ok(());
        }
        file.binary = true;
        file.tail.end = self.at;
        Ok(())
    }

    /// One block of binary data with the empty line that ends it, if one is here.
    fn block(&mut self) -> Result<Option<Block>, DiffFault> {
        let corrupt =
            |at: usize| DiffFault::Binary { line: self.line + at, why: "corrupt binary patch" };
        match binary::block(self.rest(), self.at, &mut self.inflatable) {
            Ok((block, lines)) => {
                self.at = block.lines.end + 1;
                self.line += lines;
                Ok(Some(block))
            }
            Err(BlockFault::None) => Ok(None),
            Err(BlockFault::Corrupt(at)) => Err(corrupt(at)),
            Err(BlockFault::TooLarge) => Err(DiffFault::TooLarge { line: self.line }),
        }
    }

    pub(super) fn header_fault(&self, why: &'static str) -> DiffFault {
        DiffFault::Header { line: self.line, why }
    }
}

/// What a hunk's header promised and its lines have not yet given.
#[derive(Default)]
struct Counts {
    old: u64,
    new: u64,
    added: u64,
    removed: u64,
    trailing: bool,
}

impl Counts {
    fn are_met(&self) -> bool {
        self.old == 0 && self.new == 0
    }

    /// Account for one line. A side that gives more than was promised wraps around and is
    /// never met, as in git: the fault is reported where the hunk's lines end.
    fn take(&mut self, line: &str) -> bool {
        match line.as_bytes()[0] {
            b' ' | b'\n' => {
                self.old = self.old.wrapping_sub(1);
                self.new = self.new.wrapping_sub(1);
                self.trailing = true;
            }
            b'-' => {
                self.old = self.old.wrapping_sub(1);
                self.removed += 1;
                self.trailing = false;
            }
            b'+' => {
                self.new = self.new.wrapping_sub(1);
                self.added += 1;
                self.trailing = false;
            }
            // "\ No newline at end of file", in any language.
            b'\\' => return line.len() >= 12 && line.starts_with("\\ "),
            _ => return false,
        }
        true
    }
}

/// `@@ -1,2 +3 @@ anything` with its newline.
fn hunk_header(line: &str) -> Option<(Span, Span)> {
    let rest = line.strip_suffix('\n')?.strip_prefix("@@ -")?;
    let (old, rest) = span(rest)?;
    let (new, rest) = span(rest.strip_prefix(" +")?)?;
    rest.starts_with(" @@").then_some((old, new))
}

fn span(text: &str) -> Option<(Span, &str)> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(',') {
        Some(rest) => number(rest).map(|(count, rest)| (Span { start, count }, rest)),
        None => Some((Span { start, count: 1 }, rest)),
    }
}

fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(end);
    // A number too large for the type is as good as the largest one.
    (end > 0).then(|| (digits.parse().unwrap_or(u64::MAX), rest))
}

/// The `---` and `+++` lines at the start of `text`, if a hunk follows them.
fn plain_header(text: &str) -> Option<(&str, &str)> {
    let first = first_line(text);
    let second = first_line(&text[first.len()..]);
    let third = &text[first.len() + second.len()..];
    let fits = first.starts_with("--- ")
        && second.starts_with("+++ ")
        && text.len() >= second.len() + 14
        && third.starts_with("@@ -");
    fits.then_some((first, second))
}

fn changes_metadata(file: &FilePatch) -> bool {
    let mode = matches!((file.old_mode, file.new_mode), (Some(old), Some(new)) if old != new);
    file.moved.is_some() || file.creates == Claim::Yes || file.deletes != Claim::No || mode
}

/// The first line with its newline.
pub(super) fn first_line(text: &str) -> &str {
    text.split_inclusive('\n').next().unwrap_or_default()
}
