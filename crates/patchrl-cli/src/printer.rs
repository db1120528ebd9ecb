//! The only place that writes to the terminal: data on stdout, words on stderr.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the printer")]

use std::io::{BufWriter, IsTerminal as _, Write};

use serde::Serialize;

/// Whether a report is for people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A table or sentences.
    Text,
    /// One JSON object.
    Json,
}

impl Form {
    /// What `--json` asks for.
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// A report: `text` for people, `value` as JSON for programs, on stdout.
pub(crate) fn report<T: Serialize>(
    form: Form,
    value: &T,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match form {
        Form::Json => println!("{}", serde_json::to_string(value)?),
        Form::Text => println!("{}", text().trim_end()),
    }
    Ok(())
}

/// Data on stdout as it is.
pub(crate) fn data(text: &str) {
    println!("{}", text.trim_end());
}

/// Data on stdout, piece by piece.
pub(crate) fn stream() -> impl Write {
    BufWriter::new(std::io::stdout().lock())
}

/// A line for people on stderr.
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// An error with its causes and the way out.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    eprintln!("error: {error:#}");
    if let Some(hint) = hint {
        eprintln!("hint: {hint}");
    }
}

/// Whether stderr is a terminal, so that bars can be drawn over themselves.
pub(crate) fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}
