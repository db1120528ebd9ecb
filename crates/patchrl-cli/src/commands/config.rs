//! `patchrl config`: check a file, or print every key with its default.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::pipeline;
use crate::exit::Exit;
use crate::printer::{self, Form};
use crate::settings::Settings;

/// `patchrl config ...`
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Read configurations and say what is wrong with them.
    Check(Check),
    /// Print a configuration as resolved; without a file, the defaults.
    Show(Show),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The files to check.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The file to resolve.
    file: Option<PathBuf>,
    /// Print JSON instead of YAML.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Config) -> anyhow::Result<Exit> {
    match command {
        Config::Check(check) => {
            for file in &check.files {
                check_file(file)?;
            }
            let n = check.files.len();
            printer::report(Form::of(check.json), &json!({ "valid": n }), || format!("{n} valid"))?;
        }
        Config::Show(show) => {
            let settings = match &show.file {
                Some(file) => Settings::load(file)?,
                None => Settings::default(),
            };
            let yaml = serde_norway::to_string(&settings)?;
            printer::report(Form::of(show.json), &settings, || yaml)?;
        }
    }
    Ok(Exit::Success)
}

/// A configuration, or a file of stages with one for each.
fn check_file(file: &Path) -> anyhow::Result<()> {
    if fs_err::read_to_string(file).is_ok_and(|text| pipeline::is_pipeline(&text)) {
        pipeline::load(file)?;
    } else {
        Settings::load(file)?;
    }
    Ok(())
}
