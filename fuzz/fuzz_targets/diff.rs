//! Any text as a diff: what parses prints, and what was printed parses to the same again.
//! Two things that never apply need only print: an absolute name, as `b//g` gives, and a
//! file of which the diff says nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use patchrl_patch::{Claim, FilePatch, Patch};

fuzz_target!(|text: &str| {
    let Ok(patch) = Patch::parse(text) else { return };
    let printed = patch.to_string();
    if patch.files().iter().any(|file| is_absolute(file) || says_nothing(file)) {
        return;
    }
    let again = Patch::parse(&printed).expect("a printed diff is a diff");
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.files().len(), patch.files().len());
});

fn is_absolute(file: &FilePatch) -> bool {
    file.old.iter().chain(&file.new).any(|name| name.starts_with('/'))
}

fn says_nothing(file: &FilePatch) -> bool {
    let is_change = file.creates == Claim::Yes || file.deletes == Claim::Yes || file.binary;
    file.hunks.is_empty() && !is_change && file.moved.is_none() && file.new_mode.is_none()
}
