//! What a model is shown of a text that may be anything: bounded, printable, and steady.
//!
//! Owns the cutting rule: the first and the last half of the budget stay, at line ends where
//! there are any, and a line between them says how many lines and bytes are left out.

/// Longest line shown whole; of a longer one the start is kept.
const LINE: usize = 400;

/// `text` in at most about `limit` bytes.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    let text: String = text.lines().map(|line| shorten(line) + "\n").collect();
    if text.len() <= limit {
        return text;
    }
    let half = limit / 2;
    let head = end_of_line(&text, half);
    let tail = start_of_line(&text, text.len() - half).max(head);
    let left_out = &text[head..tail];
    let lines = left_out.lines().count();
    format!(
        "{}[{lines} lines, {} bytes left out]\n{}",
        &text[..head],
        left_out.len(),
        &text[tail..]
    )
}

/// A line of at most [`LINE`] bytes and a note.
pub(crate) fn shorten(line: &str) -> String {
    if line.len() <= LINE {
        return line.to_owned();
    }
    let at = line.floor_char_boundary(LINE);
    format!("{}[{} bytes left out]", &line[..at], line.len() - at)
}

/// Bytes of a program as text: what is not text is replaced, and so is what steers a terminal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = |c: char| {
        let steers = c.is_control() && c != '\n' && c != '\t';
        if steers { char::REPLACEMENT_CHARACTER } else { c }
    };
    text.replace("\r\n", "\n").chars().map(clean).collect()
}

/// What differs from run to run set to a fixed text, so that the same episode sees the same bytes:
/// times as test runners print them (`in 0.00s`) and addresses as Python prints them (` at 0x0`).
pub(crate) fn steady(text: &str) -> String {
    let text = each_after(text, " in ", |rest| {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let is_time = rest[..number].contains('.') && rest[number..].starts_with('s');
        (number > 0 && is_time).then_some((number, "0.00"))
    });
    each_after(&text, " at 0x", |rest| {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        (digits >= 6).then_some((digits, "0"))
    })
}

/// Wherever `mark` stands, ask `found` about what follows: so many bytes become that text.
fn each_after(
    text: &str,
    mark: &str,
    found: impl Fn(&str) -> Option<(usize, &'static str)>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let (before, after) = rest.split_at(at + mark.len());
        out.push_str(before);
        let (bytes, instead) = found(after).unwrap_or((0, ""));
        out.push_str(instead);
        rest = &after[bytes..];
    }
    out + rest
}

/// The byte after the last line end before `at`, or a place near it where a line is longer.
fn end_of_line(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    text[..at].rfind('\n').map_or(at, |end| end + 1)
}

fn start_of_line(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    text[at..].find('\n').map_or(at, |end| at + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_goes_and_is_counted() {
        let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let shown = cut(&text, 400);
        assert!(shown.starts_with("line 0\nline 1\n") && shown.ends_with("line 999\n"), "{shown}");
        let (head, rest) = shown.split_once('[').unwrap();
        let (note, tail) = rest.split_once("]\n").unwrap();
        assert!(head.len() <= 200 && tail.len() <= 200);
        let lines = 1000 - head.lines().count() - tail.lines().count();
        let bytes = text.len() - head.len() - tail.len();
        assert_eq!(note, format!("{lines} lines, {bytes} bytes left out"));
        assert_eq!(cut("a\nb", 400), "a\nb\n");
    }

    #[test]
    fn a_gigantic_line_and_half_characters_are_no_trouble() {
        let shown = cut(&"ü".repeat(1 << 20), 400);
        assert!(shown.len() < 500 && shown.contains("bytes left out"), "{shown}");
        for limit in 0..40 {
            cut(&"ü\nñé\n".repeat(20), limit);
        }
        assert_eq!(printable(b"a\x1b[2J\xff\0\r\nb"), "a\u{fffd}[2J\u{fffd}\u{fffd}\nb");
    }

    #[test]
    fn what_differs_from_run_to_run_is_fixed_and_nothing_else() {
        let text = "Ran 3 tests in 0.013s\n3 passed in 12.5s, 4 in 5 s in 7s in 3.x in .s\n\
                    <A object at 0x7f3b2c1d> at 0x12 of 0x7f3b2c1d";
        let want = "Ran 3 tests in 0.00s\n3 passed in 0.00s, 4 in 5 s in 7s in 3.x in 0.00s\n\
                    <A object at 0x0> at 0x12 of 0x7f3b2c1d";
        assert_eq!(steady(text), want);
    }
}
