//! Any text as a diff: what parses prints, and what was printed parses to the same again.
//! An absolute name, as `b//g` gives, is none that git's headers can carry; such a diff never
//! applies, and it is enough that it prints.

#![no_main]

use libfuzzer_sys::fuzz_target;
use patchrl_patch::{FilePatch, Patch};

fuzz_target!(|text: &str| {
    let Ok(patch) = Patch::parse(text) else { return };
    let printed = patch.to_string();
    if patch.files().iter().any(|file| is_absolute(file)) {
        return;
    }
    let again = Patch::parse(&printed).expect("a printed diff is a diff");
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.files().len(), patch.files().len());
});

fn is_absolute(file: &FilePatch) -> bool {
    file.old.iter().chain(&file.new).any(|name| name.starts_with('/'))
}
