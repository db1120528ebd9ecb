//! Names of git objects, computed without git: blobs, trees and commits in the SHA-1 format.
//!
//! Owns the byte forms that git hashes, and the same history as a `git fast-import` stream. Writes
//! no repository. Regular files only.

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};

/// Path to text: a whole tree of regular files.
pub(crate) type Tree = BTreeMap<String, String>;

/// One commit with its whole tree.
pub(crate) struct Commit<'a> {
    pub(crate) author: &'a str,
    pub(crate) email: &'a str,
    /// Seconds since 1970, UTC.
    pub(crate) time: u64,
    pub(crate) message: &'a str,
    pub(crate) tree: &'a Tree,
}

impl Commit<'_> {
    /// The commit's name, given its parent's.
    pub(crate) fn id(&self, parent: Option<&str>) -> String {
        let tree = hex(&tree_id(self.tree));
        let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
        let person = self.person();
        let message = self.message;
        let body =
            format!("tree {tree}\n{parent}author {person}\ncommitter {person}\n\n{message}\n");
        hex(&object_id("commit", body.as_bytes()))
    }

    /// The commit as part of a stream, on `branch`, with mark `mark`.
    pub(crate) fn write(&self, stream: &mut Vec<u8>, branch: &str, mark: usize, parent: usize) {
        let person = self.person();
        let message = self.message;
        let length = message.len() + 1;
        let from = if parent > 0 { format!("from :{parent}\n") } else { String::new() };
        let head = format!(
            "commit {branch}\nmark :{mark}\nauthor {person}\ncommitter {person}\n\
             data {length}\n{message}\n\n{from}deleteall\n"
        );
        stream.extend_from_slice(head.as_bytes());
        for (path, text) in self.tree {
            let file = format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
            stream.extend_from_slice(file.as_bytes());
        }
        stream.push(b'\n');
    }

    fn person(&self) -> String {
        format!("{} <{}> {} +0000", self.author, self.email, self.time)
    }
}

/// A name for files that are in no repository: the same for the same paths and texts.
pub(crate) fn files_id(files: &Tree) -> String {
    let mut body = Vec::new();
    for (path, text) in files {
        body.extend_from_slice(format!("{} {path}\0{}\0", path.len(), text.len()).as_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    hex(&object_id("files", &body))
}

fn tree_id(tree: &Tree) -> [u8; 20] {
    let mut folders: BTreeMap<&str, Tree> = BTreeMap::new();
    // git sorts a folder as if its name ended in `/`.
    let mut entries: BTreeMap<String, (&str, &str, [u8; 20])> = BTreeMap::new();
    for (path, text) in tree {
        if let Some((folder, rest)) = path.split_once('/') {
            folders.entry(folder).or_default().insert(rest.to_owned(), text.clone());
        } else {
            let id = object_id("blob", text.as_bytes());
            entries.insert(path.clone(), ("100644", path, id));
        }
    }
    for (folder, inner) in &folders {
        entries.insert(format!("{folder}/"), ("40000", folder, tree_id(inner)));
    }
    let mut body = Vec::new();
    for (mode, name, id) in entries.values() {
        body.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        body.extend_from_slice(id);
    }
    object_id("tree", &body)
}

fn object_id(class: &str, body: &[u8]) -> [u8; 20] {
    let mut hasher = Sha1::new();
    hasher.update(format!("{class} {}\0", body.len()));
    hasher.update(body);
    hasher.finalize().into()
}

fn hex(id: &[u8; 20]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    id.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_ones_git_gives() {
        // `git hash-object` and `git mktree` of the empty input.
        assert_eq!(hex(&object_id("blob", b"")), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(hex(&tree_id(&Tree::new())), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }
}
