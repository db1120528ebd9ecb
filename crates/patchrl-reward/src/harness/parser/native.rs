//! Logs of C, Go, Java, PHP, Ruby and Rust test runners.

use std::collections::VecDeque;

use super::{Context, Dialect, LogFault, StatusMap, put};
use crate::python::{lines, re, strip};

/// Lines that match, with two groups: the status as the runner writes it, and the test.
fn by_line(
    log: &str,
    pattern: &regex::Regex,
    (status, test): (usize, usize),
    meaning: &[(&str, &str)],
) -> StatusMap {
    let mut map = StatusMap::new();
    for line in lines(log) {
        if let Some(found) = pattern.captures(strip(line))
            && let Some((_, word)) = meaning.iter().find(|(said, _)| *said == &found[status])
        {
            put(&mut map, &found[test], word);
        }
    }
    map
}

type Read = Result<StatusMap, LogFault>;

pub(super) fn redis(log: &str, _: Context<'_>) -> Read {
    let pattern = re!(r"^\[(ok|err|skip|ignore)\]:\s(.+?)(?:\s\((\d+\s*m?s)\))?$");
    let mut map = StatusMap::new();
    for line in lines(log) {
        let Some(found) = pattern.captures(strip(line)) else { continue };
        match &found[1] {
            "ok" => put(&mut map, &found[2], "PASSED"),
            "err" => put(&mut map, &re!(r"\s+in\s+\S+$").replace_all(&found[2], ""), "FAILED"),
            _ => put(&mut map, &found[2], "SKIPPED"),
        }
    }
    Ok(map)
}

pub(super) fn jq(log: &str, _: Context<'_>) -> Read {
    let meaning = [("PASS", "PASSED"), ("FAIL", "FAILED")];
    Ok(by_line(log, re!(r"^\s*(PASS|FAIL):\s(.+)$"), (1, 2), &meaning))
}

pub(super) fn doctest(log: &str, _: Context<'_>) -> Read {
    const END: &str = "</doctest>";
    let mut map = StatusMap::new();
    let Some(start) = log.find("<doctest") else { return Ok(map) };
    // Python's `find` gives -1 for no end, and the harness adds the length of the tag.
    let end = match log[start..].find(END) {
        Some(at) => start + at + END.len(),
        None => END.len() - 1,
    };
    let xml = log.get(start..end).unwrap_or_default();
    let tree = roxmltree::Document::parse(xml).map_err(|e| LogFault(format!("no XML: {e}")))?;
    let named = |tag: &'static str| move |node: &roxmltree::Node<'_, '_>| node.has_tag_name(tag);
    let name = |node: &roxmltree::Node<'_, '_>| node.attribute("name").unwrap_or("None").to_owned();
    let below = |node: &roxmltree::Node<'_, '_>| node.id();
    for case in tree.root_element().descendants().filter(named("TestCase")) {
        if below(&case) == tree.root_element().id() {
            continue;
        }
        for sub in case.descendants().filter(named("SubCase")) {
            let mut expressions = sub.descendants().filter(named("Expression"));
            let passed = expressions.all(|it| it.attribute("success") == Some("true"));
            let word = if passed { "PASSED" } else { "FAILED" };
            put(&mut map, &format!("{} > {}", name(&case), name(&sub)), word);
        }
    }
    Ok(map)
}

pub(super) fn micropython(log: &str, _: Context<'_>) -> Read {
    let meaning = [("pass", "PASSED"), ("FAIL", "FAILED"), ("skip", "SKIPPED")];
    Ok(by_line(log, re!(r"^(pass|FAIL|skip)\s+(.+)$"), (1, 2), &meaning))
}

pub(super) fn googletest(log: &str, _: Context<'_>) -> Read {
    let meaning = [("OK", "PASSED"), ("FAILED", "FAILED")];
    Ok(by_line(log, re!(r"^.*\[\s*(OK|FAILED)\s*\]\s(.*)\s\(.*\)$"), (1, 2), &meaning))
}

pub(super) fn go(log: &str, _: Context<'_>) -> Read {
    let meaning = [("PASS", "PASSED"), ("FAIL", "FAILED"), ("SKIP", "SKIPPED")];
    Ok(by_line(log, re!(r"^--- (PASS|FAIL|SKIP): (.+) \((.+)\)$"), (1, 2), &meaning))
}

/// Maven names the test in the traced command and the result in a line of its own.
pub(super) fn maven(log: &str, context: Context<'_>) -> Read {
    let (test, result) = (re!(r"^.*-Dtest=(\S+).*$"), re!(r"^.*BUILD (SUCCESS|FAILURE)$"));
    let mut map = StatusMap::new();
    let mut last = "---NO TEST NAME FOUND YET---";
    let (mut waiting, mut unmatched) = (VecDeque::new(), VecDeque::new());
    let word = |said: &str| if said == "SUCCESS" { "PASSED" } else { "FAILED" };
    for line in lines(log).map(strip) {
        if let Some(found) = test.captures(line).and_then(|found| found.get(1)) {
            last = found.as_str();
            waiting.push_back(last);
        }
        let Some(found) = result.captures(line).and_then(|found| found.get(1)) else { continue };
        match context.dialect {
            Dialect::V4 => put(&mut map, last, word(found.as_str())),
            Dialect::V5 => match waiting.pop_front() {
                Some(test) => put(&mut map, test, word(found.as_str())),
                None => unmatched.push_back(found.as_str()),
            },
        }
    }
    for (test, said) in waiting.into_iter().zip(unmatched) {
        put(&mut map, test, word(said));
    }
    Ok(map)
}

pub(super) fn ant(log: &str, _: Context<'_>) -> Read {
    let meaning = [("PASS", "PASSED"), ("FAIL", "FAILED"), ("ERR", "FAILED")];
    Ok(by_line(log, re!(r"^\s*\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)$"), (1, 2), &meaning))
}

pub(super) fn gradle(log: &str, context: Context<'_>) -> Read {
    let both = re!(r"^([^>].+)\s+(PASSED|FAILED)$");
    let mut map = StatusMap::new();
    let mut waiting: Option<&str> = None;
    for line in lines(log).map(strip) {
        if let Some(found) = both.captures(line) {
            put(&mut map, &found[1], &found[2]);
            waiting = None;
        } else if context.dialect == Dialect::V4 {
            // Its version knows no results on lines of their own.
        } else if re!(r"^([^>]\S*\s+>\s+\S+)$").is_match(line) {
            waiting = Some(line);
        } else if matches!(line, "PASSED" | "FAILED")
            && let Some(test) = waiting.take()
        {
            put(&mut map, test, line);
        }
    }
    Ok(map)
}

pub(super) fn phpunit(log: &str, _: Context<'_>) -> Read {
    // Python's `\w` is narrower than here.
    let (suite, test) = (re!(r"^([\p{L}\p{N}_].+) \(.+\)$"), re!(r"^\s*([✔✘↩])\s*(.*)$"));
    let mut map = StatusMap::new();
    let mut within = "None".to_owned();
    for line in lines(log) {
        if let Some(found) = suite.captures(line) {
            found[1].clone_into(&mut within);
        } else if let Some(found) = test.captures(line) {
            let word = match &found[1] {
                "✔" => "PASSED",
                "✘" => "FAILED",
                _ => "SKIPPED",
            };
            put(&mut map, &format!("{within} > {}", &found[2]), word);
        }
    }
    Ok(map)
}

pub(super) fn minitest(log: &str, _: Context<'_>) -> Read {
    let meaning = [(".", "PASSED"), ("F", "FAILED"), ("E", "FAILED")];
    Ok(by_line(log, re!(r"^(.+)\. .*=.*(\.|F|E).*$"), (2, 1), &meaning))
}

pub(super) fn cucumber(log: &str, _: Context<'_>) -> Read {
    let meaning = [(".", "PASSED"), ("F", "FAILED")];
    Ok(by_line(log, re!(r"^(.*) \.+(\.|F)"), (2, 1), &meaning))
}

pub(super) fn ruby_unit(log: &str, _: Context<'_>) -> Read {
    let meaning = [(".", "PASSED"), ("E", "FAILED"), ("F", "FAILED"), ("O", "SKIPPED")];
    Ok(by_line(log, re!(r"^\s*(?:test: )?(.+):\s+(\.|E\b|F\b|O\b)"), (2, 1), &meaning))
}

pub(super) fn rspec(log: &str, _: Context<'_>) -> Read {
    let meaning = [("passed", "PASSED"), ("failed", "FAILED")];
    Ok(by_line(log, re!(r"^(.+) - (passed|failed)"), (2, 1), &meaning))
}

/// The project changed its runner; the instances know which they use.
pub(super) fn jekyll(log: &str, context: Context<'_>) -> Read {
    match context.instance_id.split('-').nth(1) {
        Some("9141" | "8047" | "8167") => minitest(log, context),
        Some("8761" | "8771") => cucumber(log, context),
        _ => Err(LogFault(format!("Unknown instance id: {}", context.instance_id))),
    }
}

pub(super) fn cargo(log: &str, _: Context<'_>) -> Read {
    let meaning = [("ok", "PASSED"), ("FAILED", "FAILED")];
    Ok(by_line(log, re!(r"^test\s+(\S+)\s+\.\.\.\s+(ok|FAILED)$"), (2, 1), &meaning))
}
