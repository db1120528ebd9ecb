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
