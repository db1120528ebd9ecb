//! Generated files and damaged diffs: verdict and bytes must equal git's. Round trips.

use std::fmt::Write as _;

use patchrl_patch::{Edit, Entry, Mode, Patch, extract, unified};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::git::{self, Files, Verdict};

/// Few different lines, so that hunks fit in several places.
fn line() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a\n", "b\n", "c\n", "a \n", "\n", "  x\n", "a\r\n", "-- q\n", "ü\n"])
}

/// A text of up to `most` lines, at times without its last newline.
fn text(most: usize) -> impl Strategy<Value = String> {
    (prop::collection::vec(line(), 0..most), prop::bool::weighted(0.25)).prop_map(
        |(lines, is_unfinished)| {
            let mut text = lines.concat();
            if is_unfinished && text.trim_end().len() + 1 == text.len() {
                text.pop();
            }
            text
        },
    )
}

/// Change one line of a text: leave it out, double it, or put another there.
type Damage = (prop::sample::Index, u8, &'static str);

fn damage() -> impl Strategy<Value = Damage> {
    let lines = [
        "+z\n",
        "-a\n",
        " b\n",
        "\n",
        "\\ No newline at end of file\n",
        "@@ -1,2 +1,3 @@\n",
        "@@ -3 +2,2 @@\n",
        "x\n",
        "--- a/g\n",
        "+++ b/f\n",
    ];
    (any::<prop::sample::Index>(), 0..6_u8, prop::sample::select(lines.to_vec()))
}

fn damaged(text: &str, (at, how, other): &Damage) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let at = at.index(lines.len());
    match how {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => (*other).clone_into(&mut lines[at]),
        3 => lines.insert(at, (*other).to_owned()),
        // Numbers of a hunk, or the last character of another line.
        _ => lines[at] = shifted(&lines[at], *how == 4),
    }
    lines.concat()
}

fn shifted(line: &str, start: bool) -> String {
    let digit = if start {
        line.find(|c: char| c.is_ascii_digit())
    } else {
        line.rfind(|c: char| c.is_ascii_digit())
    };
    match digit {
        None => line.trim_end().to_owned() + " \n",
        Some(at) => {
            let next = (line.as_bytes()[at] - b'0' + 1) % 10;
            format!("{}{next}{}", &line[..at], &line[at + 1..])
        }
    }
}

/// The diff between two texts of `f`, with less context than usual.
fn diff(old: &str, new: &str, context: usize) -> String {
    let files = one("f", old);
    let changes = [("f".to_owned(), Some(entry(new)))].into();
    let full = unified(&changes, &files).unwrap();
    if context == 3 { full } else { trimmed(&full, context) }
}

/// Take context lines off the ends of each hunk.
fn trimmed(diff: &str, context: usize) -> String {
    let (head, body) = diff.split_at(diff.find("@@ -").unwrap_or(diff.len()));
    let mut out = head.to_owned();
    for hunk in
        body.split_inclusive('\n').collect::<Vec<_>>().chunk_by(|_, next| !next.starts_with("@@ "))
    {
        let is_context = |line: &&&str| line.starts_with(' ');
        let lead = hunk[1..].iter().take_while(is_context).count().saturating_sub(context);
        let tail = hunk[1..].iter().rev().take_while(is_context).count().saturating_sub(context);
        let numbers: Vec<usize> = hunk[0]
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let [old, new] = [numbers[0], numbers[numbers.len() / 2]];
        let kept = &hunk[1 + lead..hunk.len() - tail];
        let count = |mark| kept.iter().filter(|line| line.starts_with([' ', mark])).count();
        let (old, new) = (old + lead, new + lead);
        writeln!(out, "@@ -{old},{} +{new},{} @@", count('-'), count('+')).unwrap();
        out += &kept.concat();
    }
    out
}

fn entry(text: &str) -> Entry {
    Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() }
}

fn one(path: &str, text: &str) -> Files {
    [(path.to_owned(), entry(text))].into()
}

fn config(cases: u32) -> ProptestConfig {
    let persistence = FileFailurePersistence::Off;
    ProptestConfig {
        cases,
        max_shrink_iters: 200,
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::default()
    }
}

/// Cases that start git. Each costs a process and a folder.
const WITH_GIT: u32 = 400;

#[test]
fn damaged_diffs_end_as_with_git() {
    if !git::is_here() {
        return;
    }
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config(WITH_GIT),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let input = (
        (text(14), text(14), text(14)),
        (0..3_u8, 0..4_usize),
        prop::collection::vec(damage(), 0..3),
    );
    let applied = std::cell::Cell::new(0);
    let ran = std::cell::Cell::new(0);
    runner
        .run(&input, |((old, new, noise), (where_, context), damages)| {
            let mut patch = diff(&old, &new, context);
            for damage in &damages {
                patch = damaged(&patch, damage);
            }
            // The file as it was, with other lines before it, or with other lines after it.
            let base = match where_ {
                0 => old,
                1 if noise.ends_with('\n') => noise + &old,
                _ if old.ends_with('\n') => old + &noise,
                _ => old,
            };
            let verdict = git::compare(&one("f", &base), &patch).map_err(TestCaseError::fail)?;
            ran.set(ran.get() + 1);
            applied.set(applied.get() + u32::from(verdict == Verdict::Applies));
            Ok(())
        })
        .unwrap();
    println!("{} diffs compared with git, {} apply", ran.get(), applied.get());
    assert!(applied.get() > WITH_GIT / 5, "too few diffs apply: {}", applied.get());
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn diff_then_apply_gives_the_new_text(old in text(40), new in text(40)) {
        let patch = diff(&old, &new, 3);
        if old == new {
            prop_assert!(patch.is_empty());
        } else {
            let parsed = Patch::parse(&patch).unwrap();
            prop_assert_eq!(parsed.to_string(), patch.as_str());
            let changes = Edit::Diff(parsed).apply(&one("f", &old)).unwrap();
            prop_assert_eq!(changes, [("f".to_owned(), Some(entry(&new)))].into());
        }
    }

    #[test]
    fn trees_come_back(old in files(), new in files()) {
        let changes = between(&old, &new);
        let patch = unified(&changes, &old).unwrap();
        if changes.is_empty() {
            prop_assert!(patch.is_empty());
        } else {
            let applied = Edit::Diff(Patch::parse(&patch).unwrap()).apply(&old);
            prop_assert_eq!(applied.unwrap(), changes);
        }
    }

    #[test]
    fn any_text_is_read_without_panic(parts in prop::collection::vec(fragment(), 0..30), tail in "\\PC{0,20}") {
        let text = parts.concat() + &tail;
        let _ = extract(&text);
        if let Ok(patch) = Patch::parse(&text) {
            let _ = Edit::Diff(patch).apply(&one("f", "a\nb\n"));
        }
    }
}

/// Pieces that diffs and blocks are made of.
fn fragment() -> impl Strategy<Value = String> {
    let pieces = [
        "diff --git a/f b/f\n",
        "diff --git ",
        "--- a/f\n",
        "+++ b/f\n",
        "--- \n",
        "+++ ",
        "--- /dev/null\n",
        "@@ -1 +1 @@\n",
        "@@ -1,2 +1,2 @@\n",
        "@@ -0,0 +1,18446744073709551615 @@\n",
        " a\n",
        "-a\n",
        "+b\n",
        "\n",
        "\\ No newline at end of file\n",
        "\\",
        "```diff\n",
        "```\n",
        "````",
        "<think>",
        "</think>\n",
        "<solution>\n",
        "</solution>",
        "### f\n",
        "<<<<<<< SEARCH\n",
        "=======\n",
        ">>>>>>> REPLACE\n",
        "<<<<<",
        "new file mode 100644\n",
        "deleted file mode 100644\n",
        "rename from f\n",
        "rename to g\n",
        "copy from f\n",
        "index 1..2 100644\n",
        "GIT binary patch\n",
        "\"a/\\303\\2",
        "\"",
        "ü",
        "\r\n",
        "\t",
        "\0",
        " ",
    ];
    prop::sample::select(pieces.to_vec()).prop_map(str::to_owned)
}

/// A few files of all kinds.
fn files() -> impl Strategy<Value = Files> {
    let paths = ["f", "d/g", "d/e/h", "a b", "t\tü\"", "l"];
    let mode = prop_oneof![Just(Mode::Regular), Just(Mode::Executable), Just(Mode::Symlink)];
    let entry = (mode, text(8)).prop_map(|(mode, text)| {
        let text = if mode == Mode::Symlink { format!("t{}", text.trim()) } else { text };
        Entry { mode, bytes: text.into_bytes() }
    });
    prop::collection::btree_map(
        prop::sample::select(paths.to_vec()).prop_map(str::to_owned),
        entry,
        0..6,
    )
}

fn between(old: &Files, new: &Files) -> patchrl_patch::Changes {
    let gone = old.keys().filter(|path| !new.contains_key(*path)).map(|path| (path.clone(), None));
    let come = new.iter().filter(|(path, entry)| old.get(*path) != Some(entry));
    gone.chain(come.map(|(path, entry)| (path.clone(), Some(entry.clone())))).collect()
}
