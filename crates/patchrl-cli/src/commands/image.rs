//! `patchrl image`: get the container images of a task set, list them, remove them.

use std::collections::BTreeSet;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use patchrl_sandbox::{
    Bytes, Docker, ImageEvent, ImageName, ImageReport, ImageState, Reaped, Step,
};
use patchrl_task::Task;
use serde_json::{Value, json};

use super::flags::EngineFlags;
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session;
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
    /// A task set, as elsewhere, whose rows have a column `image`, `image_name` or
    /// `docker_image`; may be given several times.
    #[arg(long, value_name = "FILE|NAME")]
    tasks: Vec<String>,
    #[command(flatten)]
    engine: EngineFlags,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Image, environment: &Environment) -> anyhow::Result<Exit> {
    match command {
        Image::Prepare(selection) => prepare(selection, environment),
        Image::List(selection) => list(selection, environment),
        Image::Prune(selection) => prune(selection, environment),
    }
}

fn prepare(selection: &Selection, environment: &Environment) -> anyhow::Result<Exit> {
    let images = selection.names(environment)?;
    if images.is_empty() {
        return Err(usage("no images given", "name images, or a task set with `--tasks`"));
    }
    let docker = selection.engine.connect(environment)?;
    let reports = pull(&docker, &images, &mut Console::new())?;
    report(selection, &reports, &json!({ "images": reports }), "")?;
    Ok(if reports.iter().all(is_there) { Exit::Success } else { Exit::Negative })
}

/// Pull the images of tasks that are not there; an error names those that did not come.
pub(crate) fn prepare_for(
    tasks: &[Task],
    docker: &Docker,
    console: &mut Console,
) -> anyhow::Result<()> {
    let mut names = Names::default();
    for task in tasks {
        names.add_task(task)?;
    }
    let reports = pull(docker, &names.list, console)?;
    let missing: Vec<String> =
        reports.iter().filter(|report| !is_there(report)).map(line).collect();
    if missing.is_empty() {
        console.say(&format!("{} images are there", reports.len()));
        return Ok(());
    }
    Err(usage(
        format!("images that did not come:\n  {}", missing.join("\n  ")),
        "the same command goes on where it stopped",
    ))
}

fn pull(
    docker: &Docker,
    images: &[ImageName],
    console: &mut Console,
) -> anyhow::Result<Vec<ImageReport>> {
    let reports = docker.prepare(images, &mut |event| show(console, event))?;
    console.clear();
    Ok(reports)
}

fn is_there(report: &ImageReport) -> bool {
    matches!(report.state, ImageState::Present | ImageState::Pulled)
}

fn list(selection: &Selection, environment: &Environment) -> anyhow::Result<Exit> {
    let images = selection.names(environment)?;
    let docker = selection.engine.connect(environment)?;
    let reports = if images.is_empty() { docker.all_images()? } else { docker.images(&images)? };
    report(selection, &reports, &json!({ "images": reports }), "")?;
    let there = reports.iter().all(|r| r.state == ImageState::Present);
    Ok(if there { Exit::Success } else { Exit::Negative })
}

fn prune(selection: &Selection, environment: &Environment) -> anyhow::Result<Exit> {
    let images = selection.names(environment)?;
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

/// Names, each once, in the order they were given.
#[derive(Default)]
struct Names {
    list: Vec<ImageName>,
    seen: BTreeSet<ImageName>,
}

impl Names {
    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        let name = ImageName::parse(text)?;
        if self.seen.insert(name.clone()) {
            self.list.push(name);
        }
        Ok(())
    }

    /// Whether the task names an image.
    fn add_task(&mut self, task: &Task) -> anyhow::Result<bool> {
        let Some(image) = task.image() else { return Ok(false) };
        self.add(image).with_context(|| format!("task `{}`", task.id))?;
        Ok(true)
    }
}

impl Selection {
    fn names(&self, environment: &Environment) -> anyhow::Result<Vec<ImageName>> {
        let mut names = Names::default();
        for text in &self.images {
            names.add(text)?;
        }
        for set in &self.tasks {
            let mut without = 0;
            for task in session::load_tasks(set, environment)? {
                without += u64::from(!names.add_task(&task)?);
            }
            if without > 0 {
                printer::say(&format!("`{set}`: rows without an image: {without}"));
            }
        }
        Ok(names.list)
    }
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
