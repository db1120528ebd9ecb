//! The harness's chains: small cases, and recorded runs on real repositories.
//!
//! The recorded runs are in `../shared/data`, their repositories in the folder that
//! `PATCHRL_REPOS` names (`owner__name` or `owner+name/repo`). What is missing is skipped
//! with a line that says so.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchrl_reward::harness::{Chained, Dialect};
use patchrl_sandbox::host::{self, Trusted};
use patchrl_sandbox::{Limits, Local};
use serde_json::Value;

const PATCH: &str = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";

/// Says so where there is no GNU patch to run.
fn has_patch() -> bool {
    let has = host::run_ok(&Trusted::new(["patch", "--version"])).is_ok();
    if !has {
        println!("skipped: there is no `patch` on this machine");
    }
    has
}

fn tree(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs_err::write(dir.path().join("f"), text).unwrap();
    dir
}

pub(crate) fn chains_take_the_first_command_that_works(sandbox: &Arc<Local>) {
    if !has_patch() {
        return;
    }
    let run = |chain: Dialect, text: &str, patch: &str| {
        chain.apply(sandbox, tree(text).path(), patch, &Limits::default()).unwrap()
    };
    for chain in [Dialect::V4, Dialect::V5] {
        let plain = run(chain, "a\nb\nc\n", PATCH);
        assert!(plain.applied && plain.steps.len() == 1, "{plain:?}");
        assert_eq!(plain.changes.keys().collect::<Vec<_>>(), ["f"]);
        // One line of context is wrong: only `patch` takes that.
        let fuzzy = run(chain, "x\nb\nc\n", PATCH);
        assert!(fuzzy.applied && fuzzy.steps.last().unwrap().command.starts_with("patch"));
        let none = run(chain, "a\nb\nc\n", "no patch at all\n");
        assert!(!none.applied && none.changes.is_empty(), "{none:?}");
    }
    let there = run(Dialect::V5, "a\nB\nc\n", PATCH);
    assert_eq!((there.applied, there.reverse_check), (true, Some(0)), "{there:?}");
    // The file is as it was; what `patch` could not place lies beside it.
    assert_eq!(there.changes.keys().collect::<Vec<_>>(), ["f.rej"]);
}

pub(crate) fn chains_end_as_recorded(sandbox: &Arc<Local>) {
    let records =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/apply/records.jsonl.gz");
    let Some(repos) = std::env::var_os("PATCHRL_REPOS").map(PathBuf::from) else {
        println!("skipped: PATCHRL_REPOS does not name a folder of repositories");
        return;
    };
    if !records.exists() {
        println!("skipped: no {}", records.display());
        return;
    }
    let mut rows = String::new();
    let file = fs_err::File::open(records).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut rows).unwrap();
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    if !has_patch() {
        return;
    }
    let (mut checked, mut skipped, mut wrong) = (0, 0, Vec::new());
    for record in &rows {
        let Some(base) = pre_image(&repos, record) else {
            skipped += 1;
            continue;
        };
        checked += 1;
        for (name, chain) in [("v4", Dialect::V4), ("v5", Dialect::V5)] {
            let patch = record["patch"].as_str().unwrap();
            let ours = chain.apply(sandbox, base.path(), patch, &Limits::default());
            if let Some(difference) = difference(&ours.unwrap(), &record[name]) {
                wrong.push(format!("record {} {name}: {difference}", record["id"]));
            }
        }
    }
    println!(
        "{checked} records checked with both chains, {skipped} skipped, {} differ",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files of a record's pre-image; nothing where its repository or one of them is missing.
fn pre_image(repos: &Path, record: &Value) -> Option<tempfile::TempDir> {
    let repo = record["repo"].as_str().unwrap();
    let git_dir = [repo.replace('/', "__"), repo.replace('/', "+") + "/repo"]
        .into_iter()
        .map(|name| repos.join(name))
        .find(|path| path.is_dir())?;
    let dir = tempfile::tempdir().unwrap();
    for file in record["pre"].as_array().unwrap() {
        let field = |name: &str| file[name].as_str().unwrap();
        let git_dir = git_dir.display().to_string();
        let command =
            Trusted::new(["git", "--git-dir", &git_dir, "cat-file", "blob", field("blob")]);
        let bytes = host::run_ok(&command).ok()?.stdout;
        let path = dir.path().join(field("path"));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        if field("mode") == "120000" {
            let target = String::from_utf8(bytes).unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
            continue;
        }
        fs_err::write(&path, bytes).unwrap();
        if field("mode") == "100755" {
            use std::os::unix::fs::PermissionsExt as _;
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    Some(dir)
}

/// What differs in verdict, exit codes or tree.
fn difference(ours: &Chained, recorded: &Value) -> Option<String> {
    let exits: Vec<i64> = ours.steps.iter().map(|step| i64::from(step.exit)).collect();
    let theirs: Vec<i64> = recorded["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["rc"].as_i64().unwrap())
        .collect();
    let tree: BTreeMap<String, Option<(String, String)>> = recorded["post"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, file)| {
            let text = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
            let is_there = file["mode"] != "000000" && !file["mode"].is_null();
            (path.clone(), is_there.then(|| (text("mode"), text("blob"))))
        })
        .collect();
    let same = ours.applied == recorded["applied"].as_bool().unwrap()
        && exits == theirs
        && ours.changes == tree;
    (!same).then(|| format!("\nours {exits:?} {:?}\nrecorded {theirs:?} {tree:?}", ours.changes))
}
