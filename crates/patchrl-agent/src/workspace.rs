//! The files an episode works on: a base tree that nobody writes, and what was changed over it.
//!
//! Owns the changes, their limits, and how a path of a model's is read. Changes are kept here and
//! never written to this machine's disk, so that no path can lead out of them; a command gets them
//! put into its own sandbox. Does not run anything (see `command`).

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use patchrl_patch::{Changes, Entry, Mode, Tree, is_safe_path};
use patchrl_sandbox::{Job, Output, Places, SandboxError};

/// Bytes that all changes of an episode may hold together, and files.
const MAX_BYTES: usize = 4 << 20;
const MAX_FILES: usize = 1000;

/// Runs jobs: the sandboxes of this machine, or something like them.
pub trait Runner: Send + Sync {
    /// Run a job to its end.
    fn run(&self, job: &Job) -> Result<Output, SandboxError>;
}

impl Runner for Places {
    fn run(&self, job: &Job) -> Result<Output, SandboxError> {
        Places::run(self, job)
    }
}

/// Where an episode starts, and how its commands run. Shared by all episodes of a task.
pub struct Ground {
    /// The files at the start.
    pub tree: Arc<dyn Tree + Send + Sync>,
    /// Paths of all of them that an agent is shown.
    pub files: BTreeSet<String>,
    /// A job on that tree with its environment and limits, and no command yet.
    pub job: Job,
    /// The command that runs the repository's own tests; empty where none is known.
    pub tests: Vec<String>,
    /// It takes files to run after it.
    pub tests_take_files: bool,
    /// Who runs jobs.
    pub runner: Arc<dyn Runner>,
}

/// The files of one episode.
pub(crate) struct Workspace {
    pub(crate) ground: Arc<Ground>,
    changes: Changes,
}

impl Workspace {
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        Self { ground, changes: Changes::new() }
    }

    /// What differs from the base tree.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    pub(crate) fn into_changes(self) -> Changes {
        self.changes
    }

    /// Paths of all files there are now, in order.
    pub(crate) fn files(&self) -> BTreeSet<&str> {
        let there = |path: &&String| !matches!(self.changes.get(*path), Some(None));
        let base = self.ground.files.iter().filter(there);
        let new = self.changes.iter().filter(|(_, entry)| entry.is_some()).map(|(path, _)| path);
        base.chain(new).map(String::as_str).collect()
    }

    /// Put changes over those there are. All or nothing; the reason is the model's to read.
    pub(crate) fn change(&mut self, new: Changes) -> Result<(), String> {
        let mut changes = self.changes.clone();
        for (path, entry) in new {
            if !is_safe_path(&path) {
                return Err(format!("`{path}` is not a path inside the repository"));
            }
            let base = self.ground.tree.entry(&path).map_err(|e| unreadable(&path, &e))?;
            if entry.is_some() && base.is_none() && self.is_folder_of_base(&path)? {
                return Err(format!("`{path}` was a folder at the start and must stay one"));
            }
            if base == entry {
                changes.remove(&path);
            } else {
                changes.insert(path, entry);
            }
        }
        let bytes: usize = changes.values().flatten().map(|entry| entry.bytes.len()).sum();
        if bytes > MAX_BYTES || changes.len() > MAX_FILES {
            return Err(format!(
                "the changes would hold {bytes} bytes in {} files, but at most {MAX_BYTES} bytes \
                 in {MAX_FILES} files are kept",
                changes.len()
            ));
        }
        self.changes = changes;
        Ok(())
    }

    fn is_folder_of_base(&self, path: &str) -> Result<bool, String> {
        self.ground.tree.is_directory(path).map_err(|e| unreadable(path, &e))
    }

    /// The text of a file, or why it cannot be shown.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        let entry = self.entry(path).map_err(|e| unreadable(path, &e))?;
        let Some(entry) = entry else { return Err(self.missing(path)) };
        if entry.mode == Mode::Symlink {
            let target = crate::observation::printable(&entry.bytes);
            return Err(format!("`{path}` is a symbolic link to `{target}`; it is not followed"));
        }
        if entry.bytes.contains(&0) {
            return Err(format!("`{path}` is binary ({} bytes)", entry.bytes.len()));
        }
        let bytes = entry.bytes.len();
        String::from_utf8(entry.bytes)
            .map_err(|_| format!("`{path}` is not UTF-8 text ({bytes} bytes)"))
    }

    fn missing(&self, path: &str) -> String {
        let name = path.rsplit('/').next().unwrap_or(path);
        let same: Vec<&str> = self
            .files()
            .into_iter()
            .filter(|file| file.rsplit('/').next() == Some(name))
            .take(3)
            .collect();
        match same.as_slice() {
            [] => format!("there is no file `{path}`"),
            same => format!("there is no file `{path}`; there is `{}`", same.join("`, `")),
        }
    }
}

impl Tree for Workspace {
    fn entry(&self, path: &str) -> io::Result<Option<Entry>> {
        match self.changes.get(path) {
            Some(entry) => Ok(entry.clone()),
            None => self.ground.tree.entry(path),
        }
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        let inside = format!("{path}/");
        Ok(self.files().range(inside.as_str()..).next().is_some_and(|f| f.starts_with(&inside)))
    }
}

/// A path as a model writes it: relative to the repository, also with `./` or the name of the
/// workspace before it. Nothing that leads out of it.
pub(crate) fn path(written: &str) -> Result<String, String> {
    let trimmed = written.trim();
    let inside = trimmed.strip_prefix("/workspace/").unwrap_or(trimmed);
    let mut inside = inside;
    while let Some(rest) = inside.strip_prefix("./") {
        inside = rest;
    }
    if is_safe_path(inside) {
        return Ok(inside.to_owned());
    }
    let shown = crate::observation::shorten(&crate::observation::printable(trimmed.as_bytes()));
    Err(format!("not a path inside the repository, such as `src/name.py`: `{shown}`"))
}

fn unreadable(path: &str, error: &io::Error) -> String {
    format!("`{path}` cannot be read: {error}")
}
