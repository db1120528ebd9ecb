//! The workspace as cargo sees it.
//!
//! Owns reading `cargo metadata`; judges nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program;

/// Packages of the workspace and of everything it depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
    #[serde(rename = "workspace_members")]
    own: BTreeSet<String>,
}

/// One package, of ours or of others.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    id: String,
    manifest_path: PathBuf,
    #[serde(default)]
    metadata: serde_json::Value,
}

/// One line under `[dependencies]` and its kin.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) rename: Option<String>,
    /// `dev`, `build` or nothing.
    pub(crate) kind: Option<String>,
}

impl Workspace {
    /// The packages of this repository, by name.
    pub(crate) fn members(&self) -> Vec<&Package> {
        let mut members: Vec<_> =
            self.packages.iter().filter(|package| self.own.contains(&package.id)).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }
}

impl Package {
    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(root())
    }

    /// Dependencies that are there for their features only, as the manifest says in
    /// `[package.metadata.cargo-shear] ignored = [...]`.
    pub(crate) fn unnamed(&self) -> Vec<&str> {
        let ignored = self.metadata.pointer("/cargo-shear/ignored");
        let names = ignored.and_then(serde_json::Value::as_array);
        names.into_iter().flatten().filter_map(serde_json::Value::as_str).collect()
    }
}

/// Ask cargo. The lock file must be up to date.
pub(crate) fn read() -> Result<Workspace> {
    let json = program::cargo_output(&["metadata", "--format-version", "1", "--locked"])?;
    serde_json::from_slice(&json).context("cannot read the output of `cargo metadata`")
}

/// The root of the repository: the folder above this package.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}
