//! What added code reaches for: names that serve to work on a test run from inside.
//!
//! Test code and tested code share a process, so a package can look its own tests up,
//! find their reporter or change what a comparison means. Owns the list of names and
//! shapes that this takes and a small reader of Python's tokens. A net, not a proof: names
//! put together at run time pass through it.

use std::collections::{BTreeMap, BTreeSet};

/// Modules that hold the test framework or the interpreter's inside.
const MODULES: [&str; 9] = [
    "unittest",
    "pytest",
    "_pytest",
    "pluggy",
    "gc",
    "ctypes",
    "builtins",
    "__builtins__",
    "__main__",
];

/// Attributes that lead from anywhere to a frame, a caller's variables or all objects.
const ATTRIBUTES: [&str; 22] = [
    "_getframe",
    "_current_frames",
    "currentframe",
    "getouterframes",
    "getinnerframes",
    "f_back",
    "f_globals",
    "f_locals",
    "f_builtins",
    "tb_frame",
    "gi_frame",
    "cr_frame",
    "ag_frame",
    "settrace",
    "setprofile",
    "addaudithook",
    "get_objects",
    "get_referrers",
    "__subclasses__",
    "__globals__",
    "__closure__",
    "__code__",
];

/// Calls that make code out of text, where no other name would show.
const CALLS: [&str; 3] = ["eval", "exec", "__import__"];

/// Comparisons that decide an assertion.
const COMPARISONS: [&str; 2] = ["__eq__", "__ne__"];

/// One piece of Python text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Sign(char),
}

/// What the code of a file reaches for, each with the lines (from 1) it is on.
///
/// `tests` are paths of the task's tests: naming one in a text is a reach too.
pub(crate) fn reaches(text: &str, tests: &BTreeSet<String>) -> BTreeMap<String, Vec<usize>> {
    let tokens = tokens(text);
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let name = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
        Some((_, Token::Name(name))) => name.as_str(),
        _ => "",
    };
    let sign = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
        Some((_, Token::Sign(sign))) => *sign,
        _ => '\0',
    };
    for (at, (line, token)) in tokens.iter().enumerate() {
        let (before, after) = (at.checked_sub(1), Some(at + 1));
        let what = match token {
            Token::Name(word) => {
                let word = word.as_str();
                let is_attribute = sign(before) == '.';
                let is_imported = matches!(name(before), "import" | "from") || sign(after) == '.';
                let is_module = MODULES.contains(&word) && !is_attribute && is_imported;
                if is_module || ATTRIBUTES.contains(&word) {
                    Some(format!("`{word}`"))
                } else if word == "modules" && is_attribute && name(at.checked_sub(2)) == "sys" {
                    Some("`sys.modules`".to_owned())
                } else if CALLS.contains(&word)
                    && !is_attribute
                    && name(before) != "def"
                    && sign(after) == '('
                {
                    Some(format!("`{word}`"))
                } else if COMPARISONS.contains(&word) && ignores_other(&tokens, at) {
                    Some(format!("`{word}` that does not look at what it compares with"))
                } else {
                    None
                }
            }
            // `if __name__ == "__main__"` is no reach.
            Token::Text(_) if sign(before) == '=' && name(at.checked_sub(3)) == "__name__" => None,
            Token::Text(text) if !continues(&tokens, at) => {
                text_reach(&joined(&tokens, at, text), tests)
            }
            Token::Text(_) | Token::Sign(_) => None,
        };
        if let Some(what) = what {
            found.entry(what).or_default().push(*line);
        }
    }
    found
}

/// Is this text the later part of one that is put together?
fn continues(tokens: &[(usize, Token)], at: usize) -> bool {
    matches!(
        tokens[..at],
        [.., (_, Token::Text(_))] | [.., (_, Token::Text(_)), (_, Token::Sign('+'))]
    )
}

/// A text and those that are added to it.
fn joined(tokens: &[(usize, Token)], at: usize, text: &str) -> String {
    let mut whole = text.to_owned();
    let mut rest = &tokens[at + 1..];
    loop {
        rest = match rest {
            [(_, Token::Text(more)), rest @ ..]
            | [(_, Token::Sign('+')), (_, Token::Text(more)), rest @ ..] => {
                whole.push_str(more);
                rest
            }
            _ => return whole,
        };
    }
}

/// What a text names that only a look at the test run needs.
fn text_reach(text: &str, tests: &BTreeSet<String>) -> Option<String> {
    let is_name = MODULES.contains(&text) || ATTRIBUTES.contains(&text);
    if is_name || COMPARISONS.contains(&text) {
        return Some(format!("the text `{text}`"));
    }
    for part in ["/proc/", "PYTEST_", "PATCHRL_", ".patchrl", "test_*", "*_test.py"] {
        if text.contains(part) {
            return Some(format!("the text `{part}`"));
        }
    }
    let stem = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path).to_owned();
        file.strip_suffix(".py").map(str::to_owned).unwrap_or(file)
    };
    let named = tests.iter().find(|path| {
        let stem = stem(path);
        stem.starts_with("test_") && stem.len() > 6 && text.contains(&stem)
    })?;
    Some(format!("the test `{named}`"))
}

/// A definition of a comparison whose body never names its second parameter, or a lambda.
fn ignores_other(tokens: &[(usize, Token)], at: usize) -> bool {
    let is =
        |at: usize, sign: char| matches!(tokens.get(at), Some((_, Token::Sign(s))) if *s == sign);
    let name = |at: usize| match tokens.get(at) {
        Some((_, Token::Name(name))) => Some(name.as_str()),
        _ => None,
    };
    let lambda = is(at + 1, '=') && name(at + 2) == Some("lambda");
    let def = at > 0 && name(at - 1) == Some("def");
    if !lambda && !def {
        return false;
    }
    // The names between the brackets, and then those of the body: up to the next `def` or
    // `class` for a definition, up to the line's end for a lambda.
    let (first, close) = if lambda { (at + 3, ':') } else { (at + 2, ')') };
    let end = (first..tokens.len()).find(|i| is(*i, close)).unwrap_or(tokens.len());
    let Some(other) = (first..end).filter_map(name).nth(1).or_else(|| (first..end).find_map(name))
    else {
        return true;
    };
    let line = tokens[at].0;
    !(end..tokens.len())
        .take_while(|i| match name(*i) {
            Some("def" | "class") if !lambda => false,
            _ => !lambda || tokens[*i].0 == line,
        })
        .any(|i| name(i) == Some(other))
}

/// Names, texts and signs with their lines. Comments, numbers and space are left out; an
/// open text ends with the file.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '\'' | '"' => {
                let (inside, len) = literal(rest, c);
                tokens.push((line, Token::Text(inside.to_owned())));
                len
            }
            c if c.is_alphabetic() || c == '_' => {
                let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                let len = len.unwrap_or(rest.len());
                // `rb"..."`: the letters before a text are no name.
                let is_prefix = len <= 2 && rest[len..].starts_with(['\'', '"']);
                if !is_prefix {
                    tokens.push((line, Token::Name(rest[..len].to_owned())));
                }
                len
            }
            c => {
                if !c.is_whitespace() && !c.is_ascii_digit() {
                    tokens.push((line, Token::Sign(c)));
                }
                c.len_utf8()
            }
        };
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    tokens
}

/// The inside of the text that `rest` starts with, and the length with its quotes.
fn literal(rest: &str, quote: char) -> (&str, usize) {
    let one = &rest[..1];
    let triple = one.repeat(3);
    let close = if rest.starts_with(&triple) { triple.as_str() } else { one };
    let start = close.len();
    let mut at = start;
    let bytes = rest.as_bytes();
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote as u8 && rest[at..].starts_with(close) {
            return (&rest[start..at], at + close.len());
        } else if bytes[at] == b'\n' && close.len() == 1 {
            return (&rest[start..at], at);
        } else {
            at += 1;
        }
    }
    (&rest[start.min(rest.len())..], rest.len())
}

#[cfg(test)]
mod unit {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let tests = BTreeSet::from(["tests/test_calc.py".to_owned()]);
        reaches(text, &tests).into_keys().collect()
    }

    #[test]
    fn code_that_reaches_for_the_test_run_is_seen() {
        for code in [
            "import unittest",
            "import os, sys\nfrom _pytest import runner",
            "x = sys.modules['a']",
            "f = sys._getframe(1)",
            "tb.tb_frame",
            "getattr(sys, '_get' + 'frame')",
            "getattr(sys, '_get' 'frame')",
            "gc.get_objects()",
            "eval('1')",
            "__import__('os')",
            "m = importlib.import_module('unittest')",
            "open('/proc/self/cmdline')",
            "open('tests/test_calc.py')",
            "if 'PYTEST_CURRENT_TEST' in os.environ: pass",
            "class A:\n    def __eq__(self, other):\n        return True\n",
            "class A:\n    def __eq__(self, o): return 1\n    def f(self, o): return o\n",
            "__eq__ = lambda self, other: True",
            "T = type('T', (int,), {'__eq__': f})",
        ] {
            assert!(!of(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn ordinary_code_is_not() {
        for code in [
            "# import unittest\nx = 1",
            "\"\"\"Run pytest. Then import unittest.\"\"\"",
            "if __name__ == '__main__':\n    main()",
            "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n",
            "__ne__ = lambda a, b: not a == b",
            "model.eval()",
            "self.modules = []",
            "def exec(self): pass",
            "from . import gcd",
            "s = 'it\\'s'  # gc.collect()",
            "r'\\'",
            "é = 'ü",
        ] {
            assert_eq!(of(code), Vec::<String>::new(), "{code}");
        }
    }
}
