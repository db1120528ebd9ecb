//! Ratios and diffs against CPython's difflib, which runs beside the test.
//!
//! `PATCHRL_PAIRS` says how many pairs of each kind are compared; the default keeps the
//! suite short.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use patchrl_patch::{Autojunk, python_diff, ratio};
use serde_json::Value;

const PAIRS: u32 = 3000;

/// Compare pairs of the kind `what`; skipped with a line where there is no python3.
fn compare(what: &str, seed: u32, check: impl Fn(&str, &str, &Value)) {
    let pairs = std::env::var("PATCHRL_PAIRS").map_or(PAIRS, |n| n.parse().unwrap());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pairs.py");
    let mut command = Command::new("python3");
    command.args([script, what, &seed.to_string(), &pairs.to_string()]).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: there is no python3 to compare with");
        return;
    };
    let mut count = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let [a, b, said]: [Value; 3] = serde_json::from_str(&line.unwrap()).unwrap();
        check(a.as_str().unwrap(), b.as_str().unwrap(), &said);
        count += 1;
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(count, pairs);
    println!("{what}: {count} pairs equal");
}

fn ratios(what: &str, seed: u32, autojunk: Autojunk) {
    compare(what, seed, |a, b, said| {
        let ours = ratio(a, b, autojunk).unwrap();
        assert_eq!(ours.to_bits(), said.as_f64().unwrap().to_bits(), "{a:?} {b:?}");
    });
}

#[test]
fn ratios_equal_difflib_s() {
    ratios("exact", 1, Autojunk::Off);
}

#[test]
fn ratios_equal_difflib_s_with_autojunk() {
    ratios("autojunk", 2, Autojunk::On);
}

#[test]
fn diffs_equal_difflib_s() {
    compare("diff", 3, |a, b, said| {
        assert_eq!(python_diff(a, b).unwrap(), said.as_str().unwrap(), "{a:?} {b:?}");
    });
}
