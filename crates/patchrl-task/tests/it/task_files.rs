//! What a user reads when a task file is wrong, and that saved sets come back.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use patchrl_task::{Task, TaskError, load, save};

fn row(id: &str) -> String {
    format!(
        r#"{{"instance_id":"{id}","repo":"o/n","base_commit":"abcdef0","problem_statement":"p","patch":"","extra":{{"kept":1}}}}"#
    )
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs_err::create_dir_all(&folder).expect("the target folder takes a folder");
    folder
}

/// The error of loading `text` and everything under it, on one line.
fn fault(text: &str) -> String {
    let path = folder("faults").join("tasks.jsonl");
    fs_err::write(&path, text).expect("the target folder takes a file");
    let mut fault: &dyn std::error::Error = &load(&path).expect_err("the file is wrong");
    let mut chain = fault.to_string().replace(&path.display().to_string(), "FILE");
    while let Some(source) = fault.source() {
        write!(chain, ": {source}").expect("a string takes text");
        fault = source;
    }
    chain
}

#[test]
fn faults_name_line_and_field() {
    let good = row("a");
    assert_eq!(
        fault(&format!("{good}\n\n{{\"instance_id\": 3}}\n")),
        "`FILE`, line 3: field `instance_id`: is a number, not text"
    );
    assert_eq!(
        fault(&format!("{good}\n{{\"instance_id\": \"b\", \"repo\": \"o/n\"}}")),
        "`FILE`, line 2 (`b`): field `base_commit`: is missing"
    );
    assert_eq!(
        fault(&format!("{good}\n{good}\n")),
        "`FILE`, line 2: the id `a` is already on line 1"
    );
    assert_eq!(fault("[1]\n"), "`FILE`, line 1: is no JSON object");
    assert_eq!(fault("\n \n"), "`FILE` holds no task");
    let lists = good.replace("\"extra\":", "\"FAIL_TO_PASS\":\"nonsense\",\"extra\":");
    assert!(fault(&lists).contains("field `FAIL_TO_PASS`: is text, but no JSON"));
    assert!(fault("{\"a\": tru\n").contains("line 1: is no JSON, column"));
    assert!(fault("\u{fffd}\0\n").contains("line 1: is no JSON"));
}

#[test]
fn a_missing_or_foreign_file_has_a_way_out() {
    let missing = load(Path::new("no/such.jsonl")).expect_err("there is no such file");
    assert!(matches!(missing, TaskError::File { .. }));
    assert!(missing.hint().is_some_and(|hint| hint.contains(".jsonl")));
    let arrow = folder("foreign").join("tasks.arrow");
    fs_err::write(&arrow, "ARROW1").expect("the folder takes files");
    assert!(matches!(load(&arrow), Err(TaskError::Format { .. })));
    let task: Task = serde_json::from_str(&row("a")).expect("the row is whole");
    let parquet = save(Path::new("tasks.parquet"), &[task]).expect_err("is only read");
    assert!(matches!(parquet, TaskError::Format { .. }));
}

#[test]
fn saved_sets_come_back_in_each_format() {
    let folder = folder("round");
    let tasks: Vec<Task> =
        ["a", "b"].map(|id| serde_json::from_str(&row(id)).expect("the row is whole")).to_vec();
    for name in ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"] {
        save(&folder.join(name), &tasks).expect("the folder takes files");
        assert_eq!(load(&folder.join(name)).expect("it was just written"), tasks);
    }
    let array = folder.join("t.json");
    fs_err::write(&array, serde_json::to_string(&tasks).expect("tasks are JSON"))
        .expect("the folder takes files");
    assert_eq!(load(&array).expect("an array of rows"), tasks);
    let left = fs_err::read_dir(&folder).expect("the folder is there").count();
    assert_eq!(left, 4, "no half-written file stays");
}

#[test]
fn packed_rubbish_is_named() {
    for name in ["t.jsonl.zst", "t.jsonl.gz", "t.parquet"] {
        let path = folder("packed").join(name);
        fs_err::write(&path, "no frame").expect("the folder takes files");
        assert!(matches!(load(&path), Err(TaskError::File { .. })), "{name}");
    }
}
