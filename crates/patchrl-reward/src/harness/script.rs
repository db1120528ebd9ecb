//! The commands that make a log: reset the tests, apply the test patch, run, reset.
//!
//! Owns the scripts as both versions assemble them: 4.1.0 from a table of repositories
//! ([`Specs`]), 5.0.2 from the row's own column. Nothing is run here.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::python::re;
use crate::swerl::unidiff;

const HEADER: [&str; 2] = ["#!/bin/bash", "set -uxo pipefail"];
const START: &str = ": '>>>>> Start Test Output'";
const END: &str = ": '>>>>> End Test Output'";
const HEREDOC: &str = "EOF_114329324912";

/// How each version of each repository is built and tested: swebench 4.1.0's constants
/// `MAP_REPO_VERSION_TO_SPECS` and `MAP_REPO_TO_EXT` as JSON, under `specs` and `ext`.
#[derive(Clone, Debug, Deserialize)]
pub struct Specs {
    specs: Map<String, Value>,
    ext: Map<String, Value>,
}

/// What a script is made for.
#[derive(Clone, Copy, Debug)]
pub struct Instance<'a> {
    /// `owner/name`.
    pub repo: &'a str,
    /// A key of the table.
    pub version: &'a str,
    /// The commit that tests are reset to.
    pub base_commit: &'a str,
    /// Changes to tests.
    pub test_patch: &'a str,
    /// Column `image_assets`.
    pub image_assets: Option<&'a Value>,
}

/// Why there is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFault {
    /// The table lacks the repository or the version.
    #[error("the table has no version `{version}` of `{repo}`")]
    Unknown {
        /// The repository.
        repo: String,
        /// The version.
        version: String,
    },
    /// An entry of the table is not as it should be.
    #[error("the table's entry for `{repo}`: `{field}` is no text or list of texts")]
    Entry {
        /// The repository.
        repo: String,
        /// The field.
        field: &'static str,
    },
    /// The test patch is no diff.
    #[error("the test patch cannot be read")]
    TestPatch,
    /// The commands of this one repository follow rules of their own.
    #[error("scripts for `{0}` are not assembled here: use a row with `eval_script`")]
    Unsupported(String),
}

/// The script of version 4.
pub fn v4(instance: Instance<'_>, specs: &Specs) -> Result<String, ScriptFault> {
    let Instance { repo, version, .. } = instance;
    let unknown = || ScriptFault::Unknown { repo: repo.to_owned(), version: version.to_owned() };
    let spec = specs.specs.get(repo).and_then(|it| it.get(version)).ok_or_else(unknown)?;
    let language = specs.ext.get(repo).and_then(Value::as_str).ok_or_else(unknown)?;
    let entry = |field| {
        commands(spec.get(field)).ok_or(ScriptFault::Entry { repo: repo.to_owned(), field })
    };
    let files = unidiff::sources(instance.test_patch).map_err(|_| ScriptFault::TestPatch)?;
    let files: Vec<&str> = files.iter().filter_map(|name| name.strip_prefix("a/")).collect();
    let reset = format!("git checkout {} {}", instance.base_commit, files.join(" "));
    let apply =
        |how: &str| format!("git apply {how} - <<'{HEREDOC}'\n{}\n{HEREDOC}", instance.test_patch);
    let mut lines: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| lines.extend(more.iter().map(|line| (*line).to_owned()));
    if language == "py" {
        let activate = ["source /opt/miniconda3/bin/activate", "conda activate testbed"];
        add(&activate);
        add(&["cd /testbed"]);
        let commands = entry("eval_commands")?;
        add(&commands.iter().map(String::as_str).collect::<Vec<_>>());
        add(&["git config --global --add safe.directory /testbed", "cd /testbed"]);
        let diff = format!("git -c core.fileMode=false diff {}", instance.base_commit);
        add(&["git status", "git show", &diff]);
        add(&activate);
        let install = entry("install")?;
        add(&install.iter().map(String::as_str).collect::<Vec<_>>());
        let command: Vec<String> =
            entry("test_cmd")?.into_iter().chain(directives(repo, instance.test_patch)).collect();
        add(&[&reset, &apply("-v"), START, &command.join(" "), END, &reset]);
    } else {
        if repo == "Automattic/wp-calypso" {
            return Err(ScriptFault::Unsupported(repo.to_owned()));
        }
        let reset = if files.is_empty() { "echo \"No test files to reset\"" } else { &reset };
        add(&["cd /testbed", "git config --global --add safe.directory /testbed", "cd /testbed"]);
        add(&[reset]);
        if language == "js" {
            let downloads = downloads(instance.image_assets);
            add(&downloads.iter().map(String::as_str).collect::<Vec<_>>());
        }
        add(&[&apply("--verbose --reject")]);
        for part in [entry("build")?, vec![START.to_owned()], entry("test_cmd")?] {
            add(&part.iter().map(String::as_str).collect::<Vec<_>>());
        }
        add(&[END, reset]);
    }
    Ok(script(lines))
}

/// The script of version 5: the row's `eval_script`, made to print the exit code of the
/// tests behind the marker that ends their output.
pub fn v5(eval_script: &str) -> String {
    let mut lines: Vec<String> = crate::python::strip(eval_script)
        .split('\n')
        .filter(|line| !HEADER.contains(line))
        .map(str::to_owned)
        .collect();
    if let Some(at) = lines.iter().position(|line| line.contains(">>>>> End Test Output")) {
        let print = "echo \">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE\"";
        lines.insert(at + 1, print.to_owned());
        lines.insert(at, "SWEBENCH_TEST_EXIT_CODE=$?".to_owned());
    }
    script(lines)
}

fn script(lines: Vec<String>) -> String {
    let header = HEADER.iter().map(|line| (*line).to_owned());
    header.chain(lines).collect::<Vec<_>>().join("\n") + "\n"
}

/// A field that is missing, one command or a list of them.
fn commands(field: Option<&Value>) -> Option<Vec<String>> {
    match field {
        None => Some(Vec::new()),
        Some(Value::String(one)) => Some(vec![one.clone()]),
        Some(Value::Array(all)) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    }
}

/// What the test command is asked to run: the files of the test patch.
fn directives(repo: &str, test_patch: &str) -> Vec<String> {
    const NO_TESTS: [&str; 11] =
        [".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"];
    if repo == "swe-bench/humaneval" {
        return vec!["test.py".to_owned()];
    }
    let names = re!("diff --git a/.* b/(.*)").captures_iter(test_patch);
    let names = names.map(|found| found[1].to_owned());
    let tests = names.filter(|name| !NO_TESTS.iter().any(|end| name.ends_with(end)));
    if repo != "django/django" {
        return tests.collect();
    }
    let module = |name: String| {
        let name = name.strip_suffix(".py").unwrap_or(&name);
        name.strip_prefix("tests/").unwrap_or(name).replace('/', ".")
    };
    tests.map(module).collect()
}

/// Pictures that the tests of some repositories compare with.
fn downloads(assets: Option<&Value>) -> Vec<String> {
    let parsed = assets.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let assets: Option<&Value> = parsed.as_ref().or(assets);
    let files = assets.and_then(|it| it.get("test_patch")).and_then(Value::as_array);
    let mut commands = Vec::new();
    for file in files.into_iter().flatten() {
        let (Some(path), Some(url)) = (file["path"].as_str(), file["url"].as_str()) else {
            continue;
        };
        let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
        commands.push(format!("mkdir -p {folder}"));
        commands.push(format!("curl -o {path} {url}"));
        commands.push(format!("chmod 777 {path}"));
    }
    commands
}
