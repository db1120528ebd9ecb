//! `reward.guard:` in a configuration: what is done about a patch that touches what
//! judges it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::preset::Mode;

/// `guard:` as written. Paths that the task's known answer touches are always allowed,
/// the task's own tests never.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardConfig {
    /// Patches that change files which steer or hold tests.
    pub files: FilePolicy,
    /// Patches whose code reaches for the test run.
    pub code: CodePolicy,
    /// Other policies for single presets, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub presets: BTreeMap<Mode, PresetGuard>,
}

/// What one preset does differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PresetGuard {
    /// In place of `guard.files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilePolicy>,
    /// In place of `guard.code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<CodePolicy>,
}

/// What is done about protected files in a patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePolicy {
    /// Put them back before grading and judge the rest. A patch of nothing else is a cheat.
    #[default]
    Neutralise,
    /// Any such file makes the answer a cheat.
    Refuse,
}

/// What is done about code that reaches for the test run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodePolicy {
    /// The answer is a cheat.
    #[default]
    Refuse,
    /// Say so in the evidence and judge the answer.
    Record,
}

impl GuardConfig {
    pub(crate) fn files(&self, mode: Mode) -> FilePolicy {
        self.presets.get(&mode).and_then(|p| p.files).unwrap_or(self.files)
    }

    pub(crate) fn code(&self, mode: Mode) -> CodePolicy {
        self.presets.get(&mode).and_then(|p| p.code).unwrap_or(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_may_be_stricter_than_the_rest() {
        let config: GuardConfig =
            serde_json::from_str(r#"{"presets":{"resolved":{"files":"refuse"}}}"#).unwrap();
        assert_eq!(config.files(Mode::Resolved), FilePolicy::Refuse);
        assert_eq!(config.code(Mode::Resolved), CodePolicy::Refuse);
        assert_eq!(config.files(Mode::Tests), FilePolicy::Neutralise);
    }
}
