//! Rows of other data sets, in their own words.

use std::path::Path;

use patchrl_task::{Start, Task, load};
use serde_json::{Map, Value, json};

fn task(row: Value) -> Result<Task, String> {
    let row: Map<String, Value> = serde_json::from_value(row).expect("a map");
    Task::from_row(row).map_err(|fault| fault.to_string())
}

/// A task that is written and read again is the same.
fn kept(task: &Task) {
    let again = Task::from_row(task.to_row()).expect("a written row can be read");
    assert_eq!(&again, task);
}

const BUG: &str = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = x + 1\n+y = x - 1\n";
const GOLD: &str = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = x - 1\n+y = x + 1\n";

#[test]
fn swe_smith_rows_carry_the_bug() {
    let row = json!({
        "instance_id": "oauthlib__oauthlib.1fd52536.func_basic__abc1",
        "repo": "swesmith/oauthlib__oauthlib.1fd52536",
        "patch": BUG, "problem_statement": "y is wrong",
        "FAIL_TO_PASS": ["tests/test_m.py::test_y"], "PASS_TO_PASS": [],
        "image_name": "swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536",
    });
    let task = task(row).expect("a row of SWE-smith");
    assert_eq!((task.repo.as_str(), task.base_commit.as_str()), ("oauthlib/oauthlib", "1fd52536"));
    assert_eq!(task.patch, GOLD, "the answer takes the bug out");
    assert_eq!(task.start, Start::Bug(BUG.to_owned()));
    assert_eq!(task.image(), Some("swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536"));
    kept(&task);
}

#[test]
fn related_files_are_paths_or_texts() {
    let with = |related: Value| {
        task(json!({
            "instance_id": "a__b-1", "repo": "a/b", "base_commit": "0123456789",
            "problem_statement": "p", "patch": GOLD, "related_unchanged_files": related,
        }))
    };
    for (related, want) in [
        (json!(["b.py", "a.py"]), &["b.py", "a.py"][..]),
        (json!("[\"b.py\"]"), &["b.py"]),
        (json!({"b.py": "x"}), &["b.py"]),
        (json!([{"path": "b.py", "content": "x"}]), &["b.py"]),
        (json!([]), &[]),
        (Value::Null, &[]),
    ] {
        let mut task = with(related.clone()).unwrap();
        assert_eq!(task.related_files(), want);
        assert_eq!(task.to_row()["related_unchanged_files"], related, "it is written as it was");
        kept(&task);
        assert!(!task.judged_row().contains_key("related_unchanged_files"));
        task.set_related_files(&["c.py".to_owned()]);
        assert_eq!(task.related_files(), ["c.py"]);
    }
    for bad in [json!(3), json!("b.py"), json!([1]), json!({"b.py": 1})] {
        let fault = with(bad).unwrap_err();
        assert!(fault.contains("field `related_unchanged_files`: is no list of paths"), "{fault}");
    }
}

#[test]
fn a_row_may_carry_its_files() {
    let small = |files: Value, others: Value| {
        task(json!({
            "instance_id": "my_repo-1", "problem_statement": "y is wrong", "golden_patch": GOLD,
            "changed_files": files, "related_unchanged_files": others,
        }))
    };
    let map = small(json!({"m.py": "x = 1\ny = x - 1\n"}), json!({"a/n.py": "z = 3\n"})).unwrap();
    let list = small(
        json!([{"path": "m.py", "content": "x = 1\ny = x - 1\n"}]),
        json!("[{\"path\": \"a/n.py\", \"content\": \"z = 3\\n\"}]"),
    );
    assert_eq!(list.as_ref(), Ok(&map));
    let Start::Files(files) = &map.start else { panic!("{:?}", map.start) };
    assert_eq!(files.keys().collect::<Vec<_>>(), ["a/n.py", "m.py"]);
    assert_eq!(map.related_files(), ["a/n.py"]);
    assert_eq!(map.repo, "patchrl-files/my-repo-1");
    assert_eq!(map.patch, GOLD);
    kept(&map);

    let fault = small(json!({"../m.py": ""}), Value::Null).unwrap_err();
    assert!(fault.contains("field `files`: `../m.py` is no path inside a tree"), "{fault}");
    let fault = small(json!(["m.py"]), json!({})).unwrap_err();
    assert!(fault.contains("field `changed_files`: is neither a map"), "{fault}");
    let fault = small(json!({}), json!({})).unwrap_err();
    assert!(fault.contains("must carry its files"), "{fault}");
    let mut other = map.to_row();
    other.insert("files".into(), json!({"m.py": "x = 2\n"}));
    let fault = Task::from_row(other).unwrap_err().to_string();
    assert!(fault.contains("are not the files that `base_commit` names"), "{fault}");
}

#[test]
fn swe_rebench_rows_say_how_their_tests_run() {
    let row = |config: Value| {
        task(json!({
            "instance_id": "a__b-1", "repo": "a/b", "base_commit": "abcdef0",
            "problem_statement": "p", "patch": GOLD, "docker_image": "swerebench/a__b-1",
            "install_config": config,
        }))
        .expect("a row of SWE-rebench")
    };
    let plain = row(json!({
        "python": "3.9", "install": "pip install -e .[dev]", "pip_packages": ["pytest", "six"],
        "test_cmd": "pytest --no-header -rA --tb=line", "log_parser": "parse_log_pytest",
    }));
    let environment = plain.environment.as_ref().expect("a description");
    assert_eq!(environment.python.as_deref(), Some("3.9"));
    assert_eq!(environment.requirements, ["pytest", "six"]);
    assert_eq!(environment.test_command[..4], ["{python}", "-m", "pytest", "--no-header"]);
    assert_eq!(environment.install.as_ref().unwrap()[..3], ["{python}", "-m", "pip"]);
    assert_eq!(plain.extra["log_parser"], "parse_log_pytest");
    assert_eq!(plain.image(), Some("swerebench/a__b-1"));
    kept(&plain);
    let make = row(json!({"test_cmd": "pytest -rA", "install": "make install"}));
    assert_eq!(make.environment.unwrap().install, None, "only pip installs on this machine");
    let shell = row(json!({"test_cmd": "cd x && pytest -rA $(ls)"}));
    assert_eq!(shell.environment, None, "what takes a shell is left to the image");
}

#[test]
fn nemo_gym_rows_are_lifted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/swe_gym_form");
    if !folder.is_dir() {
        println!("skipped: no rows at ../shared/data/swe_gym_form");
        return;
    }
    for (name, count, first) in [
        ("swerl_gen__example.jsonl", 5, "python__mypy-17071"),
        ("swebench__example.jsonl", 5, "astropy__astropy-12907"),
    ] {
        let tasks = load(&folder.join(name)).expect(name);
        assert_eq!((tasks.len(), tasks[0].id.as_str()), (count, first));
        for task in &tasks {
            assert!(!task.fail_to_pass.is_empty() && !task.patch.is_empty(), "{}", task.id);
            kept(task);
        }
    }
}
