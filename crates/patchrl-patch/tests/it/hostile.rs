//! Ten megabytes of bad will each: linear time, no panic, a fault where it is too much.

use std::ops::Range;
use std::time::Duration;

use patchrl_patch::{Changes, Edit, Entry, Mode, Patch, extract, unified};

use crate::git::Files;

const SIZE: usize = 10 << 20;
/// Processor time. Far above a linear pass in a slow build, far below a quadratic one.
const LIMIT: Duration = Duration::from_secs(8);

fn repeated(piece: &str) -> String {
    piece.repeat(SIZE / piece.len())
}

fn joined(numbers: Range<usize>, piece: impl Fn(usize) -> String) -> String {
    numbers.map(piece).collect::<Vec<_>>().concat()
}

pub(crate) fn entry(bytes: impl Into<Vec<u8>>) -> Entry {
    Entry { mode: Mode::Regular, bytes: bytes.into() }
}

fn timed(name: &str, run: impl FnOnce() -> String) {
    let start = processor_time();
    let outcome = run();
    let spent = processor_time().saturating_sub(start);
    println!("{name}: {outcome} in {:.2} s", spent.as_secs_f64());
    assert!(spent < LIMIT, "{name} took {spent:?}");
}

/// Of this thread. The wall clock says more about the machine's other work.
pub(crate) fn processor_time() -> Duration {
    let text = fs_err::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|it| it.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

fn end(text: &str, files: &Files) -> String {
    match extract(text).map(|found| found.edit.apply(files)) {
        Err(fault) => fault.as_str().to_owned(),
        Ok(Err(fault)) => fault.as_str().to_owned(),
        Ok(Ok(changes)) => format!("{} changes", changes.len()),
    }
}

#[test]
fn answers_of_ten_megabytes() {
    let files: Files = [("f.py".to_owned(), entry("a\nb\n"))].into();
    let texts = [
        ("blanks", repeated(" ")),
        ("newlines", repeated("\n")),
        ("one long name", format!("diff --git a/ {}\nnew file mode 100644\n", repeated("a "))),
        ("slashes in a name", format!("diff --git a/{}\nold mode 1\n", repeated("x /"))),
        ("a deep path", format!("--- /dev/null\n+++ b/{}x\n@@ -0,0 +1 @@\n+a\n", repeated("d/"))),
        ("git headers", repeated("diff --git a/f.py b/f.py.py\n")),
        ("plain headers", repeated("--- a/f.py\n+++ b/f.py\n")),
        ("hunk headers", repeated("@@ -1 +1 @@\n")),
        ("fences", repeated("```diff\n```\n")),
        ("open fences", repeated("```diff\n--- a/f.py\n+++ b/f.py\n")),
        ("thoughts", repeated(" </think>\n")),
        ("solutions", repeated("+<solution>")),
        ("search markers", repeated("f.py\n<<<<<<< SEARCH\n")),
        ("dividers", format!("f.py\n<<<<<<< SEARCH\n{}>>>>>>> REPLACE\n", repeated("=====\n"))),
        ("new files", repeated("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n")),
        ("one file over and over", repeated("--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-a\n+a\n")),
    ];
    for (name, text) in &texts {
        timed(name, || end(text, &files));
    }
}

#[test]
fn blocks_and_hunks_on_a_large_file() {
    let same: Files = [("f.py".to_owned(), entry("x\n".repeat(200_000)))].into();
    let hunk = format!("{}-y\n+z\n x\n", " x\n".repeat(1000));
    let far = format!("--- a/f.py\n+++ b/f.py\n@@ -5,1002 +5,1002 @@\n{hunk}");
    timed("a hunk that nearly fits everywhere", || end(&far, &same));

    let hunks = format!("--- a/f.py\n+++ b/f.py\n{}", repeated("@@ -9,2 +9,2 @@\n-x\n+y\n x\n"));
    timed("hunks that crowd at one place", || end(&hunks, &same));

    let many = joined(0..200_000, |at| format!("{at}\n"));
    let files: Files = [("f.py".to_owned(), entry(many))].into();
    let ordered = joined(1..100_000, |at| {
        format!("@@ -{0},2 +{0},2 @@\n-{1}\n+x\n {0}\n", 2 * at, 2 * at - 1)
    });
    timed("a hundred thousand hunks in order", || {
        end(&format!("--- a/f.py\n+++ b/f.py\n{ordered}"), &files)
    });

    let block = "f.py\n<<<<<<< SEARCH\nq\n=======\nr\n>>>>>>> REPLACE\n";
    timed("blocks not found", || end(&repeated(block), &same));
    let turn = joined(0..50_000, |at| {
        format!("f.py\n<<<<<<< SEARCH\n{at}\n=======\n-{at}\n>>>>>>> REPLACE\n")
    });
    timed("fifty thousand blocks", || end(&turn, &files));

    let copies = joined(0..100_000, |at| {
        format!("diff --git a/f.py b/g{at}\ncopy from f.py\ncopy to g{at}\n")
    });
    timed("copies of a large file", || end(&copies, &files));
}

#[test]
fn unified_of_large_texts() {
    let numbers = |from: usize, step: usize| -> Vec<u8> {
        (from..).step_by(step).take(300_000).flat_map(|at| format!("{at}\n").into_bytes()).collect()
    };
    let files: Files = [("f.py".to_owned(), entry(numbers(0, 1)))].into();
    for (name, new) in [
        ("nothing in common", numbers(1_000_000, 1)),
        ("half in common", numbers(0, 2)),
        ("one inserted", [b"x\n".to_vec(), numbers(0, 1)].concat()),
    ] {
        timed(name, || {
            let changes: Changes = [("f.py".to_owned(), Some(entry(new)))].into();
            let patch = unified(&changes, &files).unwrap();
            let back = Edit::Diff(Patch::parse(&patch).unwrap()).apply(&files).unwrap();
            assert!(back == changes, "{name}: does not come back");
            format!("{} bytes", patch.len())
        });
    }
}
