//! The `JUnit` XML that pytest writes. Reads what it needs and never fails:
//! a file that is damaged or hostile yields fewer tests, which then count as
//! not passed.

use super::{Status, Statuses, record};

/// Status of each `<testcase>`, keyed `classname::name`.
pub(super) fn parse(xml: &str) -> Statuses {
    let mut statuses = Statuses::new();
    let mut open: Option<(String, Status)> = None;
    for piece in xml.split('<').skip(1) {
        let Some(end) = tag_end(piece) else {
            continue;
        };
        let tag = &piece[..end];
        let name = tag.split([' ', '\n', '\t', '/']).next().unwrap_or_default();
        if tag.starts_with("/testcase") {
            if let Some((key, status)) = open.take() {
                record(&mut statuses, key, status);
            }
            continue;
        }
        match (name, &mut open) {
            ("testcase", slot) => {
                let key = format!("{}::{}", attribute(tag, "classname"), attribute(tag, "name"));
                if tag.ends_with('/') {
                    record(&mut statuses, key, Status::Passed);
                    *slot = None;
                } else {
                    *slot = Some((key, Status::Passed));
                }
            }
            ("failure", Some((_, status))) => *status = (*status).max(Status::Failed),
            ("error", Some((_, status))) => *status = (*status).max(Status::Error),
            ("skipped", Some((_, status))) => {
                let xfail = attribute(tag, "type") == "pytest.xfail";
                *status = (*status).max(if xfail { Status::Xfail } else { Status::Skipped });
            }
            _ => {}
        }
    }
    statuses
}

/// Offset of the `>` that closes a tag; one inside a quoted value does not.
fn tag_end(piece: &str) -> Option<usize> {
    let mut quoted = None;
    for (at, byte) in piece.bytes().enumerate() {
        match (quoted, byte) {
            (None, b'"' | b'\'') => quoted = Some(byte),
            (None, b'>') => return Some(at),
            (Some(quote), _) if quote == byte => quoted = None,
            _ => {}
        }
    }
    None
}

fn attribute(tag: &str, name: &str) -> String {
    let mut rest = tag;
    while let Some(at) = rest.find('=') {
        let key = rest[..at].trim_end().rsplit([' ', '\n', '\t']).next().unwrap_or_default();
        let after = rest[at + 1..].trim_start();
        let Some(quote) = after.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return String::new();
        };
        let Some(len) = after[1..].find(quote) else {
            return String::new();
        };
        if key == name {
            return unescape(&after[1..=len]);
        }
        rest = &after[len + 2..];
    }
    String::new()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = rest.find(';').map(|end| &rest[1..end]);
        if let Some(c) = entity.and_then(character) {
            out.push(c);
            rest = &rest[entity.map_or(1, |e| e.len() + 2)..];
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let digits = entity.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_testcase_is_read() {
        let xml = r#"<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="1">
            <testcase classname="t.C" name="a[&lt;x&gt; &quot;&#x41;]" time="0.1" />
            <testcase classname="t" name="b"><failure message="a &gt; b">trace</failure></testcase>
            <testcase classname="t" name="c"><skipped type="pytest.xfail" message=""/></testcase>
            <testcase classname="t" name="d"><skipped type="pytest.skip">s</skipped></testcase>
            <testcase classname="t" name="e"></testcase>
            <testcase classname="t" name="e"><error>teardown</error></testcase>"#;
        let read = parse(xml);
        assert_eq!(read["t.C::a[<x> \"A]"], Status::Passed);
        assert_eq!(read["t::b"], Status::Failed);
        assert_eq!(read["t::c"], Status::Xfail);
        assert_eq!(read["t::d"], Status::Skipped);
        assert_eq!(read["t::e"], Status::Error);
    }

    #[test]
    fn rubbish_is_read_without_panic() {
        for text in [
            "",
            "<",
            "<testcase",
            "<testcase name=>",
            "<testcase name=\"",
            "é<testcase é='&;&#x;&#xffffffff;'/>",
        ] {
            parse(text);
        }
        assert_eq!(unescape("&&amp;&nope;&"), "&&&nope;&");
    }
}
