//! Every published row of SWE-bench that is at hand loads, and its fields mean what they say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use patchrl_task::{Task, load};

#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn instances() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/instances");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no SWE-bench rows at ../shared/data/instances");
    None
}

#[test]
fn every_row_loads() {
    let Some(folder) = instances() else { return };
    let rows = [
        ("Lite_dev", 23),
        ("Lite_test", 300),
        ("Multilingual_test", 298),
        ("Verified_test", 500),
        ("dev", 219),
    ];
    for (name, count) in rows {
        let tasks = load(&folder.join(format!("SWE-bench_{name}.jsonl.gz"))).expect(name);
        assert_eq!(tasks.len(), count, "{name}");
        for task in &tasks {
            assert!(task.version.is_some(), "{}", task.id);
            // axum-1730 is published without a test that fails before.
            assert!(!task.fail_to_pass.is_empty() || task.id.as_str() == "tokio-rs__axum-1730");
            assert!(!task.test_files().is_empty(), "{}", task.id);
            assert!(task.extra.contains_key("eval_script"), "{}", task.id);
            let again = Task::from_row(task.to_row()).expect("a written row can be read");
            assert_eq!(&again, task);
        }
        // Some gold patches only add files.
        let shown = tasks.iter().filter(|task| !task.touched_files().is_empty()).count();
        assert!(shown * 100 >= count * 99, "{name}: {shown} of {count} touch a file");
    }
}

#[test]
fn columns_hold_the_same_rows_as_lines() {
    let Some(folder) = instances() else { return };
    let lines = load(&folder.join("SWE-bench_Lite_dev.jsonl.gz")).expect("lines");
    let columns = load(&folder.join("SWE-bench_Lite_dev.parquet")).expect("columns");
    assert_eq!(lines, columns);
}

#[test]
fn a_damaged_parquet_file_is_an_error_or_other_rows() {
    let Some(folder) = instances() else { return };
    let whole = fs_err::read(folder.join("SWE-bench_Lite_dev.parquet")).expect("it is there");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.parquet");
    let mut state = 1_u64;
    let mut below = |n: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut refused, mut read) = (0, 0);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=below(4) {
            // Half of the damage goes where the file says what it holds.
            let end = bytes.len();
            let at = if below(2) == 0 { end - 1 - below(3000.min(end)) } else { below(end) };
            bytes[at] = below(256) as u8;
        }
        bytes.truncate(bytes.len() - below(2) * below(64));
        fs_err::write(&path, &bytes).expect("the folder takes files");
        match load(&path) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "{refused} refused, {read} read");
}

#[test]
fn every_row_of_a_known_repository_has_an_environment() {
    let Some(folder) = instances() else { return };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in ["Lite_dev", "Lite_test", "Verified_test", "dev"] {
        for task in load(&folder.join(format!("SWE-bench_{name}.jsonl.gz"))).expect(name) {
            if patchrl_task::environment::known_repositories().contains(&task.repo.as_str()) {
                assert!(task.known_environment().is_some(), "{} {:?}", task.id, task.version);
                *counts.entry(task.repo).or_default() += 1;
            }
        }
    }
    assert_eq!(counts.len(), 5, "{counts:?}");
}
