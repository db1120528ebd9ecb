//! Dependencies that no source names.
//!
//! A crate that is there for its features only is listed in its package's
//! `[package.metadata.cargo-shear] ignored`.

use anyhow::Result;

use crate::sources;
use crate::workspace::{Package, Workspace, root};

/// All that is wrong, one line each.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let members = workspace.members();
    for package in &members {
        unnamed(package, &mut wrong)?;
    }
    let manifest = fs_err::read_to_string(root().join("Cargo.toml"))?;
    for name in shared(&manifest) {
        let used = |package: &&Package| package.dependencies.iter().any(|d| d.name == name);
        if !members.iter().any(used) {
            wrong.push(format!("Cargo.toml shares `{name}`, which no crate depends on"));
        }
    }
    Ok(wrong)
}

fn unnamed(package: &Package, wrong: &mut Vec<String>) -> Result<()> {
    let mut text = String::new();
    for file in sources::rust_files(package.folder())? {
        text.push_str(&fs_err::read_to_string(file)?);
    }
    let spared = package.unnamed();
    for dependency in &package.dependencies {
        let name = dependency.rename.as_ref().unwrap_or(&dependency.name);
        let word = name.replace('-', "_");
        let named = sources::code(&text).any(|(_, line)| sources::names(line, &word));
        if !named && !spared.contains(&name.as_str()) {
            wrong.push(format!("`{}` depends on `{name}`, which no source names", package.name));
        }
    }
    Ok(())
}

/// Names under `[workspace.dependencies]`.
fn shared(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn shared_names_are_read_from_their_table_only() {
        let manifest = "[workspace]\nresolver = \"3\"\n[workspace.dependencies]\n# a = 1\n\
                        serde = { version = \"1\" }\nfs-err = \"3\"\n\n[profile.dev]\nx = 1\n";
        assert_eq!(shared(manifest), ["serde", "fs-err"]);
    }
}
