//! Unified and git diffs as data.
//!
//! Owns [`Patch`] and its parts; reading is in `parse`, `header` and `name`. A patch keeps
//! its text and points into it, so that printing gives back every byte of headers and
//! hunks; prose around them is dropped. Does not apply anything, see `crate::apply`.
//! The data of binary changes is checked when it is read and decoded when it is applied,
//! in `binary`.

mod binary;
mod header;
mod name;
mod parse;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub(crate) use binary::{Block, Method};
pub(crate) use name::quote;

use crate::fault::DiffFault;

/// A diff over any number of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    text: String,
    files: Vec<FilePatch>,
}

/// Whether a header says that a file is created (or deleted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is not.
    No,
    /// It is.
    Yes,
    /// A plain diff cannot say; the tree decides.
    Open,
}

/// A file that gets another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The old name goes away.
    Rename,
    /// The old name stays.
    Copy,
}

/// What a diff does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// Name before, without the `a/` prefix; `None` for a new file, unless a `diff --git`
    /// line with nothing under it gave it one.
    pub old: Option<String>,
    /// Name after, without the `b/` prefix; `None` for a deleted file, with the same
    /// exception.
    pub new: Option<String>,
    /// Is the file new?
    pub creates: Claim,
    /// Is the file deleted?
    pub deletes: Claim,
    /// Is it a rename or a copy?
    pub moved: Option<Move>,
    /// Mode bits before, where the header says so.
    pub old_mode: Option<u32>,
    /// Mode bits after, where the header says so.
    pub new_mode: Option<u32>,
    /// Is the change binary?
    pub binary: bool,
    /// Changes of the text, in order.
    pub hunks: Vec<Hunk>,
    /// The ids on the `index` line, as written; empty without one.
    blobs: [String; 2],
    /// What a binary change says, if it says more than that there is one.
    data: Option<Block>,
    /// Header, and for a binary change its data, in the patch's text.
    head: Range<usize>,
    tail: Range<usize>,
}

/// Lines of one side of a hunk: `start,count` of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First line, from 1; 0 in an empty file.
    pub start: u64,
    /// Number of lines.
    pub count: u64,
}

/// One run of changed lines with its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Where it was in the old file.
    pub old: Span,
    /// Where it is in the new file.
    pub new: Span,
    /// Lines that are added.
    pub added: u64,
    /// Lines that are removed.
    pub removed: u64,
    /// Does it end with context? If not, git lets it match only at the end of a file.
    pub(crate) has_trailing_context: bool,
    /// The `@@` line and what follows, and what follows alone, in the patch's text.
    whole: Range<usize>,
    body: Range<usize>,
}

impl Patch {
    /// Read a diff as `git apply` does: prose around it is skipped, counts are strict, the
    /// last line must end. Plain diffs lose one leading path component, or none if no
    /// name has one.
    pub fn parse(text: &str) -> Result<Self, DiffFault> {
        let files = parse::files(text)?;
        Ok(Self { text: text.to_owned(), files })
    }

    /// The files in the order of the diff. One file may come twice.
    pub fn files(&self) -> &[FilePatch] {
        &self.files
    }

    /// The lines of a hunk of this patch, prefixes included.
    pub(crate) fn body(&self, hunk: &Hunk) -> &str {
        &self.text[hunk.body.clone()]
    }

    /// The bytes of a block of binary data of this patch.
    pub(crate) fn inflated(&self, block: &Block) -> Option<Vec<u8>> {
        block.bytes(&self.text)
    }
}

impl FilePatch {
    /// The name to show: the new one, or the old one of a deleted file.
    pub fn path(&self) -> &str {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or_default()
    }

    /// The old and the new id on the `index` line.
    pub(crate) fn blobs(&self) -> (&str, &str) {
        let [old, new] = &self.blobs;
        (old, new)
    }

    /// The data of a binary change.
    pub(crate) fn data(&self) -> Option<&Block> {
        self.data.as_ref()
    }
}

/// The beginning of a hunk as the very end of a text: without it a plain header is none.
const CUT_OFF: &str = "@@ -";

/// Prints headers and hunks as they were read, but for a marker of a missing newline that is
/// too short to stand at the end of a text.
impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end_of_header = None;
        for file in &self.files {
            let head = &self.text[file.head.clone()];
            if let Some(end) = end_of_header
                && !head.starts_with("diff --git ")
            {
                // Only the prose between them keeps the two headers apart.
                f.write_str(&self.text[end..file.head.start])?;
            }
            f.write_str(head)?;
            for hunk in &file.hunks {
                f.write_str(&with_long_marker(&self.text[hunk.whole.clone()]))?;
            }
            f.write_str(&self.text[file.tail.clone()])?;
            let is_only_header = file.hunks.is_empty() && !file.binary;
            if is_only_header && self.text[file.head.end..] == *CUT_OFF {
                f.write_str(CUT_OFF)?;
            }
            end_of_header = is_only_header.then_some(file.head.end);
        }
        Ok(())
    }
}

/// A marker of up to 12 bytes after a hunk counts only if more text follows it, which may
/// be prose that is not printed.
fn with_long_marker(hunk: &str) -> Cow<'_, str> {
    let start = hunk.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    let (lines, last) = hunk.split_at(start);
    if last.starts_with('\\') && last.len() <= 12 {
        Cow::Owned(format!("{lines}\\ No newline at end of file\n"))
    } else {
        Cow::Borrowed(hunk)
    }
}
