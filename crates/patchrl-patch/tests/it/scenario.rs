//! A generated tree and a diff for it, before anything is damaged.
//!
//! Owns the files, the edits and the many ways to write them down: git or plain headers,
//! quoted names, little context or none, hunks that touch, renames, copies, modes, links,
//! binary data. What goes wrong afterwards is in `damage`.

use std::fmt::Write as _;
use std::io::Write as _;

use patchrl_patch::{Entry, Mode};
use sha1::{Digest as _, Sha1};

use crate::dice::Dice;
use crate::git::Files;

/// Some files, and sections of a diff, most of which fit them.
pub(crate) fn scenario(dice: &mut Dice) -> (Files, Vec<String>) {
    let files = tree(dice);
    let mut now = files.clone();
    let mut sections = Vec::new();
    for _ in 0..=dice.below(5) / 2 {
        let mut after = now.clone();
        sections.push(section(dice, &mut after));
        // Else the next section starts from the old text too.
        if dice.percent(75) {
            now = after;
        }
    }
    (files, sections)
}

const PATHS: &[&str] = &[
    "f", "g", "d/f", "d/e/h.py", "a b", "t\tb", "ü/é", "q\"q", "b\\s", "n\nl", "f.orig", " x",
    "x ", "-", "a/f", "b/f", "d", "l", "\u{1}", "a b/c d", "dev/null", "...", "ж",
];

fn tree(dice: &mut Dice) -> Files {
    let mut files = Files::new();
    for _ in 0..=dice.below(4) {
        let path = dice.pick(PATHS);
        let clashes = |other: &String| {
            other.starts_with(&format!("{path}/")) || path.starts_with(&format!("{other}/"))
        };
        if !files.keys().any(clashes) {
            files.insert(path.to_owned(), entry(dice));
        }
    }
    files
}

fn entry(dice: &mut Dice) -> Entry {
    match dice.below(20) {
        0 | 1 => Entry { mode: Mode::Symlink, bytes: dice.pick(LINKS).as_bytes().to_vec() },
        2 | 3 => Entry { mode: Mode::Executable, bytes: text(dice).into_bytes() },
        4 => Entry { mode: Mode::Regular, bytes: binary(dice) },
        _ => Entry { mode: Mode::Regular, bytes: text(dice).into_bytes() },
    }
}

/// Targets of links. One of them is a file of the tree at times.
const LINKS: &[&str] = &["f", "d", "nowhere", "d/f", "x y", "."];

fn binary(dice: &mut Dice) -> Vec<u8> {
    let length = dice.pick(&[1, 3, 20, 60, 300]);
    let alphabet = dice.pick(&[2, 256]);
    let mut bytes: Vec<u8> = (0..length).map(|_| dice.below(alphabet) as u8).collect();
    bytes[0] = 0;
    bytes
}

/// Few different lines, so that hunks fit in several places, and lines that look like
/// parts of a diff.
const LINES: &[&str] = &[
    "a",
    "b",
    "c",
    "a ",
    "",
    "",
    "  x",
    "\tx",
    "-- q",
    "++ r",
    "- a",
    "ü",
    "@@ -1 +1 @@",
    " ",
    "}",
    "diff --git a/f b/f",
    "--- a/f",
    "+++ b/f",
    "\\ No newline",
    "a\r",
    "\r",
    "x = 1",
    "return",
];

fn line(dice: &mut Dice, kinds: usize) -> String {
    if dice.percent(20) {
        return format!("{}\n", dice.below(40));
    }
    format!("{}\n", LINES[dice.below(kinds)])
}

fn text(dice: &mut Dice) -> String {
    let count = match dice.below(10) {
        0 => 0,
        1..6 => 1 + dice.below(8),
        6..9 => 8 + dice.below(20),
        _ => 40 + dice.below(60),
    };
    let kinds = dice.pick(&[3, 6, LINES.len()]);
    let lines: String = (0..count).map(|_| line(dice, kinds)).collect();
    finish(dice, lines)
}

/// At times without the last newline, or with carriage returns.
fn finish(dice: &mut Dice, mut text: String) -> String {
    if dice.percent(8) {
        text = text.replace('\n', "\r\n");
    }
    if dice.percent(15) && text.len() > 1 {
        text.pop();
    }
    text
}

/// How a diff is written.
#[expect(clippy::struct_excessive_bools, reason = "each is one habit of a diff program")]
struct Style {
    git: bool,
    context: usize,
    /// Join hunks whose context meets, as every diff program does.
    joins: bool,
    raw_names: bool,
    stamps: bool,
    full_ids: bool,
    index_mode: bool,
}

impl Style {
    fn any(dice: &mut Dice) -> Self {
        Self {
            git: dice.percent(65),
            context: dice.pick(&[3, 3, 3, 3, 1, 0, 2, 5]),
            joins: dice.percent(90),
            raw_names: dice.percent(20),
            stamps: dice.percent(25),
            full_ids: dice.percent(80),
            index_mode: dice.percent(80),
        }
    }
}

/// A change of `files` and its diff.
fn section(dice: &mut Dice, files: &mut Files) -> String {
    let style = Style::any(dice);
    let old = files.keys().nth(dice.below(files.len())).cloned();
    let Some(path) = old.filter(|_| dice.percent(88)) else {
        return creation(dice, &style, files);
    };
    let before = files[&path].clone();
    match dice.below(12) {
        0 => {
            files.remove(&path);
            written(dice, &style, &Pair { old: Some((&path, &before)), new: None, words: "" })
        }
        1 | 2 => moved(dice, &style, files, &path),
        3 => {
            let mode = dice.pick(&[Mode::Regular, Mode::Executable, Mode::Symlink]);
            let after = Entry { mode, ..before.clone() };
            changed(dice, &style, files, &path, after)
        }
        4 => {
            let after = entry(dice);
            changed(dice, &style, files, &path, after)
        }
        _ => {
            let after = edited(dice, &before);
            changed(dice, &style, files, &path, after)
        }
    }
}

fn creation(dice: &mut Dice, style: &Style, files: &mut Files) -> String {
    let path = dice.pick(PATHS);
    let after = entry(dice);
    let text = written(dice, style, &Pair { old: None, new: Some((path, &after)), words: "" });
    files.insert(path.to_owned(), after);
    text
}

fn moved(dice: &mut Dice, style: &Style, files: &mut Files, path: &str) -> String {
    let to = dice.pick(PATHS);
    let before = files[path].clone();
    let after = if dice.percent(50) { before.clone() } else { edited(dice, &before) };
    let verb = if dice.percent(50) { "rename" } else { "copy" };
    let words =
        format!("{verb} from {}\n{verb} to {}\n", quoted("", path, style), quoted("", to, style));
    let pair = Pair { old: Some((path, &before)), new: Some((to, &after)), words: &words };
    let text = written(dice, &Style { git: true, ..*style }, &pair);
    if verb == "rename" {
        files.remove(path);
    }
    files.insert(to.to_owned(), after);
    text
}

fn changed(dice: &mut Dice, style: &Style, files: &mut Files, path: &str, after: Entry) -> String {
    let before = files[path].clone();
    let is_link = |entry: &Entry| entry.mode == Mode::Symlink;
    let text = if is_link(&before) == is_link(&after) || dice.percent(20) {
        let pair = Pair { old: Some((path, &before)), new: Some((path, &after)), words: "" };
        written(dice, style, &pair)
    } else {
        let gone = Pair { old: Some((path, &before)), new: None, words: "" };
        let come = Pair { old: None, new: Some((path, &after)), words: "" };
        written(dice, style, &gone) + &written(dice, style, &come)
    };
    files.insert(path.to_owned(), after);
    text
}

fn edited(dice: &mut Dice, entry: &Entry) -> Entry {
    let mode = entry.mode;
    if mode == Mode::Symlink {
        return Entry { mode, bytes: dice.pick(LINKS).as_bytes().to_vec() };
    }
    let Ok(text) = String::from_utf8(entry.bytes.clone()) else {
        let mut bytes = entry.bytes.clone();
        let at = dice.below(bytes.len());
        bytes.splice(at..at, binary(dice));
        return Entry { mode, bytes };
    };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for _ in 0..=dice.below(4) {
        let at = dice.below(lines.len() + 1);
        let end = lines.len().min(at + dice.below(3));
        let new: Vec<String> = (0..dice.below(4)).map(|_| line(dice, LINES.len())).collect();
        lines.splice(at..end, new);
    }
    let bytes = match dice.below(12) {
        0 => lines.concat().trim_end_matches('\n').to_owned(),
        1 => lines.concat() + "\n",
        2 => lines.concat().replace("\r\n", "\n"),
        _ => lines.concat(),
    };
    Entry { mode, bytes: bytes.into_bytes() }
}

/// Both sides of a change, and header lines that only it has.
struct Pair<'t> {
    old: Option<(&'t str, &'t Entry)>,
    new: Option<(&'t str, &'t Entry)>,
    words: &'t str,
}

fn written(dice: &mut Dice, style: &Style, pair: &Pair<'_>) -> String {
    let mut out = String::new();
    let (old_path, new_path) = names(pair);
    let bytes = |side: Option<(&str, &Entry)>| side.map_or(Vec::new(), |(_, it)| it.bytes.clone());
    let (before, after) = (bytes(pair.old), bytes(pair.new));
    if style.git {
        out += &git_header(style, pair, &before, &after);
    }
    if before == after {
        return out;
    }
    let is_text = |bytes: &[u8]| !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
    if !is_text(&before) || !is_text(&after) {
        return out + &binary_data(dice, &before, &after);
    }
    let stamp = |time: &str| if style.stamps { format!("\t{time}") } else { String::new() };
    let side = |prefix: &str, path: &str, is_there: bool, time: &str| {
        if !is_there {
            return "/dev/null".to_owned() + &stamp("1970-01-01 00:00:00.000000000 +0000");
        }
        let name = quoted(prefix, path, style);
        let tab = if name.contains(' ') && !style.stamps { "\t" } else { "" };
        name + tab + &stamp(time)
    };
    let old = side("a/", old_path, pair.old.is_some(), "2020-01-01 10:00:00.123 +0100");
    let new = side("b/", new_path, pair.new.is_some(), "2021-02-03 04:05:06");
    let (before, after) = (String::from_utf8(before).unwrap(), String::from_utf8(after).unwrap());
    out + &format!("--- {old}\n+++ {new}\n") + &hunks(&before, &after, style)
}

fn names<'t>(pair: &Pair<'t>) -> (&'t str, &'t str) {
    let old = pair.old.or(pair.new).map_or("", |(path, _)| path);
    let new = pair.new.or(pair.old).map_or("", |(path, _)| path);
    (old, new)
}

fn git_header(style: &Style, pair: &Pair<'_>, before: &[u8], after: &[u8]) -> String {
    let (old_path, new_path) = names(pair);
    let (old, new) = (quoted("a/", old_path, style), quoted("b/", new_path, style));
    let mut out = format!("diff --git {old} {new}\n");
    let mode = |side: Option<(&str, &Entry)>| side.map(|(_, entry)| entry.mode);
    let mut same = None;
    match (mode(pair.old), mode(pair.new)) {
        (None, Some(mode)) => writeln!(out, "new file mode {}", mode.octal()).unwrap(),
        (Some(mode), None) => writeln!(out, "deleted file mode {}", mode.octal()).unwrap(),
        (Some(old), Some(new)) if old != new => {
            write!(out, "old mode {}\nnew mode {}\n", old.octal(), new.octal()).unwrap();
        }
        (mode, _) => same = mode,
    }
    out += pair.words;
    if before != after || pair.old.is_none() || pair.new.is_none() {
        let id = |side: Option<(&str, &Entry)>, bytes: &[u8]| {
            let id = side.map_or("0".repeat(40), |_| blob_id(bytes));
            if style.full_ids { id } else { id[..7].to_owned() }
        };
        write!(out, "index {}..{}", id(pair.old, before), id(pair.new, after)).unwrap();
        match same.filter(|_| style.index_mode) {
            Some(mode) => writeln!(out, " {}", mode.octal()).unwrap(),
            None => out.push('\n'),
        }
    }
    out
}

pub(crate) fn blob_id(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name with its prefix, quoted as C does where git does.
fn quoted(prefix: &str, path: &str, style: &Style) -> String {
    let is_odd = |c: char| c < ' ' || matches!(c, '"' | '\\') || (c > '~' && !style.raw_names);
    if !path.contains(is_odd) {
        return format!("{prefix}{path}");
    }
    let mut out = format!("\"{prefix}");
    for byte in path.bytes() {
        match byte {
            b'\t' => out += "\\t",
            b'\n' => out += "\\n",
            b'"' | b'\\' => out.extend(['\\', byte as char]),
            b' '..=b'~' => out.push(byte as char),
            _ => write!(out, "\\{byte:03o}").unwrap(),
        }
    }
    out + "\""
}

/// Changed line ranges: the longest common subsequence of short texts.
fn changes(old: &[&str], new: &[&str]) -> Vec<[usize; 4]> {
    let mut longest = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let mut changes = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let (from_i, from_j) = (i, j);
        while (i < old.len() || j < new.len())
            && !(i < old.len() && j < new.len() && old[i] == new[j])
        {
            if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
                i += 1;
            } else {
                j += 1;
            }
        }
        if (from_i, from_j) == (i, j) {
            i += 1;
            j += 1;
        } else {
            changes.push([from_i, i, from_j, j]);
        }
    }
    changes
}

fn hunks(before: &str, after: &str, style: &Style) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let changes = changes(&old, &new);
    let joined = |a: &[usize; 4], b: &[usize; 4]| style.joins && b[0] - a[1] <= 2 * style.context;
    let mut out = String::new();
    for group in changes.chunk_by(joined) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let lead = first[0].min(style.context);
        let tail = (old.len() - last[1]).min(style.context);
        let span = |from: usize, count: usize| match count {
            0 => format!("{from},0"),
            1 => format!("{}", from + 1),
            count => format!("{},{count}", from + 1),
        };
        let old_span = span(first[0] - lead, lead + last[1] - first[0] + tail);
        // Above is less than the context where hunks overlap.
        let new_start = first[2].saturating_sub(lead);
        let new_span = span(new_start, lead + last[3] - first[2] + tail);
        writeln!(out, "@@ -{old_span} +{new_span} @@").unwrap();
        let mut at = first[0] - lead;
        for change in group {
            show(&mut out, ' ', &old[at..change[0]]);
            show(&mut out, '-', &old[change[0]..change[1]]);
            show(&mut out, '+', &new[change[2]..change[3]]);
            at = change[1];
        }
        show(&mut out, ' ', &old[at..last[1] + tail]);
    }
    out
}

fn show(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        *out += line;
        if !line.ends_with('\n') {
            *out += "\n\\ No newline at end of file\n";
        }
    }
}

/// A binary change: with data, with data for one direction, or without.
fn binary_data(dice: &mut Dice, before: &[u8], after: &[u8]) -> String {
    if dice.percent(10) {
        return "Binary files a/f and b/f differ\n".to_owned();
    }
    let mut out = "GIT binary patch\n".to_owned();
    for (from, to) in [(before, after), (after, before)] {
        let is_delta = dice.percent(50);
        let bytes = if is_delta { delta(from, to) } else { to.to_vec() };
        writeln!(out, "{} {}", if is_delta { "delta" } else { "literal" }, bytes.len()).unwrap();
        out += &base_85(&bytes);
        out.push('\n');
        if dice.percent(10) {
            break;
        }
    }
    out
}

/// Copy the common start, add what differs, copy the common end.
fn delta(from: &[u8], to: &[u8]) -> Vec<u8> {
    let start = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let (rest, more) = (&from[start..], &to[start..]);
    let end = rest.iter().rev().zip(more.iter().rev()).take_while(|(a, b)| a == b).count();
    let mut out = Vec::new();
    for mut size in [from.len(), to.len()] {
        while size > 0x7f {
            out.push(size as u8 | 0x80);
            size >>= 7;
        }
        out.push(size as u8);
    }
    let copy = |at: usize, count: usize| -> Vec<u8> {
        let [a, b, ..] = at.to_le_bytes();
        let [c, d, ..] = count.to_le_bytes();
        if count == 0 { Vec::new() } else { vec![0xb3, a, b, c, d] }
    };
    out.extend(copy(0, start));
    for piece in more[..more.len() - end].chunks(127) {
        out.push(piece.len() as u8);
        out.extend(piece);
    }
    out.extend(copy(from.len() - end, end));
    out
}

pub(crate) fn base_85(bytes: &[u8]) -> String {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(bytes).unwrap();
    let digits =
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    let mut out = String::new();
    for line in packed.finish().unwrap().chunks(52) {
        let length = line.len() as u8;
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 } as char);
        for group in line.chunks(4) {
            let mut word = [0; 4];
            word[..group.len()].copy_from_slice(group);
            let number = u32::from_be_bytes(word);
            for power in [85_u32.pow(4), 85_u32.pow(3), 85_u32.pow(2), 85, 1] {
                out.push(digits[(number / power % 85) as usize] as char);
            }
        }
        out.push('\n');
    }
    out
}
