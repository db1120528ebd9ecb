//! Header lines of one file: `diff --git` and its extended lines, or `---` and `+++`.
//!
//! Owns what each line says and whether they agree. Names are read in `name`. Git is
//! strict about contradictions, and so is this.

use super::name::{self, Ends};
use super::parse::Reader;
use super::{Claim, Move};
use crate::fault::DiffFault;
use crate::tree::{SUBMODULE, TYPE_BITS};

/// Leading path components to drop: one, until a plain diff shows names without any.
#[derive(Clone, Copy, Default)]
pub(super) enum Strip {
    /// One component, not yet certain.
    #[default]
    Guess,
    /// So many, for the rest of the text.
    Known(usize),
}

impl Strip {
    fn count(self) -> usize {
        match self {
            Self::Guess => 1,
            Self::Known(count) => count,
        }
    }
}

/// What the header of one file says.
pub(super) struct Header {
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    pub(super) creates: Claim,
    pub(super) deletes: Claim,
    pub(super) moved: Option<Move>,
    pub(super) old_mode: Option<u32>,
    pub(super) new_mode: Option<u32>,
    /// The ids on the `index` line, as written.
    pub(super) blobs: [String; 2],
    /// The name on the `diff --git` line, if both sides have the same.
    default: Option<String>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            old: None,
            new: None,
            creates: Claim::Open,
            deletes: Claim::Open,
            moved: None,
            old_mode: None,
            new_mode: None,
            blobs: Default::default(),
            default: None,
        }
    }
}

impl Header {
    /// Read `diff --git` and the extended lines after it.
    pub(super) fn read_git(
        &mut self,
        reader: &mut Reader<'_>,
        strip: Strip,
    ) -> Result<(), DiffFault> {
        let strip = strip.count();
        self.creates = Claim::No;
        self.deletes = Claim::No;
        let first = reader.peek();
        self.default = name::of_git_line(first, strip);
        reader.skip(first);
        loop {
            let line = reader.peek();
            if !line.ends_with('\n') || line.starts_with("@@ -") {
                break;
            }
            match self.extended(line, strip) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => return Err(reader.header_fault(why)),
            }
            if self.contradicts() {
                return Err(reader.header_fault("inconsistent header lines"));
            }
            reader.skip(line);
        }
        self.complete().map_err(|why| reader.header_fault(why))
    }

    /// Read the two lines of a plain diff.
    pub(super) fn read_plain(
        &mut self,
        first: &str,
        second: &str,
        strip: &mut Strip,
        line: usize,
    ) -> Result<(), DiffFault> {
        let (first, second) = (&first[4..], &second[4..]);
        // Git asks both names, but the new one decides.
        if matches!(strip, Strip::Guess) && name::has_no_directory(second) {
            *strip = Strip::Known(0);
        }
        let strip = strip.count();
        let found = if name::is_dev_null(first) {
            self.claim(Claim::Yes, Claim::No);
            self.new = name::plain(second, None, strip);
            self.new.is_some()
        } else if name::is_dev_null(second) {
            self.claim(Claim::No, Claim::Yes);
            self.old = name::plain(first, None, strip);
            self.old.is_some()
        } else {
            let before = name::plain(first, None, strip);
            let name = name::plain(second, before.as_deref(), strip);
            let found = name.is_some();
            if name::has_epoch(first) {
                self.claim(Claim::Yes, Claim::No);
                self.new = name;
            } else if name::has_epoch(second) {
                self.claim(Claim::No, Claim::Yes);
                self.old = name;
            } else {
                self.old.clone_from(&name);
                self.new = name;
            }
            found
        };
        let found = if found { Ok(()) } else { Err("unable to find filename in patch") };
        let check = found.and_then(|()| self.names_are_text());
        check.map_err(|why| DiffFault::Header { line, why })
    }

    fn claim(&mut self, creates: Claim, deletes: Claim) {
        self.creates = creates;
        self.deletes = deletes;
    }

    /// One extended line. `Ok(false)` if it is none.
    fn extended(&mut self, line: &str, strip: usize) -> Result<bool, &'static str> {
        let below = strip.saturating_sub(1);
        let moved = |text: &str| name::git(text, below, Ends::AtNewline);
        if let Some(text) = line.strip_prefix("--- ") {
            verify(&mut self.old, self.creates, text, strip)?;
        } else if let Some(text) = line.strip_prefix("+++ ") {
            verify(&mut self.new, self.deletes, text, strip)?;
        } else if let Some(text) = line.strip_prefix("old mode ") {
            self.old_mode = mode(text)?;
        } else if let Some(text) = line.strip_prefix("new mode ") {
            self.new_mode = mode(text)?;
        } else if let Some(text) = line.strip_prefix("deleted file mode ") {
            self.deletes = Claim::Yes;
            self.old.clone_from(&self.default);
            self.old_mode = mode(text)?;
        } else if let Some(text) = line.strip_prefix("new file mode ") {
            self.creates = Claim::Yes;
            self.new.clone_from(&self.default);
            self.new_mode = mode(text)?;
        } else if let Some(text) = line.strip_prefix("copy from ") {
            self.old = moved(text);
            self.set_moved(Move::Copy)?;
        } else if let Some(text) = line.strip_prefix("copy to ") {
            self.new = moved(text);
            self.set_moved(Move::Copy)?;
        } else if let Some(text) = any_prefix(line, ["rename from ", "rename old "]) {
            self.old = moved(text);
            self.set_moved(Move::Rename)?;
        } else if let Some(text) = any_prefix(line, ["rename to ", "rename new "]) {
            self.new = moved(text);
            self.set_moved(Move::Rename)?;
        } else if let Some(text) = line.strip_prefix("index ") {
            self.index(text)?;
        } else {
            let similarity = ["similarity index ", "dissimilarity index "];
            return Ok(any_prefix(line, similarity).is_some());
        }
        Ok(true)
    }

    fn set_moved(&mut self, moved: Move) -> Result<(), &'static str> {
        if self.moved.is_some_and(|before| before != moved) {
            return Err("inconsistent header lines");
        }
        self.moved = Some(moved);
        Ok(())
    }

    /// `1234..5678 100644`: two ids, and a mode only after both.
    fn index(&mut self, text: &str) -> Result<(), &'static str> {
        let Some((before, rest)) = text.split_once('.') else { return Ok(()) };
        let Some(rest) = rest.strip_prefix('.') else { return Ok(()) };
        let after = rest.trim_end_matches('\n').split(' ').next().unwrap_or_default();
        if before.len() > HASH {
            return Ok(());
        }
        before.clone_into(&mut self.blobs[0]);
        if after.len() > HASH {
            return Ok(());
        }
        after.clone_into(&mut self.blobs[1]);
        if let Some(text) = rest.get(after.len()..).and_then(|rest| rest.strip_prefix(' ')) {
            self.old_mode = mode(text)?;
        }
        Ok(())
    }

    fn contradicts(&self) -> bool {
        let claims = [self.creates == Claim::Yes, self.deletes == Claim::Yes, self.moved.is_some()];
        claims.into_iter().filter(|claim| *claim).count() > 1
    }

    /// Fill in names that only the `diff --git` line has.
    fn complete(&mut self) -> Result<(), &'static str> {
        if self.old.is_none() && self.new.is_none() {
            if self.default.is_none() {
                return Err("git diff header lacks filename information");
            }
            self.old.clone_from(&self.default);
            self.new.clone_from(&self.default);
        }
        let lacks_new = self.new.is_none() && self.deletes != Claim::Yes;
        let lacks_old = self.old.is_none() && self.creates != Claim::Yes;
        if lacks_new || lacks_old {
            return Err("git diff header lacks filename information");
        }
        self.names_are_text()
    }

    fn names_are_text(&self) -> Result<(), &'static str> {
        let all = [&self.old, &self.new].into_iter().flatten().all(|name| name::is_text(name));
        if all { Ok(()) } else { Err("a file name that is not UTF-8") }
    }
}

/// Hexadecimal digits of a full SHA-1.
const HASH: usize = 40;

/// A `---` or `+++` line in a git header must agree with what is known already.
fn verify(
    known: &mut Option<String>,
    absent: Claim,
    text: &str,
    strip: usize,
) -> Result<(), &'static str> {
    let absent = absent == Claim::Yes;
    if known.is_none() {
        if !absent {
            *known = name::git(text, strip, Ends::AtTab);
        } else if !name::is_dev_null(text) {
            return Err("bad git-diff: expected /dev/null");
        }
        return Ok(());
    }
    if absent {
        return Err("bad git-diff: expected /dev/null");
    }
    if name::git(text, strip, Ends::AtTab) != *known {
        return Err("bad git-diff: inconsistent filename");
    }
    Ok(())
}

/// An octal mode, as `strtoul` reads it into an `unsigned`.
fn mode(text: &str) -> Result<Option<u32>, &'static str> {
    let text = text.trim_start_matches(name::is_space);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.bytes().take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    let (digits, rest) = unsigned.split_at(end);
    if end == 0 || !rest.starts_with(name::is_space) {
        return Err("invalid mode");
    }
    let bits = u64::from_str_radix(digits, 8).unwrap_or(u64::MAX) as u32;
    let bits = if text.starts_with('-') { bits.wrapping_neg() } else { bits };
    Ok(Some(canonical(bits)))
}

/// Git knows two modes of files, one of links and one of directories. All else, zero too,
/// is a submodule.
fn canonical(bits: u32) -> u32 {
    match bits & TYPE_BITS {
        0o100_000 if bits & 0o100 != 0 => 0o100_755,
        0o100_000 => 0o100_644,
        bits @ (0o120_000 | 0o040_000) => bits,
        _ => SUBMODULE,
    }
}

fn any_prefix<'t, const N: usize>(line: &'t str, prefixes: [&str; N]) -> Option<&'t str> {
    prefixes.iter().find_map(|prefix| line.strip_prefix(prefix))
}
