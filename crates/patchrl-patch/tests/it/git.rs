//! The reference: `git apply` in an empty folder, and the comparison with it.
//!
//! Runs outside any repository and without the user's configuration.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use patchrl_patch::{ApplyFault, Edit, Entry, Mode, Patch};

pub(crate) type Files = BTreeMap<String, Entry>;

/// Is there a git to compare with? Says so if not.
pub(crate) fn is_here() -> bool {
    let found = Command::new("git").arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        println!("skipped: no git");
    }
    found
}

/// Apply `patch` with git. The files afterwards, or what git said.
pub(crate) fn apply(files: &Files, patch: &str) -> Result<Files, String> {
    Folder::new().apply(files, patch)
}

/// Read `patch` with git, without applying it.
pub(crate) fn parse(patch: &str) -> Result<(), String> {
    run(Folder::new().0.path(), &["apply", "--numstat", "-"], patch)
}

/// A folder for many runs of git, in memory where the system has such a place.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self(folder.unwrap())
    }

    /// Apply `patch` to `files` alone.
    pub(crate) fn apply(&self, files: &Files, patch: &str) -> Result<Files, String> {
        let root = self.0.path();
        empty(root);
        write(root, files);
        run(root, &["apply", "-"], patch)?;
        let mut after = Files::new();
        read(root, "", &mut after);
        Ok(after)
    }
}

fn empty(folder: &Path) {
    for found in fs_err::read_dir(folder).unwrap() {
        let found = found.unwrap();
        if found.file_type().unwrap().is_dir() {
            fs_err::remove_dir_all(found.path()).unwrap();
        } else {
            fs_err::remove_file(found.path()).unwrap();
        }
    }
}

fn run(folder: &Path, arguments: &[&str], patch: &str) -> Result<(), String> {
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Apply `patch` with this crate. The files afterwards, or why not.
pub(crate) fn ours(files: &Files, patch: &str) -> Result<Files, String> {
    let patch = Patch::parse(patch).map_err(|fault| fault.to_string())?;
    let changes = match Edit::Diff(patch).apply(files) {
        Ok(changes) => changes,
        Err(ApplyFault::NoChange) => return Ok(files.clone()),
        Err(fault) => return Err(format!("{}: {fault}", fault.as_str())),
    };
    let mut after = files.clone();
    for (path, entry) in changes {
        match entry {
            Some(entry) => after.insert(path, entry),
            None => after.remove(&path),
        };
    }
    Ok(after)
}

/// Both, and whether they agree. The error is a report for the reader of a failed test.
pub(crate) fn compare(files: &Files, patch: &str) -> Result<Verdict, String> {
    match (apply(files, patch), ours(files, patch)) {
        (Ok(git), Ok(ours)) if git == ours => Ok(Verdict::Applies),
        (Err(_), Err(_)) => Ok(Verdict::Fails),
        (git, ours) => {
            Err(format!("files: {files:?}\npatch:\n{patch}\ngit: {git:?}\nours: {ours:?}"))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Applies,
    Fails,
}

fn write(folder: &Path, files: &Files) {
    for (path, entry) in files {
        let path = folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        if entry.mode == Mode::Symlink {
            let target = String::from_utf8(entry.bytes.clone()).unwrap();
            fs_err::os::unix::fs::symlink(target, &path).unwrap();
            continue;
        }
        fs_err::write(&path, &entry.bytes).unwrap();
        let bits = if entry.mode == Mode::Executable { 0o755 } else { 0o644 };
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
    }
}

fn read(folder: &Path, prefix: &str, files: &mut Files) {
    for found in fs_err::read_dir(folder).unwrap() {
        let found = found.unwrap();
        let path = format!("{prefix}{}", found.file_name().to_string_lossy());
        let kind = found.file_type().unwrap();
        if kind.is_dir() {
            read(&found.path(), &format!("{path}/"), files);
            continue;
        }
        let (mode, bytes) = if kind.is_symlink() {
            let target = fs_err::read_link(found.path()).unwrap();
            (Mode::Symlink, target.into_os_string().into_encoded_bytes())
        } else {
            let bits = found.metadata().unwrap().permissions().mode();
            let mode = if bits & 0o100 == 0 { Mode::Regular } else { Mode::Executable };
            (mode, fs_err::read(found.path()).unwrap())
        };
        files.insert(path, Entry { mode, bytes });
    }
}
