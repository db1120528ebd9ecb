//! Logs of Python's test runners.

use memchr::memmem;

use super::{Context, Dialect, LogFault, StatusMap, put};
use crate::python::{find, has, lines, re, strip, words};

const WORDS: [&str; 5] = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"];

fn starts_with_status(line: &str) -> bool {
    WORDS.iter().any(|word| line.starts_with(word))
}

/// A line of pytest's summary: status word and test id. The word is whatever stands first,
/// `FAILED_X` too; the id ends at the first blank.
fn summary<'l>(line: &'l str, context: Context<'_>) -> Option<(&'l str, &'l str)> {
    if !starts_with_status(line) {
        return None;
    }
    // In lines of failures ` - ` before the reason is a blank like any other.
    let blank = if line.starts_with("FAILED") { " - " } else { "\n" };
    let mut parts = line.split(blank).flat_map(words);
    let (word, id) = (parts.next()?, parts.next()?);
    (!folded_skip(word, id, context)).then_some((word, id))
}

/// `SKIPPED [3] file:line: reason` counts skips and names no test. Version 4 reads `[3]` as one.
fn folded_skip(word: &str, id: &str, context: Context<'_>) -> bool {
    let count = id.strip_prefix('[').and_then(|id| id.strip_suffix(']'));
    context.dialect == Dialect::V5
        && word == "SKIPPED"
        && count.is_some_and(|count| re!(r"^\d+$").is_match(count))
}

pub(super) fn pytest(log: &str, context: Context<'_>) -> Result<StatusMap, LogFault> {
    let mut map = StatusMap::new();
    for line in lines(log) {
        if let Some((word, id)) = summary(line, context) {
            put(&mut map, id, word);
        }
    }
    Ok(map)
}

/// Temporary folders in a test's parameters differ from run to run.
pub(super) fn pytest_options(log: &str, context: Context<'_>) -> Result<StatusMap, LogFault> {
    let mut map = StatusMap::new();
    for line in lines(log) {
        let Some((word, id)) = summary(line, context) else { continue };
        match re!(r"(.*?)\[(.*)\]").captures(id) {
            Some(found) => {
                let mut option = found[2].to_owned();
                if option.starts_with('/') && !option.starts_with("//") && !option.contains('*') {
                    option = format!("/{}", option.rsplit('/').next().unwrap_or_default());
                }
                put(&mut map, &format!("{}[{option}]", &found[1]), word);
            }
            None => put(&mut map, id, word),
        }
    }
    Ok(map)
}

pub(super) fn matplotlib(log: &str, context: Context<'_>) -> Result<StatusMap, LogFault> {
    let log = log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3");
    pytest(&log, context)
}

/// The summary of newer versions, and lines of older ones that end with the status.
pub(super) fn pytest_v2(log: &str, context: Context<'_>) -> Result<StatusMap, LogFault> {
    let mut map = StatusMap::new();
    for line in lines(log) {
        let line = plain(line);
        if starts_with_status(&line) {
            let failed = line.starts_with("FAILED");
            let cut = match context.dialect {
                Dialect::V4 if failed => line.replace(" - ", " "),
                Dialect::V5 if failed => line.split(" - ").next().unwrap_or_default().to_owned(),
                _ => line.into_owned(),
            };
            let mut parts = words(&cut);
            let (Some(word), Some(id)) = (parts.next(), parts.next()) else { continue };
            match context.dialect {
                Dialect::V4 => put(&mut map, id, word),
                Dialect::V5 if folded_skip(word, id, context) => {}
                Dialect::V5 => put(&mut map, &joined(std::iter::once(id).chain(parts)), word),
            }
        } else if WORDS.iter().any(|word| line.ends_with(word)) {
            let mut parts: Vec<&str> = words(&line).collect();
            match (context.dialect, parts.as_slice()) {
                (Dialect::V4, [id, word, ..]) => put(&mut map, id, word),
                (Dialect::V5, [_, .., word]) => {
                    let word = (*word).to_owned();
                    parts.pop();
                    put(&mut map, &joined(parts.into_iter()), &word);
                }
                _ => {}
            }
        }
    }
    Ok(map)
}

fn joined<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Without what is left of colours, and without control characters.
fn plain(line: &str) -> std::borrow::Cow<'_, str> {
    let control = |byte: u8| (1..=0x1f).contains(&byte);
    if !line.bytes().any(|byte| byte == b'[' || control(byte)) {
        return line.into();
    }
    let line = re!(r"\[(\d+)m").replace_all(line, "");
    if line.bytes().any(control) {
        line.replace(|c| ('\x01'..='\x1f').contains(&c), "").into()
    } else {
        line
    }
}

pub(super) fn seaborn(log: &str, context: Context<'_>) -> Result<StatusMap, LogFault> {
    let mut map = StatusMap::new();
    for line in lines(log) {
        let mut parts = words(line);
        let (first, second) = (parts.next(), parts.next());
        let read = if line.starts_with("FAILED") {
            second.map(|id| put(&mut map, id, "FAILED"))
        } else if line.contains(" PASSED ") {
            second.map(|word| {
                if word == "PASSED" {
                    put(&mut map, first.unwrap_or_default(), "PASSED");
                }
            })
        } else if line.starts_with("PASSED") {
            second.map(|id| put(&mut map, id, "PASSED"))
        } else {
            continue;
        };
        if read.is_none() && context.dialect == Dialect::V4 {
            return Err(LogFault::index(line));
        }
    }
    Ok(map)
}

pub(super) fn sympy(log: &str, _: Context<'_>) -> Result<StatusMap, LogFault> {
    let mut map = StatusMap::new();
    let mut end = 0;
    for at in memmem::find_iter(log.as_bytes(), ".py:") {
        if at < end {
            continue;
        }
        let start = log[..at].rfind('\n').map_or(0, |newline| newline + 1);
        end = log[at..].find('\n').map_or(log.len(), |newline| at + newline);
        for found in re!(r"(_*) (.*)\.py:(.*) (_*)").captures_iter(&log[start..end]) {
            put(&mut map, &format!("{}.py:{}", &found[2], &found[3]), "FAILED");
        }
    }
    for line in lines(log).map(strip).filter(|line| line.starts_with("test_")) {
        for (end, word) in [(" E", "ERROR"), (" F", "FAILED"), (" ok", "PASSED")] {
            if line.ends_with(end) {
                put(&mut map, words(line).next().unwrap_or_default(), word);
            }
        }
    }
    Ok(map)
}

pub(super) fn django(log: &str, _: Context<'_>) -> Result<StatusMap, LogFault> {
    const EQUIVALENT: &str = "--version is equivalent to version";
    let mut map = StatusMap::new();
    let mut before: Option<&str> = None;
    let equivalent = has(log, EQUIVALENT);
    for line in lines(log) {
        let mut line = strip(line);
        if equivalent && has(line, EQUIVALENT) {
            put(&mut map, EQUIVALENT, "PASSED");
        }
        // Whatever ends with a status has ` ... ` before it.
        let name = find(line, " ... ").map(|at| &line[..at]);
        before = name.or(before);
        if name.is_some() {
            let ends = [" ... ok", " ... OK", " ...  OK"];
            if let Some(end) = ends.iter().find(|end| line.ends_with(*end)) {
                const TORN: &str = "Applying sites.0002_alter_domain_unique...test_no_migrations";
                if line.starts_with(TORN) {
                    line = line.split_once("...").map_or(line, |(_, rest)| strip(rest));
                }
                put(&mut map, line.strip_suffix(end).unwrap_or(line), "PASSED");
            }
            if let Some(at) = find(line, " ... skipped") {
                put(&mut map, &line[..at], "SKIPPED");
            }
        }
        for (end, start, word) in
            [(" ... FAIL", "FAIL:", "FAILED"), (" ... ERROR", "ERROR:", "ERROR")]
        {
            if line.ends_with(end) {
                put(&mut map, line.split(end).next().unwrap_or_default(), word);
            }
            if line.starts_with(start) {
                let test = words(line).nth(1).ok_or_else(|| LogFault::index(line))?;
                put(&mut map, test, word);
            }
        }
        if line.starts_with("ok")
            && let Some(test) = before
        {
            put(&mut map, test, "PASSED");
        }
    }
    torn(log, &mut map);
    Ok(map)
}

/// Results that something printed in between tore apart.
fn torn(log: &str, map: &mut StatusMap) {
    if has(log, " Django installed in ") {
        let pattern = re!(
            r"(?m)^(.*?)\s\.\.\.\sTesting against Django installed in ((?s:.*?)) silenced\)\.\nok$"
        );
        for found in pattern.captures_iter(log) {
            put(map, &found[1], "PASSED");
        }
    }
    for (sign, pattern) in [
        ("Internal Server Error: ", re!(r"(?m)^(.*?)\s\.\.\.\sInternal Server Error: /(.*)/\nok$")),
        (
            "System check identified",
            re!(r"(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$"),
        ),
    ] {
        let mut done = 0;
        for at in memmem::find_iter(log.as_bytes(), sign) {
            if at < done {
                continue;
            }
            // Of the text before the sign two blanks may be line ends; after it there is one.
            let back = |from: usize| log[..from].rfind('\n').unwrap_or(0);
            let start = back(back(back(at))).max(done);
            let mut ends = memchr::memchr_iter(b'\n', &log.as_bytes()[at..]);
            let end = ends.nth(1).map_or(log.len(), |end| at + end);
            if let Some(found) = pattern.captures_at(&log[..end], start) {
                put(map, &found[1], "PASSED");
                done = found.get_match().end();
            }
        }
    }
}
