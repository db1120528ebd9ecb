//! Text for the page: escaped, cut to a length, numbers as people read them.
//!
//! What arrives here was written by a model, a test or a task's author.

use std::fmt::Write as _;

/// Text that means nothing to a browser. Terminal colours go; other control
/// characters, and those that turn the direction of text, become a mark.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escaped, and where longer than `most` characters, without its middle.
pub(super) fn whole(text: &str, most: usize) -> String {
    let (head, left_out, tail) = cut(text, most);
    let mut out = escape(head);
    if left_out > 0 {
        let _ = write!(out, "<i>\n… {left_out} characters left out …\n</i>");
    }
    out.push_str(&escape(tail));
    out
}

/// A diff, escaped and cut, with its added and removed lines marked.
pub(super) fn patch(text: &str, most: usize) -> String {
    let (head, left_out, tail) = cut(text, most);
    let mut out = marked(head);
    if left_out > 0 {
        let _ = write!(out, "<i>… {left_out} characters left out …\n</i>");
    }
    out.push_str(&marked(tail));
    out
}

/// Three significant digits.
pub(super) fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return value.to_string();
    }
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}").replace(".00e", "e");
    }
    let digits = match size {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 || s == 0.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.01 => 4,
        _ => 5,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn marked(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let class = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
                "file"
            }
            [b'@', b'@', ..] => "hunk",
            [b'+', ..] => "add",
            [b'-', ..] => "del",
            _ => {
                out.push_str(&escape(line));
                continue;
            }
        };
        let _ = write!(out, "<span class=\"{class}\">{}</span>", escape(line));
    }
    out
}

/// Head and tail of a text with at most `most` characters between them.
fn cut(text: &str, most: usize) -> (&str, usize, &str) {
    let length = text.chars().count();
    if length <= most {
        return (text, 0, "");
    }
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let half = most / 2;
    (&text[..place(half)], length - 2 * half, &text[place(length - half)..])
}

#[cfg(test)]
mod tests {
    use super::{escape, figure, patch, whole};

    #[test]
    fn nothing_a_model_writes_is_markup() {
        assert_eq!(
            escape("<script>alert('&\"')</script>"),
            "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;"
        );
        assert_eq!(escape("\u{1b}[31mred\u{1b}[0m\u{0}\u{202e}\u{1b}["), "red\u{fffd}\u{fffd}");
    }

    #[test]
    fn long_texts_lose_their_middle() {
        let text = whole(&"ä".repeat(100), 10);
        assert!(text.starts_with("äääää<i>") && text.ends_with("</i>äääää"));
        assert!(text.contains("90 characters"));
    }

    #[test]
    fn a_patch_is_marked_line_by_line() {
        assert_eq!(
            patch("--- a/x\n@@ -1 +1 @@\n-<a>\n+b\n c\n", 100),
            "<span class=\"file\">--- a/x\n</span><span class=\"hunk\">@@ -1 +1 @@\n</span>\
             <span class=\"del\">-&lt;a&gt;\n</span><span class=\"add\">+b\n</span> c\n"
        );
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.3, "0.3"),
            (1234.5, "1234"),
            (12.34, "12.3"),
            (0.001_234, "0.00123"),
            (5e-6, "5e-6"),
            (f64::NAN, "NaN"),
            (100.0, "100"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
