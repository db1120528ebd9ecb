//! Generated trees and damaged diffs, as many as asked for, against `git apply`.
//!
//! `PATCHRL_CASES` is how many (2,000 without it), `PATCHRL_SEED` where to start: case `n`
//! is the same on every machine, so a campaign is cut into pieces and taken up again by its
//! seed. Verdict, bytes and modes must be git's. Where this crate differs on purpose the
//! case is counted under the reason, and each reason has a case by hand in `cases`.

use std::collections::BTreeMap;
use std::time::Instant;

use patchrl_patch::Mode;

use crate::damage::{damaged, drifted};
use crate::dice::Dice;
use crate::git::{self, Files, Folder};
use crate::scenario::scenario;

const CASES: u64 = 2_000;

#[test]
fn generated_diffs_end_as_with_git() {
    if !git::is_here() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let cases = number("PATCHRL_CASES").unwrap_or(CASES);
    let first = number("PATCHRL_SEED").unwrap_or(0);
    let folder = Folder::new();
    let start = Instant::now();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in first..first + cases {
        match case(&folder, seed) {
            Ok(end) => *counts.entry(end).or_default() += 1,
            Err(report) => wrong.push(format!("seed {seed}\n{report}")),
        }
        if wrong.len() == 20 {
            break;
        }
    }
    println!(
        "seeds {first}..{}: {counts:?}, {} wrong, {:.1} s",
        first + cases,
        wrong.len(),
        start.elapsed().as_secs_f64()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let applied = counts.get("applies").copied().unwrap_or_default() as u64;
    assert!(applied > cases / 5, "too few diffs apply: {applied}");
}

/// How both ended; a report if they ended otherwise without a reason.
fn case(folder: &Folder, seed: u64) -> Result<&'static str, String> {
    let dice = &mut Dice::new(seed);
    let (files, sections) = scenario(dice);
    let patch = damaged(dice, sections);
    let files = drifted(dice, files);
    match (folder.apply(&files, &patch), git::ours(&files, &patch)) {
        (Ok(git), Ok(ours)) if git == ours => Ok("applies"),
        (Err(_), Err(_)) => Ok("fails"),
        (git, ours) => reason(&files, &patch, &git, &ours).ok_or_else(|| {
            format!("files: {files:?}\npatch:\n{patch}\n{patch:?}\ngit: {git:?}\nours: {ours:?}")
        }),
    }
}

/// Why this crate refuses on purpose what git takes, or takes what git refuses.
fn reason(
    files: &Files,
    patch: &str,
    git: &Result<Files, String>,
    ours: &Result<Files, String>,
) -> Option<&'static str> {
    let (after, ours) = match (git, ours) {
        (Ok(after), Err(ours)) => (after, ours),
        (Err(git), Ok(_)) if git.contains("Too many levels of symbolic links") => {
            return Some("file below a former link to itself taken");
        }
        _ => return None,
    };
    if ours.contains("submodules are not supported") {
        return Some("submodule refused");
    }
    if ours.contains("a file name that is not UTF-8") {
        return Some("name that is not UTF-8 refused");
    }
    // Git looks at the names that it writes or removes only.
    if ours.starts_with("unsafe_path") && patch.contains("\ncopy from ") {
        return Some("copy of an unsafe path refused");
    }
    let (_, rest) = ours.split_once(": `")?;
    let path = rest.split('`').next()?;
    let inside = format!("{path}/");
    let is_link = after.get(path).is_some_and(|entry| entry.mode == Mode::Symlink);
    if ours.starts_with("already_exists")
        && is_link
        && !files.keys().any(|at| at.starts_with(&inside))
    {
        return Some("file below a link refused");
    }
    let is_directory = |files: &Files| files.keys().any(|path| path.starts_with(&inside));
    match is_directory(files) {
        true if after.contains_key(path) => Some("directory not replaced"),
        true if is_directory(after) => Some("directory as a submodule refused"),
        _ => None,
    }
}
