//! Licences and duplicates of what we depend on, against `deny.toml`.
//!
//! Reads the same list as cargo-deny, so that the rule holds where that tool is
//! not installed. Knows no advisories: those need cargo-deny and a network.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use crate::spdx;
use crate::workspace::{Workspace, root};

/// All that is wrong, one line each. Duplicates are told, not refused.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let deny = fs_err::read_to_string(root().join("deny.toml"))?;
    let allowed = allowed(&deny);
    if allowed.is_empty() {
        bail!("`deny.toml` has no list `allow = [...]` of licences");
    }
    let good = |id: &str| allowed.contains(id);
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &workspace.packages {
        let licence = package.license.as_deref().unwrap_or_default();
        if !spdx::satisfied(licence, &good) {
            let (name, version) = (&package.name, &package.version);
            wrong.push(format!("`{name}` {version} has the licence `{licence}`"));
        }
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let twice: Vec<_> = versions
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| {
            format!("{name} ({})", versions.iter().copied().collect::<Vec<_>>().join(", "))
        })
        .collect();
    println!("{} packages, {} in more than one version", versions.len(), twice.len());
    for line in twice {
        println!("  {line}");
    }
    Ok(wrong)
}

/// The strings of `allow = [...]` under `[licenses]`, one or more a line.
fn allowed(deny: &str) -> BTreeSet<String> {
    let licences = deny.split_once("[licenses]").map_or("", |(_, rest)| rest);
    let list = licences.split_once("allow = [").map_or("", |(_, rest)| rest);
    list.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .flat_map(|line| line.split_inclusive(']'))
        .take_while(|part| !part.trim_start().starts_with(']'))
        .flat_map(|part| part.split('"').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn the_list_is_read_and_nothing_after_it() {
        let deny = "[bans]\nallow = [\"x\"]\n[licenses]\nconfidence-threshold = 0.9\nallow = [\n  \
                    \"MIT\", # \"GPL\"\n  \"ISC\", \"Apache-2.0 WITH LLVM-exception\",\n]\n\
                    exceptions = [\"no\"]\n";
        let read: Vec<_> = allowed(deny).into_iter().collect();
        assert_eq!(read, ["Apache-2.0 WITH LLVM-exception", "ISC", "MIT"]);
        assert!(allowed("[licenses]\n").is_empty());
    }
}
