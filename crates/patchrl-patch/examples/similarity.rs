//! Time of `ratio` against CPython's difflib on real patches, near and far.
//!
//! `cargo run --release -p patchrl-patch --example similarity -- FILE.jsonl.gz [LARGEST]`
//! FILE holds SWE-bench rows. Every ratio that CPython gives is compared bit for bit. Python
//! is asked for texts of up to LARGEST characters (20,000 if left out): it takes ten seconds
//! for one such pair, and minutes for one of 100,000.

#![expect(clippy::disallowed_methods, reason = "the reference is the python3 program")]
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use patchrl_patch::{Autojunk, Reference, ratio};

/// Times one ratio and prints it with its seconds.
const PYTHON: &str = "import difflib, json, sys, time
a, b, autojunk = json.load(sys.stdin)
start = time.perf_counter()
r = difflib.SequenceMatcher(None, a, b, autojunk=autojunk).ratio()
print(json.dumps([r.hex(), time.perf_counter() - start]))
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a file of SWE-bench rows (jsonl.gz)")?;
    let largest: usize = arguments.next().map_or(Ok(20_000), |n| n.parse())?;
    let patches = patches(&file)?;
    println!(
        "{:>7} {:>5} {:>8}   {:>10} {:>12} {:>9}",
        "chars", "pair", "autojunk", "ours ms", "CPython ms", "times"
    );
    for size in [1_000, 5_000, 20_000, 100_000] {
        let (a, far) = (text(&patches, 0, size), text(&patches, patches.len() / 2, size));
        for (kind, b) in [("near", near(&a)), ("far", far)] {
            for autojunk in [Autojunk::Off, Autojunk::On] {
                let (ours, took) = fastest(|| ratio(&a, &b, autojunk));
                let ms = took.as_secs_f64() * 1e3;
                let on = autojunk == Autojunk::On;
                let head = format!("{size:>7} {kind:>5} {on:>8}   {ms:>10.3}");
                if size > largest {
                    println!("{head} {:>12} {:>9}", "-", "-");
                    continue;
                }
                let (theirs, seconds) = python(&a, &b, on)?;
                assert_eq!(hex(ours?), theirs, "the ratios differ");
                println!("{head} {:>12.1} {:>9.0}", seconds * 1e3, seconds * 1e3 / ms);
            }
        }
    }
    group(&patches);
    repetitive()?;
    Ok(())
}

/// Sixteen answers against one golden patch that is prepared once.
fn group(patches: &[String]) {
    for size in [5_000, 20_000] {
        let golden = text(patches, 0, size);
        let answers: Vec<String> = (0..16)
            .map(|i| {
                if i < 8 {
                    near(&text(patches, 0, size - 10 * i))
                } else {
                    text(patches, 7 * i, size)
                }
            })
            .collect();
        let (sum, took) = fastest(|| {
            let golden = Reference::new(&golden, Autojunk::Off)?;
            answers.iter().map(|answer| golden.ratio(answer)).sum::<Result<f64, _>>()
        });
        println!(
            "group of 16 at {size}: {:.2} ms, mean {:.4}",
            took.as_secs_f64() * 1e3,
            sum.unwrap_or(f64::NAN) / 16.0
        );
    }
}

/// The text that takes CPython over a minute: one line two hundred times, and an edit of it.
fn repetitive() -> Result<(), Box<dyn std::error::Error>> {
    let line = "+    return self.value + other\n";
    let a = line.repeat(200);
    let b = a.replacen(line, "+    return None\n", 1) + &line.replace("value", "total").repeat(3);
    for (name, b) in
        [("an edit", b), ("lines of another name", line.replace("value", "other").repeat(200))]
    {
        let (value, took) = fastest(|| ratio(&a, &b, Autojunk::Off));
        println!(
            "repetitive, {} characters, against {name}: {:.3} ms, ratio {:?}",
            a.len(),
            took.as_secs_f64() * 1e3,
            value?
        );
    }
    Ok(())
}

/// The best of several runs, for at least a fifth of a second.
fn fastest<T>(mut run: impl FnMut() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let mut best: Option<(T, Duration)> = None;
    loop {
        let start = Instant::now();
        let value = std::hint::black_box(run());
        let took = start.elapsed();
        let better = best.as_ref().is_none_or(|(_, least)| took < *least);
        if better {
            best = Some((value, took));
        }
        if let Some(best) = best.take_if(|_| begun.elapsed() > Duration::from_millis(200)) {
            return best;
        }
    }
}

fn python(a: &str, b: &str, autojunk: bool) -> Result<(String, f64), Box<dyn std::error::Error>> {
    let mut child = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let request = serde_json::to_vec(&(a, b, autojunk))?;
    child.stdin.take().ok_or("no stdin")?.write_all(&request)?;
    Ok(serde_json::from_slice(&child.wait_with_output()?.stdout)?)
}

/// As Python's `float.hex`, for the numbers from 0 to 1.
fn hex(value: f64) -> String {
    let bits = value.to_bits();
    if bits == 0 {
        return "0x0.0p+0".to_owned();
    }
    let exponent = (bits >> 52) as i64 - 1023;
    format!("0x1.{:013x}p{exponent:+}", bits & ((1 << 52) - 1))
}

fn patches(file: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut rows = String::new();
    flate2::read::GzDecoder::new(fs_err::File::open(file)?).read_to_string(&mut rows)?;
    let mut patches = Vec::new();
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row)?;
        patches.push(row["patch"].as_str().ok_or("a row without `patch`")?.to_owned());
    }
    Ok(patches)
}

/// So many characters of the patches from `from` on.
fn text(patches: &[String], from: usize, size: usize) -> String {
    patches.iter().cycle().skip(from).flat_map(|patch| patch.chars()).take(size).collect()
}

/// The text with every twentieth line changed or left out.
fn near(text: &str) -> String {
    let line = |(at, line): (usize, &str)| match at % 40 {
        10 => String::new(),
        30 => line.replace(['e', '('], "x"),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').enumerate().map(line).collect()
}
