//! Texts: difflib's ratio, and the apply gate beside git.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use patchrl_patch::{Autojunk, Changes, Edit, Entry, Mode, Patch, ratio, unified};
use patchrl_sandbox::host::{self, Trusted};
use serde_json::json;

use super::fastest;
use crate::exit::Exit;
use crate::printer::{self, Form};
use crate::settings::Environment;

#[derive(Debug, Args)]
pub(crate) struct Similarity {
    /// Characters of each text.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000, 20_000, 100_000])]
    chars: Vec<usize>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Lines of the file.
    #[arg(long, default_value_t = 500)]
    lines: usize,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn similarity(flags: &Similarity) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for &chars in &flags.chars {
        let text = patches(0, chars);
        for (pair, other) in [("near", edited(&text)), ("far", patches(chars / 2 + 7, chars))] {
            let value = ratio(&text, &other, Autojunk::Off)?;
            let time = fastest(|| ratio(&text, &other, Autojunk::Off));
            rows.push(json!({
                "chars": chars, "pair": pair, "ratio": value, "ms": time.as_secs_f64() * 1e3,
            }));
        }
    }
    printer::report(Form::of(flags.json), &rows, || {
        let mut out = String::new();
        for row in &rows {
            let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
            let _ = writeln!(
                out,
                "{:>7} characters, {:>4} pair: {:8.3} ms, ratio {:.4}",
                row["chars"],
                row["pair"].as_str().unwrap_or_default(),
                number("ms"),
                number("ratio")
            );
        }
        out
    })?;
    Ok(Exit::Success)
}

pub(crate) fn apply(flags: &Apply, environment: &Environment) -> anyhow::Result<Exit> {
    let old = file(flags.lines);
    let new = edited(&old);
    let entry = |text: &str| Entry { mode: Mode::Regular, bytes: text.as_bytes().to_vec() };
    let tree = BTreeMap::from([("m/a.py".to_owned(), entry(&old))]);
    let diff = unified(&Changes::from([("m/a.py".to_owned(), Some(entry(&new)))]), &tree)?;
    let ours = || -> anyhow::Result<_> { Ok(Edit::Diff(Patch::parse(&diff)?).apply(&tree)?) };
    let changes = ours()?;
    let same = changes["m/a.py"].as_ref().is_some_and(|entry| entry.bytes == new.as_bytes());
    anyhow::ensure!(same, "the patch gave another file than it was made from");
    let ours = fastest(ours);
    fs_err::create_dir_all(&environment.cache)?;
    let dir = tempfile::tempdir_in(&environment.cache)?;
    let git = git_apply(dir.path(), &old, &diff)?;
    let value = json!({
        "lines": flags.lines,
        "hunks": diff.matches("\n@@ ").count(),
        "ms": ours.as_secs_f64() * 1e3,
        "git_ms": git.as_secs_f64() * 1e3,
        "times": git.as_secs_f64() / ours.as_secs_f64(),
    });
    printer::report(Form::of(flags.json), &value, || {
        format!(
            "a file of {} lines, {} hunks: {:.3} ms; a `git apply` process {:.2} ms: {:.0} times",
            flags.lines,
            value["hunks"],
            ours.as_secs_f64() * 1e3,
            git.as_secs_f64() * 1e3,
            git.as_secs_f64() / ours.as_secs_f64()
        )
    })?;
    Ok(Exit::Success)
}

/// The least time of one `git apply --check` process, which writes nothing.
fn git_apply(dir: &Path, old: &str, diff: &str) -> anyhow::Result<Duration> {
    fs_err::create_dir_all(dir.join("m"))?;
    fs_err::write(dir.join("m/a.py"), old)?;
    let above = dir.parent().context("a folder above")?.display().to_string();
    let command = Trusted::new(["git", "apply", "--check"])
        .cwd(dir)
        .env("GIT_CEILING_DIRECTORIES", above)
        .stdin(diff.as_bytes());
    host::run_ok(&command)?;
    Ok(fastest(|| host::run_ok(&command)))
}

/// So many characters of the shipped tasks' patches, one after the other from `start` on.
fn patches(start: usize, chars: usize) -> String {
    let tasks = patchrl_task::toy::tasks();
    let all: String = tasks.iter().map(|task| task.patch.as_str()).collect();
    all.chars().cycle().skip(start).take(chars).collect()
}

/// So many lines that look like a module.
fn file(lines: usize) -> String {
    (0..lines)
        .map(|n| match n % 5 {
            0 => format!("def value_{n}(self, other):\n"),
            4 => "\n".to_owned(),
            _ => format!("    self.total += other[{n}] * {}\n", n % 7),
        })
        .collect()
}

/// A line in forty taken out, and one changed.
fn edited(text: &str) -> String {
    let line = |(at, line): (usize, &str)| match at % 40 {
        10 => String::new(),
        30 => line.replace(['e', '('], "x"),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').enumerate().map(line).collect()
}
