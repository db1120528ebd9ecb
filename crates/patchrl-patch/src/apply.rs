//! A diff onto a tree, as `git apply` does it.
//!
//! Owns the order of files, what may be created, renamed and deleted, and that all of it
//! happens or nothing. Finding a hunk's place is in `image`, binary changes are in
//! `binary`.
//!
//! Differs from git outside a repository on purpose, all of it on the side of refusing:
//! submodules, which git also sees in any directory that a diff changes like a file; a
//! file in place of a directory, even one that the same diff empties; binary data of more than 64 MiB in one diff; paths of more than 4,096 bytes or with a NUL; an
//! edit that costs more than `Work` allows; and a result equal to the tree. Inside a
//! repository git also takes a binary file that is not in the diff from its object store.

mod binary;
mod image;

use std::collections::{BTreeMap, BTreeSet};

use self::image::{Image, Target};
use crate::diff::{Claim, FilePatch, Move, Patch};
use crate::edit::Placed;
use crate::fault::ApplyFault;
use crate::tree::{self, Changes, Entry, Mode, SUBMODULE, TYPE_BITS, Tree};
use crate::work::{LINE, Work};

/// Apply every file of `patch`, or give the first fault. Hunks that found their place
/// before it are in `placed`.
pub(crate) fn apply(
    patch: &Patch,
    tree: &dyn Tree,
    placed: &mut Vec<Placed>,
) -> Result<Changes, ApplyFault> {
    let mut session = Session::new(patch, tree, placed);
    for file in patch.files() {
        session.file(patch, file)?;
    }
    session.finish()
}

/// What the diff has said about a path so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// A later file of the diff deletes it or renames it away.
    WillGo,
    /// An earlier one did.
    Gone,
    /// An earlier one wrote it.
    Written,
    /// An earlier one deleted it and still names it on its new side: for later ones it is
    /// an empty file of these mode bits.
    Emptied(u32),
}

/// What asking the tree about one path costs.
const LOOK: u64 = 512;

struct Session<'p> {
    tree: &'p dyn Tree,
    placed: &'p mut Vec<Placed>,
    work: Work,
    slots: BTreeMap<&'p str, Slot>,
    /// Symbolic links the diff writes, and those it takes away.
    links: BTreeSet<&'p str>,
    removed_links: BTreeSet<&'p str>,
    /// Git removes every old file before it writes any new one.
    removed: BTreeSet<&'p str>,
    written: BTreeMap<String, Entry>,
}

/// The old side of one file.
struct Old {
    bits: u32,
    bytes: Vec<u8>,
}

impl<'p> Session<'p> {
    fn new(patch: &'p Patch, tree: &'p dyn Tree, placed: &'p mut Vec<Placed>) -> Self {
        let mut session = Self {
            tree,
            placed,
            work: Work::new(),
            slots: BTreeMap::new(),
            links: BTreeSet::new(),
            removed_links: BTreeSet::new(),
            removed: BTreeSet::new(),
            written: BTreeMap::new(),
        };
        let is_link = |mode: Option<u32>| mode.is_some_and(|bits| bits & TYPE_BITS == 0o120_000);
        for file in patch.files() {
            let leaves = file.new.is_none() || file.moved == Some(Move::Rename);
            if let Some(old) = file.old.as_deref() {
                if leaves {
                    session.slots.insert(old, Slot::WillGo);
                }
                let deletes = file.deletes != Claim::No || file.moved == Some(Move::Rename);
                if is_link(file.old_mode) && deletes {
                    session.removed_links.insert(old);
                }
            }
            if let Some(new) = file.new.as_deref()
                && is_link(file.new_mode)
            {
                session.links.insert(new);
            }
        }
        session
    }

    fn file(&mut self, patch: &'p Patch, file: &'p FilePatch) -> Result<(), ApplyFault> {
        check_header(file)?;
        for path in [&file.old, &file.new].into_iter().flatten() {
            // Every directory above is looked at.
            self.work.spend(LOOK * (2 + path.matches('/').count() as u64))?;
        }
        let old = self.old_side(file)?;
        // A plain diff of a file that is not there creates it.
        let creates = file.creates == Claim::Yes || (file.old.is_some() && old.is_none());
        let deletes = if creates { Claim::No } else { file.deletes };
        if let Some(new) = file.new.as_deref() {
            if creates || file.moved.is_some() {
                self.check_vacant(new)?;
            }
            if deletes == Claim::No && self.is_beyond_link(new)? {
                return Err(ApplyFault::UnsafePath { path: new.to_owned() });
            }
        }
        let old_bits = old.as_ref().map(|old| file.old_mode.unwrap_or(old.bits));
        let new_bits = match (file.new_mode, &old) {
            (Some(bits), _) => bits,
            // Kept as it is in the tree, whatever the diff thinks it was.
            (None, Some(old)) if deletes == Claim::No => old.bits,
            (None, _) => old_bits.unwrap_or(Mode::Regular.bits()),
        };
        if let Some(old_bits) = old_bits
            && file.new.is_some()
            && (old_bits ^ new_bits) & TYPE_BITS != 0
        {
            return Err(ApplyFault::WrongType { path: file.path().to_owned() });
        }
        let bytes = old.map(|old| old.bytes).unwrap_or_default();
        let bytes = if file.binary {
            binary::patched(patch, file, &bytes, &mut self.work)?
        } else {
            self.patched(patch, file, &bytes)?
        };
        if deletes == Claim::Yes && !bytes.is_empty() {
            return Err(ApplyFault::LeavesContents { path: file.path().to_owned() });
        }
        if deletes == Claim::Yes {
            self.record_deletion(file, new_bits);
            return Ok(());
        }
        self.record(file, creates, Entry { mode: Mode::from_bits(new_bits), bytes })
    }

    /// Read the file to change: from the tree, or as an earlier part of the diff left it.
    /// `None` if the file is created.
    fn old_side(&mut self, file: &'p FilePatch) -> Result<Option<Old>, ApplyFault> {
        let Some(path) = file.old.as_deref() else { return Ok(None) };
        // Renames and copies start from the tree, in whatever order they come.
        let slot = if file.moved.is_some() { None } else { self.slots.get(path) };
        let entry = match slot {
            Some(Slot::Gone) => return Err(ApplyFault::Gone { path: path.to_owned() }),
            Some(Slot::Written) => self.written.get(path).cloned(),
            Some(Slot::Emptied(bits)) => {
                Some(Entry { mode: Mode::from_bits(*bits), bytes: Vec::new() })
            }
            Some(Slot::WillGo) | None => {
                if self.has_link_above(path)? {
                    return Err(ApplyFault::UnsafePath { path: path.to_owned() });
                }
                self.read(path)?
            }
        };
        let Some(entry) = entry else {
            if file.creates == Claim::Open {
                return Ok(None);
            }
            return Err(ApplyFault::NoSuchFile { path: path.to_owned() });
        };
        self.work.spend(entry.bytes.len() as u64 + LINE)?;
        let bits = entry.mode.bits();
        if file.old_mode.is_some_and(|wanted| (wanted ^ bits) & TYPE_BITS != 0) {
            return Err(ApplyFault::WrongType { path: path.to_owned() });
        }
        Ok(Some(Old { bits, bytes: entry.bytes }))
    }

    /// Refuse to create what is there, unless the diff takes it away.
    fn check_vacant(&self, path: &str) -> Result<(), ApplyFault> {
        let leaves = matches!(self.slots.get(path), Some(Slot::WillGo | Slot::Gone));
        if !leaves && self.read(path)?.is_some() && !self.has_link_above(path)? {
            return Err(ApplyFault::AlreadyExists { path: path.to_owned() });
        }
        Ok(())
    }

    /// The text after all hunks of one file.
    fn patched(
        &mut self,
        patch: &Patch,
        file: &FilePatch,
        bytes: &[u8],
    ) -> Result<Vec<u8>, ApplyFault> {
        let mut image = Image::new(bytes);
        self.work.spend(image.len() as u64)?;
        for (at, hunk) in file.hunks.iter().enumerate() {
            let (path, number) = (file.path().to_owned(), at + 1);
            let target = Target::new(hunk, patch.body(hunk));
            match image.apply(&target, &mut self.work)? {
                Some(line) => self.placed.push(Placed { path, number, line: line + 1 }),
                None => return Err(ApplyFault::ContextMismatch { path, hunk: number }),
            }
        }
        Ok(image.into_bytes())
    }

    fn record_deletion(&mut self, file: &'p FilePatch, bits: u32) {
        self.removed.extend(file.old.as_deref());
        match (file.new.as_deref(), file.old.as_deref()) {
            (Some(new), _) => self.slots.insert(new, Slot::Emptied(bits)),
            (None, Some(old)) => self.slots.insert(old, Slot::Gone),
            (None, None) => None,
        };
    }

    /// Note what becomes of the old and the new name.
    fn record(
        &mut self,
        file: &'p FilePatch,
        creates: bool,
        entry: Entry,
    ) -> Result<(), ApplyFault> {
        if entry.mode == Mode::Symlink && target(&entry.bytes).is_empty() && file.new.is_some() {
            let why = "a symbolic link needs a target";
            return Err(ApplyFault::Malformed { path: file.path().to_owned(), why });
        }
        if let Some(old) = file.old.as_deref()
            && !creates
            && file.moved != Some(Move::Copy)
        {
            self.removed.insert(old);
        }
        if let Some(new) = file.new.as_deref() {
            self.work.spend(entry.bytes.len() as u64)?;
            self.slots.insert(new, Slot::Written);
            self.written.insert(new.to_owned(), entry);
        }
        if let Some(old) = file.old.as_deref()
            && (file.new.is_none() || file.moved == Some(Move::Rename))
        {
            self.slots.insert(old, Slot::Gone);
        }
        Ok(())
    }

    /// Check that every written path has a place, and keep what differs from the tree.
    fn finish(self) -> Result<Changes, ApplyFault> {
        for path in self.written.keys() {
            for above in tree::parents(path) {
                let is_file = self.written.contains_key(above)
                    || (!self.removed.contains(above) && self.read(above)?.is_some());
                if is_file {
                    return Err(ApplyFault::AlreadyExists { path: above.to_owned() });
                }
            }
            check_no_directory(self.tree, path)?;
        }
        let mut changes = Changes::new();
        for path in &self.removed {
            if !self.written.contains_key(*path) && self.read(path)?.is_some() {
                changes.insert((*path).to_owned(), None);
            }
        }
        for (path, mut entry) in self.written {
            if entry.mode == Mode::Symlink {
                entry.bytes.truncate(target(&entry.bytes).len());
            }
            if read(self.tree, &path)?.as_ref() != Some(&entry) {
                changes.insert(path, Some(entry));
            }
        }
        Ok(changes)
    }

    /// Is a directory above `path` a symbolic link once the diff is applied?
    fn is_beyond_link(&self, path: &str) -> Result<bool, ApplyFault> {
        for above in tree::parents(path) {
            if self.links.contains(above) {
                return Ok(true);
            }
            if !self.removed_links.contains(above) && self.is_link(above)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Is a directory above `path` a symbolic link in the tree as it is?
    fn has_link_above(&self, path: &str) -> Result<bool, ApplyFault> {
        for above in tree::parents(path) {
            if self.is_link(above)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_link(&self, path: &str) -> Result<bool, ApplyFault> {
        Ok(self.read(path)?.is_some_and(|entry| entry.mode == Mode::Symlink))
    }

    fn read(&self, path: &str) -> Result<Option<Entry>, ApplyFault> {
        read(self.tree, path)
    }
}

/// Read from a tree; a failure is the tree's.
pub(crate) fn read(tree: &dyn Tree, path: &str) -> Result<Option<Entry>, ApplyFault> {
    tree.entry(path).map_err(|source| ApplyFault::Read { path: path.to_owned(), source })
}

/// Refuse to put a file where a directory is.
pub(crate) fn check_no_directory(tree: &dyn Tree, path: &str) -> Result<(), ApplyFault> {
    match tree.is_directory(path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(ApplyFault::AlreadyExists { path: path.to_owned() }),
        Err(source) => Err(ApplyFault::Read { path: path.to_owned(), source }),
    }
}

/// What becomes of a link's text: the system ends it at a NUL.
fn target(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Refuse what can be told from the header alone.
fn check_header(file: &FilePatch) -> Result<(), ApplyFault> {
    for path in [&file.old, &file.new].into_iter().flatten() {
        if !tree::is_safe_path(path) {
            return Err(ApplyFault::UnsafePath { path: path.clone() });
        }
    }
    let path = || file.path().to_owned();
    if file.creates == Claim::Yes && file.old.is_some() {
        // Git deletes under a name left over, but trips over it here.
        return Err(ApplyFault::Malformed { path: path(), why: "a new file with an old name" });
    }
    let is_submodule = |mode: Option<u32>| mode.is_some_and(|bits| bits & TYPE_BITS == SUBMODULE);
    if is_submodule(file.old_mode) || is_submodule(file.new_mode) {
        return Err(ApplyFault::Malformed { path: path(), why: "submodules are not supported" });
    }
    Ok(())
}
