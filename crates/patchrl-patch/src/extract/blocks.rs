//! SEARCH/REPLACE blocks in an answer.
//!
//! Owns their markers, where a block's path stands, and what of it may be missing. The
//! strict form is SWE-RL's: a fence, `### path`, then at once the block, then the fence's
//! end. Besides it a path may be a bare, quoted or bold line, before or inside the fence,
//! and one path may serve several blocks.

use super::{Extraction, Part, Rule, fence_line};
use crate::edit::{Block, Edit};
use crate::fault::ExtractFault;

/// All blocks of a text. `None` if it has no SEARCH marker.
pub(super) fn find(part: &Part<'_>) -> Result<Option<Extraction>, ExtractFault> {
    if !part.text.contains("<<<<<") {
        return Ok(None);
    }
    let lines: Vec<&str> = part.text.split_inclusive('\n').collect();
    let mut reader = Reader { part, lines: &lines, path: None, is_strict: true };
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    while let Some(start) = (at..lines.len()).find(|at| is_search(lines[*at])) {
        let (block, end) = reader.block(at, start)?;
        at = end;
        // Models that loop write the same block again.
        if blocks.last() != Some(&block) {
            blocks.push(block);
        }
    }
    if blocks.is_empty() {
        return Ok(None);
    }
    let rule = if reader.is_strict { Rule::SearchReplace } else { Rule::LooseSearchReplace };
    Ok(Some(Extraction { rule, edit: Edit::Blocks(blocks) }))
}

struct Reader<'t> {
    part: &'t Part<'t>,
    lines: &'t [&'t str],
    /// Path of the block before.
    path: Option<String>,
    is_strict: bool,
}

impl Reader<'_> {
    /// The block whose marker is at `start`; its path is looked for from `from` on. Gives
    /// the line after it too.
    fn block(&mut self, from: usize, start: usize) -> Result<(Block, usize), ExtractFault> {
        let end = self.end(start)?;
        let divider = self.divider(start, end)?;
        let path = self.path(from, start).or_else(|| self.path.clone());
        let path = path.ok_or_else(|| self.fault(start, "a SEARCH block without a path"))?;
        self.is_strict &= self.is_swe_rl(start, divider, end);
        self.path = Some(path.clone());
        let search = self.lines[start + 1..divider].concat();
        let replace = self.lines[divider + 1..end].concat();
        Ok((Block { path, search, replace }, end + 1))
    }

    /// The REPLACE marker of a block.
    fn end(&self, start: usize) -> Result<usize, ExtractFault> {
        for (at, line) in self.lines.iter().enumerate().skip(start + 1) {
            if is_replace(line) {
                return Ok(at);
            }
            if is_search(line) {
                return Err(self.fault(at, "a SEARCH block inside another one"));
            }
        }
        let last = self.lines.iter().rev().find(|line| !line.trim().is_empty());
        let is_over = last.is_some_and(|line| fence_line(line).is_some());
        if is_over || self.part.is_closed {
            return Err(self.fault(start, "a SEARCH block without its REPLACE marker"));
        }
        Err(ExtractFault::Truncated { inside: "a SEARCH/REPLACE block" })
    }

    /// The first line of exactly seven `=`, else the only line of about as many: headings
    /// in documentation are underlined with them.
    fn divider(&self, start: usize, end: usize) -> Result<usize, ExtractFault> {
        let is =
            |at: &usize, fits: fn(usize) -> bool| run_of(self.lines[*at], '=').is_some_and(fits);
        if let Some(at) = (start + 1..end).find(|at| is(at, |count| count == 7)) {
            return Ok(at);
        }
        let mut others = (start + 1..end).filter(|at| is(at, |count| (5..=9).contains(&count)));
        match (others.next(), others.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => Err(self.fault(start, "a SEARCH block without its ======= line")),
            (Some(_), Some(at)) => Err(self.fault(at, "a SEARCH block with several ======= lines")),
        }
    }

    /// The nearest line above a block that is a path.
    fn path(&self, from: usize, start: usize) -> Option<String> {
        let above = self.lines[from..start].iter().rev();
        let mut above = above.filter(|line| !line.trim().is_empty());
        let mut is_next = true;
        above.find_map(|line| {
            if let Some((_, tag)) = fence_line(line) {
                return tag_path(tag);
            }
            let found = line_path(line, is_next);
            is_next = false;
            found
        })
    }

    fn is_swe_rl(&self, start: usize, divider: usize, end: usize) -> bool {
        let line = |at: usize| self.lines.get(at).map_or("", |line| line.trim_end_matches('\n'));
        let opens =
            start >= 2 && line(start - 2).starts_with("```") && line(start - 1).starts_with("### ");
        opens
            && line(start) == "<<<<<<< SEARCH"
            && line(divider) == "======="
            && line(end) == ">>>>>>> REPLACE"
            && line(end + 1).starts_with("```")
    }

    fn fault(&self, at: usize, why: &str) -> ExtractFault {
        ExtractFault::Malformed { line: self.part.line + at, why: why.to_owned() }
    }
}

fn is_search(line: &str) -> bool {
    is_marker(line, '<', &["SEARCH", "ORIGINAL"])
}

fn is_replace(line: &str) -> bool {
    is_marker(line, '>', &["REPLACE", "UPDATED"])
}

fn is_marker(line: &str, mark: char, words: &[&str]) -> bool {
    let rest = line.trim_start_matches(mark);
    let word = rest.trim();
    (5..=9).contains(&(line.len() - rest.len()))
        && words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// How many `mark`s a line of nothing else has.
fn run_of(line: &str, mark: char) -> Option<usize> {
    let line = line.trim_end();
    line.chars().all(|c| c == mark).then_some(line.len())
}

/// The path in a fence's tag: `python src/x.py`, `python:src/x.py`, `src/x.py`.
fn tag_path(tag: &str) -> Option<String> {
    let word = tag.split([' ', ':', '=']).next_back()?;
    is_path(word).then(|| clean(word))
}

/// The path on a line. A heading that directly precedes the block is one whatever it says.
fn line_path(line: &str, is_next: bool) -> Option<String> {
    let line = line.trim();
    let heading = line.trim_start_matches('#');
    let is_heading = heading.len() < line.len() && heading.starts_with(' ');
    let text = bare(heading);
    if is_heading && is_next && !text.is_empty() {
        return Some(clean(text));
    }
    is_path(text).then(|| clean(text))
}

/// A line without the marks models put around a path.
fn bare(line: &str) -> &str {
    let is_mark = |c: char| matches!(c, '`' | '*' | '"' | '\'') || c.is_whitespace();
    let text = line.trim_matches(is_mark).trim_end_matches(':').trim_matches(is_mark);
    let label = text.split_once(':').filter(|(label, _)| {
        let label = label.trim_matches(is_mark).to_ascii_lowercase();
        matches!(label.as_str(), "file" | "path" | "filename" | "file path" | "filepath")
    });
    label.map_or(text, |(_, rest)| rest.trim_matches(is_mark))
}

/// Does it look like the path of a source file?
fn is_path(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    let has_shape = text.contains('/')
        || name.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty() && !ending.is_empty() && ending.chars().all(char::is_alphanumeric)
        });
    let is_word =
        |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | '~');
    has_shape && !name.is_empty() && text.chars().all(is_word)
}

fn clean(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}
