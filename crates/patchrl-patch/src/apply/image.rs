//! A file as lines, and where a hunk fits into it.
//!
//! Owns git's search: at the stated line first, then one line further, one line back, and
//! so on; lines that an earlier hunk wrote never match again. The lines are a gap buffer,
//! so that hunks in order cost the length of the file once. All cost is charged to `Work`.

use crate::diff::Hunk;
use crate::fault::ApplyFault;
use crate::work::{LINE, Work};

/// What a hunk wants to see and what it puts there.
pub(super) struct Target<'t> {
    before: Vec<&'t [u8]>,
    after: Vec<&'t [u8]>,
    /// Line to look at first, from 0.
    line: usize,
    /// A hunk of the first line matches nowhere else.
    at_start: bool,
    /// A hunk without context at its end matches at the end of the file only.
    at_end: bool,
    /// Does a line other than the last lack its newline?
    is_ragged: bool,
}

impl<'t> Target<'t> {
    pub(super) fn new(hunk: &Hunk, body: &'t str) -> Self {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut lines = body.as_bytes().split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let loses_newline = lines.peek().is_some_and(|next| next[0] == b'\\');
            let text = match line[0] {
                b'\\' => continue,
                // An empty context line whose blank was lost.
                b'\n' if loses_newline => continue,
                b'\n' => line,
                _ => &line[1..],
            };
            let text = if loses_newline { &text[..text.len() - 1] } else { text };
            if line[0] != b'+' {
                before.push(text);
            }
            if line[0] != b'-' {
                after.push(text);
            }
        }
        let is_whole = |line: &&[u8]| line.ends_with(b"\n");
        let is_ragged = !before.iter().rev().skip(1).all(is_whole);
        Self {
            line: usize::try_from(hunk.new.start.saturating_sub(1)).unwrap_or(usize::MAX),
            at_start: hunk.old.start <= 1,
            at_end: !hunk.has_trailing_context,
            is_ragged,
            before,
            after,
        }
    }
}

#[derive(Clone, Copy)]
struct Line<'t> {
    bytes: &'t [u8],
    /// Written by a hunk.
    is_patched: bool,
}

/// The lines of one file, some from the old text and some from hunks.
pub(super) struct Image<'t> {
    front: Vec<Line<'t>>,
    /// Reversed: the last element follows `front`.
    back: Vec<Line<'t>>,
}

impl<'t> Image<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        let line = |bytes| Line { bytes, is_patched: false };
        let mut back: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').map(line).collect();
        back.reverse();
        Self { front: Vec::new(), back }
    }

    pub(super) fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// Apply one hunk. The line it was put at, from 0; nothing if it fits nowhere.
    pub(super) fn apply(
        &mut self,
        hunk: &Target<'t>,
        work: &mut Work,
    ) -> Result<Option<usize>, ApplyFault> {
        let Some(at) = self.find(hunk, work)? else { return Ok(None) };
        let end = at + hunk.before.len();
        work.spend(self.front.len().abs_diff(end) as u64)?;
        if end < self.front.len() {
            self.back.extend(self.front.drain(end..).rev());
        } else {
            let from = self.back.len() - (end - self.front.len());
            self.front.extend(self.back.drain(from..).rev());
        }
        self.front.truncate(at);
        self.front.extend(hunk.after.iter().map(|bytes| Line { bytes, is_patched: true }));
        Ok(Some(at))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        let lines = self.front.iter().chain(self.back.iter().rev());
        let mut out = Vec::with_capacity(lines.clone().map(|line| line.bytes.len()).sum());
        for line in lines {
            out.extend_from_slice(line.bytes);
        }
        out
    }

    fn find(&self, hunk: &Target<'_>, work: &mut Work) -> Result<Option<usize>, ApplyFault> {
        let Some(last) = self.len().checked_sub(hunk.before.len()) else { return Ok(None) };
        if hunk.at_start || hunk.at_end {
            let at = if hunk.at_start { 0 } else { last };
            let fits = !(hunk.at_end && at != last) && self.matches(hunk, at, work)?;
            return Ok(fits.then_some(at));
        }
        let start = hunk.line.min(self.len());
        if start <= last && self.matches(hunk, start, work)? {
            return Ok(Some(start));
        }
        let mut forward = start + 1..last + 1;
        let mut backward = (0..start.min(last + 1)).rev();
        loop {
            let (ahead, behind) = (forward.next(), backward.next());
            for at in [ahead, behind].into_iter().flatten() {
                if self.matches(hunk, at, work)? {
                    return Ok(Some(at));
                }
            }
            if ahead.is_none() && behind.is_none() {
                return Ok(None);
            }
        }
    }

    fn matches(&self, hunk: &Target<'_>, at: usize, work: &mut Work) -> Result<bool, ApplyFault> {
        if hunk.is_ragged {
            return self.matches_ragged(hunk, at, work);
        }
        for (offset, want) in hunk.before.iter().enumerate() {
            work.spend(LINE + want.len() as u64 / LINE)?;
            let line = self.line(at + offset);
            let is_last = offset + 1 == hunk.before.len();
            let is_same = if is_last && !hunk.at_end {
                is_same_or_trimmed(want, line.bytes)
            } else {
                *want == line.bytes
            };
            if line.is_patched || !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A hunk with `\ No newline` in its middle: git compares the lines without their
    /// white space, and the bytes of all lines as one text.
    fn matches_ragged(
        &self,
        hunk: &Target<'_>,
        at: usize,
        work: &mut Work,
    ) -> Result<bool, ApplyFault> {
        let mut length = 0;
        for (offset, want) in hunk.before.iter().enumerate() {
            let line = self.line(at + offset);
            work.spend(LINE + (want.len() + line.bytes.len()) as u64)?;
            if line.is_patched || !inked(want).eq(inked(line.bytes)) {
                return Ok(false);
            }
            length += want.len();
        }
        let have = (at..self.len()).flat_map(|at| self.line(at).bytes);
        let want = hunk.before.iter().copied().flatten();
        let is_at_end = !hunk.at_end
            || length == (at..self.len()).map(|at| self.line(at).bytes.len()).sum::<usize>();
        Ok(is_at_end && want.eq(have.take(length)))
    }

    fn line(&self, at: usize) -> Line<'t> {
        match at.checked_sub(self.front.len()) {
            None => self.front[at],
            Some(past) => self.back[self.back.len() - 1 - past],
        }
    }
}

/// The last line of a hunk that claims no newline also matches a line of the file that
/// has one, or other white space, after the same text: git compares bytes up to there.
fn is_same_or_trimmed(want: &[u8], have: &[u8]) -> bool {
    match have.strip_prefix(want) {
        Some([]) => true,
        Some(rest) => !want.ends_with(b"\n") && inked(rest).next().is_none(),
        None => false,
    }
}

/// Bytes that are not white space as git counts it.
fn inked(bytes: &[u8]) -> impl Iterator<Item = &u8> {
    bytes.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}
