//! Recorded runs of `git apply` on real repositories: same verdict, same files.
//!
//! The records are in `../shared/data`; the repositories in the folder that
//! `PATCHRL_REPOS` names, as `owner__name` or `owner+name/repo`. Without either the test
//! says that it was skipped. The first command of a recorded chain is plain `git apply`;
//! what later commands made of a patch (`--3way`, `--reject`, `patch`) is not ours.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use patchrl_patch::{ApplyFault, Changes, Edit, Entry, Mode, Patch, Tree};
use serde_json::Value;

use crate::gold::rows;
use crate::scenario::blob_id;

#[test]
fn recorded_applications_end_as_recorded() {
    let records =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/apply/records.jsonl.gz");
    let Some(folder) = std::env::var_os("PATCHRL_REPOS").map(PathBuf::from) else {
        println!("skipped: PATCHRL_REPOS does not name a folder of repositories");
        return;
    };
    if !records.exists() {
        println!("skipped: no {}", records.display());
        return;
    }
    let mut tally = Tally::default();
    for (repo, records) in by_repository(rows(&records)) {
        match Store::open(&folder, &repo) {
            Some(store) => records.iter().for_each(|record| tally.check(&store, record)),
            None => tally.absent(&repo, records.len()),
        }
    }
    println!("{tally}");
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n\n"));
}

/// In the order of repositories, so that one git process serves all of its records.
fn by_repository(records: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut sorted: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in records {
        sorted.entry(text(&record["repo"]).to_owned()).or_default().push(record);
    }
    sorted
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// What came of all records.
#[derive(Default)]
struct Tally {
    applied: usize,
    refused: usize,
    skipped: usize,
    ours: Duration,
    /// What git said of a refused patch, and our word for it.
    reasons: BTreeMap<(String, String), usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn absent(&mut self, repo: &str, records: usize) {
        println!("skipped: {records} records of {repo}, which is not there");
        self.skipped += records;
    }

    fn check(&mut self, store: &Store, record: &Value) {
        let Some(tree) = store.tree(text(&record["base_commit"])) else {
            self.skipped += 1;
            return;
        };
        let first = &record["v5"]["steps"][0];
        assert_eq!(text(&first["cmd"]), "git apply --verbose");
        let start = Instant::now();
        let ours = ours(&tree, text(&record["patch"]));
        self.ours += start.elapsed();
        let difference = match (first["rc"] == 0, ours) {
            (true, Ok(changes)) => {
                self.applied += 1;
                difference(&changes, &record["v5"]["post"])
            }
            (false, Err((word, why))) => {
                self.refused += 1;
                let said = text(&first["out"]);
                *self.reasons.entry((kind(said), word)).or_default() += 1;
                is_elsewhere(said, &why).then(|| format!("git says {said}, we say {why}"))
            }
            (true, Err((_, why))) => {
                self.refused += 1;
                Some(format!("git applies it, we say {why}"))
            }
            (false, Ok(_)) => {
                self.applied += 1;
                Some(format!("we apply it, git says {}", first["out"]))
            }
        };
        if let Some(difference) = difference {
            self.wrong.push(format!("record {}: {difference}", record["id"]));
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { applied, refused, skipped, wrong, .. } = self;
        for ((git, ours), count) in &self.reasons {
            writeln!(f, "{count:5} {git} / {ours}")?;
        }
        write!(
            f,
            "{} records checked: {applied} applied, {refused} refused, {} differ; \
             {skipped} skipped; {:.2} s in our code and its reads",
            applied + refused,
            wrong.len(),
            self.ours.as_secs_f64()
        )
    }
}

/// What this crate makes of a patch; a fault as its word and its text.
fn ours(tree: &dyn Tree, patch: &str) -> Result<Changes, (String, String)> {
    let patch = Patch::parse(patch).map_err(|fault| ("unreadable".into(), fault.to_string()))?;
    match Edit::Diff(patch).apply(tree) {
        Err(ApplyFault::NoChange) => Ok(Changes::new()),
        Err(fault) => Err((fault.as_str().to_owned(), fault.to_string())),
        Ok(changes) => Ok(changes),
    }
}

/// Do both see a corrupt line, but not the same one?
fn is_elsewhere(said: &str, ours: &str) -> bool {
    let place = |said: &str| {
        let (_, rest) = said.split_once("corrupt patch at line ")?;
        rest.split(|c: char| !c.is_ascii_digit()).next().map(str::to_owned)
    };
    place(said) != place(ours)
}

/// The first error line of git without names and numbers.
fn kind(said: &str) -> String {
    let line = said.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(said);
    let known = [
        "corrupt patch",
        "patch failed",
        "No such file or directory",
        "No valid patches",
        "patch with only garbage",
        "patch fragment without header",
        "without full index line",
        "already exists",
        "has been renamed or deleted",
        "git diff header lacks filename",
    ];
    known.into_iter().find(|kind| line.contains(kind)).unwrap_or(line).to_owned()
}

/// How our changes differ from the recorded tree.
fn difference(ours: &Changes, recorded: &Value) -> Option<String> {
    let ours: BTreeMap<String, Option<(String, String)>> = ours
        .iter()
        .map(|(path, entry)| {
            let entry = entry.as_ref();
            (path.clone(), entry.map(|it| (it.mode.octal().to_owned(), blob_id(&it.bytes))))
        })
        .collect();
    let recorded: BTreeMap<String, Option<(String, String)>> = recorded
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, entry)| {
            let is_there = entry["mode"] != "000000";
            let entry = is_there
                .then(|| (text(&entry["mode"]).to_owned(), text(&entry["blob"]).to_owned()));
            (path.clone(), entry)
        })
        .collect();
    (ours != recorded).then(|| format!("recorded {recorded:?}\nours {ours:?}"))
}

/// One repository, read through `git cat-file --batch`.
struct Store {
    folder: PathBuf,
    pipe: RefCell<Pipe>,
}

struct Pipe {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Store {
    fn open(repositories: &Path, repo: &str) -> Option<Self> {
        let folder = [repo.replace('/', "__"), format!("{}/repo", repo.replace('/', "+"))]
            .into_iter()
            .map(|name| repositories.join(name))
            .find(|folder| folder.is_dir())?;
        let mut child = git(&folder, &["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = child.stdin.take().unwrap();
        let answer = BufReader::new(child.stdout.take().unwrap());
        Some(Self { folder, pipe: RefCell::new(Pipe { child, ask, answer }) })
    }

    /// The files of a commit; `None` if it is not in the repository.
    fn tree(&self, commit: &str) -> Option<CommitTree<'_>> {
        let output = git(&self.folder, &["ls-tree", "-r", "-z", commit]).output().unwrap();
        if !output.status.success() {
            return None;
        }
        let mut files = BTreeMap::new();
        for row in output.stdout.split(|byte| *byte == 0).filter(|row| !row.is_empty()) {
            let row = String::from_utf8_lossy(row);
            let (facts, path) = row.split_once('\t').unwrap();
            let facts: Vec<&str> = facts.split(' ').collect();
            let mode = match facts[0] {
                "100644" => Mode::Regular,
                "100755" => Mode::Executable,
                "120000" => Mode::Symlink,
                // A submodule that is not checked out is an empty directory.
                _ => continue,
            };
            files.insert(path.to_owned(), (mode, facts[2].to_owned()));
        }
        Some(CommitTree { store: self, files })
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(folder).args(arguments);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Its input closes with us; nothing is left to say.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pipe {
    fn blob(&mut self, id: &str) -> io::Result<Vec<u8>> {
        writeln!(self.ask, "{id}")?;
        self.ask.flush()?;
        let mut header = String::new();
        self.answer.read_line(&mut header)?;
        let length = header.trim_end().rsplit(' ').next().and_then(|it| it.parse().ok());
        let mut bytes = vec![0; length.ok_or_else(|| io::Error::other(header.clone()))?];
        self.answer.read_exact(&mut bytes)?;
        self.answer.read_exact(&mut [0])?;
        Ok(bytes)
    }
}

struct CommitTree<'s> {
    store: &'s Store,
    files: BTreeMap<String, (Mode, String)>,
}

impl Tree for CommitTree<'_> {
    fn entry(&self, path: &str) -> io::Result<Option<Entry>> {
        let Some((mode, blob)) = self.files.get(path) else { return Ok(None) };
        let bytes = self.store.pipe.borrow_mut().blob(blob)?;
        Ok(Some(Entry { mode: *mode, bytes }))
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        let inside = format!("{path}/");
        Ok(self.files.range(inside.clone()..).next().is_some_and(|(it, _)| it.starts_with(&inside)))
    }
}
