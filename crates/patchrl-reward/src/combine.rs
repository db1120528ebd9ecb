//! From an outcome and its parts to a number: the reward modes and their weights.
//!
//! Owns the formulas. A number comes out for everything the policy did and
//! nothing for what we failed to judge; zero is never used for the latter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::outcome::{Outcome, Parts};

/// How far an answer is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    /// Is there a well-formed patch?
    #[serde(rename = "syntax")]
    Syntax,
    /// Does it apply to the repository and change it?
    #[serde(rename = "apply-only")]
    ApplyOnly,
    /// Do the tests pass afterwards?
    #[serde(rename = "tests", alias = "docker")]
    Tests,
}

impl Mode {
    /// The name of this mode in flags and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::ApplyOnly => "apply-only",
            Self::Tests => "tests",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reward mode that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a reward mode; the modes are `syntax`, `apply-only` and `docker` (or `tests`)"
)]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "syntax" => Ok(Self::Syntax),
            "apply-only" | "apply_only" | "apply" => Ok(Self::ApplyOnly),
            "tests" | "docker" => Ok(Self::Tests),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

/// The weights of the three modes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// For a patch that is well formed (`syntax`), or applies and changes the
    /// tree (`apply-only` and `tests`).
    pub apply: f32,
    /// Times the share of `FAIL_TO_PASS` tests that pass.
    pub tests: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { apply: 0.3, tests: 0.7 }
    }
}

impl Weights {
    /// The reward of an outcome, or nothing when the answer was not judged.
    ///
    /// In `tests` mode: `apply * applied + tests * f2p_passed / f2p_total`.
    /// A broken `PASS_TO_PASS` test keeps the outcome from `Resolved` and leaves
    /// the number alone. A time-out counts as applied with no test passed.
    pub fn reward(&self, mode: Mode, outcome: &Outcome, parts: &Parts) -> Option<f32> {
        match outcome {
            Outcome::Lost { .. } => return None,
            Outcome::Cheated { .. } => return Some(0.0),
            _ => {}
        }
        let earned = match mode {
            Mode::Syntax => parts.valid_diff,
            Mode::ApplyOnly | Mode::Tests => parts.applied,
        };
        if !earned {
            return Some(0.0);
        }
        if mode != Mode::Tests || parts.f2p_total == 0 {
            return Some(self.apply);
        }
        let share = parts.f2p_passed as f32 / parts.f2p_total as f32;
        Some(self.apply + self.tests * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(applied: bool, passed: u32, total: u32) -> Parts {
        Parts {
            valid_diff: true,
            applied,
            f2p_passed: passed,
            f2p_total: total,
            ..Parts::default()
        }
    }

    #[test]
    fn rewards_are_the_mission_s_numbers() {
        let w = Weights::default();
        let reward = |mode, outcome: &Outcome, parts: &Parts| w.reward(mode, outcome, parts);
        let malformed = Outcome::Malformed { why: String::new() };
        assert_eq!(reward(Mode::Tests, &malformed, &Parts::default()), Some(0.0));
        assert_eq!(reward(Mode::Tests, &Outcome::Failed, &parts(true, 0, 2)), Some(0.3));
        assert_eq!(reward(Mode::Tests, &Outcome::Failed, &parts(true, 1, 2)), Some(0.65));
        assert_eq!(reward(Mode::Tests, &Outcome::Resolved, &parts(true, 2, 2)), Some(1.0));
        assert_eq!(reward(Mode::Tests, &Outcome::TimedOut, &parts(true, 0, 2)), Some(0.3));
        assert_eq!(reward(Mode::Syntax, &Outcome::WellFormed, &parts(false, 0, 0)), Some(0.3));
        assert_eq!(reward(Mode::ApplyOnly, &Outcome::Applied, &parts(true, 0, 0)), Some(0.3));
        assert_eq!(reward(Mode::ApplyOnly, &Outcome::Unchanged, &parts(false, 0, 0)), Some(0.0));
    }

    #[test]
    fn what_was_not_judged_has_no_number() {
        let lost = Outcome::Lost { why: "no space left".into() };
        assert_eq!(Weights::default().reward(Mode::Tests, &lost, &parts(true, 0, 2)), None);
    }

    #[test]
    fn both_names_of_the_test_mode_are_read() {
        assert_eq!("docker".parse(), Ok(Mode::Tests));
        assert_eq!("apply-only".parse(), Ok(Mode::ApplyOnly));
        assert!("dokcer".parse::<Mode>().unwrap_err().to_string().contains("`dokcer`"));
    }
}
