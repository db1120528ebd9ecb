//! Which tasks stay, and why the others went.
//!
//! Owns limits that can be checked on the record alone. Whether a task's tests behave is found by
//! running them, elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{Task, TaskId};
use crate::split::Split;

/// What a task must be. The default keeps everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only these ids; empty means all.
    pub ids: BTreeSet<String>,
    /// Only these repositories (`owner/name`); empty means all.
    pub repos: BTreeSet<String>,
    /// Only this side of the split.
    pub split: Option<Split>,
    /// At most so many files touched by the gold patch.
    pub max_files: Option<usize>,
    /// At most so many characters of problem statement.
    pub max_statement_chars: Option<usize>,
    /// Only tasks whose tests can run without a container.
    pub needs_environment: bool,
    /// At most so many tasks, the first ones.
    pub limit: Option<usize>,
}

/// Why a task went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Not among the ids or repositories asked for, or on the other side of the split.
    NotAskedFor,
    /// The gold patch touches too many files.
    TooManyFiles,
    /// The gold patch touches no file that exists: nothing to show and to edit.
    NoOldFile,
    /// The statement is too long.
    StatementTooLong,
    /// No test fails before the gold patch, so that no answer can be told right.
    NoFailToPass,
    /// No description of an environment is known.
    NoEnvironment,
    /// Beyond the limit.
    BeyondLimit,
}

impl Reason {
    /// The word for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAskedFor => "not asked for",
            Self::TooManyFiles => "too many files",
            Self::NoOldFile => "no existing file touched",
            Self::StatementTooLong => "statement too long",
            Self::NoFailToPass => "no test that fails before",
            Self::NoEnvironment => "no known environment",
            Self::BeyondLimit => "beyond the limit",
        }
    }
}

/// What a filter did.
#[derive(Clone, Debug, Default)]
pub struct Filtered {
    /// Tasks that stay, in order.
    pub kept: Vec<Task>,
    /// Tasks that went, with the reason.
    pub dropped: Vec<(TaskId, Reason)>,
}

impl Filtered {
    /// How many went for each reason.
    pub fn counts(&self) -> BTreeMap<Reason, usize> {
        let mut counts = BTreeMap::new();
        for (_, reason) in &self.dropped {
            *counts.entry(*reason).or_default() += 1;
        }
        counts
    }
}

impl Filter {
    /// Divides `tasks` into kept and dropped.
    pub fn apply(&self, tasks: Vec<Task>) -> Filtered {
        let mut filtered = Filtered::default();
        for task in tasks {
            let full = self.limit.is_some_and(|limit| filtered.kept.len() >= limit);
            match self.reason(&task).or(full.then_some(Reason::BeyondLimit)) {
                Some(reason) => filtered.dropped.push((task.id, reason)),
                None => filtered.kept.push(task),
            }
        }
        filtered
    }

    fn reason(&self, task: &Task) -> Option<Reason> {
        let asked = (self.ids.is_empty() || self.ids.contains(task.id.as_str()))
            && (self.repos.is_empty() || self.repos.contains(&task.repo))
            && (self.split.is_none() || self.split == task.split);
        if !asked {
            return Some(Reason::NotAskedFor);
        }
        let files = task.touched_files().len();
        if files == 0 {
            return Some(Reason::NoOldFile);
        }
        if self.max_files.is_some_and(|max| files > max) {
            return Some(Reason::TooManyFiles);
        }
        let chars = task.problem_statement.chars().count();
        if self.max_statement_chars.is_some_and(|max| chars > max) {
            return Some(Reason::StatementTooLong);
        }
        if task.fail_to_pass.is_empty() {
            return Some(Reason::NoFailToPass);
        }
        (self.needs_environment && task.known_environment().is_none())
            .then_some(Reason::NoEnvironment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::task;

    #[test]
    fn every_reason_is_counted() {
        let mut other = task("o__n-2");
        other.repo = "x/y".into();
        let mut long = task("o__n-3");
        long.problem_statement = "x".repeat(50);
        let mut silent = task("o__n-4");
        silent.fail_to_pass.clear();
        let tasks = vec![task("o__n-1"), other, long, silent, task("o__n-5")];
        let filter = Filter {
            repos: ["o/n".to_owned()].into(),
            max_statement_chars: Some(40),
            limit: Some(1),
            ..Filter::default()
        };
        let filtered = filter.apply(tasks);
        assert_eq!(filtered.kept.len(), 1);
        let reasons: Vec<Reason> = filtered.dropped.iter().map(|(_, reason)| *reason).collect();
        assert_eq!(
            reasons,
            [
                Reason::NotAskedFor,
                Reason::StatementTooLong,
                Reason::NoFailToPass,
                Reason::BeyondLimit
            ]
        );
        assert_eq!(filtered.counts()[&Reason::BeyondLimit], 1);
    }
}
