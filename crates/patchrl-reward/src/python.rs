//! Text as Python sees it: its white space, its `split`, its regular expressions.
//!
//! Rewards and verdicts that Python code defines must not differ where a text holds an odd
//! character, so what follows such code uses this and not Rust's own idea of white space.

use memchr::memmem;
use regex::Regex;

/// White space of Python's `str`: Unicode's, and four separators of ASCII.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `text.split()`.
pub(crate) fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `text.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `text.split("\n")`, at the speed that logs of megabytes ask for.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]);
    ends.map(move |end| &text[std::mem::replace(&mut start, end + 1)..end])
}

/// `part in text`.
pub(crate) fn has(text: &str, part: &str) -> bool {
    find(text, part).is_some()
}

/// `text.find(part)`.
pub(crate) fn find(text: &str, part: &str) -> Option<usize> {
    memmem::find(text.as_bytes(), part.as_bytes())
}

/// `len(text) - len(text.lstrip())`.
pub(crate) fn indent(text: &str) -> usize {
    text.chars().take_while(|c| is_space(*c)).count()
}

/// `re.compile(pattern)`, for patterns with `\s` and `\S` outside brackets only. The
/// pattern is one of ours, and a mistake in it a panic in the first test that uses it.
#[expect(clippy::unwrap_used, reason = "a constant of ours")]
pub(crate) fn regex(pattern: &str) -> Regex {
    let pattern = pattern.replace("\\s", "[\\s\\x1c-\\x1f]").replace("\\S", "[^\\s\\x1c-\\x1f]");
    Regex::new(&pattern).unwrap()
}

/// A regular expression that is compiled once, where it is used.
macro_rules! re {
    ($pattern:expr) => {{
        static ONCE: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| $crate::python::regex($pattern));
        &*ONCE
    }};
}
pub(crate) use re;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_python_s() {
        assert_eq!(words("a\x1fb\u{a0}c\u{85}d").collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(strip("\x1c a \u{2028}"), "a");
        assert_eq!(indent("\x1d\ta"), 2);
        for text in ["", "\n", "a", "a\n", "\na\n\nb"] {
            assert_eq!(lines(text).collect::<Vec<_>>(), text.split('\n').collect::<Vec<_>>());
        }
        assert!(regex(r"^\s$").is_match("\x1e"));
        assert!(!regex(r"^\S$").is_match("\x1e"));
    }
}
