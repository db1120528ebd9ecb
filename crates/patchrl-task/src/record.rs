//! One task: an issue, the tree it is about, the tests that decide, and the known answer.
//!
//! Owns the field names that SWE-bench rows use and what each field may hold. Unknown fields are
//! kept and written back; rows of other forms get these names in `forms`. Does not read files (see
//! [`crate::store`]) and does not parse patches beyond the paths they name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::environment::{self, Environment, Runner};
use crate::forms;
use crate::git_object::files_id;
use crate::split::Split;

/// Longest id accepted: it becomes a folder's name.
const MAX_ID: usize = 200;

/// The name of a task: letters, digits, `_`, `.`, `-`, `+`; usable as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

impl TaskId {
    /// Accepts `text` if it can name a folder.
    pub fn parse(text: &str) -> Result<Self, FieldFault> {
        let first_ok = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let rest_ok = text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-+".contains(c));
        if first_ok && rest_ok && text.len() <= MAX_ID {
            Ok(Self(text.to_owned()))
        } else {
            Err(FieldFault::new(
                "instance_id",
                format!(
                    "`{}` is not 1 to {MAX_ID} letters, digits, `_`, `.`, `-` or `+`",
                    shown(text)
                ),
            ))
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// One thing to solve. Field names on disk are SWE-bench's.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// `instance_id`.
    pub id: TaskId,
    /// `owner/name`.
    pub repo: String,
    /// The commit whose tree is to be repaired: lower-case hexadecimal digits.
    pub base_commit: String,
    /// The issue, as the policy reads it.
    pub problem_statement: String,
    /// The known answer, a git diff against the tree at the start.
    pub patch: String,
    /// What the tree is before anything is asked.
    pub start: Start,
    /// Changes to tests that are put in place before judging; empty if they are in the tree.
    pub test_patch: String,
    /// Tests that fail before and must pass after.
    pub fail_to_pass: Vec<String>,
    /// Tests that pass before and must still pass after.
    pub pass_to_pass: Vec<String>,
    /// The repository's version, a key into tables of environments.
    pub version: Option<String>,
    /// What the tests need, where the row says so itself; see [`Task::known_environment`].
    pub environment: Option<Environment>,
    /// Which side of a train and held-out split the task is on.
    pub split: Option<Split>,
    /// Every field of the row that is not named above.
    pub extra: Map<String, Value>,
}

/// The tree that is to be repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The one of `base_commit`.
    Commit,
    /// That one with this git diff on it: column `bug_patch`.
    Bug(String),
    /// These files, path to text, which are in no repository: column `files`. `base_commit` is a
    /// name for them.
    Files(BTreeMap<String, String>),
}

/// A field of a row that does not hold what it must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: {why}")]
pub struct FieldFault {
    /// The field's name on disk.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl FieldFault {
    pub(crate) fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

impl Task {
    /// Reads a row. Whatever is not a field of [`Task`] ends in `extra`.
    pub fn from_row(row: Map<String, Value>) -> Result<Self, FieldFault> {
        let mut row = forms::as_swe_bench(row)?;
        forms::related(&row)?;
        let id = TaskId::parse(&required(&mut row, "instance_id")?)?;
        let repo = required(&mut row, "repo")?;
        check_repo(&repo)?;
        let base_commit = required(&mut row, "base_commit")?;
        check_commit(&base_commit)?;
        let start = start(&mut row, &repo, &base_commit)?;
        let split = match row.get("split").and_then(Value::as_str).and_then(Split::parse) {
            Some(split) => {
                row.shift_remove("split");
                Some(split)
            }
            None => None,
        };
        Ok(Self {
            id,
            repo,
            base_commit,
            problem_statement: required(&mut row, "problem_statement")?,
            patch: required(&mut row, "patch")?,
            start,
            test_patch: optional(&mut row, "test_patch")?.unwrap_or_default(),
            fail_to_pass: names(&mut row, "FAIL_TO_PASS")?,
            pass_to_pass: names(&mut row, "PASS_TO_PASS")?,
            version: optional(&mut row, "version")?,
            environment: environment_field(&mut row)?,
            split,
            extra: row,
        })
    }

    /// The row as it is written: SWE-bench's names, then the unknown fields.
    pub fn to_row(&self) -> Map<String, Value> {
        let mut row = Map::new();
        let mut put = |name: &str, value: Value| {
            row.insert(name.to_owned(), value);
        };
        put("instance_id", self.id.as_str().into());
        put("repo", self.repo.as_str().into());
        put("base_commit", self.base_commit.as_str().into());
        put("problem_statement", self.problem_statement.as_str().into());
        put("patch", self.patch.as_str().into());
        match &self.start {
            Start::Commit => {}
            Start::Bug(patch) => put("bug_patch", patch.as_str().into()),
            Start::Files(files) => put("files", json!(files)),
        }
        put("test_patch", self.test_patch.as_str().into());
        put("FAIL_TO_PASS", self.fail_to_pass.clone().into());
        put("PASS_TO_PASS", self.pass_to_pass.clone().into());
        if let Some(version) = &self.version {
            put("version", version.as_str().into());
        }
        if let Some(environment) = &self.environment {
            // Strings, lists and maps of strings: the value always exists.
            let value = serde_json::to_value(environment).unwrap_or_default();
            put("environment", value);
        }
        if let Some(split) = self.split {
            put("split", split.as_str().into());
        }
        for (name, value) in &self.extra {
            row.entry(name.clone()).or_insert_with(|| value.clone());
        }
        row
    }

    /// The same without what only prompts read.
    pub fn judged_row(&self) -> Map<String, Value> {
        let mut row = self.to_row();
        row.shift_remove(forms::RELATED);
        row
    }

    /// The environment to run the tests in: the row's own, or the one known for the repository
    /// and version.
    pub fn known_environment(&self) -> Option<Environment> {
        self.environment.clone().or_else(|| environment::known(&self.repo, self.version.as_deref()))
    }

    /// The image that the row says its tests run in: `image`, `image_name` or `docker_image`.
    pub fn image(&self) -> Option<&str> {
        let columns = ["image", "image_name", "docker_image"];
        let text = |name: &&str| self.extra.get(*name).and_then(Value::as_str);
        columns.iter().find_map(text).filter(|image| !image.is_empty())
    }

    /// The folder of the repository in the image: `workdir`, or SWE-bench's.
    pub fn workdir(&self) -> &str {
        self.extra.get("workdir").and_then(Value::as_str).unwrap_or("/testbed")
    }

    /// Files of the gold patch that exist at the base commit, in the patch's order: what a prompt
    /// with oracle file context shows.
    pub fn touched_files(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        patch_paths(&self.patch)
            .into_iter()
            .filter_map(|paths| paths.old)
            .filter(|path| seen.insert(path.clone()))
            .collect()
    }

    /// Files near the gold patch's that it does not change (`related_unchanged_files`): what a
    /// prompt shows beside them.
    pub fn related_files(&self) -> Vec<String> {
        // Looked at when the row was read.
        forms::related(&self.extra).unwrap_or_default()
    }

    /// Say which these are.
    pub fn set_related_files(&mut self, paths: &[String]) {
        self.extra.insert(forms::RELATED.to_owned(), paths.into());
    }

    /// Files of the test patch as they are named after it, deleted ones under their old name.
    /// Without a test patch: the files that unittest ids of this task name.
    pub fn test_files(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        if !self.test_patch.trim().is_empty() {
            return patch_paths(&self.test_patch)
                .into_iter()
                .filter_map(|paths| paths.new.or(paths.old))
                .filter(|path| seen.insert(path.clone()))
                .collect();
        }
        if self.environment.as_ref().is_some_and(|e| e.runner == Runner::Unittest) {
            let ids = self.fail_to_pass.iter().chain(&self.pass_to_pass);
            return ids
                .filter_map(|id| unittest_file(id))
                .filter(|path| seen.insert(path.clone()))
                .collect();
        }
        Vec::new()
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_row().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let row = Map::deserialize(deserializer)?;
        Self::from_row(row).map_err(serde::de::Error::custom)
    }
}

/// The file of `package.module.Class.method`.
fn unittest_file(id: &str) -> Option<String> {
    let (class, _method) = id.rsplit_once('.')?;
    let (module, _class) = class.rsplit_once('.')?;
    let plain = module.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    (plain && !module.is_empty()).then(|| format!("{}.py", module.replace('.', "/")))
}

/// Both names of one file of a git diff; `None` where the file is absent on that side.
struct PatchPaths {
    old: Option<String>,
    new: Option<String>,
}

/// The files a git diff names. Counts hunk lines, so that text inside a hunk is no header.
fn patch_paths(patch: &str) -> Vec<PatchPaths> {
    let mut files: Vec<PatchPaths> = Vec::new();
    let (mut old_left, mut new_left) = (0_u64, 0_u64);
    for line in patch.split('\n') {
        if old_left > 0 || new_left > 0 {
            match line.as_bytes().first() {
                Some(b'-') => old_left = old_left.saturating_sub(1),
                Some(b'+') => new_left = new_left.saturating_sub(1),
                Some(b'\\') => {}
                _ => {
                    old_left = old_left.saturating_sub(1);
                    new_left = new_left.saturating_sub(1);
                }
            }
            continue;
        }
        if let Some(names) = line.strip_prefix("diff --git ") {
            files.push(header_paths(names));
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            (old_left, new_left) = hunk_lengths(hunk).unwrap_or((0, 0));
        } else if let Some(file) = files.last_mut() {
            if line.starts_with("new file mode") {
                file.old = None;
            } else if line.starts_with("deleted file mode") {
                file.new = None;
            } else if let Some(name) = line.strip_prefix("--- ") {
                file.old = side(name, "a/");
            } else if let Some(name) = line.strip_prefix("+++ ") {
                file.new = side(name, "b/");
            } else if let Some(name) = line.strip_prefix("rename from ") {
                file.old = Some(unquote(name));
            } else if let Some(name) = line.strip_prefix("rename to ") {
                file.new = Some(unquote(name));
            }
        }
    }
    files
}

/// `a/x b/x` of a `diff --git` line. Names that differ are corrected by later header lines.
fn header_paths(names: &str) -> PatchPaths {
    let names = names.trim_end_matches('\r');
    let half = names.len() / 2;
    let (old, new) = match (names.get(..half), names.get(half + 1..)) {
        (Some(old), Some(new)) if old.get(2..) == new.get(2..) || old.starts_with('"') => {
            (old, new)
        }
        _ => names.split_once(" b/").map_or((names, names), |(old, _)| {
            (old, names.get(old.len() + 1..).unwrap_or_default())
        }),
    };
    PatchPaths { old: side(old, "a/"), new: side(new, "b/") }
}

fn side(name: &str, prefix: &str) -> Option<String> {
    let name = name.trim_end_matches('\r').split('\t').next().unwrap_or_default();
    if name == "/dev/null" {
        return None;
    }
    let name = unquote(name);
    Some(name.strip_prefix(prefix).unwrap_or(&name).to_owned())
}

/// Undoes git's quoting of names (`"a/na\303\257ve.py"`).
fn unquote(name: &str) -> String {
    let name = name.trim_end_matches('\r');
    let Some(inner) = name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let octal: Vec<u8> =
            rest.iter().take(3).copied().take_while(|b| (b'0'..=b'7').contains(b)).collect();
        if octal.len() == 3 {
            bytes.push(octal.iter().fold(0_u8, |n, d| n.wrapping_mul(8).wrapping_add(d - b'0')));
            rest = &rest[3..];
        } else if let Some((&escaped, tail)) = rest.split_first() {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                other => other,
            });
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The two lengths of `1,2 +3,4 @@ ...`.
fn hunk_lengths(hunk: &str) -> Option<(u64, u64)> {
    let (old, rest) = hunk.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let length = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((length(old)?, length(new)?))
}

fn check_repo(repo: &str) -> Result<(), FieldFault> {
    let part_ok = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    match repo.split_once('/') {
        Some((owner, name)) if part_ok(owner) && part_ok(name) => Ok(()),
        _ => Err(FieldFault::new("repo", format!("`{}` is not `owner/name`", shown(repo)))),
    }
}

fn check_commit(commit: &str) -> Result<(), FieldFault> {
    let hex = commit.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if hex && (7..=64).contains(&commit.len()) {
        Ok(())
    } else {
        Err(FieldFault::new(
            "base_commit",
            format!("`{}` is not 7 to 64 hexadecimal digits", shown(commit)),
        ))
    }
}

/// What `bug_patch` and `files` say. Other data sets may use the second name for something else:
/// it counts where the row names the files by their content.
fn start(row: &mut Map<String, Value>, repo: &str, commit: &str) -> Result<Start, FieldFault> {
    if let Some(bug) = optional(row, "bug_patch")? {
        return Ok(Start::Bug(bug));
    }
    let owner = repo.split_once('/').map(|(owner, _)| owner);
    let Some(value) = row.get("files").filter(|_| owner == Some(forms::FILES_OWNER)) else {
        return Ok(Start::Commit);
    };
    let fault = |why| FieldFault::new("files", why);
    let files = BTreeMap::<String, String>::deserialize(value)
        .map_err(|_| fault("is no map from path to text".to_owned()))?;
    if let Some(path) = files.keys().find(|path| !patchrl_patch::is_safe_path(path)) {
        return Err(fault(format!("`{}` is no path inside a tree", shown(path))));
    }
    if files_id(&files) != commit {
        return Err(fault("are not the files that `base_commit` names".to_owned()));
    }
    row.shift_remove("files");
    Ok(Start::Files(files))
}

fn required(row: &mut Map<String, Value>, field: &'static str) -> Result<String, FieldFault> {
    optional(row, field)?.ok_or_else(|| FieldFault::new(field, "is missing"))
}

fn optional(
    row: &mut Map<String, Value>,
    field: &'static str,
) -> Result<Option<String>, FieldFault> {
    match row.shift_remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(FieldFault::new(field, format!("is {}, not text", kind(&other)))),
    }
}

/// A list of test names: a list, or the same list written as JSON inside a string.
fn names(row: &mut Map<String, Value>, field: &'static str) -> Result<Vec<String>, FieldFault> {
    let value = match row.shift_remove(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => serde_json::from_str(&text)
            .map_err(|fault| FieldFault::new(field, format!("is text, but no JSON ({fault})")))?,
        Some(value) => value,
    };
    let Value::Array(items) = value else {
        return Err(FieldFault::new(field, format!("is {}, not a list", kind(&value))));
    };
    let text = |item| match item {
        Value::String(name) => Ok(name),
        other => Err(FieldFault::new(field, format!("holds {}, not only text", kind(&other)))),
    };
    items.into_iter().map(text).collect()
}

fn environment_field(row: &mut Map<String, Value>) -> Result<Option<Environment>, FieldFault> {
    // Other data sets use the name for something else: text, or a map of their own.
    match row.get("environment") {
        Some(Value::Object(map)) if map.contains_key("test_command") => {}
        _ => return Ok(None),
    }
    let value = row.shift_remove("environment").unwrap_or_default();
    serde_json::from_value(value)
        .map(Some)
        .map_err(|fault| FieldFault::new("environment", fault.to_string()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// The head of text that a stranger wrote, fit for one line of an error.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PATCH: &str = "\
diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,2 +1,2 @@
--- a/not/a/header
+++ b/not/a/header
 x
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+y
diff --git a/old name.py b/moved name.py
similarity index 100%
rename from old name.py
rename to moved name.py
diff --git \"a/na\\303\\257ve.py\" \"b/na\\303\\257ve.py\"
old mode 100644
new mode 100755
";

    pub(crate) fn task(id: &str) -> Task {
        let row = serde_json::json!({
            "instance_id": id, "repo": "o/n", "base_commit": "0123456789abcdef",
            "problem_statement": "it breaks", "patch": PATCH,
            "FAIL_TO_PASS": "[\"a\"]", "PASS_TO_PASS": ["b"], "hints_text": "", "split": "test",
        });
        serde_json::from_value(row).expect("the row is whole")
    }

    #[test]
    fn paths_come_from_headers_only() {
        assert_eq!(task("x").touched_files(), ["pkg/a.py", "old name.py", "naïve.py"]);
        let mut tested = task("x");
        tested.test_patch = PATCH.to_owned();
        assert_eq!(tested.test_files(), ["pkg/a.py", "new.py", "moved name.py", "naïve.py"]);
    }

    #[test]
    fn unknown_fields_are_kept() {
        let task = task("x");
        assert_eq!(task.fail_to_pass, ["a"]);
        assert_eq!(task.extra["hints_text"], "");
        // A split that is not ours stays what the data set meant by it.
        assert_eq!(task.split, None);
        assert_eq!(task.extra["split"], "test");
        let again = Task::from_row(task.to_row()).expect("a written row can be read");
        assert_eq!(again, task);
    }

    #[test]
    fn unittest_ids_name_their_files() {
        let mut task = task("x");
        task.environment = Some(Environment::unittest());
        task.fail_to_pass = vec!["tests.test_a.TestA.test_x".into(), "odd".into()];
        task.pass_to_pass = vec!["tests.test_a.TestA.test_y".into(), "a/b.C.d.e".into()];
        assert_eq!(task.test_files(), ["tests/test_a.py"]);
    }

    #[test]
    fn names_that_could_leave_a_folder_are_refused() {
        for id in ["", "..", "a/b", "-x", "a b", "a\0"] {
            assert!(TaskId::parse(id).is_err(), "{id:?}");
        }
        for repo in ["x", "../x", "a/..", "a/b/c", "-a/b", "a/"] {
            let mut row = task("x").to_row();
            row.insert("repo".into(), repo.into());
            let fault = Task::from_row(row).expect_err("not owner/name");
            assert_eq!(fault.field, "repo");
        }
        for commit in ["HEAD", "--all", "abc", "ABCDEF0123"] {
            let mut row = task("x").to_row();
            row.insert("base_commit".into(), commit.into());
            let fault = Task::from_row(row).expect_err("no commit");
            assert_eq!(fault.field, "base_commit");
        }
    }

    #[test]
    fn rubbish_patches_give_no_panic() {
        for patch in ["diff --git", "diff --git ", "diff --git é", "@@ -", "@@ -1,9 +1 @@\n\\"] {
            let mut task = task("x");
            task.patch = patch.to_owned();
            let _ = task.touched_files();
        }
    }
}
