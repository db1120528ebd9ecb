//! Any answer: an edit or a fault, never a panic, and what was found can be applied.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use patchrl_patch::{Edit, Entry, Mode, Patch, extract};

fuzz_target!(|answer: &str| {
    let Ok(found) = extract(answer) else { return };
    if let Edit::Diff(patch) = &found.edit {
        let printed = patch.to_string();
        let again = Patch::parse(&printed).expect("a printed diff is a diff");
        assert_eq!(again.to_string(), printed);
    }
    let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
    let tree: BTreeMap<String, Entry> =
        [("f".to_owned(), entry("a\nb\nc\n")), ("d/g".to_owned(), entry("a\r\n"))].into();
    let _ = found.edit.apply(&tree);
});
