//! What a failing test shows, and the issue text made of it.
//!
//! Owns reading assertions and their messages from unittest output, and the wording of issues: the
//! call, what it gives and what it should give, never the code. Knows assertions on one line.

use crate::split::seeded;

use super::tokens::Source;

/// Longest value or call that an issue quotes, in characters.
const MAX_QUOTE: usize = 70;
/// An issue that is longer than this takes no second symptom.
const MAX_BODY: usize = 150;

/// One failing assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// The failing test, as `python -m unittest` names it.
    pub test: String,
    /// The expression that was checked.
    pub call: String,
    /// What it did.
    pub observed: Observed,
    /// What the test wants: a value, or the name of an exception.
    pub expected: String,
}

/// What a checked expression did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It has this value.
    Value(String),
    /// It raised this.
    Raised(String),
    /// It returned where an exception was wanted.
    Returned,
}

impl Symptom {
    /// What is called: `f` of `f(1, 2)`.
    pub fn function(&self) -> &str {
        self.call.split('(').next().unwrap_or_default()
    }

    /// The test's name in words, without the function's: `test_clamp_above` of `clamp` is `above`.
    fn situation(&self) -> String {
        let method = self.test.rsplit('.').next().unwrap_or_default();
        let words = method.strip_prefix("test_").unwrap_or(method);
        let words = words.strip_prefix(self.function()).unwrap_or(words);
        words.trim_matches('_').replace('_', " ")
    }
}

/// The symptoms in the output of a unittest run, in its order. Failures that do not fit on one
/// line, or that quote long values, have none.
pub fn symptoms(output: &str) -> Vec<Symptom> {
    let rule = "=".repeat(70);
    output.split(&rule).skip(1).filter_map(block).collect()
}

/// The issue a user would file. None without a symptom.
pub fn issue_text(symptoms: &[Symptom], seed: u64) -> Option<String> {
    let mut order: Vec<&Symptom> = symptoms.iter().collect();
    // A wrong value says more than an exception, and a short call more than a long one.
    order.sort_by_key(|symptom| {
        let value = matches!(symptom.observed, Observed::Value(_));
        (!value, symptom.call.len() + symptom.expected.len(), symptom.test.clone())
    });
    let first = *order.first()?;
    let choice = seeded(seed, &first.test);
    let mut body = sentence(first, choice);
    let same = order.iter().skip(1).find(|other| other.function() == first.function());
    if let Some(second) = same {
        let more = sentence(second, choice);
        if body.len() + more.len() < MAX_BODY {
            body.push(' ');
            body.push_str(&more);
        }
    }
    Some(format!("{}\n\n{body}\n", title(first, choice)))
}

fn title(symptom: &Symptom, choice: u64) -> String {
    let name = symptom.function();
    let situation = symptom.situation();
    match (choice / 7 % 3, situation.is_empty()) {
        (0, false) => format!("{name}() is wrong: {situation}"),
        (1, false) => format!("{name}(): wrong result ({situation})"),
        (2, _) => format!("Wrong answer from {name}()"),
        _ => format!("{name}() gives a wrong result"),
    }
}

fn sentence(symptom: &Symptom, choice: u64) -> String {
    let Symptom { call, expected, .. } = symptom;
    match (&symptom.observed, choice % 3) {
        (Observed::Value(value), 0) => {
            format!("`{call}` returns {value}, but {expected} is expected.")
        }
        (Observed::Value(value), 1) => {
            format!("`{call}` gives {value}. It should give {expected}.")
        }
        (Observed::Value(value), _) => format!("Expected {expected} from `{call}`, got {value}."),
        (Observed::Raised(error), _) => {
            format!("`{call}` raises {error}, but {expected} is expected.")
        }
        (Observed::Returned, _) => format!("`{call}` does not raise {expected}, but it should."),
    }
}

fn block(block: &str) -> Option<Symptom> {
    let mut lines = block.trim_start().lines();
    let header = lines.next()?;
    let (_, named) = header.split_once(": ")?;
    let (method, place) = named.split_once(" (")?;
    let place = place.split_once(')')?.0;
    let suffix = format!(".{method}");
    // Python 3.11 and later write the method's name in the brackets, too.
    let test = if place.ends_with(&suffix) { place.to_owned() } else { place.to_owned() + &suffix };
    let frame = format!(", in {method}");
    let body: Vec<&str> = lines.collect();
    let at = body
        .iter()
        .position(|line| line.trim_start().starts_with("File ") && line.ends_with(&frame))?;
    let statement = body.get(at + 1)?.trim();
    let fault = body.iter().rfind(|line| {
        line.starts_with(|c: char| c.is_ascii_uppercase()) && {
            let name = line.split(':').next().unwrap_or_default();
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.')
        }
    });
    let message = body.iter().find_map(|line| line.strip_prefix("AssertionError: "));
    let symptom = assertion(test, statement, message, fault.copied())?;
    let quotes = [
        symptom.call.as_str(),
        symptom.expected.as_str(),
        match &symptom.observed {
            Observed::Value(text) | Observed::Raised(text) => text.as_str(),
            Observed::Returned => "",
        },
    ];
    quotes.iter().all(|text| text.chars().count() <= MAX_QUOTE).then_some(symptom)
}

fn assertion(
    test: String,
    statement: &str,
    message: Option<&str>,
    fault: Option<&str>,
) -> Option<Symptom> {
    let source = Source::read(statement);
    let head = (source.word(0), source.word(1), source.word(3));
    if head != ("self", ".", "(") {
        return None;
    }
    let close = source.closing(3)?;
    let items: Vec<&str> =
        source.items(3, close).iter().map(|item| &statement[source.bytes(item)]).collect();
    let (call, expected) = match (source.word(2), items.as_slice()) {
        ("assertEqual", [call, expected]) => ((*call).to_owned(), as_printed(expected)),
        ("assertTrue", [call]) => ((*call).to_owned(), "True".to_owned()),
        ("assertFalse", [call]) => ((*call).to_owned(), "False".to_owned()),
        ("assertIsNone", [call]) => ((*call).to_owned(), "None".to_owned()),
        ("assertRaises", [error, function, arguments @ ..]) => {
            (format!("{function}({})", arguments.join(", ")), (*error).to_owned())
        }
        _ => return None,
    };
    let observed = match message {
        Some(_) if source.word(2) == "assertRaises" => Observed::Returned,
        Some(message) => Observed::Value(value(source.word(2), message)?),
        None => Observed::Raised(short_error(fault?)),
    };
    Some(Symptom { test, call, observed, expected })
}

/// A value's source text with the quotes that Python prints, so that it compares with a message.
fn as_printed(expression: &str) -> String {
    let plain = !expression.contains(['\'', '\\']);
    if plain { expression.replace('"', "'") } else { expression.to_owned() }
}

/// The left side of unittest's message.
fn value(assertion: &str, message: &str) -> Option<String> {
    let text = match assertion {
        "assertTrue" => message.strip_suffix(" is not true")?,
        "assertFalse" => message.strip_suffix(" is not false")?,
        "assertIsNone" => message.strip_suffix(" is not None")?,
        _ => {
            let named = ["Lists", "Tuples", "Sequences", "Sets"];
            let differ = named.iter().find_map(|name| {
                message.strip_prefix(name).and_then(|rest| rest.strip_prefix(" differ: "))
            });
            differ.unwrap_or(message).split_once(" != ")?.0
        }
    };
    Some(text.to_owned())
}

/// `KeyError: 'x'` as it is where that is short, else only the name.
fn short_error(fault: &str) -> String {
    let fault = fault.trim();
    if fault.len() <= 50 {
        return fault.to_owned();
    }
    fault.split(':').next().unwrap_or(fault).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
test_clamp_above (tests.test_x.TestX.test_clamp_above) ... FAIL

======================================================================
ERROR: test_last_of_nothing (tests.test_x.TestX)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"/w/tests/test_x.py\", line 9, in test_last_of_nothing
    self.assertIsNone(last([]))
                      ^^^^^^^^
  File \"/w/x.py\", line 3, in last
    return xs[-1]
IndexError: list index out of range

======================================================================
FAIL: test_clamp_above (tests.test_x.TestX.test_clamp_above)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"/w/tests/test_x.py\", line 12, in test_clamp_above
    self.assertEqual(clamp([5, 6], \"a, b\"), [3, \"x\"])
AssertionError: Lists differ: [5, 6] != [3, 'x']

First differing element 0:
5
3

======================================================================
FAIL: test_change_too_little (tests.test_x.TestX.test_change_too_little)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"/w/tests/test_x.py\", line 15, in test_change_too_little
    self.assertRaises(ValueError, change, 1, 2)
AssertionError: ValueError not raised by change

----------------------------------------------------------------------
Ran 3 tests in 0.001s

FAILED (failures=2, errors=1)
";

    #[test]
    fn assertions_are_read() {
        let found = symptoms(OUTPUT);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].test, "tests.test_x.TestX.test_last_of_nothing");
        assert_eq!(found[0].call, "last([])");
        assert_eq!(found[0].expected, "None");
        let raised = "IndexError: list index out of range".to_owned();
        assert_eq!(found[0].observed, Observed::Raised(raised));
        assert_eq!(found[1].call, "clamp([5, 6], \"a, b\")");
        assert_eq!(found[1].observed, Observed::Value("[5, 6]".into()));
        assert_eq!(found[2].call, "change(1, 2)");
        assert_eq!(found[2].observed, Observed::Returned);
        assert_eq!(found[2].expected, "ValueError");
    }

    #[test]
    fn an_issue_names_the_function_and_both_values() {
        let found = symptoms(OUTPUT);
        for seed in 0..20 {
            let text = issue_text(&found, seed).expect("there are symptoms");
            assert!(text.contains("clamp()") && text.contains("[3, 'x']"), "{text}");
        }
        assert_eq!(issue_text(&[], 0), None);
    }

    #[test]
    fn rubbish_gives_no_panic() {
        for end in 0..OUTPUT.len() {
            let _ = symptoms(&OUTPUT[..end]);
            let _ = symptoms(&OUTPUT[end..]);
        }
    }
}
