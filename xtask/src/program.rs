//! Programs that a check needs: cargo and its plugins.
//!
//! Owns starting them from the root of the repository, with their output shown.
#![expect(clippy::disallowed_methods, reason = "xtask is no room; its programs are developers'")]

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::root;

/// Run `cargo` with its output shown; true if it succeeded.
pub(crate) fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<bool> {
    println!("$ cargo {}", args.join(" "));
    run("cargo", args, env)
}

/// Run a program with its output shown; true if it succeeded.
pub(crate) fn run(program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<bool> {
    let status = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start `{program}`"))?;
    Ok(status.success())
}

/// What `cargo` prints on stdout.
pub(crate) fn cargo_output(args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new("cargo")
        .args(args)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start `cargo`")?;
    if !output.status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(output.stdout)
}

/// Whether `cargo NAME` is there.
pub(crate) fn has_cargo(name: &str) -> bool {
    Command::new("cargo")
        .args([name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
