//! Errors a user will meet: they name the thing and the way out, and lose nothing.

use std::process::Command;

use crate::tiny::write_model;
use crate::{finish, patchrl};

#[test]
fn an_unknown_key_names_its_neighbour() {
    let dir = tempfile::tempdir().unwrap();
    fs_err::write(dir.path().join("x.yaml"), "train:\n  grpo:\n    group_sise: 8\n").unwrap();
    let said = finish(patchrl(dir.path()).args(["config", "check", "x.yaml"]));
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: `x.yaml` has the key `train.grpo.group_sise`, which does not exist\n\
             hint: did you mean `group_size`?\n"
        )
    );
}

#[test]
fn the_printed_defaults_load() {
    let dir = tempfile::tempdir().unwrap();
    let said = finish(patchrl(dir.path()).args(["config", "show"]));
    fs_err::write(dir.path().join("all.yaml"), &said.out).unwrap();
    let said = finish(patchrl(dir.path()).args(["config", "check", "all.yaml", "--json"]));
    assert_eq!((said.code, said.out.as_str()), (0, "{\"valid\":1}\n"));
}

#[test]
fn a_missing_model_is_named_with_what_was_tried() {
    let dir = tempfile::tempdir().unwrap();
    let said = finish(patchrl(dir.path()).args(["train", "sft", "--model", "./nowhere"]));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("no model `./nowhere`"), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
    assert!(!dir.path().join("runs").exists(), "a run that never began leaves no folder");
}

#[test]
fn a_missing_repository_is_named_with_the_way_to_it() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("model"));
    let row = serde_json::json!({
        "instance_id": "marshmallow-code__marshmallow-1", "repo": "marshmallow-code/marshmallow",
        "base_commit": "0123456789012345678901234567890123456789", "version": "3.0",
        "problem_statement": "x", "patch": "", "test_patch": "",
        "FAIL_TO_PASS": ["tests/test_a.py::test_b"], "PASS_TO_PASS": [],
    });
    fs_err::write(dir.path().join("rows.jsonl"), format!("{row}\n")).unwrap();
    let train = ["train", "grpo", "--model", "./model", "--tasks", "rows.jsonl"];
    let said = finish(patchrl(dir.path()).args(train));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("marshmallow-code/marshmallow"), "{}", said.err);
    assert!(said.err.contains("hint: git clone"), "{}", said.err);
    let said = finish(patchrl(dir.path()).args(train).args(["--repos", "."]));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("marshmallow-code/marshmallow"), "{}", said.err);
}

#[test]
fn without_python_the_run_says_so() {
    // Interpreters under the user's own home are found without `PATH`.
    let home = finish(
        Command::new("sh").args(["-c", "ls -d ~/.pyenv/versions/* ~/.local/share/uv/python/*"]),
    );
    if !home.out.is_empty() {
        println!("skipped: pyenv or uv has an interpreter in the home folder");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("model"));
    let bin = dir.path().join("bin");
    fs_err::create_dir(&bin).unwrap();
    for program in ["git", "sh"] {
        let real = ["/usr/local/bin", "/usr/bin", "/bin"].iter().map(|d| format!("{d}/{program}"));
        let real = real.into_iter().find(|p| std::path::Path::new(p).exists()).unwrap();
        std::os::unix::fs::symlink(real, bin.join(program)).unwrap();
    }
    let said = finish(
        patchrl(dir.path())
            .args(["train", "sft", "--model", "./model", "--max-steps", "1", "--train-limit", "2"])
            .env("PATH", &bin)
            .env_remove("PYENV_ROOT"),
    );
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.to_lowercase().contains("python"), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
}

#[test]
fn a_run_is_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("runs/old");
    fs_err::create_dir_all(&run).unwrap();
    fs_err::write(run.join("journal.jsonl"), "").unwrap();
    let said = finish(patchrl(dir.path()).args(["quickstart", "--run", "old"]));
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: the run `runs/old` exists already\n\
             hint: add `--resume` to go on with it, or name another with `--run`\n"
        )
    );
}

#[test]
fn a_full_disk_keeps_the_last_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    fs_err::create_dir(&small).unwrap();
    let mount = |args: &[&str]| {
        Command::new("mount").args(args).arg(&small).status().is_ok_and(|s| s.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=220k", "tmpfs"]) {
        println!("skipped: no right to mount a small file system");
        return;
    }
    write_model(&dir.path().join("model"));
    let run = small.join("run").display().to_string();
    let said = finish(patchrl(dir.path()).args([
        "train",
        "sft",
        "--model",
        "./model",
        "--max-steps",
        "4",
        "--train-limit",
        "4",
        "--checkpoint-every",
        "1",
        "--max-prompt-tokens",
        "900",
        "--run",
        &run,
    ]));
    let checkpoints = small.join("run/checkpoints");
    let whole: Vec<String> = fs_err::read_dir(&checkpoints)
        .map(|d| d.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    let state = fs_err::read_to_string(checkpoints.join("latest/state/state.json"));
    let weights = checkpoints.join("latest/model.safetensors").exists();
    let _ = Command::new("umount").arg("-l").arg(&small).status();
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(
        said.err.contains("disk is full") || said.err.contains("No space left"),
        "{}",
        said.err
    );
    assert!(said.err.contains("hint: free some space"), "{}", said.err);
    assert!(
        state.is_ok() && weights,
        "the last whole checkpoint is there: {whole:?}\n{}",
        said.err
    );
    assert!(!whole.iter().any(|name| name.ends_with(".partial")), "{whole:?}");
}

#[test]
fn without_an_engine_images_have_a_way_out_and_reap_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = ["--docker-host", "/no/such/engine.sock"];
    let said = finish(patchrl(dir.path()).args(["image", "list"]).args(nowhere));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("no container engine answers at `unix:///no/such/engine.sock`"));
    assert!(said.err.contains("hint: start Docker or Podman"), "{}", said.err);
    let said = finish(patchrl(dir.path()).args(["sandbox", "reap"]).args(nowhere));
    assert_eq!((said.code, said.out.as_str()), (0, "nothing was left behind\n"));
    let said = finish(patchrl(dir.path()).args(["image", "prepare", "../containers/x"]));
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            2,
            "error: `../containers/x` is not the name of an image\n\
             hint: names look like `registry/name:tag`\n"
        )
    );
}
