//! `task related` against a strong model that says one thing, on a repository made here.

use std::path::Path;
use std::process::Command;

use patchrl_testkit::{Brain, FakeServer, Fault, Flavour};
use serde_json::{Value, json};

use crate::tiny::write_model;
use crate::{Said, finish, patchrl};

const FILES: [(&str, &[u8]); 6] = [
    ("p/a.py", b"x = 1\n"),
    ("p/b.py", b"import p.a\n"),
    ("p/data.bin", b"\xff\xfe"),
    ("q/c.py", b"import p.b\n"),
    ("tests/test_a.py", b"x = 1\n"),
    ("README", b"p\n"),
];

const GOLD: &str =
    "diff --git a/p/a.py b/p/a.py\n--- a/p/a.py\n+++ b/p/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    let said = finish(&mut command);
    assert_eq!(said.code, 0, "{}", said.err);
    said.out.trim().to_owned()
}

/// A clone in `repos`, and two rows about it of which the second names its files.
fn material(dir: &Path) {
    let clone = dir.join("repos/o__n");
    for (path, bytes) in FILES {
        let file = clone.join(path);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, bytes).unwrap();
    }
    fs_err::write(clone.join("p/large.py"), "x = 1\n".repeat(20_000)).unwrap();
    git(&clone, &["init", "-q"]);
    git(&clone, &["add", "."]);
    git(&clone, &["commit", "-q", "-m", "x"]);
    let commit = git(&clone, &["rev-parse", "HEAD"]);
    let row = |id: &str| {
        json!({
            "instance_id": id, "repo": "o/n", "base_commit": commit, "patch": GOLD,
            "problem_statement": "x must be 2", "hints_text": "a hint", "FAIL_TO_PASS": ["t"],
            "test_patch": GOLD.replace("p/a.py", "tests/test_a.py"), "PASS_TO_PASS": [],
            "environment": { "python": null, "requirements": [], "install": null,
                             "test_command": ["{python}", "-m", "pytest"], "runner": "pytest" },
        })
    };
    let mut second = row("o__n-2");
    second["related_unchanged_files"] = json!({"q/c.py": "import p.b\n"});
    fs_err::write(dir.join("rows.jsonl"), format!("{}\n{second}\n", row("o__n-1"))).unwrap();
}

fn related(dir: &Path, server: &FakeServer) -> Said {
    let url = server.base_url();
    let words = ["task", "related", "rows.jsonl", "--repos", "repos", "--out", "out.jsonl"];
    let server = ["--base-url", &url, "--max-new-tokens", "512", "--concurrency", "2", "--json"];
    finish(patchrl(dir).args(words).args(server))
}

fn says(text: &str) -> FakeServer {
    FakeServer::start(Flavour::Plain, Brain::Says(text.into()))
}

fn asked(server: &FakeServer) -> Vec<Value> {
    let seen = server.seen().into_iter().filter(|it| it.path.ends_with("chat/completions"));
    seen.map(|it| it.body).collect()
}

fn rows(dir: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(dir.join("out.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const NAMED: &str = "Here:\n```json\n[\"q/c.py\", \"p/none.py\", \"p/a.py\", \"tests/test_a.py\", \
                     \"p/data.bin\", \"p/large.py\", \"./p/b.py\", \"q/c.py\", \"../x\"]\n```\n";

#[test]
fn a_strong_model_is_asked_once_and_what_is_fit_stands_in_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    material(dir);
    let server = says(NAMED);
    let said = related(dir, &server);
    assert_eq!(said.code, 0, "{}", said.err);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    let want = json!({ "named": 1, "kept": 1, "none-fit": 0, "unreadable": 0, "lost": 0 });
    assert_eq!((&value["counts"], &value["asked"], &value["tasks"]), (&want, &json!(1), &json!(2)));
    let question = &asked(&server)[0];
    let text = question["messages"][0]["content"].as_str().unwrap();
    assert!(text.starts_with("x must be 2\n"), "{text}");
    assert!(text.contains("touches:\np/a.py\n\nOther files of the repository (5 of 5):\np/b.py\n"));
    assert!(!text.contains("test_a.py"), "what is not to be named is not listed: {text}");
    assert_eq!((&question["model"], &question["temperature"]), (&json!("base"), &json!(0.0)));

    let first = rows(dir);
    assert_eq!(first[0]["related_unchanged_files"], json!(["q/c.py", "p/b.py"]));
    assert_eq!(first[1]["related_unchanged_files"], json!({"q/c.py": "import p.b\n"}));
    assert_eq!((&first[0]["hints_text"], &first[0]["patch"]), (&json!("a hint"), &json!(GOLD)));

    let again = related(dir, &server);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(asked(&server).len(), 1, "the answer was kept");
    assert_eq!(serde_json::from_str::<Value>(&again.out).unwrap()["asked"], 0);
    assert_eq!(rows(dir), first);
}

#[test]
fn prompts_show_them_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    material(dir);
    write_model(&dir.join("model"));
    assert_eq!(related(dir, &says("[\"README\", \"p/b.py\"]")).code, 0);
    let server = says("no");
    let url = server.base_url();
    let check = |tasks: &str, room: &str| {
        let words = ["reward", "check", "--tasks", tasks, "--repos", "repos", "--base-url", &url];
        let how = ["--sandbox", "none", "--samples", "1", "--group-size", "1", "--seed", "0"];
        let most = ["--reward-mode", "syntax", "--max-prompt-tokens", room];
        let said = finish(patchrl(dir).args(words).args(how).args(most));
        assert_eq!(said.code, 1, "{}", said.err);
        asked(&server).last().unwrap()["messages"][1]["content"].as_str().unwrap().to_owned()
    };
    let one = |file: &str| {
        let first = fs_err::read_to_string(dir.join(file)).unwrap();
        fs_err::write(dir.join("one.jsonl"), first.lines().next().unwrap()).unwrap();
    };
    one("rows.jsonl");
    let plain = check("one.jsonl", "2048");
    assert!(plain.starts_with("x must be 2\n\np/a.py\n```\nx = 1\n```\n\nAnswer"), "{plain}");
    one("out.jsonl");
    let shown = check("one.jsonl", "2048");
    let files = "README\n```\np\n```\n\np/a.py\n```\nx = 1\n```\n\np/b.py\n```\nimport p.a\n```\n";
    assert!(shown.starts_with(&format!("x must be 2\n\n{files}\nAnswer")), "{shown}");
    assert_eq!(check("one.jsonl", "72"), plain, "they go first where there is no room");
}

#[test]
fn an_answer_that_is_no_list_or_names_nothing_fit_is_no_empty_list() {
    for (text, fate) in [("p/b.py", "unreadable"), ("[\"p/a.py\"]", "none-fit"), ("[]", "none-fit")]
    {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        material(dir);
        let row = fs_err::read_to_string(dir.join("rows.jsonl")).unwrap();
        fs_err::write(dir.join("rows.jsonl"), row.lines().next().unwrap()).unwrap();
        let server = says(text);
        let said = related(dir, &server);
        assert_eq!(said.code, 1, "{text}: {}", said.err);
        let value: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(value["counts"][fate], 1, "{text}");
        assert_eq!(value["problems"][0]["task"], "o__n-1");
        assert!(rows(dir)[0].get("related_unchanged_files").is_none());
        related(dir, &server);
        assert_eq!(asked(&server).len(), 1, "the same would be said again");
    }
}

#[test]
fn what_the_server_does_is_told_as_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    material(dir);
    let words = ["task", "related", "rows.jsonl", "--repos", "repos", "--out", "out.jsonl"];
    let said = finish(patchrl(dir).args(words));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("hint: name the server"), "{}", said.err);

    let server = FakeServer::start_with(Flavour::Plain, Brain::Says("x".into()), Some("sk-right"));
    let said = related(dir, &server);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("(status 401)") && said.err.contains("hint:"), "{}", said.err);

    // A lost answer is asked for again, once the server has one.
    let server = says("[\"p/b.py\"]");
    let filtered = r#"{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}"#;
    server.fail("completions", [Fault::body(filtered)]);
    let said = related(dir, &server);
    let value: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    assert_eq!((said.code, &value["counts"]["lost"]), (0, &json!(1)), "{}", said.err);
    let said = related(dir, &server);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&value["counts"]["named"], &value["counts"]["lost"]), (&json!(1), &json!(0)));
}
