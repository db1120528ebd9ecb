//! Who may depend on whom, and who owns what.
//!
//! The two tables here are those of DESIGN.md; a crate depends only on strictly
//! lower ranks, and what has one owner is used by nobody else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;

use crate::sources;
use crate::workspace::{Package, Workspace};

/// Rank of each room, lowest first.
const RANKS: &[(&str, u8)] = &[
    ("patchrl-patch", 0),
    ("patchrl-hub", 0),
    ("patchrl-task", 1),
    ("patchrl-sandbox", 1),
    ("patchrl-model", 1),
    ("patchrl-reward", 2),
    ("patchrl-agent", 2),
    ("patchrl-telemetry", 2),
    ("patchrl-rollout", 3),
    ("patchrl-train", 4),
    ("patchrl-eval", 4),
    ("patchrl-server", 4),
    ("patchrl-cli", 5),
];

/// Packages outside the ranks: they ship nowhere, and rooms use them in tests only.
const OUTSIDE: &[&str] = &["patchrl-testkit", "xtask"];

/// Crates of others that few rooms own. HTTP has two users with nothing in common: files that are
/// fetched once, and a server that is asked all the time.
const DEPENDENCY_OWNERS: &[(&str, &[&str])] = &[
    ("ureq", &["patchrl-hub", "patchrl-rollout"]),
    ("gemm", &["patchrl-model"]),
    ("tokenizers", &["patchrl-model"]),
    ("safetensors", &["patchrl-model"]),
    ("clap", &["patchrl-cli"]),
    ("indicatif", &["patchrl-cli"]),
    ("landlock", &["patchrl-sandbox"]),
    ("seccompiler", &["patchrl-sandbox"]),
    ("nix", &["patchrl-sandbox"]),
    ("bollard", &["patchrl-sandbox"]),
    ("crc32c", &["patchrl-telemetry"]),
];

/// Words in sources that some rooms own.
const WORD_OWNERS: &[(&str, &[&str])] = &[
    ("process::Command", &["patchrl-sandbox"]),
    ("SystemTime::now", &["patchrl-telemetry"]),
    ("env::var", &["patchrl-cli"]),
    ("env::var_os", &["patchrl-cli"]),
    ("env::vars", &["patchrl-cli"]),
    ("unsafe {", &["patchrl-sandbox", "patchrl-model"]),
    ("unsafe fn", &["patchrl-sandbox", "patchrl-model"]),
    ("unsafe impl", &["patchrl-sandbox", "patchrl-model"]),
];

/// All that is wrong, one line each.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for package in workspace.members() {
        if OUTSIDE.contains(&package.name.as_str()) {
            continue;
        }
        directions(package, &mut wrong);
        words(package, &mut wrong)?;
    }
    Ok(wrong)
}

/// The rooms by rank, and what each one depends on.
pub(crate) fn graph(workspace: &Workspace) -> String {
    let mut by_rank: BTreeMap<u8, Vec<&Package>> = BTreeMap::new();
    for package in workspace.members() {
        if let Some(rank) = rank(&package.name) {
            by_rank.entry(rank).or_default().push(package);
        }
    }
    let mut out = String::new();
    for (level, packages) in by_rank.iter().rev() {
        for (at, package) in packages.iter().enumerate() {
            let mut below: Vec<_> = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind.is_none() && rank_of(dependency).is_some())
                .map(|dependency| short(&dependency.name))
                .collect();
            below.sort_by_key(|name| (std::cmp::Reverse(rank(&format!("patchrl-{name}"))), *name));
            let level = if at == 0 { level.to_string() } else { String::new() };
            let arrow = if below.is_empty() { "" } else { "──► " };
            let line =
                format!("{level:>2}  {:<10}{arrow}{}", short(&package.name), below.join(" "));
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

fn directions(package: &Package, wrong: &mut Vec<String>) {
    let name = &package.name;
    let Some(own) = rank(name) else {
        wrong.push(format!("`{name}` has no rank: add it to DESIGN.md and to xtask/src/layers.rs"));
        return;
    };
    for dependency in &package.dependencies {
        let other = &dependency.name;
        if let Some(rank) = rank_of(dependency)
            && rank >= own
        {
            wrong.push(format!("`{name}` (rank {own}) depends on `{other}` (rank {rank})"));
        }
        if OUTSIDE.contains(&other.as_str()) && dependency.kind.as_deref() != Some("dev") {
            wrong.push(format!("`{name}` depends on `{other}`, which is for tests only"));
        }
        if let Some((_, owners)) = DEPENDENCY_OWNERS.iter().find(|(owned, _)| owned == other)
            && !owners.contains(&name.as_str())
            && dependency.kind.is_none()
        {
            let owners = owners.join("` and `");
            wrong.push(format!("`{name}` depends on `{other}`, which belongs to `{owners}`"));
        }
    }
}

/// Tests under `tests/` may start the binary and read the environment.
fn words(package: &Package, wrong: &mut Vec<String>) -> Result<()> {
    for file in sources::rust_files(&package.folder().join("src"))? {
        let text = fs_err::read_to_string(&file)?;
        for (number, line) in sources::code(&text) {
            for (word, owners) in WORD_OWNERS {
                if uses(line, word) && !owners.contains(&package.name.as_str()) {
                    let path = file.strip_prefix(package.folder()).unwrap_or(&file);
                    wrong.push(format!(
                        "{}/{}:{number} uses `{word}`, which belongs to {}",
                        package.name,
                        path.display(),
                        owners.join(" and ")
                    ));
                }
            }
        }
    }
    Ok(())
}

/// `a::B` also as `a::{.., B}`, on one line.
fn uses(line: &str, word: &str) -> bool {
    let listed = |(module, item): (&str, &str)| {
        let list = line.split_once(&format!("{module}::{{")).map_or("", |(_, list)| list);
        sources::names(list, item)
    };
    sources::names(line, word) || word.rsplit_once("::").is_some_and(listed)
}

fn rank(name: &str) -> Option<u8> {
    RANKS.iter().find(|(room, _)| *room == name).map(|(_, rank)| *rank)
}

fn rank_of(dependency: &crate::workspace::Dependency) -> Option<u8> {
    rank(&dependency.name)
}

fn short(name: &str) -> &str {
    name.strip_prefix("patchrl-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{directions, uses};
    use crate::workspace::Package;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies: Vec<_> = dependencies
            .iter()
            .map(|(name, kind)| serde_json::json!({"name": name, "rename": null, "kind": kind}))
            .collect();
        serde_json::from_value(serde_json::json!({
            "name": name, "version": "0.1.0", "license": null, "id": name,
            "manifest_path": "/x/Cargo.toml", "dependencies": dependencies,
        }))
        .unwrap()
    }

    fn wrong(name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        let mut wrong = Vec::new();
        directions(&package(name, dependencies), &mut wrong);
        wrong
    }

    #[test]
    fn rooms_look_down_only() {
        assert!(wrong("patchrl-reward", &[("patchrl-task", None), ("serde", None)]).is_empty());
        for bad in ["patchrl-agent", "patchrl-reward", "patchrl-cli"] {
            assert_eq!(wrong("patchrl-reward", &[(bad, None)]).len(), 1, "{bad}");
        }
        assert_eq!(wrong("patchrl-reward", &[("patchrl-cli", Some("dev"))]).len(), 1);
    }

    #[test]
    fn what_has_an_owner_stays_there() {
        assert!(wrong("patchrl-model", &[("gemm", None)]).is_empty());
        assert_eq!(wrong("patchrl-train", &[("gemm", None)]).len(), 1);
        assert!(wrong("patchrl-rollout", &[("ureq", None)]).is_empty());
        assert_eq!(wrong("patchrl-train", &[("ureq", None)]).len(), 1);
        assert_eq!(wrong("patchrl-eval", &[("patchrl-testkit", None)]).len(), 1);
        assert!(wrong("patchrl-eval", &[("patchrl-testkit", Some("dev"))]).is_empty());
    }

    #[test]
    fn an_owned_word_is_seen_in_a_list_too() {
        for line in ["std::process::Command::new(x)", "use std::process::{Child, Command};"] {
            assert!(uses(line, "process::Command"), "{line}");
        }
        assert!(!uses(
            "use clap::Command; let e = std::process::ExitCode::FAILURE;",
            "process::Command"
        ));
        assert!(uses("let x = unsafe { *p };", "unsafe {"));
        assert!(!uses("#[error(\"unsafe path\")] deny(unsafe_code)", "unsafe {"));
    }

    #[test]
    fn a_crate_without_a_rank_is_named() {
        assert!(wrong("patchrl-helpers", &[])[0].contains("patchrl-helpers"));
    }
}
