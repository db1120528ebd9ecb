//! `diff_size_penalty`: how much of a patch the known answer does not need.

use std::collections::BTreeSet;

use patchrl_patch::{Changes, Patch};

/// Minus the larger share: lines beyond the oracle's number, or files it does not touch.
///
/// Both diffs are canonical, so that context and order of the answer's own text play no
/// part.
pub(crate) fn size_penalty(patch: &str, oracle: &str, changes: &Changes, gold: &Changes) -> f64 {
    let (own, needed) = (lines(patch), lines(oracle));
    let surplus = share(own.saturating_sub(needed), own);
    let gold: BTreeSet<&String> = gold.keys().collect();
    let strange = changes.keys().filter(|path| !gold.contains(path)).count();
    let worst = surplus.max(share(strange as u64, changes.len() as u64));
    // Not -0: the value is printed.
    if worst == 0.0 { 0.0 } else { -worst }
}

/// Lines that a diff adds and removes.
fn lines(diff: &str) -> u64 {
    let hunks = |patch: Patch| -> u64 {
        patch.files().iter().flat_map(|file| &file.hunks).map(|h| h.added + h.removed).sum()
    };
    Patch::parse(diff).map_or(0, hunks)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use super::*;

    fn diff(lines: usize) -> String {
        let body: String = (0..lines).map(|i| format!("+{i}\n")).collect();
        format!("--- a/x\n+++ b/x\n@@ -0,0 +1,{lines} @@\n{body}")
    }

    fn touched(paths: &[&str]) -> Changes {
        paths.iter().map(|path| ((*path).to_owned(), None)).collect()
    }

    #[test]
    fn only_what_the_oracle_does_not_need_costs() {
        let (x, xyz) = (touched(&["x"]), touched(&["x", "y", "z"]));
        assert_eq!(size_penalty(&diff(3), &diff(3), &x, &x), 0.0);
        assert_eq!(size_penalty(&diff(1), &diff(3), &x, &xyz), 0.0);
        assert_eq!(size_penalty(&diff(12), &diff(3), &x, &x), -0.75);
        assert_eq!(size_penalty(&diff(3), &diff(3), &touched(&["x", "n"]), &x), -0.5);
        assert_eq!(size_penalty(&diff(3), &diff(3), &touched(&["n"]), &x), -1.0);
    }
}
