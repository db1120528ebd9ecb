//! `patchrl eval compare`: is one run better than another, and how sure is that?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::exit::{Exit, usage};
use crate::printer::{self, Form};

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The run to start from: a run report of the harness, or JSON lines that say for each
    /// instance whether it is resolved.
    #[arg(value_name = "A")]
    base: PathBuf,
    /// The run to hold against it.
    #[arg(value_name = "B")]
    other: PathBuf,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Ids that were answered, and those that are resolved.
type Run = (BTreeSet<String>, BTreeSet<String>);

pub(super) fn run(flags: &Compare) -> anyhow::Result<Exit> {
    let (base, other) = (read(&flags.base)?, read(&flags.other)?);
    let both: BTreeSet<String> = base.0.intersection(&other.0).cloned().collect();
    if both.is_empty() {
        return Err(usage(
            "the two runs have no instance in common",
            "compare runs on the same instances",
        ));
    }
    let result = patchrl_eval::compare(&both, &base.1, &other.1);
    printer::report(Form::of(flags.json), &result, || {
        let percent = |count: usize| 100.0 * count as f64 / result.instances as f64;
        let list = |ids: &[String]| match ids {
            [] => "none".to_owned(),
            ids => ids.join(", "),
        };
        format!(
            "instances that both answered: {}\nA resolves {} ({:.1} %), B {} ({:.1} %)\n\
             B - A: {:+.1} points, 95 % interval {:+.1} to {:+.1}, p = {:.3}\n\
             only B resolves: {}\nonly A resolves: {}",
            result.instances,
            result.base,
            percent(result.base),
            result.other,
            percent(result.other),
            100.0 * result.difference,
            100.0 * result.interval[0],
            100.0 * result.interval[1],
            result.p_value,
            list(&result.gained),
            list(&result.lost),
        )
    })?;
    Ok(Exit::Success)
}

fn read(path: &Path) -> anyhow::Result<Run> {
    let bad = |why: String| {
        usage(
            format!("`{}`: {why}", path.display()),
            "give a run report (`resolved_ids`), or lines {\"instance_id\", \"resolved\"} or \
             {ID: {\"resolved\"}}",
        )
    };
    let text = fs_err::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    if let Ok(report) = serde_json::from_str::<Value>(&text)
        && let (Some(submitted), Some(resolved)) =
            (ids(&report["submitted_ids"]), ids(&report["resolved_ids"]))
    {
        return Ok((submitted, resolved));
    }
    let mut run = Run::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record: Value =
            serde_json::from_str(line).map_err(|e| bad(format!("line {}: {e}", at + 1)))?;
        let (id, resolved) = outcome(&record)
            .ok_or_else(|| bad(format!("line {}: no id with `resolved`", at + 1)))?;
        // Nobody could tell.
        let Some(resolved) = resolved else { continue };
        if resolved {
            run.1.insert(id.to_owned());
        }
        run.0.insert(id.to_owned());
    }
    Ok(run)
}

fn ids(value: &Value) -> Option<BTreeSet<String>> {
    value.as_array()?.iter().map(|id| id.as_str().map(str::to_owned)).collect()
}

fn outcome(record: &Value) -> Option<(&str, Option<bool>)> {
    if let Some(id) = record["instance_id"].as_str() {
        return Some((id, record.get("resolved")?.as_bool()));
    }
    let (id, report) = record.as_object()?.iter().next()?;
    Some((id, Some(report["resolved"].as_bool()?)))
}
