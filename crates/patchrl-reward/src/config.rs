//! `reward:` in a configuration: as written, and as resolved.
//!
//! Owns the section's keys, defaults and checks, and the one door from an outcome to a
//! number, [`Reward::of`]. The formulas are in `preset`, one file each.

use serde::{Deserialize, Serialize};

use crate::component::{ComponentConfig, Rule};
use crate::guard::GuardConfig;
use crate::outcome::{Component, Outcome, Parts};
use crate::preset::{self, Mode};

/// `reward:` as written by the user. Every key has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardConfig {
    /// The preset of a run that names no other; a curriculum names its own.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub preset: Option<Mode>,
    /// For a patch that is well formed (`syntax`), or applies and changes the
    /// tree (`apply-only` and `tests`).
    pub apply: f64,
    /// Times the share of `FAIL_TO_PASS` tests that pass (`tests`).
    pub tests: f64,
    /// Times the share of `PASS_TO_PASS` tests that broke, taken off (`tests`, `resolved`).
    pub regression_penalty: f64,
    /// For an answer without a patch (in `rule_based` also for one that does not apply):
    /// 0 if not given, in `rule_based` the lowest possible sum if that is below 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<f64>,
    /// For an answer that breaks the format (`swerl`, `similarity`).
    pub format_penalty: f64,
    /// difflib's treatment of popular characters (`similarity`; Python's default is true).
    pub autojunk: bool,
    /// What `rule_based` adds up. Not given: tests, compiles and size of the diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<ComponentConfig>>,
    /// What is done about patches that touch what judges them.
    pub guard: GuardConfig,
}

impl Default for RewardConfig {
    fn default() -> Self {
        Self {
            preset: None,
            apply: 0.3,
            tests: 0.7,
            regression_penalty: 0.0,
            malformed: None,
            format_penalty: crate::swerl::FORMAT_PENALTY,
            autojunk: true,
            components: None,
            guard: GuardConfig::default(),
        }
    }
}

/// A `reward:` section that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RewardFault {
    /// Not a number to compute with.
    #[error("`reward.{key}` is {value}, but it must be a finite number")]
    NotFinite {
        /// The key.
        key: String,
        /// What was written.
        value: f64,
    },
    /// A number of the wrong sign.
    #[error("`reward.regression_penalty` is {0}, but it must be 0 or more: it is taken off")]
    NegativePenalty(f64),
    /// A sum of nothing.
    #[error("`reward.components` is empty, so every patch would earn 0")]
    NoComponents,
    /// Two components of one name.
    #[error("`reward.components` names `{0}` twice")]
    Twice(String),
    /// Neither or both of the two sources of a value.
    #[error("the component `{0}` needs either `fn` or `command`, and one of them only")]
    Source(String),
    /// A command without a program.
    #[error("the component `{0}` has an empty `command`")]
    NoProgram(String),
    /// A key that has no meaning beside `fn`.
    #[error("the component `{name}` has a `timeout` of {seconds} s; it must be above 0")]
    Timeout {
        /// The component.
        name: String,
        /// What was written.
        seconds: u64,
    },
}

impl RewardConfig {
    /// Check what serde cannot, and return the form the judge uses.
    pub fn resolve(&self) -> Result<Reward, RewardFault> {
        for (key, value) in [
            ("apply", self.apply),
            ("tests", self.tests),
            ("regression_penalty", self.regression_penalty),
            ("malformed", self.malformed.unwrap_or(0.0)),
            ("format_penalty", self.format_penalty),
        ] {
            if !value.is_finite() {
                return Err(RewardFault::NotFinite { key: key.to_owned(), value });
            }
        }
        if self.regression_penalty < 0.0 {
            return Err(RewardFault::NegativePenalty(self.regression_penalty));
        }
        let rule = match &self.components {
            Some(components) => Rule::resolve(components)?,
            None => Rule::default(),
        };
        Ok(Reward {
            apply: self.apply,
            tests: self.tests,
            regression_penalty: self.regression_penalty,
            malformed: self.malformed.unwrap_or(0.0),
            rule_malformed: self.malformed.unwrap_or_else(|| rule.lowest().min(0.0)),
            format_penalty: self.format_penalty,
            autojunk: self.autojunk,
            rule,
            guard: self.guard.clone(),
        })
    }
}

/// `reward:` as the judge uses it: every number is finite, every component has a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    pub(crate) apply: f64,
    pub(crate) tests: f64,
    pub(crate) regression_penalty: f64,
    pub(crate) malformed: f64,
    pub(crate) rule_malformed: f64,
    pub(crate) format_penalty: f64,
    pub(crate) autojunk: bool,
    pub(crate) rule: Rule,
    pub(crate) guard: GuardConfig,
}

impl Default for Reward {
    fn default() -> Self {
        RewardConfig::default().resolve().expect("the defaults are checked by a test")
    }
}

impl Reward {
    /// The reward of an outcome, or nothing when the answer was not judged.
    ///
    /// `components` holds the values of `rule_based`'s components, and for `swerl` and
    /// `similarity` the likeness as the only one.
    pub fn of(
        &self,
        mode: Mode,
        outcome: &Outcome,
        parts: &Parts,
        components: &[Component],
    ) -> Option<f64> {
        if matches!(outcome, Outcome::Lost { .. }) {
            return None;
        }
        if matches!(outcome, Outcome::Cheated { .. }) {
            return Some(match mode {
                Mode::RuleBased => self.rule_malformed.min(0.0),
                _ => self.malformed.min(0.0),
            });
        }
        Some(match mode {
            Mode::Syntax => preset::syntax::value(self, parts),
            Mode::ApplyOnly => preset::apply_only::value(self, outcome, parts),
            Mode::Tests => preset::tests::value(self, outcome, parts),
            Mode::Resolved => preset::resolved::value(self, outcome, parts),
            Mode::RuleBased => preset::rule_based::value(self, parts, components),
            Mode::Swerl | Mode::Similarity => {
                components.first().map_or(self.format_penalty, |likeness| likeness.value)
            }
        })
    }

    /// What an answer earns whose patch does not apply or was not there.
    pub(crate) fn without_patch(&self, outcome: &Outcome) -> f64 {
        match outcome {
            Outcome::Malformed { .. } | Outcome::Truncated => self.malformed,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
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
        let reward = Reward::default();
        let of = |mode, outcome: &Outcome, parts: &Parts| {
            reward.of(mode, outcome, parts, &[]).unwrap() as f32
        };
        let malformed = Outcome::Malformed { why: String::new() };
        assert_eq!(of(Mode::Tests, &malformed, &Parts::default()), 0.0);
        assert_eq!(of(Mode::Tests, &Outcome::Failed, &parts(true, 0, 2)), 0.3);
        assert_eq!(of(Mode::Tests, &Outcome::Failed, &parts(true, 1, 2)), 0.65);
        assert_eq!(of(Mode::Tests, &Outcome::Resolved, &parts(true, 2, 2)), 1.0);
        assert_eq!(of(Mode::Tests, &Outcome::TimedOut, &parts(true, 0, 2)), 0.3);
        assert_eq!(of(Mode::Syntax, &Outcome::WellFormed, &parts(false, 0, 0)), 0.3);
        assert_eq!(of(Mode::ApplyOnly, &Outcome::Applied, &parts(true, 0, 0)), 0.3);
        assert_eq!(of(Mode::ApplyOnly, &Outcome::Unchanged, &parts(false, 0, 0)), 0.0);
    }

    #[test]
    fn what_was_not_judged_has_no_number() {
        let lost = Outcome::Lost { why: "no space left".into() };
        for mode in Mode::ALL {
            assert_eq!(Reward::default().of(mode, &lost, &parts(true, 0, 2), &[]), None);
        }
    }

    #[test]
    fn a_cheat_never_earns_more_than_no_patch() {
        let cheated = Outcome::Cheated { why: String::new() };
        let config = RewardConfig { malformed: Some(-1.0), ..RewardConfig::default() };
        for mode in Mode::ALL {
            let of = |reward: &Reward| reward.of(mode, &cheated, &parts(true, 2, 2), &[]).unwrap();
            assert_eq!(of(&config.resolve().unwrap()), -1.0);
            assert!(of(&Reward::default()) <= 0.0);
        }
    }

    #[test]
    fn the_first_form_of_the_section_still_loads() {
        let config: RewardConfig = serde_json::from_str(r#"{"apply":0.2,"tests":0.8}"#).unwrap();
        assert_eq!((config.apply, config.tests), (0.2, 0.8));
        assert!(serde_json::from_str::<RewardConfig>(r#"{"aply":0.2}"#).is_err());
    }

    #[test]
    fn numbers_that_cannot_be_used_are_named() {
        let fault = |config: RewardConfig| config.resolve().unwrap_err().to_string();
        let nan = fault(RewardConfig { tests: f64::NAN, ..RewardConfig::default() });
        assert!(nan.starts_with("`reward.tests` is NaN"), "{nan}");
        let sign = fault(RewardConfig { regression_penalty: -1.0, ..RewardConfig::default() });
        assert!(sign.contains("regression_penalty"), "{sign}");
    }
}
