//! File names in diff headers: prefixes, C-style quoting, timestamps.
//!
//! Owns how a name ends and what is stripped from it. A quoted name may hold any bytes;
//! one that no text can hold is read as a name with a NUL, see [`is_text`].

/// Where an unquoted name ends, besides at the newline and at a carriage return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Tabs belong to the name.
    AtNewline,
    /// At a tab, after which a timestamp may stand.
    AtTab,
}

/// A name in a git header line, with `strip` leading components dropped.
pub(super) fn git(text: &str, strip: usize, ends: Ends) -> Option<String> {
    quoted(text, strip).or_else(|| unquoted(cut(text, ends), None, strip))
}

/// A name on a `---` or `+++` line of a plain diff. `shorter` is the name of the other
/// side, preferred where this one only adds something like `.orig`.
pub(super) fn plain(text: &str, shorter: Option<&str>, strip: usize) -> Option<String> {
    if let Some(name) = quoted(text, strip) {
        return Some(name);
    }
    let line = text.split('\n').next().unwrap_or_default();
    match timestamp_start(line) {
        Some(end) => unquoted(&line[..end], shorter, strip),
        None => unquoted(cut(text, Ends::AtTab), shorter, strip),
    }
}

/// Is the name of a plain diff one without any directory?
pub(super) fn has_no_directory(text: &str) -> bool {
    !is_dev_null(text) && plain(text, None, 0).is_some_and(|name| !name.contains('/'))
}

pub(super) fn is_dev_null(text: &str) -> bool {
    text.strip_prefix("/dev/null").is_some_and(|rest| rest.starts_with(is_space))
}

/// White space as git counts it.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The name on a `diff --git` line, if both sides have the same.
pub(super) fn of_git_line(line: &str, strip: usize) -> Option<String> {
    let text = line.strip_prefix("diff --git ")?;
    if text.starts_with('"') {
        let (first, rest) = unquote(text)?;
        let first = below(&first, strip)?;
        // Names that are equal are both quoted or both not.
        let (second, _) = unquote(rest.trim_start_matches(is_space))?;
        return (below(&second, strip)? == first).then(|| first.to_owned());
    }
    let text = text.strip_suffix('\n')?;
    let name = below(text, strip)?;
    if let Some(at) = name.find('"') {
        let (second, _) = unquote(&name[at..])?;
        let second = below(&second, strip)?;
        let fits = second.len() < at
            && name.starts_with(second)
            && name[second.len()..].starts_with(is_space);
        return fits.then(|| second.to_owned());
    }
    twice(name, strip)
}

/// `x b/x` gives `x`. The separator may be any blank, since names may hold blanks.
fn twice(text: &str, strip: usize) -> Option<String> {
    let bytes = text.as_bytes();
    let mut slash = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b' ' | b'\t') {
            continue;
        }
        let second = if strip == 0 {
            at + 1
        } else {
            slash = slash.max(at + 1);
            while bytes.get(slash).is_some_and(|byte| *byte != b'/') {
                slash += 1;
            }
            slash + 1
        };
        let starts_with_slash = bytes.get(at + 1) == Some(&b'/');
        // `second` never moves back, so that at most one `at` passes this test.
        if starts_with_slash || second + at != bytes.len() {
            continue;
        }
        if bytes[..at] == bytes[second..] {
            return Some(text[..at].to_owned());
        }
    }
    None
}

/// `text` without `strip` leading components; absolute names have none.
fn below(text: &str, strip: usize) -> Option<&str> {
    if strip == 0 {
        return (!text.starts_with('/')).then_some(text);
    }
    let (at, _) = text.match_indices('/').nth(strip - 1)?;
    (at > 0).then(|| &text[at + 1..])
}

/// A name in C-style quotes with `strip` components dropped.
fn quoted(text: &str, strip: usize) -> Option<String> {
    let (name, _) = unquote(text)?;
    let mut rest = name.as_str();
    for _ in 0..strip {
        rest = rest.split_once('/')?.1;
    }
    Some(squash(rest))
}

/// Drop `strip` components of an unquoted name.
fn unquoted(name: &str, shorter: Option<&str>, strip: usize) -> Option<String> {
    let rest = if strip == 0 {
        name
    } else {
        name.match_indices('/').nth(strip - 1).map_or("", |(at, _)| &name[at + 1..])
    };
    match shorter {
        Some(short) if rest.is_empty() => Some(squash(short)),
        Some(short) if short.len() < rest.len() && rest.starts_with(short) => Some(squash(short)),
        _ => (!rest.is_empty()).then(|| squash(rest)),
    }
}

fn cut(text: &str, ends: Ends) -> &str {
    let end = text.find(|c| matches!(c, '\n' | '\r') || (c == '\t' && ends == Ends::AtTab));
    &text[..end.unwrap_or(text.len())]
}

/// Repeated slashes count as one.
fn squash(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c != '/' || !out.ends_with('/') {
            out.push(c);
        }
    }
    out
}

/// Can a tree of this crate hold the name? Git takes any bytes but NUL, where it cuts.
pub(super) fn is_text(name: &str) -> bool {
    !name.contains('\0')
}

/// The name as text. If it is not UTF-8 each byte beyond ASCII gets a NUL before it, so that
/// names are equal if and only if their bytes are.
fn decoded(bytes: Vec<u8>) -> String {
    let escaped = |bytes: Vec<u8>| {
        let nul = |byte: &u8| (*byte >= 0x80).then_some('\0');
        bytes.iter().flat_map(|byte| nul(byte).into_iter().chain([char::from(*byte)])).collect()
    };
    String::from_utf8(bytes).unwrap_or_else(|fault| escaped(fault.into_bytes()))
}

/// Read a C-style quoted string at the start of `text`. Gives it and what follows.
fn unquote(text: &str) -> Option<(String, &str)> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        match byte {
            b'"' => return Some((decoded(out), &text[at..])),
            b'\\' => {
                let escape = *bytes.get(at)?;
                at += 1;
                out.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let digits = [escape, *bytes.get(at)?, *bytes.get(at + 1)?];
                        at += 2;
                        octal(digits)?
                    }
                    _ => return None,
                });
            }
            _ => out.push(byte),
        }
    }
}

fn octal(digits: [u8; 3]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |sum, digit| match digit {
        b'0'..=b'7' => Some(sum << 3 | (digit - b'0')),
        _ => None,
    })
}

/// `prefix` and `path` as one name of a header, quoted where git quotes it.
pub(crate) fn quote(prefix: &str, path: &str) -> String {
    let is_plain = |byte: u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    if path.bytes().all(is_plain) {
        return format!("{prefix}{path}");
    }
    let mut out = format!("\"{prefix}");
    for byte in path.bytes() {
        match byte {
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            11 => out.push_str("\\v"),
            12 => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                for shift in [6, 3, 0] {
                    out.push(char::from(b'0' + (byte >> shift & 7)));
                }
                let digits = out.len() - 3;
                out.insert(digits, '\\');
            }
        }
    }
    out.push('"');
    out
}

/// Where a timestamp that ends the line starts, with the blanks before it:
/// `2010-07-05 19:41:17`, with a fraction and a zone if need be.
fn timestamp_start(line: &str) -> Option<usize> {
    let mut rest = line.as_bytes();
    if !rest.last()?.is_ascii_digit() {
        return None;
    }
    rest = ending(rest, " +dddd").or_else(|| ending(rest, " +dd:dd")).unwrap_or(rest);
    rest = ending(rest, " dd:dd:dd").or_else(|| fraction(rest)).unwrap_or(rest);
    rest = ending(rest, "dddd-dd-dd").or_else(|| ending(rest, "dd-dd-dd"))?;
    match rest.last()? {
        b'\t' => Some(rest.len() - 1),
        b' ' => Some(rest.len() - rest.iter().rev().take_while(|byte| **byte == b' ').count()),
        _ => None,
    }
}

/// What is before a shape of digits (`d`), a sign (`+`) and literal characters.
fn ending<'t>(text: &'t [u8], shape: &str) -> Option<&'t [u8]> {
    let (before, found) = text.split_at_checked(text.len().checked_sub(shape.len())?)?;
    let fits = shape.bytes().zip(found).all(|(want, byte)| match want {
        b'd' => byte.is_ascii_digit(),
        b'+' => matches!(byte, b'+' | b'-'),
        _ => want == *byte,
    });
    fits.then_some(before)
}

/// What is before ` 19:41:17.620000023`.
fn fraction(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    ending(text[..text.len() - digits].strip_suffix(b".")?, " dd:dd:dd")
}

/// Does the line end in the time that GNU diff gives a file that does not exist?
pub(super) fn has_epoch(text: &str) -> bool {
    epoch(text).is_some()
}

fn epoch(text: &str) -> Option<()> {
    let line = text.strip_suffix('\n').unwrap_or(text);
    let (_, stamp) = line.rsplit_once('\t')?;
    let (epoch_hour, stamp) = match stamp.split_at_checked(11)? {
        ("1969-12-31 ", stamp) => (24, stamp),
        ("1970-01-01 ", stamp) => (0, stamp),
        _ => return None,
    };
    let (time, zone) = stamp.split_once(' ')?;
    let (hms, fraction) = time.split_at_checked(8)?;
    let zeros = fraction.is_empty()
        || fraction
            .strip_prefix('.')
            .is_some_and(|zeros| !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0'));
    if !zeros || !ending(hms.as_bytes(), "dd:dd:dd")?.is_empty() || !hms.ends_with(":00") {
        return None;
    }
    let shape = if zone.contains(':') { "+dd:dd" } else { "+dddd" };
    if !ending(zone.as_bytes(), shape)?.is_empty() {
        return None;
    }
    let two = |text: &str| text.parse::<i32>().ok();
    let (hour, minute) = (two(&hms[..2])?, two(&hms[3..5])?);
    let (zone_hour, zone_minute) = (two(&zone[1..3])?, two(&zone[zone.len() - 2..])?);
    let offset = (zone_hour * 60 + zone_minute) * if zone.starts_with('-') { -1 } else { 1 };
    let in_range = hour < 30 && minute < 60 && zone_hour < 30 && zone_minute < 60;
    (in_range && hour * 60 + minute - offset == epoch_hour * 60).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_git_lines() {
        let name = |line: &str| of_git_line(&format!("diff --git {line}\n"), 1);
        assert_eq!(name("a/x b/x").as_deref(), Some("x"));
        assert_eq!(name("a/x y b/x y").as_deref(), Some("x y"));
        assert_eq!(name("a/d x/y b/d x/y").as_deref(), Some("d x/y"));
        assert_eq!(name("a/x b/y"), None);
        assert_eq!(name("a/ b/x b/ b/x").as_deref(), Some(" b/x"));
        assert_eq!(name("\"a/t\\tb\" \"b/t\\tb\"").as_deref(), Some("t\tb"));
        assert_eq!(name("\"a/\\303\\274\" \"b/\\303\\274\"").as_deref(), Some("ü"));
        assert_eq!(name("a/x \"b/x\"").as_deref(), Some("x"));
        let bytes = name("\"a/\\377\" \"b/\\377\"").unwrap();
        assert_eq!((bytes.as_str(), is_text(&bytes)), ("\0ÿ", false));
        assert_eq!(name("\"a/\\377\" \"b/\\376\""), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn names_on_plain_lines() {
        assert_eq!(plain("a/x.py\t2010-07-05 19:41:17\n", None, 1).as_deref(), Some("x.py"));
        let spaced = "a/x y  2010-07-05 19:41:17.620000023 -0500\n";
        assert_eq!(plain(spaced, None, 1).as_deref(), Some("x y"));
        assert_eq!(plain("b/x.orig\n", Some("x"), 1).as_deref(), Some("x"));
        assert_eq!(plain("x\n", None, 1), None);
        assert_eq!(plain("a//b///c\r\n", None, 1).as_deref(), Some("/b/c"));
    }

    #[test]
    fn the_epoch_in_any_zone() {
        for stamp in [
            "1970-01-01 00:00:00 +0000",
            "1969-12-31 19:00:00.000 -0500",
            "1970-01-01 05:30:00 +05:30",
        ] {
            assert!(has_epoch(&format!("a/x\t{stamp}\n")), "{stamp}");
        }
        for stamp in [
            "1970-01-01 00:00:01 +0000",
            "1970-01-01 00:00:00 +0100",
            "1970-01-01 00:00:00.1 +0000",
            "x",
        ] {
            assert!(!has_epoch(&format!("a/x\t{stamp}\n")), "{stamp}");
        }
    }

    #[test]
    fn quoting_goes_both_ways() {
        for path in ["x", "a b", "t\tb", "q\"q", "b\\b", "ü/é", "n\nl", "\u{7}\u{1}"] {
            let name = quote("a/", path);
            assert_eq!(git(&name, 1, Ends::AtTab).as_deref(), Some(path), "{name}");
        }
        assert_eq!(quote("a/", "ü"), "\"a/\\303\\274\"");
    }
}
