//! `patchrl image`: get the container images of a task set, list them, remove them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use flate2::read::MultiGzDecoder;
use patchrl_sandbox::{
    Bytes, ImageEvent, ImageName, ImageReport, ImageState, Reaped, SandboxError, Step,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::flags::EngineFlags;
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::settings::Environment;

/// `patchrl image ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Pull the images that are not there; started again, it goes on where it stopped.
    Prepare(Selection),
    /// Which images are there, and their sizes; without a selection, all of them.
    List(Selection),
    /// Remove images that no container uses, and containers that a killed run left.
    Prune(Selection),
}

/// Which images, and which engine.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Names of images.
    images: Vec<String>,
    /// A file of rows (JSONL, JSON, gz) with a column `image`, `image_name` or `docker_image`.
    #[arg(long, value_name = "FILE")]
    tasks: Vec<PathBuf>,
    #[command(flatten)]
    engine: EngineFlags,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Files of rows are read up to here.
const MAX_FILE: u64 = 4 << 30;

pub(crate) fn run(command: &Image, environment: &Environment) -> anyhow::Result<Exit> {
    match command {
        Image::Prepare(selection) => prepare(selection, environment),
        Image::List(selection) => list(selection, environment),
        Image::Prune(selection) => prune(selection, environment),
    }
}

fn prepare(selection: &Selection, environment: &Environment) -> anyhow::Result<Exit> {
    let images = selection.some_names()?;
    let docker = selection.engine.connect(environment)?;
    let mut console = Console::new();
    let reports = docker.prepare(&images, &mut |event| show(&mut console, event))?;
    console.clear();
    report(selection, &reports, &json!({ "images": reports }), "")?;
    let there = |r: &ImageReport| matches!(r.state, ImageState::Present | ImageState::Pulled);
    Ok(if reports.iter().all(there) { Exit::Success } else { Exit::Negative })
}

fn list(selection: &Selection, environment: &Environment) -> anyhow::Result<Exit> {
    let images = selection.names()?;
    let docker = selection.engine.connect(environment)?;
    let reports = if images.is_empty() { docker.all_images()? } else { docker.images(&images)? };
    report(selection, &reports, &json!({ "images": reports }), "")?;
    let there = reports.iter().all(|r| r.state == ImageState::Present);
    Ok(if there { Exit::Success } else { Exit::Negative })
}

fn prune(selection: &Selection, environment: &Environment) -> anyhow::Result<Exit> {
    let images = selection.names()?;
    let docker = selection.engine.connect(environment)?;
    let mut reaped = Reaped::default();
    // First, since what they hold cannot be removed.
    docker.reap(&mut reaped)?;
    let reports = docker.remove_images(&images)?;
    let value =
        json!({ "images": reports, "containers": reaped.containers, "failed": reaped.failed });
    let mut lines: String =
        reaped.containers.iter().map(|c| format!("removed container {c}\n")).collect();
    lines.extend(reaped.failed.iter().map(|f| format!("FAILED {f}\n")));
    report(selection, &reports, &value, &lines)?;
    let failed = reports.iter().any(|r| r.state == ImageState::Failed);
    Ok(if failed || !reaped.failed.is_empty() { Exit::Internal } else { Exit::Success })
}

impl Selection {
    /// All names, each once, in the order they were given.
    fn names(&self) -> anyhow::Result<Vec<ImageName>> {
        let mut names = Vec::new();
        let mut seen = BTreeSet::new();
        let mut add = |text: &str| -> Result<(), SandboxError> {
            let name = ImageName::parse(text)?;
            if seen.insert(name.clone()) {
                names.push(name);
            }
            Ok(())
        };
        for text in &self.images {
            add(text)?;
        }
        for path in &self.tasks {
            let rows = images_of(path)?;
            for (number, text) in (1..).zip(&rows) {
                if let Some(text) = text {
                    add(text).with_context(|| format!("`{}`, row {number}", path.display()))?;
                }
            }
            let without = rows.iter().filter(|row| row.is_none()).count();
            if without > 0 {
                printer::say(&format!("`{}`: rows without an image: {without}", path.display()));
            }
        }
        Ok(names)
    }

    fn some_names(&self) -> anyhow::Result<Vec<ImageName>> {
        let names = self.names()?;
        if names.is_empty() {
            return Err(usage("no images given", "name images, or a file of rows with `--tasks`"));
        }
        Ok(names)
    }
}

/// The columns that name an image, in the forms data sets have them.
#[derive(Deserialize)]
struct Row {
    image: Option<Value>,
    image_name: Option<Value>,
    docker_image: Option<Value>,
}

impl Row {
    fn image(self) -> Option<String> {
        let columns = [self.image, self.image_name, self.docker_image];
        columns.into_iter().flatten().find_map(|value| match value {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => None,
        })
    }
}

/// One entry a row.
fn images_of(path: &Path) -> anyhow::Result<Vec<Option<String>>> {
    let file = fs_err::File::open(path).map_err(|e| usage(e.to_string(), "check the path"))?;
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let plain: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut text = BufReader::new(plain.take(MAX_FILE));
    let array = text.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let rows = if array {
        serde_json::from_reader::<_, Vec<Row>>(text)
    } else {
        serde_json::Deserializer::from_reader(text).into_iter().collect()
    };
    let rows =
        rows.map_err(|e| usage(e.to_string(), "rows are JSON objects, one a line or in a list"));
    let rows = rows.with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(rows.into_iter().map(Row::image).collect())
}

fn show(console: &mut Console, event: &ImageEvent<'_>) {
    let ImageEvent { image, index, of, step } = event;
    let place = format!("[{}/{of}] {image}", index + 1);
    match step {
        Step::Pulling { done, total } => console.bytes(&place, done.0, total.0),
        Step::Waiting { pause, why } => {
            console.say(&format!("{place}: {why}; waiting {} s", pause.as_secs()));
        }
        Step::Ended(report) => match report.state {
            ImageState::Present => {}
            _ => console.say(&format!("[{}/{of}] {}", index + 1, line(report))),
        },
    }
}

fn report(
    selection: &Selection,
    reports: &[ImageReport],
    value: &Value,
    more: &str,
) -> anyhow::Result<()> {
    printer::report(Form::of(selection.json), value, || {
        let rows: String = reports.iter().map(|r| format!("{}\n", line(r))).collect();
        let held = |r: &&ImageReport| r.state != ImageState::Removed;
        let bytes = reports.iter().filter(held).filter_map(|r| r.size).map(|b| b.0).sum();
        format!("{rows}{more}{} images, {} without sharing layers", reports.len(), Bytes(bytes))
    })
}

fn line(report: &ImageReport) -> String {
    let word = match report.state {
        ImageState::Present => "present",
        ImageState::Pulled => "pulled",
        ImageState::Missing => "missing",
        ImageState::Removed => "removed",
        ImageState::InUse => "in use",
        ImageState::Failed => "FAILED",
    };
    let size = report.size.map_or(String::new(), |size| size.to_string());
    let why = report.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("{word:<8} {size:>9}  {}{why}", report.image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_images_in_several_ways() {
        let dir = tempfile::tempdir().expect("a folder");
        let rows = [
            r#"{"instance_id": "a", "image": "one"}"#,
            r#"{"image_name": "two:3", "image": null}"#,
            r#"{"docker_image": "three", "image": {"x": 1}}"#,
            r#"{"instance_id": "d"}"#,
        ];
        let lines = dir.path().join("rows.jsonl");
        fs_err::write(&lines, rows.join("\n")).expect("a file");
        let array = dir.path().join("rows.json");
        fs_err::write(&array, format!(" [{}]", rows.join(","))).expect("a file");
        let found = images_of(&lines).expect("rows");
        assert_eq!(found, [Some("one".into()), Some("two:3".into()), Some("three".into()), None]);
        assert_eq!(images_of(&array).expect("rows"), found);
        fs_err::write(&lines, "{\"image\": 1}\nnonsense").expect("a file");
        assert!(format!("{:#}", images_of(&lines).expect_err("a fault")).contains("rows.jsonl"));
    }
}
