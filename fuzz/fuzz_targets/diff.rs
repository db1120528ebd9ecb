//! Any text as a diff: what parses prints, and what was printed parses to the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use patchrl_patch::Patch;

fuzz_target!(|text: &str| {
    let Ok(patch) = Patch::parse(text) else { return };
    let printed = patch.to_string();
    let again = Patch::parse(&printed).expect("a printed diff is a diff");
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.files().len(), patch.files().len());
});
