//! The steps of `cargo xtask ci`, their order, their times and the summary.
//!
//! A step that fails does not stop the others; a step that cannot run here is
//! skipped and says why.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::workspace::{self, Workspace, root};
use crate::{dependencies, layers, licences, program, reference, rooms};

/// Whether `ci` runs the tests, or whoever called it just did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tests {
    Run,
    Skip,
}

/// How a step ended.
enum Ending {
    Passed,
    Failed,
    Skipped(String),
}

impl From<bool> for Ending {
    fn from(good: bool) -> Self {
        if good { Self::Passed } else { Self::Failed }
    }
}

/// Everything. True if nothing failed.
pub(crate) fn run(tests: Tests) -> bool {
    let mut report = Report::start();
    report.step("fmt", || cargo(&["fmt", "--all", "--check"]));
    // The quick ones first: they tell within a second what a build tells in minutes.
    let workspace = match workspace::read() {
        Ok(workspace) => workspace,
        Err(error) => {
            report.step("metadata", || Err(error));
            return report.end();
        }
    };
    report.step("layers", || judge(layers::check(&workspace)));
    report.step("rooms", || judge(rooms::check(&workspace)));
    report.step("unused", || judge(dependencies::check(&workspace)));
    report.step("licences", || judge(licences::check(&workspace)));
    report.step("reference", || judge(reference::check(&workspace)));
    report.step("deny", deny);
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    report.step("clippy", || cargo(&clippy));
    report.step("docs", docs);
    test_steps(&mut report, tests);
    report.step("configs", || configs(&workspace));
    report.end()
}

/// The tests alone.
pub(crate) fn test() -> bool {
    let mut report = Report::start();
    test_steps(&mut report, Tests::Run);
    report.end()
}

/// One check alone.
pub(crate) fn alone(name: &str, check: fn(&Workspace) -> Result<Vec<String>>) -> Result<bool> {
    let wrong = check(&workspace::read()?)?;
    for line in &wrong {
        println!("{line}");
    }
    println!(
        "{name}: {}",
        if wrong.is_empty() { "ok".into() } else { format!("{} wrong", wrong.len()) }
    );
    Ok(wrong.is_empty())
}

fn test_steps(report: &mut Report, tests: Tests) {
    if tests == Tests::Skip {
        let why = "just run by the caller (--skip-tests)";
        report.step("tests", || Ok(Ending::Skipped(why.into())));
        return;
    }
    // cargo-nextest cannot list test binaries with a `main` of their own, which
    // the sandboxes' need: such a binary is also the inside of a sandbox.
    let args = ["test", "--locked", "--workspace", "--no-fail-fast"];
    report.step("tests", || cargo(&args));
    let double =
        ["test", "--locked", "-p", "patchrl-model", "--features", "double", "--test", "double"];
    report.step("tests in f64", || cargo(&double));
}

fn deny() -> Result<Ending> {
    if !program::has_cargo("deny") {
        let why = "cargo-deny is not installed: no advisories; `licences` reads the same deny.toml";
        return Ok(Ending::Skipped(why.into()));
    }
    // Advisories come over the network, which may not be there: their absence is not our fault.
    let good = cargo(&["deny", "--locked", "check", "licenses", "bans", "sources"])?;
    if !program::cargo(&["deny", "--locked", "check", "advisories"], &[])? {
        println!("advisories: not clean, or not reachable; read the lines above");
    }
    Ok(good)
}

fn docs() -> Result<Ending> {
    let args = ["doc", "--locked", "--workspace", "--no-deps"];
    Ok(program::cargo(&args, &[("RUSTDOCFLAGS", "-D warnings")])?.into())
}

/// Every file under `configs/` loads.
fn configs(workspace: &Workspace) -> Result<Ending> {
    let mut files = Vec::new();
    let folder = root().join("configs");
    if folder.is_dir() {
        for entry in fs_err::read_dir(folder)? {
            files.push(entry?.path());
        }
    }
    files.retain(|file| file.extension().is_some_and(|e| e == "yaml" || e == "yml"));
    files.sort();
    if files.is_empty() {
        return Ok(Ending::Skipped("no files under configs/".into()));
    }
    // The selection the tests were built with, so that nothing is compiled twice.
    if !program::cargo(&["build", "--locked", "--workspace", "--bins", "--tests"], &[])? {
        return Ok(Ending::Failed);
    }
    let binary = workspace.target_directory.join("debug/patchrl").display().to_string();
    let mut good = true;
    for file in files {
        let shown = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        println!("$ patchrl config check {shown}");
        good &= program::run(&binary, &["config", "check", &shown], &[])?;
    }
    Ok(good.into())
}

fn cargo(args: &[&str]) -> Result<Ending> {
    Ok(program::cargo(args, &[])?.into())
}

fn judge(wrong: Result<Vec<String>>) -> Result<Ending> {
    let wrong = wrong?;
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty().into())
}

/// What each step came to.
struct Report {
    began: Instant,
    steps: Vec<(&'static str, Ending, Duration)>,
}

impl Report {
    fn start() -> Self {
        Self { began: Instant::now(), steps: Vec::new() }
    }

    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<Ending>) {
        println!("\n── {name}");
        let began = Instant::now();
        let ending = work().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Ending::Failed
        });
        if let Ending::Skipped(why) = &ending {
            println!("skipped: {name}: {why}");
        }
        self.steps.push((name, ending, began.elapsed()));
    }

    /// Print the summary. True if nothing failed.
    fn end(&self) -> bool {
        println!("\n── summary");
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (name, ending, time) in &self.steps {
            let seconds = time.as_secs_f64();
            match ending {
                Ending::Passed => {
                    passed += 1;
                    println!("passed   {name:<10} {seconds:>7.1} s");
                }
                Ending::Failed => {
                    failed += 1;
                    println!("FAILED   {name:<10} {seconds:>7.1} s");
                }
                Ending::Skipped(why) => {
                    skipped += 1;
                    println!("skipped  {name:<10} {why}");
                }
            }
        }
        let seconds = self.began.elapsed().as_secs_f64();
        println!("{passed} passed, {failed} failed, {skipped} skipped in {seconds:.1} s");
        failed == 0
    }
}
