//! A component measured by a program of the user.
//!
//! The program is trusted; what it reads was written by the policy.

use std::collections::BTreeMap;
use std::time::Duration;

use patchrl_patch::{Changes, Tree};
use patchrl_sandbox::host::{self, Trusted};
use serde_json::{Value, json};

use crate::outcome::{Outcome, Parts};

/// What a program is told.
pub(crate) struct Asked<'a> {
    pub(crate) instance_id: &'a str,
    pub(crate) answer: &'a str,
    pub(crate) patch: &'a str,
    pub(crate) changes: &'a Changes,
    pub(crate) tree: &'a dyn Tree,
    pub(crate) outcome: &'a Outcome,
    pub(crate) parts: &'a Parts,
}

/// The number that a program prints, or why there is none.
pub(crate) fn ask(argv: &[String], deadline: Duration, asked: &Asked<'_>) -> Result<f64, String> {
    let line = argv.join(" ");
    let lost = |why: String| format!("the component's command `{line}`: {why}");
    let question = asked.question().map_err(|e| lost(format!("cannot read the base tree: {e}")))?;
    let command = Trusted::new(argv).stdin(question.to_string()).deadline(deadline);
    let said = host::run(&command).map_err(|e| lost(e.to_string()))?;
    if said.code != Some(0) {
        let ended = said.code.map_or("killed by a signal".to_owned(), |c| format!("exit code {c}"));
        let words = String::from_utf8_lossy(&said.stderr);
        let last = words.lines().last().unwrap_or_default();
        return Err(lost(format!("{ended}: {last}")));
    }
    let text = said.text();
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => {
            let shown: String = text.chars().take(80).collect();
            Err(lost(format!("printed `{shown}`, which is not a finite number")))
        }
    }
}

impl Asked<'_> {
    fn question(&self) -> std::io::Result<Value> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut files = BTreeMap::new();
        for (path, after) in self.changes {
            let before = self.tree.entry(path)?.map(|entry| text(&entry.bytes));
            let after = after.as_ref().map(|entry| text(&entry.bytes));
            files.insert(path, json!({ "before": before, "after": after }));
        }
        Ok(json!({
            "instance_id": self.instance_id,
            "answer": self.answer,
            "patch": self.patch,
            "files": files,
            "outcome": self.outcome,
            "parts": self.parts,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str) -> Result<f64, String> {
        let tree = BTreeMap::new();
        let asked = Asked {
            instance_id: "a__b-1",
            answer: "x",
            patch: "",
            changes: &Changes::new(),
            tree: &tree,
            outcome: &Outcome::Resolved,
            parts: &Parts::default(),
        };
        let argv = ["sh", "-c", script].map(str::to_owned);
        ask(&argv, Duration::from_secs(5), &asked)
    }

    #[test]
    fn a_program_prints_one_number_or_the_answer_is_lost() {
        assert_eq!(said("grep -c a__b-1"), Ok(1.0));
        for (script, word) in [
            ("echo 3 4", "printed `3 4`"),
            ("echo nan", "printed `nan`"),
            ("echo no >&2; exit 4", "exit code 4: no"),
            ("", "printed ``"),
        ] {
            let why = said(script).unwrap_err();
            assert!(why.contains(word) && why.contains("sh -c"), "{why}");
        }
    }
}
