//! Trees out of local git clones, by the git program.
//!
//! Owns the way git is called: never the user's configuration, never hooks,
//! never a repository found by walking upwards. What it writes is whole or not
//! there (temporary name, then rename). Knows nothing of patches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::SandboxError;
use crate::host::{self, Trusted};
use crate::scratch::{Scratch, rename_into_place};

/// The clone of `repo` (`owner/name`) in the folder `repos`, bare or not.
///
/// Tries `owner__name`, `owner+name/repo`, `owner+name`, `owner/name` and
/// `name`, each with and without `.git`.
pub fn find_mirror(repos: &Path, repo: &str) -> Result<PathBuf, SandboxError> {
    let flat = repo.replace('/', "__");
    let plus = repo.replace('/', "+");
    let name = repo.rsplit('/').next().unwrap_or(repo);
    let stems = [flat, format!("{plus}/repo"), plus, repo.to_owned(), name.to_owned()];
    let safe = !repo.starts_with('/') && !repo.split('/').any(|part| part == "..");
    for stem in stems.iter().filter(|_| safe) {
        for candidate in [repos.join(stem), repos.join(format!("{stem}.git"))] {
            if git_dir(&candidate).is_some() {
                return Ok(candidate);
            }
        }
    }
    Err(SandboxError::NoMirror { repo: repo.to_owned(), repos: repos.to_owned() })
}

/// A folder name for the tree of `repo` at `commit`.
pub fn tree_name(repo: &str, commit: &str) -> String {
    format!("{}-{}", repo.replace('/', "__"), &commit[..commit.len().min(12)])
}

/// Write the tree of `commit`, without history, to `dest`. Does nothing if
/// `dest` exists: it is only ever renamed into place when whole.
///
/// Uses the index, not `git archive`, which leaves out `export-ignore` paths
/// and rewrites `export-subst` ones.
pub fn export(mirror: &Path, commit: &str, dest: &Path) -> Result<(), SandboxError> {
    if dest.is_dir() {
        return Ok(());
    }
    let dir = git_dir(mirror).ok_or_else(|| SandboxError::NoMirror {
        repo: mirror.display().to_string(),
        repos: mirror.parent().unwrap_or(mirror).to_owned(),
    })?;
    // git runs in another folder.
    let dir = fs_err::canonicalize(dir)?;
    resolve(&dir, mirror, commit)?;
    let scratch = Scratch::beside(dest)?;
    let tree = scratch.path().join("tree");
    fs_err::create_dir(&tree)?;
    let index = scratch.path().join("index").display().to_string();
    let git = |args: &[&str]| {
        host::run_ok(
            &command(args)
                .env("GIT_DIR", dir.display().to_string())
                .env("GIT_INDEX_FILE", index.clone())
                .env("GIT_WORK_TREE", tree.display().to_string())
                .cwd(&tree),
        )
    };
    git(&["read-tree", commit])?;
    git(&["checkout-index", "--all", "--force", "--quiet"])?;
    rename_into_place(&tree, dest)
}

/// The full name of a commit; an error if the clone does not hold it.
pub fn commit_id(mirror: &Path, commit: &str) -> Result<String, SandboxError> {
    let dir = git_dir(mirror).unwrap_or_else(|| mirror.to_owned());
    resolve(&dir, mirror, commit)
}

/// Make a bare repository at `dest` from a `git fast-import` stream. Does
/// nothing if `dest` exists.
pub fn fast_import(stream: &[u8], dest: &Path) -> Result<(), SandboxError> {
    if dest.is_dir() {
        return Ok(());
    }
    let scratch = Scratch::beside(dest)?;
    let bare = scratch.path().join("bare");
    let path = bare.display().to_string();
    host::run_ok(&command(&["init", "--quiet", "--bare", "--template=", &path]))?;
    host::run_ok(
        &command(&["fast-import", "--quiet", "--done", "--date-format=raw"])
            .env("GIT_DIR", path)
            .stdin(finished(stream)),
    )?;
    rename_into_place(&bare, dest)
}

/// The stream with the `done` line that `--done` asks for, so that a stream
/// cut in the middle is an error.
fn finished(stream: &[u8]) -> Vec<u8> {
    let mut bytes = stream.to_vec();
    if !bytes.ends_with(b"\ndone\n") {
        // An empty line after a command that has its own is a command without a name.
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(b"done\n");
    }
    bytes
}

fn git_dir(path: &Path) -> Option<PathBuf> {
    [path.join(".git"), path.to_owned()]
        .into_iter()
        .find(|dir| dir.join("HEAD").is_file() && dir.join("objects").is_dir())
}

fn resolve(dir: &Path, mirror: &Path, commit: &str) -> Result<String, SandboxError> {
    let no_commit =
        || SandboxError::NoCommit { mirror: mirror.to_owned(), commit: commit.to_owned() };
    if commit.starts_with('-') || commit.is_empty() {
        return Err(no_commit());
    }
    let name = format!("{commit}^{{commit}}");
    let said = host::run(
        &command(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name])
            .env("GIT_DIR", dir.display().to_string()),
    )?;
    if said.code == Some(0) { Ok(said.text()) } else { Err(no_commit()) }
}

/// git, without anyone's configuration.
fn command(args: &[&str]) -> Trusted {
    let fixed = [
        "git",
        "-c",
        "safe.directory=*",
        "-c",
        "core.autocrlf=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "filter.lfs.smudge=",
        "-c",
        "filter.lfs.process=",
        "-c",
        "filter.lfs.required=false",
        "-c",
        "checkout.workers=1",
    ];
    let mut trusted = Trusted::new(fixed.iter().chain(args).copied())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", "/")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .deadline(Duration::from_mins(5));
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        trusted = trusted.env_remove(name);
    }
    trusted
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "blob\nmark :1\ndata 3\nhi\n\nblob\nmark :2\ndata 6\ntarget\ncommit refs/heads/main\nmark :3\n\
        committer A <a@example.org> 0 +0000\ndata 1\nm\nM 100644 :1 a.txt\nM 100755 :1 d/run\nM 120000 :2 link\n\
        M 100644 inline .gitattributes\ndata 19\na.txt export-ignore\n";

    #[test]
    fn a_stream_becomes_a_bare_clone_and_a_tree() {
        let temp = tempfile::tempdir().unwrap();
        let bare = temp.path().join("patchrl-toy__x");
        fast_import(STREAM.as_bytes(), &bare).unwrap();
        assert_eq!(find_mirror(temp.path(), "patchrl-toy/x").unwrap(), bare);
        let id = commit_id(&bare, "main").unwrap();
        let dest = temp.path().join(tree_name("patchrl-toy/x", &id));
        export(&bare, &id, &dest).unwrap();
        assert_eq!(fs_err::read_to_string(dest.join("a.txt")).unwrap(), "hi\n");
        assert_eq!(fs_err::read_link(dest.join("link")).unwrap(), Path::new("target"));
        assert!(!dest.join(".git").exists());
        assert_eq!(fs_err::read_dir(temp.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_missing_commit_and_a_cut_stream_leave_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let bare = temp.path().join("x");
        assert!(fast_import(&STREAM.as_bytes()[..90], &bare).is_err());
        assert!(!bare.exists());
        fast_import(STREAM.as_bytes(), &bare).unwrap();
        let dest = temp.path().join("tree");
        let error = export(&bare, "0123456789", &dest).unwrap_err();
        assert!(matches!(error, SandboxError::NoCommit { .. }));
        assert!(!dest.exists());
        assert!(find_mirror(temp.path(), "../x").is_err());
    }
}
