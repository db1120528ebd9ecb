//! Logs of JavaScript test runners, and of projects that print in a form of their own.

use std::collections::{HashMap, HashSet};

use super::{Context, Dialect, LogFault, StatusMap, put};
use crate::python::{indent, is_space, lines, re, strip};

type Read = Result<StatusMap, LogFault>;

/// Names of the suites around a line, by indentation.
#[derive(Default)]
struct Suites(Vec<(String, usize)>);

impl Suites {
    /// An indented line that is no test opens a suite.
    fn open(&mut self, line: &str) {
        let indent = indent(line);
        if indent > 0 {
            while self.0.last().is_some_and(|(_, outer)| *outer >= indent) {
                self.0.pop();
            }
            self.0.push((strip(line).to_owned(), indent));
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn test(&self, name: &str) -> String {
        self.names().chain([name]).collect::<Vec<_>>().join(" - ")
    }
}

/// All matches of a pattern's first group in the whole log, as failed tests.
fn failures(map: &mut StatusMap, log: &str, pattern: &regex::Regex, name: impl Fn(&str) -> String) {
    for found in pattern.captures_iter(log) {
        put(map, &name(found.get(1).map_or("", |it| it.as_str())), "FAILED");
    }
}

fn one_blank(text: &str) -> String {
    strip(&re!(r"\s+").replace_all(text, " ")).to_owned()
}

/// Without terminal colours and cursor movements.
fn without_escapes(log: &str) -> String {
    re!(r"\x1B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])").replace_all(log, "").into_owned()
}

pub(super) fn highlightjs(log: &str, _: Context<'_>) -> Read {
    let log = re!(r"\n[ \t]*\d+ passing").splitn(log, 2).next().unwrap_or_default();
    let untimed = |name: &str| strip(&re!(r"\(\d+ms\)").replace_all(name, "")).to_owned();
    let mut map = StatusMap::new();
    let mut suite: Option<&str> = None;
    for line in lines(log) {
        let text = strip(line);
        let mark = ['✓', '✔'].into_iter().find(|mark| text.starts_with(*mark));
        let (sign, word) = match mark {
            Some(mark) => (mark, "PASSED"),
            None if re!(r"^\d+\)").is_match(text) => (')', "FAILED"),
            None if line.starts_with("  ") => {
                suite = Some(text);
                continue;
            }
            None => continue,
        };
        let name = untimed(line.split_once(sign).map_or("", |(_, name)| name));
        let full = suite.map_or(name.clone(), |suite| format!("{suite}.{name}"));
        put(&mut map, &full, word);
    }
    Ok(map)
}

pub(super) fn prismjs(log: &str, _: Context<'_>) -> Read {
    const COMMAND: &str = "./node_modules/.bin/mocha tests/run.js --reporter json";
    let mut map = StatusMap::new();
    for part in log.split(COMMAND).skip(1) {
        let part = part.split_once('{').map_or(part, |(_, rest)| rest);
        let part = part.rsplit_once('}').map_or(part, |(before, _)| before);
        let fault = |e: String| LogFault(format!("no result of mocha: {e}"));
        let results: serde_json::Value =
            serde_json::from_str(&format!("{{{part}}}")).map_err(|e| fault(e.to_string()))?;
        for (list, word) in [("failures", "FAILED"), ("passes", "PASSED")] {
            let tests = results[list].as_array().ok_or_else(|| fault(format!("no `{list}`")))?;
            for test in tests {
                let name = test["fullTitle"].as_str();
                put(&mut map, name.ok_or_else(|| fault("no `fullTitle`".to_owned()))?, word);
            }
        }
    }
    Ok(map)
}

pub(super) fn eslint(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    let pattern = re!(r"(?:\s{2}\d+\))((?s:.)*?)\s+(?:(.*)Error)");
    failures(&mut map, log, pattern, one_blank);
    Ok(map)
}

pub(super) fn bpmn_js(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for pattern in [
        re!(r"2KPhantomJS\s[\d.]+\s\(Linux\s[\d.]+\)\s(.*)FAILED\n"),
        re!(r"2KPhantomJS\s[\d.]+\s\(Linux\sx86_64\)\s(.*)FAILED\n"),
        re!(r"Chrome\sHeadless\s(?:.*)\s\(Linux\sx86_64\)\s(.*)FAILED\n"),
        re!(r"HeadlessChrome\s[\d.]+\s\(Linux\s[\d.]+\)\s(.*)FAILED\n"),
    ] {
        failures(&mut map, log, pattern, str::to_owned);
    }
    Ok(map)
}

pub(super) fn plotly(log: &str, _: Context<'_>) -> Read {
    let (suite, test) = (re!(r"^(\s+)-\s+(.*?)\s+:"), re!(r"^(\s+)\*\s+(.*?)\s+:\s*(.*)"));
    let mut map = StatusMap::new();
    let (mut names, mut depth): (Vec<String>, usize) = (Vec::new(), 0);
    for line in lines(log) {
        if let Some(found) = suite.captures(line) {
            let spaces = found[1].chars().count();
            // The depth does not change while names are dropped: all of them go.
            if spaces <= depth {
                names.clear();
            }
            names.push(found[2].to_owned());
            depth = spaces;
        } else if let Some(found) = test.captures(line) {
            if found[1].chars().count() <= depth {
                names.clear();
            }
            let name = names.iter().map(String::as_str).chain([&found[2]]);
            let said = found[3].to_lowercase();
            let failed = !said.contains("ok") || said.contains("failed");
            let word = if failed { "FAILED" } else { "PASSED" };
            put(&mut map, &name.collect::<Vec<_>>().join("."), word);
        }
    }
    Ok(map)
}

pub(super) fn openlayers(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for pattern in [
        re!(r"Chrome\sHeadless\s[\d.]+\s\(Linux\s(?:\S)+\)\s(.*)\sFAILED\n"),
        re!(r"Chrome\s[\d.]+\s\(Linux\s(?:\S)+\)\s(.*)FAILED\n"),
        re!(r"(?m)^\s{2}\d+\)((?s:.)*?)Error:"),
        re!(r"(?m)^case\s(.*):\smismatch"),
    ] {
        failures(&mut map, log, pattern, one_blank);
    }
    Ok(map)
}

/// `FAIL name` and `PASS name` lines: all failures, then all passes.
fn suites_of_jest(log: &str, name: impl Fn(&str) -> String) -> StatusMap {
    let mut map = StatusMap::new();
    for (pattern, word) in
        [(re!(r"(?m)^FAIL\s(.*)"), "FAILED"), (re!(r"(?m)^PASS\s(.*)"), "PASSED")]
    {
        for found in pattern.captures_iter(log) {
            put(&mut map, &name(strip(&found[1])), word);
        }
    }
    map
}

pub(super) fn emotion(log: &str, _: Context<'_>) -> Read {
    Ok(suites_of_jest(log, str::to_owned))
}

pub(super) fn grommet(log: &str, _: Context<'_>) -> Read {
    let timing = re!(r"\s\([\d.]+\s?(?:ms|s)\)$");
    Ok(suites_of_jest(log, |name| timing.replace_all(name, "").into_owned()))
}

pub(super) fn next(log: &str, context: Context<'_>) -> Read {
    if context.version == Some("1.27") { next_v2(log) } else { next_v1(log) }
}

fn next_v1(log: &str) -> Read {
    let log = without_escapes(log);
    let log = re!(r"AssertionError:\s+#((?s:.)*?)\n\n").replace_all(&log, "");
    let (failed, passed) = (re!(r"^.*?✗\s*(.*)"), re!(r"^.*?✓\s*(.*)"));
    let mut map = StatusMap::new();
    let mut suites = Suites::default();
    for part in log.split(" xvfb-run ").skip(1) {
        let part = part.rsplit("Starting browser Chrome").next().unwrap_or_default();
        for line in part.split('\n') {
            let text = strip(line);
            if line.starts_with("TOTAL") {
                break;
            } else if ["ERROR", "LOG", "WARN", "Check", "in"].iter().any(|it| text.starts_with(it))
            {
            } else if let Some(found) = failed.captures(line) {
                put(&mut map, &suites.test(&found[1]), "FAILED");
            } else if let Some(found) = passed.captures(line) {
                put(&mut map, &suites.test(&found[1]), "PASSED");
            } else {
                suites.open(line);
            }
        }
    }
    Ok(map)
}

fn next_v2(log: &str) -> Read {
    let mut map = StatusMap::new();
    let suites: Vec<_> = re!(r"Running:(.*)\)\n{3}\s{2}(.*)\n").captures_iter(log).collect();
    for (at, suite) in suites.iter().enumerate() {
        let end =
            |found: &regex::Captures<'_>| found.get(0).map_or((0, 0), |it| (it.start(), it.end()));
        let until = suites.get(at + 1).map_or(log.len(), |it| end(it).0);
        let part = &log[end(suite).1..until];
        for (pattern, word) in
            [(re!(r"(?m)^\s{4}\d+\)\s(.*)"), "FAILED"), (re!(r"(?m)^\s{4}✓\s(.*)\("), "PASSED")]
        {
            for found in pattern.captures_iter(part) {
                put(&mut map, &format!("{}: {}", &suite[2], strip(&found[1])), word);
            }
        }
    }
    Ok(map)
}

/// The titles in the lists of a JSON report that is read as text.
fn titles(map: &mut StatusMap, text: &str, lists: [(&str, &str, &str); 2]) {
    for (start, end, word) in lists {
        let part = text.rsplit(start).next().unwrap_or_default();
        let part = part.rsplit_once(end).map_or(part, |(before, _)| before);
        for found in re!("\"fullTitle\":\\s\"(.*)\",\\n").captures_iter(part) {
            put(map, &found[1], word);
        }
    }
}

pub(super) fn cypress(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    let parts: Vec<&str> = log.split("../..").collect();
    for part in &parts[..parts.len() - 1] {
        let lists = [("  \"passes\": [", "  }", "PASSED"), ("  \"failures\": [", "  ],", "FAILED")];
        titles(&mut map, part, lists);
    }
    Ok(map)
}

/// `PASS name (12.5s)` lines, one at a time.
pub(super) fn carbon(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for line in lines(log) {
        let word = match line.get(..4) {
            Some("PASS") => "PASSED",
            Some("FAIL") => "FAILED",
            _ => continue,
        };
        let timed = [
            re!(r"^(?:PASS|FAIL)\s(.*)\s\([\d.]+ms\)"),
            re!(r"^(?:PASS|FAIL)\s(.*)\s\([\d.]+\ss\)"),
            re!(r"^(?:PASS|FAIL)\s(.*)\s\([\d.]+s\)"),
            re!(r"^(?:PASS|FAIL)\s(.*)"),
        ];
        if let Some(found) = timed.iter().find_map(|pattern| pattern.captures(line)) {
            put(&mut map, &found[1], word);
        }
    }
    Ok(map)
}

pub(super) fn lighthouse(log: &str, context: Context<'_>) -> Read {
    let fault = || LogFault(format!("version {:?} is no number", context.version));
    let version = context.version.ok_or_else(fault)?;
    if matches!(version, "9.5" | "10.0" | "10.2") {
        return lighthouse_mocha(log);
    }
    if strip(version).parse::<f64>().map_err(|_| fault())? >= 3.0 {
        return carbon(log, context);
    }
    let mut map = StatusMap::new();
    for part in log.split("./node_modules/.bin/mocha --reporter json").skip(1) {
        let lists = [("\"passes\": [", "]", "PASSED"), ("\"failures\": [", "],", "FAILED")];
        titles(&mut map, part, lists);
    }
    Ok(map)
}

fn lighthouse_mocha(log: &str) -> Read {
    let mut map = StatusMap::new();
    for part in re!(r"running\s\d+\stest\sfiles").split(log).skip(1) {
        let part = strip(re!(r"\d+\spassing").splitn(part, 2).next().unwrap_or_default());
        let mut suites = Suites::default();
        for line in part.split('\n') {
            let found = [
                (re!(r"^✔\s(.*)\s\(\d+m+s\)"), "PASSED"),
                (re!(r"^✔\s(.*)"), "PASSED"),
                (re!(r"^\d+\)\s(.*)\s\(\d+m+s\)"), "FAILED"),
                (re!(r"^\d+\)\s(.*)"), "FAILED"),
            ]
            .into_iter()
            .find_map(|(pattern, word)| Some((pattern.captures(strip(line))?, word)));
            match found {
                Some((found, word)) => put(&mut map, &suites.test(&found[1]), word),
                None => suites.open(line),
            }
        }
    }
    Ok(map)
}

pub(super) fn quarto(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    let mut temporary: HashMap<String, usize> = HashMap::new();
    for line in lines(log) {
        if line.contains("ERRORS") || line.contains("failures:") {
            break;
        }
        if !line.contains("[smoke]") && !line.contains("[unit]") {
            continue;
        }
        let mut line = line.to_owned();
        for pattern in [re!(r"/tmp/([\p{L}\p{N}_]+)\.qmd"), re!(r"/tmp/([\p{L}\p{N}_]+)/")] {
            if let Some(found) = pattern.find(&line) {
                let next = temporary.len();
                let number = *temporary.entry(found.as_str().to_owned()).or_insert(next);
                line = pattern.replace_all(&line, format!("/tmp/{number}")).into_owned();
            }
        }
        let test = strip(line.split("...").next().unwrap_or_default());
        let summary = ["passed", "failed", "steps"].iter().all(|word| line.contains(word));
        if line.starts_with("test result:") || summary || line.contains("34mINFO") {
            continue;
        }
        let said = [("32mok", "PASSED"), ("31mFAILED", "FAILED")];
        let word = said.iter().find(|(sign, _)| line.contains(sign)).map(|(_, word)| *word);
        if let Some(word) = word {
            put(&mut map, test, word);
        } else if !map.contains_key(test) {
            put(&mut map, test, "FAILED");
        }
    }
    Ok(map)
}

pub(super) fn calypso(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    let mut suites = Suites::default();
    for part in log.split(" ./node_modules/.bin/jest ").skip(1) {
        for line in part.split('\n') {
            let text = strip(line);
            if line.starts_with("Test Suites") || line.starts_with("  ● ") {
                break;
            }
            let (word, timed, other) = if text.starts_with('✓') {
                ("PASSED", re!(r"^\s+✓\s(.*)\(\d+ms\)$"), re!(r"^\s+✓\s(.*)"))
            } else if text.starts_with('✕') {
                ("FAILED", re!(r"^\s+✕\s(.*)\(\d+ms\)$"), re!(r"^\s+✕\s(.*)"))
            } else {
                suites.open(line);
                continue;
            };
            let pattern = if re!(r"\(\d+ms\)").is_match(line) { timed } else { other };
            let found = pattern.captures(line);
            let found = found.ok_or_else(|| LogFault(format!("no test in `{line}`")))?;
            // The list of suites and the name, joined even if there is no suite.
            let within = suites.names().collect::<Vec<_>>().join(" - ");
            put(&mut map, strip(&format!("{within} - {}", &found[1])), word);
        }
    }
    Ok(map)
}

pub(super) fn chart_js(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    // Between the groups a blank that ends no line.
    let pattern =
        re!(r"(?m)Chrome\s[\d.]+[\s\x1c-\x1f&&[^\r\n]]\(.+?\)[\s\x1c-\x1f&&[^\r\n]](.*)FAILED$");
    failures(&mut map, &without_escapes(log), pattern, str::to_owned);
    Ok(map)
}

pub(super) fn marked(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for line in lines(log) {
        if let Some(found) = re!(r"^\d+\)\s(.*)").captures(line) {
            put(&mut map, strip(&found[1]), "FAILED");
        }
    }
    Ok(map)
}

pub(super) fn p5js(log: &str, _: Context<'_>) -> Read {
    let log = without_xml(without_json(&without_escapes(log)));
    let mut map = StatusMap::new();
    for found in re!(r"(?ms)^\s*(\d+)\)(.{0,1000}?):").captures_iter(&log) {
        // Each line of a failure's name is indented further than the one before.
        let mut last = 0;
        let deeper = found[2].split('\n').all(|line| {
            let indent = indent(line);
            let deeper = indent > last;
            last = indent;
            deeper
        });
        if deeper {
            let names: Vec<&str> = found[2].split('\n').map(strip).collect();
            put(&mut map, &names.join(":"), "FAILED");
        }
    }
    Ok(map)
}

fn without_json(log: &str) -> String {
    let (mut object, mut list) = (false, false);
    let keep = |line: &&str| {
        let line = line.trim_end_matches(is_space);
        if line.ends_with('{') {
            object = true;
        } else if line.ends_with('[') {
            list = true;
        } else if line == "}" && object {
            object = false;
        } else if line == "]" && list {
            list = false;
        } else {
            let whole = line.starts_with('{') && line.ends_with('}')
                || line.starts_with('[') && line.ends_with(']');
            return !object && !list && !whole;
        }
        false
    };
    lines(log).filter(keep).collect::<Vec<_>>().join("\n")
}

/// Without `<tag>...</tag>`, from the left; tags that were opened again inside stay open.
fn without_xml(mut log: String) -> String {
    // Tags of which no end follows; there will be none later either.
    let mut endless: HashSet<String> = HashSet::new();
    let mut from = 0;
    while let Some(found) = re!(r"<([\p{L}\p{N}_]+)>").captures_at(&log, from) {
        let (Some(open), name) = (found.get(0), found[1].to_owned()) else { break };
        let (start, after) = (open.start(), open.end());
        let close = format!("</{name}>");
        let end = if endless.contains(&name) { None } else { log[after..].find(&close) };
        let Some(end) = end else {
            endless.insert(name);
            from = after;
            continue;
        };
        let end = after + end + close.len();
        let again = log[after..end].matches(&format!("<{name}>")).count();
        log.replace_range(start..end, &format!("<{name}>").repeat(again));
        from = start;
    }
    log
}

pub(super) fn jest(log: &str, context: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for line in lines(log) {
        let pattern = re!(r"^\s*(✓|✕|○)\s(.+?)(?:\s\((\d+\s*m?s)\))?$");
        let Some(found) = pattern.captures(strip(line)) else { continue };
        let name = if context.dialect == Dialect::V5 { strip(&found[2]) } else { &found[2] };
        put(&mut map, name, mark(&found[1]));
    }
    Ok(map)
}

pub(super) fn vitest(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for line in lines(log) {
        let pattern = re!(r"^\s*(✓|×|↓)\s(.+?)(?:\s(\d+\s*m?s?|\[skipped\]))?$");
        if let Some(found) = pattern.captures(strip(line)) {
            put(&mut map, &found[2], mark(&found[1]));
        }
    }
    Ok(map)
}

fn mark(mark: &str) -> &'static str {
    match mark {
        "✓" => "PASSED",
        "✕" | "×" => "FAILED",
        _ => "SKIPPED",
    }
}

pub(super) fn jest_json(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for line in lines(log) {
        if let Some(found) = re!(r"^\[(PASSED|FAILED)\]\s(.+)$").captures(strip(line)) {
            put(&mut map, &found[2], &found[1]);
        }
    }
    Ok(map)
}

pub(super) fn karma(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    let (mut depth, mut suites, mut started) = (-1, Vec::<String>::new(), false);
    for line in lines(log) {
        if line.starts_with("SUMMARY:") {
            return Ok(map);
        }
        if line.contains("Starting browser") {
            started = true;
            continue;
        }
        if !started {
            continue;
        }
        let Some(found) = re!(r"^(\s*)?([✔✖])?\s(.*)$").captures(line) else { continue };
        let (indent, name) = (found.get(1).map_or(0, |it| it.as_str().chars().count()), &found[3]);
        let Some(status) = found.get(2) else {
            let new = indent as i64;
            if new > 0 && new > depth {
                suites.push(name.to_owned());
                depth = new;
            } else if new > 0 && new < depth {
                depth = new;
                suites.pop().ok_or_else(|| LogFault::index(line))?;
            }
            continue;
        };
        let word = if status.as_str() == "✔" { "PASSED" } else { "FAILED" };
        let test = suites.iter().map(String::as_str).chain([name]);
        put(&mut map, &test.collect::<Vec<_>>().join(" > "), word);
    }
    Ok(map)
}

pub(super) fn tap(log: &str, _: Context<'_>) -> Read {
    let mut map = StatusMap::new();
    for line in lines(log) {
        if let Some(found) = re!(r"^(ok|not ok) (\d+) (.+)$").captures(strip(line)) {
            let word = if &found[1] == "ok" { "PASSED" } else { "FAILED" };
            put(&mut map, &found[3], word);
        }
    }
    Ok(map)
}

/// The project changed its runner; the instances know which they use.
pub(super) fn immutable_js(log: &str, context: Context<'_>) -> Read {
    match context.instance_id.rsplit('-').next() {
        Some("2006") => jest(log, context),
        Some("2005") => jest_json(log, context),
        _ => Err(LogFault(format!("Unknown instance id: {}", context.instance_id))),
    }
}
