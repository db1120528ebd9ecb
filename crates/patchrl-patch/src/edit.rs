//! An edit of either form, and SEARCH/REPLACE blocks onto a tree.
//!
//! Owns [`Edit`], [`Block`] and what a block means: its search text is a run of whole
//! lines that occurs once in the file as the blocks before it left it; an empty search
//! text creates the file. Nothing is fuzzy, but a file's line endings and a missing final
//! newline are kept whatever the block has. Diffs are applied in `crate::apply`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::apply;
use crate::diff::Patch;
use crate::fault::ApplyFault;
use crate::tree::{self, Changes, Entry, Mode, Tree};
use crate::work::Work;

/// What an answer wants to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A unified or git diff.
    Diff(Patch),
    /// SEARCH/REPLACE blocks in the order of the answer.
    Blocks(Vec<Block>),
}

/// One SEARCH/REPLACE block. Both texts are whole lines: empty, or ending in a newline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// File to change.
    pub path: String,
    /// Lines to find.
    pub search: String,
    /// Lines to put there.
    pub replace: String,
}

/// A hunk or block that found its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The file.
    pub path: String,
    /// Number of the hunk in its file, or of the block in the answer, from 1.
    pub number: usize,
    /// Its first line in the file as the hunks before it left it, from 1.
    pub line: usize,
}

impl Edit {
    /// Apply to `tree`. All or nothing; only paths whose entry differs are in the result,
    /// and none at all is a fault.
    pub fn apply(&self, tree: &dyn Tree) -> Result<Changes, ApplyFault> {
        self.apply_noting(tree, &mut Vec::new())
    }

    /// The same, and where each hunk or block went, up to the first that did not fit.
    pub fn apply_noting(
        &self,
        tree: &dyn Tree,
        placed: &mut Vec<Placed>,
    ) -> Result<Changes, ApplyFault> {
        let changes = match self {
            Self::Diff(patch) => apply::apply(patch, tree, placed)?,
            Self::Blocks(blocks) => apply_blocks(blocks, tree, placed)?,
        };
        if changes.is_empty() { Err(ApplyFault::NoChange) } else { Ok(changes) }
    }

    /// Every path the edit names, old and new.
    pub fn paths(&self) -> BTreeSet<&str> {
        match self {
            Self::Diff(patch) => patch
                .files()
                .iter()
                .flat_map(|file| [&file.old, &file.new])
                .flatten()
                .map(String::as_str)
                .collect(),
            Self::Blocks(blocks) => blocks.iter().map(|block| block.path.as_str()).collect(),
        }
    }
}

/// A file while blocks change it.
struct Draft {
    /// As the tree has it.
    before: Option<Entry>,
    mode: Mode,
    /// Always ends in a newline if not empty.
    text: Vec<u8>,
    /// The file has no final newline, and is to have none afterwards.
    is_unfinished: bool,
}

fn apply_blocks(
    blocks: &[Block],
    tree: &dyn Tree,
    placed: &mut Vec<Placed>,
) -> Result<Changes, ApplyFault> {
    let mut work = Work::new();
    let mut drafts: BTreeMap<&str, Draft> = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate() {
        let path = block.path.as_str();
        if !drafts.contains_key(path) {
            drafts.insert(path, Draft::open(path, tree, &mut work)?);
        }
        if let Some(draft) = drafts.get_mut(path) {
            let start = draft.edit(block, at + 1, &mut work)?;
            let line = draft.text[..start].split(|byte| *byte == b'\n').count();
            placed.push(Placed { path: path.to_owned(), number: at + 1, line });
        }
    }
    let mut changes = Changes::new();
    for (path, draft) in drafts {
        let (before, entry) = draft.close();
        if before.as_ref() != Some(&entry) {
            changes.insert(path.to_owned(), Some(entry));
        }
    }
    Ok(changes)
}

impl Draft {
    fn open(path: &str, tree: &dyn Tree, work: &mut Work) -> Result<Self, ApplyFault> {
        if !tree::is_safe_path(path) {
            return Err(ApplyFault::UnsafePath { path: path.to_owned() });
        }
        for above in tree::parents(path) {
            match apply::read(tree, above)? {
                Some(entry) if entry.mode == Mode::Symlink => {
                    return Err(ApplyFault::UnsafePath { path: path.to_owned() });
                }
                Some(_) => return Err(ApplyFault::AlreadyExists { path: above.to_owned() }),
                None => {}
            }
        }
        let before = apply::read(tree, path)?;
        let mode = before.as_ref().map_or(Mode::Regular, |entry| entry.mode);
        if mode == Mode::Symlink {
            return Err(ApplyFault::WrongType { path: path.to_owned() });
        }
        if before.is_none() {
            apply::check_no_directory(tree, path)?;
        }
        let mut text = before.as_ref().map(|entry| entry.bytes.clone()).unwrap_or_default();
        work.spend(text.len() as u64)?;
        let is_unfinished = !text.is_empty() && !text.ends_with(b"\n");
        if is_unfinished {
            text.push(b'\n');
        }
        Ok(Self { before, mode, text, is_unfinished })
    }

    /// Make one block's change. The byte it begins at.
    fn edit(&mut self, block: &Block, number: usize, work: &mut Work) -> Result<usize, ApplyFault> {
        let path = || block.path.clone();
        work.spend((self.text.len() + block.search.len() + block.replace.len()) as u64)?;
        if self.text.is_empty() && block.search.trim().is_empty() {
            self.text = block.replace.clone().into_bytes();
            return Ok(0);
        }
        if block.search.is_empty() {
            return Err(ApplyFault::AlreadyExists { path: path() });
        }
        if self.before.is_none() && self.text.is_empty() {
            return Err(ApplyFault::NoSuchFile { path: path() });
        }
        let search = like_file(&self.text, &block.search);
        let (found, with) = match find_lines(&self.text, search.as_bytes()) {
            (None, _) => {
                (find_lines(&self.text, block.search.as_bytes()), block.replace.as_str().into())
            }
            found => (found, like_file(&self.text, &block.replace)),
        };
        let at = match found {
            (Some(at), false) => at,
            (Some(_), true) => return Err(ApplyFault::Ambiguous { path: path(), block: number }),
            (None, _) => return Err(ApplyFault::SearchNotFound { path: path(), block: number }),
        };
        // Both forms of the search text have the same number of lines.
        let lines = search.bytes().filter(|byte| *byte == b'\n').count();
        let end = self.text[at..]
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .nth(lines - 1)
            .map_or(self.text.len(), |(offset, _)| at + offset + 1);
        self.text.splice(at..end, with.bytes());
        Ok(at)
    }

    fn close(mut self) -> (Option<Entry>, Entry) {
        if self.is_unfinished && self.text.ends_with(b"\n") {
            self.text.pop();
        }
        (self.before, Entry { mode: self.mode, bytes: self.text })
    }
}

/// `text` with the line endings of the file, as its first line shows them.
fn like_file<'t>(file: &[u8], text: &'t str) -> Cow<'t, str> {
    let first = file.iter().position(|byte| *byte == b'\n');
    let has_returns = first.is_some_and(|at| at > 0 && file[at - 1] == b'\r');
    match (has_returns, text.contains('\r')) {
        (true, _) => Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n")),
        (false, true) => Cow::Owned(text.replace("\r\n", "\n")),
        (false, false) => Cow::Borrowed(text),
    }
}

/// Where `lines` first occurs in `text` at the start of a line, and whether it does again.
/// Knuth-Morris-Pratt: linear whatever the texts are.
fn find_lines(text: &[u8], lines: &[u8]) -> (Option<usize>, bool) {
    let borders = borders(lines);
    let mut first = None;
    let mut have = 0;
    for (at, byte) in text.iter().enumerate() {
        while have > 0 && lines[have] != *byte {
            have = borders[have - 1];
        }
        if lines[have] == *byte {
            have += 1;
        }
        if have == lines.len() {
            let start = at + 1 - have;
            if start == 0 || text[start - 1] == b'\n' {
                if first.is_some() {
                    return (first, true);
                }
                first = Some(start);
            }
            have = borders[have - 1];
        }
    }
    (first, false)
}

/// For each prefix the length of its longest proper border.
fn borders(lines: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; lines.len()];
    let mut have = 0;
    for at in 1..lines.len() {
        while have > 0 && lines[have] != lines[at] {
            have = borders[have - 1];
        }
        if lines[have] == lines[at] {
            have += 1;
        }
        borders[at] = have;
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Entry> {
        let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
        files.iter().map(|(path, text)| ((*path).to_owned(), entry(text))).collect()
    }

    fn block(path: &str, search: &str, replace: &str) -> Block {
        Block { path: path.into(), search: search.into(), replace: replace.into() }
    }

    fn run(files: &[(&str, &str)], blocks: &[Block]) -> String {
        match Edit::Blocks(blocks.to_vec()).apply(&tree(files)) {
            Ok(changes) => changes
                .into_iter()
                .map(|(path, entry)| {
                    let text = String::from_utf8(entry.unwrap().bytes).unwrap();
                    format!("{path}={text:?}")
                })
                .collect::<Vec<_>>()
                .join(" "),
            Err(fault) => fault.as_str().to_owned(),
        }
    }

    #[test]
    fn whole_lines_once() {
        let file = [("f", "ab\nb\nc\nb c\n")];
        assert_eq!(run(&file, &[block("f", "b\n", "x\ny\n")]), r#"f="ab\nx\ny\nc\nb c\n""#);
        assert_eq!(run(&file, &[block("f", "b\nc\n", "")]), r#"f="ab\nb c\n""#);
        assert_eq!(run(&file, &[block("f", "a\n", "x\n")]), "search_not_found");
        assert_eq!(run(&[("f", "a\nb\na\n")], &[block("f", "a\n", "x\n")]), "ambiguous");
        assert_eq!(run(&[("f", "a\na\na\n")], &[block("f", "a\na\n", "x\n")]), "ambiguous");
        assert_eq!(run(&file, &[block("f", "b\n", "b\n")]), "no_change");
        assert_eq!(run(&file, &[block("g", "b\n", "x\n")]), "no_such_file");
    }

    #[test]
    fn later_blocks_see_earlier_ones() {
        let blocks = [block("f", "a\n", "b\n"), block("f", "b\n", "c\n")];
        assert_eq!(run(&[("f", "a\n")], &blocks), r#"f="c\n""#);
        let blocks = [block("n", "", "b\n"), block("n", "b\n", "c\n")];
        assert_eq!(run(&[], &blocks), r#"n="c\n""#);
    }

    #[test]
    fn an_empty_search_creates() {
        assert_eq!(run(&[], &[block("d/n", "", "x\n")]), r#"d/n="x\n""#);
        assert_eq!(run(&[("f", "")], &[block("f", "", "x\n")]), r#"f="x\n""#);
        assert_eq!(run(&[("f", "a\n")], &[block("f", "", "x\n")]), "already_exists");
        assert_eq!(run(&[("f", "a\n")], &[block("f/g", "", "x\n")]), "already_exists");
        assert_eq!(run(&[("f/g", "a\n")], &[block("f", "", "x\n")]), "already_exists");
        assert_eq!(run(&[], &[block("../n", "", "x\n")]), "unsafe_path");
        assert_eq!(run(&[], &[block("/etc/n", "", "x\n")]), "unsafe_path");
        assert_eq!(run(&[], &[block(".git/hooks/n", "", "x\n")]), "unsafe_path");
    }

    #[test]
    fn line_endings_and_the_missing_last_one_stay() {
        assert_eq!(
            run(&[("f", "a\r\nb\r\n")], &[block("f", "b\n", "x\ny\n")]),
            r#"f="a\r\nx\r\ny\r\n""#
        );
        assert_eq!(run(&[("f", "a\nb\n")], &[block("f", "b\r\n", "x\r\n")]), r#"f="a\nx\n""#);
        assert_eq!(run(&[("f", "a\nb")], &[block("f", "b\n", "x\ny\n")]), r#"f="a\nx\ny""#);
        assert_eq!(run(&[("f", "a\nb\r\n")], &[block("f", "b\r\n", "x\r\n")]), r#"f="a\nx\r\n""#);
    }

    #[test]
    fn links_are_not_followed() {
        let mut files = tree(&[("d/f", "a\n")]);
        let link = Entry { mode: Mode::Symlink, bytes: b"d".to_vec() };
        files.insert("l".into(), link);
        let fault =
            |path| Edit::Blocks(vec![block(path, "", "x\n")]).apply(&files).unwrap_err().as_str();
        assert_eq!(fault("l/n"), "unsafe_path");
        assert_eq!(fault("l"), "wrong_type");
    }

    #[test]
    fn one_bad_block_changes_nothing() {
        let blocks = [block("f", "a\n", "b\n"), block("g", "x\n", "y\n")];
        assert_eq!(run(&[("f", "a\n"), ("g", "a\n")], &blocks), "search_not_found");
    }
}
