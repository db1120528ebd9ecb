//! Rust files and the code in them.
//!
//! Owns finding the files and leaving out comment lines. Reads lines, not syntax:
//! a word inside a string counts as code.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// All `.rs` files under a folder, in order; none if there is no such folder.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in fs_err::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The lines that are not comments, with their numbers from 1.
pub(crate) fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Whether `word` stands in `line` as a whole identifier.
pub(crate) fn names(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::{code, names};

    #[test]
    fn a_word_is_whole_or_not_there() {
        assert!(names("use clap::Parser;", "clap"));
        assert!(names("#[derive(clap::Parser)]", "clap"));
        assert!(!names("let overclap = clap_it();", "clap"));
        assert!(names("clapper; clap", "clap"));
    }

    #[test]
    fn comments_are_not_code() {
        let lines: Vec<_> = code("//! a\nuse b;\n  /// c\n").collect();
        assert_eq!(lines, [(2, "use b;")]);
    }
}
