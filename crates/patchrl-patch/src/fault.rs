//! Why an answer gives no changed files.
//!
//! Owns the three fault types, one per stage: the answer holds no edit, the diff does not
//! parse, the edit does not apply. All but [`ApplyFault::Read`] are the answer's own doing.

use std::io;

/// Why no edit was found in an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractFault {
    /// Neither a diff nor a SEARCH/REPLACE block.
    #[error("the answer holds no diff and no SEARCH/REPLACE block")]
    NoPatch,
    /// There is one, but it cannot be read.
    #[error("line {line}: {why}")]
    Malformed {
        /// Line of the text that was read as the edit: of the diff as extracted, of the
        /// answer for blocks. From 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// The answer stops inside an open tag, fence or block.
    #[error("the answer ends inside {inside}")]
    Truncated {
        /// What was open.
        inside: &'static str,
    },
}

impl ExtractFault {
    /// The fault as one machine word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoPatch => "no_patch",
            Self::Malformed { .. } => "malformed",
            Self::Truncated { .. } => "truncated",
        }
    }
}

/// Why a text is not a diff that git would read. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffFault {
    /// No file header anywhere.
    #[error("no valid patches in input")]
    Empty,
    /// A hunk whose lines do not add up to its header, or with a line of no known kind.
    #[error("corrupt patch at line {line}")]
    Corrupt {
        /// The first line that does not fit.
        line: usize,
    },
    /// The text ended before the counts of the last hunk were reached.
    #[error("corrupt patch at line {line}: the text ends inside a hunk")]
    Short {
        /// One past the last line.
        line: usize,
    },
    /// A hunk outside any file.
    #[error("patch fragment without header at line {line}")]
    NoHeader {
        /// Line of the `@@`.
        line: usize,
    },
    /// A file header that contradicts itself or lacks a name.
    #[error("{why} at line {line}")]
    Header {
        /// Line of the contradiction.
        line: usize,
        /// What git says about it.
        why: &'static str,
    },
    /// Binary data that cannot be decoded, in the first file of the diff. In a later one
    /// it ends the diff: git applies the files before it.
    #[error("{why} at line {line}")]
    Binary {
        /// The first line that does not fit.
        line: usize,
        /// What git says about it.
        why: &'static str,
    },
    /// Binary data that would inflate to more than 64 MiB.
    #[error("binary data at line {line} is too large")]
    TooLarge {
        /// The line that gives the size.
        line: usize,
    },
}

impl DiffFault {
    /// The line the fault is reported at; 1 for an empty diff.
    pub fn line(&self) -> usize {
        match self {
            Self::Empty => 1,
            Self::Corrupt { line }
            | Self::Short { line }
            | Self::NoHeader { line }
            | Self::Binary { line, .. }
            | Self::TooLarge { line }
            | Self::Header { line, .. } => *line,
        }
    }
}

/// Why an edit does not apply to a tree. Nothing is changed then.
#[derive(Debug, thiserror::Error)]
pub enum ApplyFault {
    /// The edit contradicts itself in a way only seen when it is applied.
    #[error("`{path}`: {why}")]
    Malformed {
        /// File of the contradiction.
        path: String,
        /// What it is.
        why: &'static str,
    },
    /// The file to change is not there.
    #[error("`{path}`: no such file")]
    NoSuchFile {
        /// The missing file.
        path: String,
    },
    /// No place in the file has the lines that the hunk wants to see.
    #[error("`{path}`: hunk {hunk} does not apply")]
    ContextMismatch {
        /// File of the hunk.
        path: String,
        /// Number of the hunk in its file, from 1.
        hunk: usize,
    },
    /// The text of a SEARCH block is not in the file.
    #[error("`{path}`: the search text of block {block} is not in the file")]
    SearchNotFound {
        /// File of the block.
        path: String,
        /// Number of the block in the answer, from 1.
        block: usize,
    },
    /// The text of a SEARCH block is in the file more than once.
    #[error("`{path}`: the search text of block {block} occurs more than once")]
    Ambiguous {
        /// File of the block.
        path: String,
        /// Number of the block in the answer, from 1.
        block: usize,
    },
    /// Something is where the edit wants to create a file or a directory.
    #[error("`{path}`: already exists")]
    AlreadyExists {
        /// What exists.
        path: String,
    },
    /// An earlier part of the same diff deleted or renamed the file.
    #[error("`{path}`: has been renamed or deleted by this patch")]
    Gone {
        /// The old name.
        path: String,
    },
    /// A deletion whose hunks do not remove every line.
    #[error("`{path}`: the deletion leaves file contents")]
    LeavesContents {
        /// The file to delete.
        path: String,
    },
    /// A file treated as a symbolic link or the other way round.
    #[error("`{path}`: wrong file type")]
    WrongType {
        /// The file.
        path: String,
    },
    /// A binary change without its data, or without the full ids on its `index` line.
    #[error("`{path}`: a binary change without data or full index line")]
    Binary {
        /// The file.
        path: String,
    },
    /// A binary change of a file with other contents.
    #[error("`{path}`: not the file that the binary change is for")]
    WrongBlob {
        /// The file.
        path: String,
    },
    /// A path that leaves the tree, reaches into `.git` or goes through a symbolic link.
    #[error("`{path}`: unsafe path")]
    UnsafePath {
        /// The path as written.
        path: String,
    },
    /// It applies, and every file is as it was.
    #[error("the edit changes nothing")]
    NoChange,
    /// It would cost far more than any honest edit.
    #[error("the edit is too expensive to apply")]
    TooMuchWork,
    /// The tree could not be read: our fault, not the edit's.
    #[error("cannot read `{path}`")]
    Read {
        /// What was read.
        path: String,
        /// Why not.
        source: io::Error,
    },
}

impl ApplyFault {
    /// The fault as one machine word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "malformed",
            Self::NoSuchFile { .. } => "no_such_file",
            Self::ContextMismatch { .. } => "context_mismatch",
            Self::SearchNotFound { .. } => "search_not_found",
            Self::Ambiguous { .. } => "ambiguous",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Gone { .. } => "gone",
            Self::LeavesContents { .. } => "leaves_contents",
            Self::WrongType { .. } => "wrong_type",
            Self::Binary { .. } => "binary",
            Self::WrongBlob { .. } => "wrong_blob",
            Self::UnsafePath { .. } => "unsafe_path",
            Self::NoChange => "no_change",
            Self::TooMuchWork => "too_much_work",
            Self::Read { .. } => "read",
        }
    }

    /// Is this ours (a disk that fails) rather than the edit's?
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}
