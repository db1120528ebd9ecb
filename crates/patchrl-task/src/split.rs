//! Train and held-out: which side a task is on.
//!
//! Owns the division by repository, so that nothing about a held-out task was seen in training.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::record::Task;

/// The side of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Trained on.
    Train,
    /// Only measured.
    HeldOut,
}

impl Split {
    /// The word used on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::HeldOut => "held_out",
        }
    }

    /// Reads the word used on disk.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "train" => Some(Self::Train),
            "held_out" => Some(Self::HeldOut),
            _ => None,
        }
    }
}

/// Puts whole repositories on one side each: about `held_out` of them (0 to 1), chosen by `seed`.
/// At least one repository stays on each side where there are two and `held_out` is inside (0, 1).
pub fn by_repository(tasks: &mut [Task], held_out: f64, seed: u64) {
    let repos: BTreeSet<String> = tasks.iter().map(|task| task.repo.clone()).collect();
    let mut order: Vec<String> = repos.into_iter().collect();
    order.sort_by_key(|repo| (seeded(seed, repo), repo.clone()));
    let inside = held_out > 0.0 && held_out < 1.0;
    let mut count = (order.len() as f64 * held_out.clamp(0.0, 1.0)).round() as usize;
    if inside && order.len() > 1 {
        count = count.clamp(1, order.len() - 1);
    }
    let chosen: BTreeSet<&String> = order.iter().take(count).collect();
    for task in tasks {
        let side = if chosen.contains(&task.repo) { Split::HeldOut } else { Split::Train };
        task.split = Some(side);
    }
}

/// The tasks of one side, in order. Tasks on no side belong to none.
pub fn side(tasks: &[Task], split: Split) -> Vec<Task> {
    tasks.iter().filter(|task| task.split == Some(split)).cloned().collect()
}

/// FNV-1a over seed and text, then mixed: stable across platforms and releases.
pub(crate) fn seeded(seed: u64, text: &str) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in seed.to_le_bytes().into_iter().chain(text.bytes()) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state ^= state >> 32;
    state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^ (state >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::task;

    #[test]
    fn repositories_are_never_divided() {
        let mut tasks: Vec<Task> = (0..40)
            .map(|n| {
                let mut task = task(&format!("t{n}"));
                task.repo = format!("o/r{}", n % 8);
                task
            })
            .collect();
        by_repository(&mut tasks, 0.25, 3);
        for one in &tasks {
            for other in &tasks {
                assert!(one.repo != other.repo || one.split == other.split);
            }
        }
        assert_eq!(side(&tasks, Split::HeldOut).len(), 10);
        let first = tasks.clone();
        by_repository(&mut tasks, 0.25, 3);
        assert_eq!(first, tasks);
        by_repository(&mut tasks, 0.001, 3);
        assert_eq!(side(&tasks, Split::HeldOut).len(), 5);
    }
}
