//! Real patches: parsing and printing gives every byte back.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use crate::git;
use patchrl_patch::{Edit, Entry, Mode, Patch, Rule, extract};

/// Every line of a compressed JSONL file.
pub(crate) fn rows(path: &Path) -> Vec<serde_json::Value> {
    let mut text = String::new();
    let bytes = fs_err::read(path).unwrap();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn archives(folder: &str) -> Vec<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    let Ok(found) = fs_err::read_dir(&root) else {
        println!("skipped: no {}", root.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = found.map(|it| it.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".jsonl.gz"));
    paths.sort();
    paths
}

#[test]
fn gold_patches_print_as_they_were() {
    let mut patches = BTreeMap::new();
    for path in archives("instances") {
        for row in rows(&path) {
            for field in ["patch", "test_patch"] {
                let text = row[field].as_str().unwrap().to_owned();
                patches.insert(text, format!("{} {field}", row["instance_id"]));
            }
        }
    }
    let (mut files, mut hunks, mut unended) = (0, 0, 0);
    for (text, name) in &patches {
        if text.is_empty() {
            continue;
        }
        let ended = if text.ends_with('\n') {
            text.clone()
        } else {
            unended += 1;
            format!("{text}\n")
        };
        let patch = Patch::parse(&ended).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(patch.to_string(), ended, "{name}");
        files += patch.files().len();
        hunks += patch.files().iter().map(|file| file.hunks.len()).sum::<usize>();
        for answer in [text.clone(), format!("Fix:\n\n```diff\n{text}\n```\n")] {
            let found = extract(&answer).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            let Edit::Diff(found) = found.edit else { panic!("{name}: no diff") };
            assert_eq!(found.files().len(), patch.files().len(), "{name}");
            assert_eq!(found.to_string(), patch.to_string(), "{name}");
        }
    }
    println!(
        "{} patches, {files} files, {hunks} hunks, {unended} without final newline: printed as read",
        patches.len()
    );
}

#[test]
fn model_patches_are_found_or_named() {
    let git_is_here = git::is_here();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in archives("predictions") {
        for row in rows(&path) {
            let Some(text) = row["model_patch"].as_str() else { continue };
            let outcome = match extract(text) {
                Ok(found) => {
                    assert_eq!(found.rule, Rule::RawDiff);
                    found.rule.as_str().to_owned()
                }
                Err(fault) => {
                    let end = if text.ends_with('\n') { "" } else { "\n" };
                    let said = git::parse(&format!("{text}{end}"));
                    assert!(!git_is_here || said.is_err(), "{fault}: {text}");
                    fault.as_str().to_owned()
                }
            };
            *counts.entry(outcome).or_default() += 1;
        }
    }
    println!("model patches: {counts:?}");
}

/// A tree that `patch` applies to: its old lines where it says they are, others between.
fn tree_under(patch: &Patch) -> BTreeMap<String, Entry> {
    let mut tree = BTreeMap::new();
    let printed = patch.to_string();
    let mut bodies = printed.split("\n@@ -").skip(1).map(|hunk| {
        let body = hunk.split_once('\n').unwrap_or_default().1;
        body.split("\ndiff --git ").next().unwrap_or_default()
    });
    for file in patch.files() {
        let mut text = String::new();
        let mut line = 1;
        for hunk in &file.hunks {
            let body = bodies.next().unwrap();
            while line < hunk.old.start {
                text.push_str(&format!("line {line} of no hunk\n"));
                line += 1;
            }
            for shown in body.lines() {
                match shown.as_bytes().first() {
                    Some(b'\\') if !text.is_empty() && text.ends_with('\n') => {}
                    Some(b'+' | b'\\') => {}
                    _ => {
                        text.push_str(shown.get(1..).unwrap_or_default());
                        text.push('\n');
                        line += 1;
                    }
                }
            }
        }
        if let Some(old) = &file.old {
            let entry = Entry { mode: Mode::Regular, bytes: text.into_bytes() };
            tree.insert(old.clone(), entry);
        }
    }
    tree
}

#[test]
fn a_reversed_patch_takes_the_patch_back() {
    let mut taken_back = 0;
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for path in archives("instances") {
        for row in rows(&path) {
            let text = row["patch"].as_str().unwrap();
            let patch = Patch::parse(&format!("{}\n", text.trim_end_matches('\n'))).unwrap();
            let before = tree_under(&patch);
            let Ok(changes) = Edit::Diff(patch.clone()).apply(&before) else {
                // A line ends in a way that the tree above does not have.
                *left.entry("made-up tree").or_default() += 1;
                continue;
            };
            let Some(reversed) = patch.reversed() else {
                *left.entry("binary or copy").or_default() += 1;
                continue;
            };
            let mut after = before.clone();
            for (path, entry) in changes {
                match entry {
                    Some(entry) => after.insert(path, entry),
                    None => after.remove(&path),
                };
            }
            let back = Patch::parse(&reversed).unwrap();
            for (path, entry) in Edit::Diff(back.clone()).apply(&after).unwrap() {
                match entry {
                    Some(entry) => after.insert(path, entry),
                    None => after.remove(&path),
                };
            }
            assert_eq!(after, before, "{}", row["instance_id"]);
            let again = Patch::parse(&back.reversed().unwrap()).unwrap();
            assert_eq!(again.files().len(), patch.files().len());
            taken_back += 1;
        }
    }
    println!("{taken_back} patches taken back, left out: {left:?}");
    assert!(taken_back > 0 || archives("instances").is_empty());
}
