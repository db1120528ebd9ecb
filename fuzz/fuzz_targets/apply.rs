//! A file and a diff between NULs. Any diff ends without a panic; our own diff from one
//! text to the other is found in an answer and gives the new text.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use patchrl_patch::{Changes, Edit, Entry, Mode, Patch, extract, unified};

fuzz_target!(|input: &str| {
    let (old, new) = input.split_once('\0').unwrap_or((input, ""));
    let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
    let tree: BTreeMap<String, Entry> = [("f".to_owned(), entry(old))].into();
    if let Ok(patch) = Patch::parse(new) {
        let mut placed = Vec::new();
        let changes = Edit::Diff(patch).apply_noting(&tree, &mut placed);
        assert!(changes.is_ok_and(|changes| !changes.is_empty()) || placed.len() <= new.len());
    }
    if old == new || new.contains('\0') {
        return;
    }
    let changes: Changes = [("f".to_owned(), Some(entry(new)))].into();
    let diff = unified(&changes, &tree).expect("a map can be read");
    let edit = Edit::Diff(Patch::parse(&diff).expect("our own diff is a diff"));
    assert_eq!(edit.apply(&tree).expect("our own diff applies"), changes);
    // Tags on lines of their own are taken for the model's, also in context.
    if ["think>", "solution>", "<<<<<"].iter().any(|tag| input.contains(tag)) {
        return;
    }
    for answer in [diff.clone(), format!("Fix:\n\n````diff\n{diff}````\n")] {
        assert_eq!(extract(&answer).expect("a diff is found").edit, edit);
    }
});
