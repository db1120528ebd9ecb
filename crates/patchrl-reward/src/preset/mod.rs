//! The rewards that an answer can be judged by, each under its name.
//!
//! One module a preset, and its text is the preset's page in the reference: formula,
//! range, defaults, source, an example that is run as a test. Owns the choice among them
//! and how far each must look at an answer. Does not measure anything (see the judge).
//!
//! Rules that hold for all: a number comes out for everything the policy did and nothing
//! for what we failed to judge; zero is never used for the latter.

pub mod apply_only;
pub mod resolved;
pub mod rule_based;
pub mod similarity;
pub mod swerl;
pub mod syntax;
pub mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A preset: what the reward of an answer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Is there a well-formed patch? See [`syntax`].
    #[serde(rename = "syntax")]
    Syntax,
    /// Does it apply to the repository and change it? See [`apply_only`].
    #[serde(rename = "apply-only", alias = "apply_only")]
    ApplyOnly,
    /// How many tests pass afterwards? See [`mod@tests`].
    #[serde(rename = "tests", alias = "docker")]
    Tests,
    /// Do all tests pass afterwards? See [`resolved`].
    #[serde(rename = "resolved")]
    Resolved,
    /// Weighted components. See [`rule_based`].
    #[serde(rename = "rule_based", alias = "rule-based")]
    RuleBased,
    /// The reward of the SWE-RL paper. See [`swerl`].
    #[serde(rename = "swerl")]
    Swerl,
    /// Likeness of the patch's text to the known answer's. See [`similarity`].
    #[serde(rename = "similarity")]
    Similarity,
}

impl Mode {
    /// Every preset, in the order of the reference.
    pub const ALL: [Self; 7] = [
        Self::Syntax,
        Self::ApplyOnly,
        Self::Tests,
        Self::Resolved,
        Self::RuleBased,
        Self::Swerl,
        Self::Similarity,
    ];

    /// The name of this preset in flags and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::ApplyOnly => "apply-only",
            Self::Tests => "tests",
            Self::Resolved => "resolved",
            Self::RuleBased => "rule_based",
            Self::Swerl => "swerl",
            Self::Similarity => "similarity",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A preset that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a reward mode; the modes are `syntax`, `apply-only`, `docker` (or `tests`), \
     `resolved`, `rule_based`, `swerl` and `similarity`"
)]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "apply_only" | "apply" => return Ok(Self::ApplyOnly),
            "docker" => return Ok(Self::Tests),
            "rule-based" => return Ok(Self::RuleBased),
            _ => {}
        }
        let named = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        named.ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn every_name_of_a_preset_is_read() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert_eq!("docker".parse(), Ok(Mode::Tests));
        assert_eq!(serde_json::from_str::<Mode>("\"docker\"").unwrap(), Mode::Tests);
        assert!("dokcer".parse::<Mode>().unwrap_err().to_string().contains("`dokcer`"));
    }
}
