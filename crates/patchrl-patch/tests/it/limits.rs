//! The bounds that the crate's documentation states: sizes no answer has, in time and
//! memory that are linear in them.

use patchrl_patch::{Autojunk, Edit, Patch, extract, python_diff, ratio};

use crate::git::Files;
use crate::hostile::{entry, processor_time};

/// Processor seconds for a megabyte of answer, far above what it takes in a slow build.
const SECONDS_PER_MEGABYTE: f64 = 0.25;
/// Bytes in memory for a byte of answer: a file and its hunk are 500 bytes, out of 40.
const BYTES_PER_BYTE: f64 = 20.0;
/// Bytes that other tests of this process may use meanwhile.
const OTHERS: f64 = 512e6;

/// Extract, and parse and apply what is there, or what the text is as a diff.
fn check(name: &str, text: &str) {
    let files: Files = [("f".to_owned(), entry("x\ny\n x\n"))].into();
    forget_peak();
    let (before, start) = (memory("VmRSS"), processor_time());
    let found = match extract(text) {
        Ok(found) => format!("{:?}", found.edit.apply(&files).map(|it| it.len())),
        Err(fault) => fault.as_str().to_owned(),
    };
    let read = match Patch::parse(text) {
        Ok(patch) => format!("{:?}", Edit::Diff(patch).apply(&files).map(|it| it.len())),
        Err(fault) => fault.to_string(),
    };
    let seconds = processor_time().saturating_sub(start).as_secs_f64();
    let peak = memory("VmHWM") - before;
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{name}: {megabytes:.0} MB, {seconds:.2} s ({:.0} MB/s), {:.0} MB; {found:.60}; {read:.60}",
        megabytes / seconds,
        peak / 1e6
    );
    assert!(seconds < 1.0 + SECONDS_PER_MEGABYTE * megabytes, "{name} took {seconds:.1} s");
    let most = BYTES_PER_BYTE * text.len() as f64 + OTHERS;
    assert!(peak < most, "{name} took {:.0} MB", peak / 1e6);
}

/// Start to measure the peak of memory anew.
fn forget_peak() {
    // Not every system has it; then the peak is that of the whole run.
    let _ = fs_err::write("/proc/self/clear_refs", "5");
}

fn memory(field: &str) -> f64 {
    let text = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    let kilobytes: f64 =
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_default();
    kilobytes * 1024.0
}

const PLAIN: &str = "--- a/f\n+++ b/f\n";

#[test]
fn an_answer_of_fifty_megabytes() {
    let prose = "I would change the file as follows, because of `x` and ``` and <think>.\n";
    check("prose", &prose.repeat(50_000_000 / prose.len()));
    let file = format!("{PLAIN}@@ -1,3 +1,3 @@\n{}", " x\n-y\n+z\n  x\n");
    check("files", &file.repeat(50_000_000 / file.len()));
    let block = "### f\n<<<<<<< SEARCH\ny\n=======\nz\n>>>>>>> REPLACE\n";
    check("blocks", &block.repeat(50_000_000 / block.len()));
}

#[test]
fn a_million_hunks() {
    let hunks = "@@ -1,3 +1,3 @@\n x\n-y\n+z\n  x\n".repeat(1_000_000);
    check("hunks", &format!("{PLAIN}{hunks}"));
    check("empty hunks", &format!("{PLAIN}{}", "@@ -1,0 +1,0 @@\n".repeat(1_000_000)));
}

#[test]
fn a_line_of_a_hundred_megabytes() {
    let long = "x".repeat(100_000_000);
    check("a line of prose", &long);
    check("a line of a hunk", &format!("{PLAIN}@@ -1 +1 @@\n-x\n+{long}\n"));
    check("a hunk header", &format!("{PLAIN}@@ -1 +1 @@ {long}\n-x\n+y\n"));
    check("a name", &format!("--- a/{long}\n+++ b/{long}\n@@ -1 +1 @@\n-x\n+y\n"));
}

#[test]
fn ten_thousand_nested_fences() {
    let inside = format!("{PLAIN}@@ -1 +1 @@\n-x\n+y\n");
    let same = "```diff\n".repeat(10_000) + &inside + &"```\n".repeat(10_000);
    check("equal fences", &same);
    let fence = |at: usize| "`".repeat(3 + at);
    let open: String = (0..10_000).rev().map(|at| fence(at) + "diff\n").collect();
    let close: String = (0..10_000).map(|at| fence(at) + "\n").collect();
    check("ever shorter fences", &(open + &inside + &close));
    check("tags", &("<think>\n<solution>\n".repeat(10_000) + &inside));
}

#[test]
fn binary_data_that_inflates() {
    // A megabyte of zeros is a kilobyte of zlib: as many as may be, and one more.
    let bomb = crate::scenario::base_85(&vec![0; 1 << 20]);
    let file = |at: usize, size: usize| {
        format!(
            "diff --git a/n{at} b/n{at}\nnew file mode 100644\nindex {}..{}\n\
             GIT binary patch\nliteral {size}\n{bomb}\n",
            "0".repeat(40),
            "1".repeat(40)
        )
    };
    check("bombs", &(0..64).map(|at| file(at, 1 << 20)).collect::<String>());
    let text: String = (0..65).map(|at| file(at, 1 << 20)).collect();
    assert!(Patch::parse(&text).unwrap_err().to_string().ends_with("is too large"));
    check("a size that is not so", &file(0, 64 << 20));
    check("sizes that are not so", &file(0, 63 << 20).repeat(1000));
}

#[test]
fn texts_that_repeat() {
    let start = processor_time();
    let ab = "ab".repeat(25_000);
    let fibonacci = (0..21).fold(("a".to_owned(), "ab".to_owned()), |(a, b), _| {
        let next = b.clone() + &a;
        (b, next)
    });
    let texts = [
        ("one letter", "a".repeat(50_000), "a".repeat(49_999)),
        ("two letters", ab.clone(), ab[1..].to_owned() + "b"),
        ("blocks of one", "a".repeat(300).repeat(150), ("a".repeat(299) + "b").repeat(150)),
        ("Fibonacci", fibonacci.0, fibonacci.1),
        ("lines", "    x\n".repeat(8000), "   x \n".repeat(8000)),
    ];
    for (name, a, b) in &texts {
        for autojunk in [Autojunk::On, Autojunk::Off] {
            let from = processor_time();
            let found = ratio(a, b, autojunk).unwrap();
            let seconds = processor_time().saturating_sub(from).as_secs_f64();
            println!("{name}, {} characters, {autojunk:?}: {found:.4} in {seconds:.2} s", a.len());
        }
    }
    let old = "a\nb\n".repeat(50_000);
    let new = "b\na\nc\n".repeat(33_000);
    println!("diff of {} bytes", python_diff(&old, &new).unwrap().len());
    let spent = processor_time().saturating_sub(start).as_secs_f64();
    println!("all in {spent:.1} s");
    assert!(spent < 60.0, "repeating texts took {spent:.1} s");
}
