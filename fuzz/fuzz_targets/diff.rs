//! Any text as a diff: what parses prints, and what was printed parses to the same again.
//! An absolute name, as `b//g` gives, is none that git's headers can carry; such a diff
//! never applies, and it is enough that it prints.

#![no_main]

use libfuzzer_sys::fuzz_target;
use patchrl_patch::Patch;

fuzz_target!(|text: &str| {
    let Ok(patch) = Patch::parse(text) else { return };
    let printed = patch.to_string();
    let names = patch.files().iter().flat_map(|file| file.old.iter().chain(&file.new));
    if names.into_iter().any(|name| name.starts_with('/')) {
        return;
    }
    let again = Patch::parse(&printed).expect("a printed diff is a diff");
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.files().len(), patch.files().len());
});
