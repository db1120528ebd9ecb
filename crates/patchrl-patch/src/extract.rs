//! From a model's answer to an edit.
//!
//! Owns what is skipped (thoughts, tags, prose), which fences hold a diff, and which form
//! wins: SEARCH/REPLACE blocks, then fenced diffs, then a raw diff. Reading blocks is in
//! `blocks`, reading diffs in `crate::diff`. Knows nothing of files: an edit that was
//! found may still not apply.
//!
//! Lenient where no meaning is lost (final newline, fence tag, path heading), strict about
//! hunk counts. [`ExtractFault::Truncated`] is said only of an open tag, fence or block: a
//! raw diff that was cut off cannot be told from one with a wrong count.

mod blocks;

use crate::diff::Patch;
use crate::edit::Edit;
use crate::fault::{DiffFault, ExtractFault};

/// Which form an edit was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every block exactly as SWE-RL asks for it: in a fence, under `### path`.
    SearchReplace,
    /// SEARCH/REPLACE blocks in another dress.
    LooseSearchReplace,
    /// A diff in one or more fences.
    FencedDiff,
    /// A diff with nothing but prose around it.
    RawDiff,
}

impl Rule {
    /// The rule as one machine word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SearchReplace => "search_replace",
            Self::LooseSearchReplace => "loose_search_replace",
            Self::FencedDiff => "fenced_diff",
            Self::RawDiff => "raw_diff",
        }
    }
}

/// An edit and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extraction {
    /// The form it had.
    pub rule: Rule,
    /// What it wants to change.
    pub edit: Edit,
}

/// Find the edit in an answer.
pub fn extract(answer: &str) -> Result<Extraction, ExtractFault> {
    let part = solution(answer)?;
    let found = match blocks::find(&part)? {
        Some(found) => found,
        None => diff(&part)?,
    };
    Ok(found)
}

/// The part of an answer that holds the solution.
struct Part<'t> {
    text: &'t str,
    /// Line of the answer that `text` starts at, from 1.
    line: usize,
    /// A closing tag came after it: the model said all it wanted to say.
    is_closed: bool,
}

/// Drop thoughts, then look inside the last `<solution>` if there is one.
fn solution(answer: &str) -> Result<Part<'_>, ExtractFault> {
    let text = after_thoughts(answer)?;
    let (text, is_closed) = match own_tags(text, "<solution>").last() {
        None => (text, false),
        Some(at) => {
            let inside = &text[at + "<solution>".len()..];
            let end = own_tags(inside, "</solution>").next();
            end.map_or((inside, false), |end| (&inside[..end], true))
        }
    };
    let skipped = text.as_ptr() as usize - answer.as_ptr() as usize;
    let line = 1 + answer[..skipped].matches('\n').count();
    Ok(Part { text, line, is_closed })
}

fn after_thoughts(answer: &str) -> Result<&str, ExtractFault> {
    let is_open = answer.trim_start().starts_with("<think>");
    let end = if is_open { answer.find("</think>") } else { own_tags(answer, "</think>").next() };
    match end {
        Some(at) => Ok(&answer[at + "</think>".len()..]),
        None if is_open => Err(ExtractFault::Truncated { inside: "`<think>`" }),
        None => Ok(answer),
    }
}

/// Where `tag` is the model's own, rather than in a line of a diff. The first per line.
fn own_tags<'t>(text: &'t str, tag: &'t str) -> impl Iterator<Item = usize> + 't {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let at = line
            .find(tag)
            .filter(|at| line[..*at].trim().is_empty() || !line.starts_with([' ', '+', '-']));
        let found = at.map(|at| start + at);
        start += line.len();
        found
    })
}

/// A diff in fences or as it is.
fn diff(part: &Part<'_>) -> Result<Extraction, ExtractFault> {
    let fences = fences(part.text);
    let mut seen: Vec<&str> = Vec::new();
    let mut ends_open = false;
    for fence in fences.iter().filter(|fence| fence.holds_diff()) {
        ends_open = !fence.is_closed;
        if seen.last() != Some(&fence.text) {
            seen.push(fence.text);
        }
    }
    let (rule, text) = if !seen.is_empty() {
        (Rule::FencedDiff, seen.concat())
    } else if let Some(start) = header_start(part.text) {
        (Rule::RawDiff, part.text[start..].to_owned())
    } else {
        return Err(no_diff(&fences));
    };
    match Patch::parse(&ended(text)) {
        Ok(patch) => Ok(Extraction { rule, edit: Edit::Diff(patch) }),
        Err(DiffFault::Short { .. }) if ends_open && !part.is_closed => {
            Err(ExtractFault::Truncated { inside: "a fenced diff" })
        }
        Err(fault) => Err(ExtractFault::Malformed { line: fault.line(), why: fault.to_string() }),
    }
}

/// The text with a final newline. Models end an answer without one.
fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// A fence that is called a diff but holds no header is a bad diff, not the lack of one.
fn no_diff(fences: &[Fence<'_>]) -> ExtractFault {
    match fences.iter().find(|fence| fence.is_called_diff() && !fence.text.trim().is_empty()) {
        None => ExtractFault::NoPatch,
        Some(fence) if !fence.is_closed => ExtractFault::Truncated { inside: "a fenced diff" },
        Some(fence) => {
            let fault = Patch::parse(fence.text).err().unwrap_or(DiffFault::Empty);
            ExtractFault::Malformed { line: fault.line(), why: fault.to_string() }
        }
    }
}

/// Where the first file header starts.
fn header_start(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let is_plain =
            line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ "));
        if is_plain || line.starts_with("diff --git ") {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// Text between two fence lines of Markdown.
struct Fence<'t> {
    tag: &'t str,
    text: &'t str,
    is_closed: bool,
}

impl Fence<'_> {
    fn is_called_diff(&self) -> bool {
        matches!(self.tag, "diff" | "patch" | "udiff")
    }

    fn holds_diff(&self) -> bool {
        header_start(self.text).is_some()
    }
}

/// Every fence of a text. Fence lines start at the first column: a line of a diff has its
/// mark there.
fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut fences = Vec::new();
    let mut open: Option<(&str, &str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some((marks, tag)) = fence_line(line) else { continue };
        match open {
            None => open = Some((marks, tag, at)),
            Some((opening, open_tag, from)) => {
                if tag.is_empty() && marks.starts_with(opening) {
                    let text = &text[from..start];
                    fences.push(Fence { tag: open_tag, text, is_closed: true });
                    open = None;
                }
            }
        }
    }
    if let Some((_, tag, from)) = open {
        fences.push(Fence { tag, text: &text[from..], is_closed: false });
    }
    fences
}

/// The backticks or tildes of a fence line, and what follows them.
fn fence_line(line: &str) -> Option<(&str, &str)> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let marks = &line[..line.len() - rest.len()];
    let tag = rest.trim();
    (marks.len() >= 3 && !tag.contains('`')).then_some((marks, tag))
}

#[cfg(test)]
mod tests;
