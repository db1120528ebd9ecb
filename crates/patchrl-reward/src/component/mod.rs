//! The components of `rule_based`: what each measures.
//!
//! Owns `components:` in a configuration and the values that need no sandbox: size, style,
//! form, and programs of the user. Tests and byte-compiling are the judge's to run.
//! Ranges and formulas are on the page of `preset::rule_based`.

mod command;
mod size;
mod style;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::command::{Asked, ask};
pub(crate) use self::size::size_penalty;
pub(crate) use self::style::{Added, added, style};
use crate::config::RewardFault;
use crate::outcome::Parts;

/// One entry of `components:` as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentConfig {
    /// Its name in reports.
    pub name: String,
    /// Factor of its value.
    pub weight: f64,
    /// What measures it.
    #[serde(default, rename = "fn", skip_serializing_if = "Option::is_none")]
    pub function: Option<Function>,
    /// A program that reads a JSON object and prints a number, in place of `fn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Seconds that the command may take.
    #[serde(default = "minute", skip_serializing_if = "is_minute")]
    pub timeout: u64,
    /// Count the value minus 1: success is 0, failure costs the weight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub penalty: bool,
}

fn minute() -> u64 {
    60
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_minute(seconds: &u64) -> bool {
    *seconds == minute()
}

/// What this crate can measure by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Share of the required tests that pass.
    #[serde(alias = "tests")]
    RunPytest,
    /// Do the touched Python files compile?
    #[serde(alias = "compile")]
    TypeCheck,
    /// How much larger than the oracle's is the patch?
    DiffSizePenalty,
    /// Do the added lines keep to the file's form?
    StyleCheck,
    /// Is the answer in the form the prompt asked for, and nothing else?
    FormatCheck,
}

/// A component as the judge uses it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) name: String,
    pub(crate) weight: f64,
    pub(crate) source: Source,
    penalty: bool,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Function(Function),
    Command { argv: Vec<String>, deadline: Duration },
}

/// The components of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule(pub(crate) Vec<Term>);

impl Default for Rule {
    fn default() -> Self {
        let term = |name: &str, weight, function| Term {
            name: name.to_owned(),
            weight,
            source: Source::Function(function),
            penalty: false,
        };
        Self(vec![
            term("tests_pass", 1.0, Function::RunPytest),
            term("compile_pass", 0.5, Function::TypeCheck),
            term("minimal_diff", 0.1, Function::DiffSizePenalty),
        ])
    }
}

impl Rule {
    pub(crate) fn resolve(written: &[ComponentConfig]) -> Result<Self, RewardFault> {
        if written.is_empty() {
            return Err(RewardFault::NoComponents);
        }
        let mut names = BTreeSet::new();
        let mut terms = Vec::with_capacity(written.len());
        for component in written {
            if !names.insert(&component.name) {
                return Err(RewardFault::Twice(component.name.clone()));
            }
            terms.push(Term::resolve(component)?);
        }
        Ok(Self(terms))
    }

    /// Does a component need this?
    pub(crate) fn needs(&self, function: Function) -> bool {
        self.0.iter().any(|term| term.source == Source::Function(function))
    }

    /// The sum if every component has its worst value. A command's is not known and
    /// counts as 0.
    pub(crate) fn lowest(&self) -> f64 {
        self.0.iter().map(Term::lowest).sum()
    }
}

impl Term {
    fn resolve(written: &ComponentConfig) -> Result<Self, RewardFault> {
        let name = written.name.clone();
        if !written.weight.is_finite() {
            let key = format!("components.{name}.weight");
            return Err(RewardFault::NotFinite { key, value: written.weight });
        }
        if written.timeout == 0 {
            return Err(RewardFault::Timeout { name, seconds: 0 });
        }
        let source = match (&written.function, &written.command) {
            (Some(function), None) => Source::Function(*function),
            (None, Some(argv)) if argv.iter().all(String::is_empty) => {
                return Err(RewardFault::NoProgram(name));
            }
            (None, Some(argv)) => Source::Command {
                argv: argv.clone(),
                deadline: Duration::from_secs(written.timeout),
            },
            _ => return Err(RewardFault::Source(name)),
        };
        Ok(Self { name, weight: written.weight, source, penalty: written.penalty })
    }

    /// The value that enters the sum.
    pub(crate) fn counted(&self, measured: f64) -> f64 {
        if self.penalty { measured - 1.0 } else { measured }
    }

    fn lowest(&self) -> f64 {
        let (low, high) = match self.source {
            Source::Function(Function::DiffSizePenalty) => (-1.0, 0.0),
            Source::Function(_) => (0.0, 1.0),
            Source::Command { .. } => return 0.0,
        };
        let (low, high) = (self.weight * self.counted(low), self.weight * self.counted(high));
        low.min(high)
    }
}

/// `run_pytest`: the share of required tests that pass, less the share that broke.
pub(crate) fn tests(parts: &Parts) -> f64 {
    (parts.f2p_share() - parts.p2p_broken()).max(0.0)
}

/// The form that a prompt asks an answer to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// SEARCH/REPLACE blocks under `### path`.
    #[default]
    Edit,
    /// A unified diff in a fence.
    Diff,
}

/// `format_check`: the form asked for, from the first character to the last.
pub(crate) fn is_form(answer: &str, form: Form) -> bool {
    let answer = answer.trim();
    match form {
        Form::Diff => answer
            .strip_prefix("```diff\n")
            .and_then(|rest| rest.strip_suffix("\n```"))
            .is_some_and(|diff| !diff.contains("\n```")),
        Form::Edit => {
            let mut inside = false;
            let mut lines = answer.lines();
            let mut blocks = 0;
            while let Some(line) = lines.next() {
                match (inside, line) {
                    (true, ">>>>>>> REPLACE") => inside = false,
                    (true, _) | (false, "") => {}
                    (false, line) if line.starts_with("### ") => {
                        if lines.next() != Some("<<<<<<< SEARCH") {
                            return false;
                        }
                        inside = true;
                        blocks += 1;
                    }
                    (false, _) => return false,
                }
            }
            !inside && blocks > 0
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod unit {
    use super::*;

    fn component(json: &str) -> Result<Term, RewardFault> {
        Term::resolve(&serde_json::from_str::<ComponentConfig>(json).unwrap())
    }

    #[test]
    fn a_penalty_costs_its_weight_on_failure_and_nothing_on_success() {
        let term = r#"{"name":"c","weight":0.5,"fn":"compile","penalty":true}"#;
        let term = component(term).unwrap();
        assert_eq!((term.counted(0.0), term.counted(1.0)), (-1.0, 0.0));
        assert_eq!(Rule(vec![term]).lowest(), -0.5);
        assert_eq!(Rule::default().lowest(), -0.1);
    }

    #[test]
    fn a_component_has_one_source() {
        let none = component(r#"{"name":"c","weight":1}"#).unwrap_err();
        assert_eq!(none, RewardFault::Source("c".into()));
        let empty = component(r#"{"name":"c","weight":1,"command":[]}"#).unwrap_err();
        assert_eq!(empty, RewardFault::NoProgram("c".into()));
        let same: ComponentConfig =
            serde_json::from_str(r#"{"name":"c","weight":1,"fn":"tests"}"#).unwrap();
        assert_eq!(Rule::resolve(&[same.clone(), same]), Err(RewardFault::Twice("c".into())));
    }

    #[test]
    fn only_the_form_itself_is_the_form() {
        let block = "### a.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n";
        assert!(is_form(&format!("{block}\n{block}"), Form::Edit));
        for other in [format!("Sure:\n{block}"), format!("{block}Done."), block[..30].into()] {
            assert!(!is_form(&other, Form::Edit), "{other}");
        }
        assert!(is_form("```diff\n--- a/x\n+++ b/x\n```\n", Form::Diff));
        for other in ["--- a/x", "```diff\na\n```\n```diff\nb\n```", "x\n```diff\na\n```", ""] {
            assert!(!is_form(other, Form::Diff), "{other}");
        }
    }
}
