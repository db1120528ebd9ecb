//! SEARCH/REPLACE blocks: written out, found again, and applied to the file they are for.
//! The input is four texts between NULs: before, search, replace, after.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use patchrl_patch::{Block, Edit, Entry, Mode, Rule, extract};

fuzz_target!(|input: &str| {
    let _ = extract(input);
    let mut texts = input.split('\0').map(whole);
    let mut text = || texts.next().unwrap_or_default();
    let (before, search, replace, after) = (text(), text(), text(), text());
    if search.trim().is_empty() || [&search, &replace].iter().any(|text| has_marks(text)) {
        return;
    }
    let answer = format!(
        "So:\n\n```python\n### f.py\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n```\n"
    );
    let found = extract(&answer).expect("a block is found");
    let block = Block { path: "f.py".to_owned(), search: search.clone(), replace: replace.clone() };
    assert_eq!(found.edit, Edit::Blocks(vec![block]));
    assert_eq!(found.rule, Rule::SearchReplace);

    let file = format!("{before}{search}{after}");
    let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
    let tree: BTreeMap<String, Entry> = [("f.py".to_owned(), entry(&file))].into();
    let Ok(changes) = found.edit.apply(&tree) else { return };
    // Line ends are the file's, so that only texts without returns come out as written.
    if !input.contains('\r') {
        let new = entry(&format!("{before}{replace}{after}"));
        assert_eq!(changes, [("f.py".to_owned(), Some(new))].into());
    }
});

/// Whole lines.
fn whole(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Lines that end a block, a fence or a thought.
fn has_marks(text: &str) -> bool {
    text.contains("think>")
        || text.contains("solution>")
        || text.lines().any(|line| line.starts_with(['<', '=', '>', '`', '~']))
}
