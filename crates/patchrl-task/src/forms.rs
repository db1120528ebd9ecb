//! Rows of other data sets as SWE-bench rows.
//!
//! Owns what each form calls the same thing, and what its trees are made of where that is not a
//! commit alone: the one place that knows SWE-smith, SWE-rebench, NeMo-Gym's SWE-RL rows and rows
//! that carry their files. A row of SWE-bench's own form passes as it is.

use std::collections::BTreeMap;

use patchrl_patch::Patch;
use serde_json::{Map, Value, json};

use crate::environment::{Environment, Runner};
use crate::git_object::files_id;
use crate::record::FieldFault;

type Row = Map<String, Value>;

/// The owner in `repo` of rows that carry their files.
pub(crate) const FILES_OWNER: &str = "patchrl-files";

/// Files near a change that need none: paths, or what [`texts`] reads.
pub(crate) const RELATED: &str = "related_unchanged_files";

/// Give a row SWE-bench's names.
pub(crate) fn as_swe_bench(mut row: Row) -> Result<Row, FieldFault> {
    lift_instance(&mut row);
    if row.contains_key("golden_patch") && !row.contains_key("patch") {
        golden(&mut row)?;
    }
    if is_smith(&row) {
        smith(&mut row)?;
    }
    rebench(&mut row);
    Ok(row)
}

/// NeMo-Gym's SWE-RL form: the row proper is the map `instance`.
fn lift_instance(row: &mut Row) {
    if row.contains_key("instance_id") {
        return;
    }
    if let Some(Value::Object(instance)) = row.get("instance")
        && instance.contains_key("instance_id")
    {
        let instance = instance.clone();
        row.shift_remove("instance");
        for (name, value) in instance {
            row.insert(name, value);
        }
    }
}

/// The small form: `golden_patch`, and the text of the files it changes and of others that it
/// does not. The tree is these files; a repository is not needed, and tests there are none.
fn golden(row: &mut Row) -> Result<(), FieldFault> {
    let patch = row.shift_remove("golden_patch").unwrap_or_default();
    row.insert("patch".into(), patch);
    if row.contains_key("base_commit") {
        return Ok(());
    }
    let mut files = BTreeMap::new();
    let mut related = Vec::new();
    for field in ["changed_files", RELATED] {
        if let Some(value) = row.get(field).filter(|value| !value.is_null()) {
            let texts = texts(value, field)?;
            if field == RELATED {
                related.extend(texts.keys().cloned());
            }
            files.extend(texts);
        }
    }
    if files.is_empty() {
        let why = "is missing: without `repo` and `base_commit` a row must carry its files";
        return Err(FieldFault::new("changed_files", why));
    }
    row.shift_remove("changed_files");
    row.shift_remove(RELATED);
    if !related.is_empty() {
        row.insert(RELATED.into(), related.into());
    }
    let id = row.get("instance_id").and_then(Value::as_str).unwrap_or_default();
    let name: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    row.insert("repo".into(), format!("{FILES_OWNER}/{name}").into());
    row.insert("base_commit".into(), files_id(&files).into());
    row.insert("files".into(), json!(files));
    Ok(())
}

/// Path to text: a map, a list of `{path, content}`, or either of them as JSON inside a string.
fn texts(value: &Value, field: &'static str) -> Result<BTreeMap<String, String>, FieldFault> {
    let fault = || {
        let why = "is neither a map from path to text nor a list of `{path, content}`";
        FieldFault::new(field, why)
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    match value {
        Value::String(packed) => {
            let value: Value = serde_json::from_str(packed).map_err(|_| fault())?;
            if value.is_string() { Err(fault()) } else { texts(&value, field) }
        }
        Value::Object(map) => map
            .iter()
            .map(|(path, content)| Some((path.clone(), text(Some(content))?)))
            .collect::<Option<_>>()
            .ok_or_else(fault),
        Value::Array(list) => list
            .iter()
            .map(|file| Some((text(file.get("path"))?, text(file.get("content"))?)))
            .collect::<Option<_>>()
            .ok_or_else(fault),
        _ => Err(fault()),
    }
}

/// The paths of [`RELATED`]: a list of them, the keys of texts, or either as JSON inside a string.
pub(crate) fn related(row: &Row) -> Result<Vec<String>, FieldFault> {
    let Some(value) = row.get(RELATED).filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let unpacked = value.as_str().and_then(|packed| serde_json::from_str::<Value>(packed).ok());
    let value = unpacked.as_ref().unwrap_or(value);
    let list = value.as_array().map(|list| list.iter().map(Value::as_str));
    let paths: Option<Vec<&str>> = list.and_then(Iterator::collect);
    match paths {
        Some(paths) => Ok(paths.into_iter().map(str::to_owned).collect()),
        None => texts(value, RELATED).map(|texts| texts.into_keys().collect()).map_err(|_| {
            let why = "is no list of paths, no map from path to text and no list of `{path, \
                       content}`";
            FieldFault::new(RELATED, why)
        }),
    }
}

fn is_smith(row: &Row) -> bool {
    let repo = row.get("repo").and_then(Value::as_str).unwrap_or_default();
    repo.starts_with("swesmith/") && !row.contains_key("base_commit")
}

/// SWE-smith: `patch` puts a bug into the tree of `owner__name.commit`, and the answer takes it
/// out again.
fn smith(row: &mut Row) -> Result<(), FieldFault> {
    let text = |name| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (repo, bug) = (text("repo"), text("patch"));
    let source = repo.trim_start_matches("swesmith/").rsplit_once('.');
    let named = source.and_then(|(name, commit)| Some((name.split_once("__")?, commit)));
    let Some(((owner, name), commit)) = named else {
        return Err(FieldFault::new("repo", "is not `swesmith/owner__name.commit`"));
    };
    let (repo, commit) = (format!("{owner}/{name}"), commit.to_owned());
    let patch = Patch::parse(&bug).map_err(|e| FieldFault::new("patch", e.to_string()))?;
    let answer = patch.reversed().ok_or_else(|| {
        FieldFault::new("patch", "holds a binary change or a copy, which cannot be taken back")
    })?;
    row.insert("repo".into(), repo.into());
    row.insert("base_commit".into(), commit.into());
    row.insert("patch".into(), answer.into());
    row.insert("bug_patch".into(), bug.into());
    Ok(())
}

/// SWE-rebench and Nemotron: `install_config` says how the tests are run. What takes a shell to
/// read is left to the image, and so is an installation by anything but pip: it would run on this
/// machine, and a data set is a stranger.
fn rebench(row: &mut Row) {
    let Some(Value::Object(config)) = row.get("install_config") else { return };
    let text = |name| config.get(name).and_then(Value::as_str);
    let (python, parser) = (text("python"), text("log_parser"));
    let command = text("test_cmd").and_then(words);
    let packages = config.get("pip_packages").and_then(Value::as_array);
    let requirements =
        packages.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let environment = command.map(|command| Environment {
        python: python.map(str::to_owned),
        requirements,
        install: text("install")
            .and_then(words)
            .map(|words| as_module("pip", words))
            .filter(|words| words.starts_with(&["{python}", "-m", "pip"].map(str::to_owned))),
        test_command: as_module("pytest", command),
        env: BTreeMap::new(),
        runner: Runner::Pytest,
    });
    let parser = parser.map(str::to_owned);
    if let Some(environment) = environment
        && environment.test_command.iter().any(|word| word == "pytest")
        && !row.contains_key("environment")
    {
        row.insert("environment".into(), json!(environment));
    }
    if let Some(parser) = parser {
        row.entry("log_parser").or_insert(parser.into());
    }
}

/// A command of plain words, or nothing if a shell has to read it.
fn words(command: &str) -> Option<Vec<String>> {
    let special = |c: char| "\"'\\$`;&|<>(){}*?~#\n".contains(c);
    if command.contains(special) || command.trim().is_empty() {
        return None;
    }
    Some(command.split_whitespace().map(str::to_owned).collect())
}

/// `pytest ...`, `python -m pytest ...` as the environment's interpreter runs it.
fn as_module(module: &str, mut words: Vec<String>) -> Vec<String> {
    match words[0].as_str() {
        "python" | "python3" => "{python}".clone_into(&mut words[0]),
        own if own == module => {
            words.splice(0..1, ["{python}", "-m", module].map(str::to_owned));
        }
        _ => {}
    }
    words
}
