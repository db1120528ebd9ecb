//! Time of the apply gate against a `git apply` process, on real patches.
//!
//! `cargo run --release -p patchrl-patch --example apply -- FILE.jsonl.gz REPOS`
//! FILE holds SWE-bench rows, REPOS a git directory for some of their repositories
//! (`owner+name/repo` or `owner__name.git`). Both sides get the touched files only: git in a
//! folder of their own, ours in memory. Verdict and bytes are compared.

#![expect(clippy::disallowed_methods, reason = "the reference is the git program")]
#![expect(clippy::print_stdout, reason = "this is a report")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use patchrl_patch::{Edit, Entry, Mode, Patch};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(repos)) = (arguments.next(), arguments.next()) else {
        return Err("name a file of SWE-bench rows (jsonl.gz) and a folder of repositories".into());
    };
    let mut rows = String::new();
    flate2::read::GzDecoder::new(fs_err::File::open(file)?).read_to_string(&mut rows)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row)?;
        let field = |name: &str| row[name].as_str().ok_or(format!("a row without `{name}`"));
        let Some(repo) = find(Path::new(&repos), field("repo")?) else { continue };
        let text = field("patch")?;
        let Some(before) = files(&repo, field("base_commit")?, text)? else { continue };
        let (seconds, applied) = git(&before, text)?;
        theirs.push(seconds);
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let start = Instant::now();
            let changes = Edit::Diff(Patch::parse(text)?).apply(&before)?;
            best = best.min(start.elapsed().as_secs_f64());
            assert!(changes == applied, "{}: the results differ", field("instance_id")?);
        }
        ours.push(best);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("ours {:.3} ms, git {:.3} ms: {:.0} times", ours * 1e3, theirs * 1e3, theirs / ours);
    Ok(())
}

fn find(repos: &Path, repo: &str) -> Option<PathBuf> {
    [repo.replace('/', "+") + "/repo", repo.replace('/', "__") + ".git"]
        .iter()
        .map(|name| repos.join(name))
        .find(|path| path.exists())
}

/// The files that a patch names, as they are at `commit`. `None` if the commit is not there.
fn files(repo: &Path, commit: &str, patch: &str) -> Fallible<Option<BTreeMap<String, Entry>>> {
    let mut files = BTreeMap::new();
    for path in Edit::Diff(Patch::parse(patch)?).paths() {
        let object = format!("{commit}:{path}");
        let output =
            Command::new("git").arg("-C").arg(repo).args(["cat-file", "blob", &object]).output()?;
        if output.status.success() {
            files.insert(path.to_owned(), Entry { mode: Mode::Regular, bytes: output.stdout });
        }
    }
    Ok(Some(files).filter(|files| !files.is_empty()))
}

/// Seconds of one `git apply`, and what it changed.
fn git(before: &BTreeMap<String, Entry>, patch: &str) -> Fallible<(f64, patchrl_patch::Changes)> {
    let dir = tempfile::tempdir()?;
    for (path, entry) in before {
        let file = dir.path().join(path);
        fs_err::create_dir_all(file.parent().ok_or("a file has a folder")?)?;
        fs_err::write(file, &entry.bytes)?;
    }
    let start = Instant::now();
    let mut child = Command::new("git")
        .arg("apply")
        .current_dir(dir.path())
        .env("GIT_CEILING_DIRECTORIES", dir.path().parent().ok_or("a folder above")?)
        .stdin(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(patch.as_bytes())?;
    if !child.wait()?.success() {
        return Err("git refuses a gold patch".into());
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut changes = patchrl_patch::Changes::new();
    for path in Edit::Diff(Patch::parse(patch)?).paths() {
        let file = dir.path().join(path);
        let after = if file.exists() { Some(fs_err::read(file)?) } else { None };
        if after.as_ref() != before.get(path).map(|entry| &entry.bytes) {
            let entry = after.map(|bytes| Entry { mode: Mode::Regular, bytes });
            changes.insert(path.to_owned(), entry);
        }
    }
    Ok((seconds, changes))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
