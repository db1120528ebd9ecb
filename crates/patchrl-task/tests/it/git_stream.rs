//! The toy set's streams, read by git itself.

#![expect(clippy::disallowed_methods, reason = "compares with the real git, which is trusted")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use patchrl_task::{Task, toy};

/// What git prints, given `input`. None without git.
fn git(folder: &Path, arguments: &[&str], input: &[u8]) -> Option<String> {
    let child = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.ok()?;
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let input = input.to_owned();
    // git may stop to write before it has read all of it.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("git ends");
    writer.join().expect("the writer does not panic").expect("git reads its input");
    assert!(output.status.success(), "git {arguments:?}");
    Some(String::from_utf8(output.stdout).expect("all text is UTF-8"))
}

#[test]
fn git_gives_every_base_commit_the_same_name() {
    let mut bases: BTreeMap<String, Vec<Task>> = BTreeMap::new();
    for task in toy::tasks() {
        bases.entry(task.repo.replace('/', "__")).or_default().push(task);
    }
    let streams = toy::streams();
    assert_eq!(streams.len(), bases.len());
    assert_eq!(streams, toy::streams(), "streams are the same every time");
    let mut packages = toy::packages();
    for (name, stream) in streams {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path();
        if git(path, &["init", "-q", "--bare"], b"").is_none() {
            println!("skipped: no git");
            return;
        }
        git(path, &["fast-import", "--quiet"], &stream);
        let tips = git(path, &["for-each-ref", "--format=%(objectname)", "refs/tasks"], b"");
        let mut tips: Vec<String> = tips.unwrap_or_default().lines().map(str::to_owned).collect();
        let tasks = &bases[&name];
        let mut expected: Vec<String> = tasks.iter().map(|task| task.base_commit.clone()).collect();
        tips.sort();
        expected.sort();
        assert_eq!(tips, expected, "{name}");
        let package = packages.remove(0);
        check_answers(path, tasks, &package.package.files);
    }
}

/// The gold patch of each task turns the file at its base commit into the correct one.
fn check_answers(mirror: &Path, tasks: &[Task], clean: &BTreeMap<String, String>) {
    for task in tasks.iter().step_by(9) {
        let path = &task.touched_files()[0];
        let buggy = git(mirror, &["show", &format!("{}:{path}", task.base_commit)], b"");
        let tree = tempfile::tempdir().expect("there is room for a folder");
        let file = tree.path().join(path);
        fs_err::create_dir_all(file.parent().expect("sources lie in a folder")).expect("a folder");
        fs_err::write(&file, buggy.unwrap_or_default()).expect("a file");
        git(tree.path(), &["apply", "-"], task.patch.as_bytes());
        let repaired = fs_err::read_to_string(&file).expect("git apply keeps the file");
        assert_eq!(&repaired, &clean[path], "{}", task.id);
    }
}
