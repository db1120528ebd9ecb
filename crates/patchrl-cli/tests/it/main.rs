//! The binary through its front door: exit codes, words, files.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![expect(clippy::disallowed_methods, reason = "the tests start the binary itself")]

mod agents;
mod checkup;
mod errors;
mod eval;
mod jsonl;
mod mission;
mod related;
mod resume;
mod served;
mod sets;
mod stages;
mod tiny {
    //! A model small enough to train here.
    pub(crate) use patchrl_testkit::write_model;
}

use std::path::Path;
use std::process::Command;

/// What a call of the binary gave back.
struct Said {
    code: i32,
    out: String,
    err: String,
}

/// The binary, in `dir`, with a cache of its own there.
fn patchrl(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patchrl"));
    command.current_dir(dir).env("PATCHRL_CACHE", dir.join("cache"));
    command
}

fn finish(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
