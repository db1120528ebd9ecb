//! From the rewards of a step's groups to their advantages.
//!
//! Owns the baseline, its scale and which samples count. Does not know where a reward came
//! from, nor how an advantage enters the loss (see [`super::loss`]).

use serde::{Deserialize, Serialize};

/// What a reward becomes after the group's mean is taken off. n answers have a reward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// It stays as it is (Dr. GRPO). Dividing by the deviation would give the largest
    /// steps to groups that are almost solved or almost hopeless.
    #[default]
    None,
    /// Over the group's sample standard deviation plus `eps` (GRPO).
    Group,
    /// Over the sample standard deviation of all rewards of the step plus `eps`.
    Batch,
    /// Times n / (n - 1): the reward less the mean of the others' (RLOO).
    LeaveOneOut,
}

/// The advantages of one group, or nothing where it carries no signal. `None` marks an
/// answer that was lost.
pub type Advantages = Option<Vec<Option<f32>>>;

/// The advantages of a step's groups.
///
/// `groups` holds the rewards of each, (G,); `None` marks a sample that was lost by
/// our fault. Lost samples leave the group before the mean is taken and come back as
/// `None`. A group is silent when fewer than two samples are left or all rewards are
/// equal; its rewards still count in [`Scale::Batch`].
pub fn advantages(groups: &[Vec<Option<f32>>], scale: Scale, eps: f64) -> Vec<Advantages> {
    let known = |group: &[Option<f32>]| -> Vec<f64> {
        group.iter().flatten().map(|&r| f64::from(r)).collect()
    };
    let all: Vec<f64> = groups.iter().flat_map(|g| known(g)).collect();
    groups
        .iter()
        .map(|group| {
            let rewards = known(group);
            if !speaks(&rewards) {
                return None;
            }
            let (n, mean) = (rewards.len() as f64, mean(&rewards));
            let scaled = |r: f64| match scale {
                Scale::None => r - mean,
                Scale::Group => (r - mean) / (deviation(&rewards) + eps),
                Scale::Batch => (r - mean) / (deviation(&all) + eps),
                Scale::LeaveOneOut => (r - mean) * n / (n - 1.0),
            };
            Some(group.iter().map(|r| r.map(|r| scaled(f64::from(r)) as f32)).collect())
        })
        .collect()
}

/// Rewards are compared as they are: they come from one formula over small integers,
/// so equal outcomes give equal bits.
fn speaks(rewards: &[f64]) -> bool {
    rewards.iter().any(|r| r.to_bits() != rewards[0].to_bits())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample standard deviation of two values or more (one degree of freedom taken).
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// What an answer's length adds to its reward (DAPO, arXiv 2503.14476 equation 13): nothing
/// up to `limit - buffer` tokens, `-penalty` at `limit`, a line between. `buffer` 0 adds nothing.
pub fn overlong(tokens: usize, limit: usize, buffer: usize, penalty: f32) -> f64 {
    let over = tokens.saturating_sub(limit.saturating_sub(buffer));
    if buffer == 0 { 0.0 } else { -(over as f64) / buffer as f64 * f64::from(penalty) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_one(rewards: &[Option<f32>]) -> Advantages {
        advantages(&[rewards.to_vec()], Scale::None, 0.0).remove(0)
    }

    #[test]
    fn centre_matches_reference() {
        // NumPy: r - r.mean() for r = [1, 0, 0, 0].
        let got = of_one(&[Some(1.0), Some(0.0), Some(0.0), Some(0.0)]);
        assert_eq!(got, Some(vec![Some(0.75), Some(-0.25), Some(-0.25), Some(-0.25)]));
    }

    #[test]
    fn lost_samples_leave_before_the_mean() {
        let got = of_one(&[Some(1.0), None, Some(0.0)]);
        assert_eq!(got, Some(vec![Some(0.5), None, Some(-0.5)]));
    }

    #[test]
    fn leave_one_out_is_the_reward_less_the_mean_of_the_others() {
        let rewards = [1.0_f32, 0.5, 0.0, 0.25];
        let group = rewards.map(Some).to_vec();
        let got = advantages(&[group], Scale::LeaveOneOut, 0.0).remove(0).expect("signal");
        for (i, got) in got.iter().enumerate() {
            let others: f32 = rewards.iter().sum::<f32>() - rewards[i];
            let want = rewards[i] - others / 3.0;
            assert!((got.expect("nothing was lost") - want).abs() < 1e-6);
        }
    }

    #[test]
    fn groups_without_signal_are_silent() {
        for rewards in [&[Some(0.3); 4][..], &[Some(1.0), None, None], &[None, None], &[]] {
            for scale in [Scale::None, Scale::Group, Scale::Batch, Scale::LeaveOneOut] {
                assert_eq!(advantages(&[rewards.to_vec()], scale, 1e-4), [None]);
            }
        }
    }

    #[test]
    fn an_overlong_answer_pays_along_a_line() {
        for (tokens, buffer, paid) in
            [(80, 20, 0.0), (90, 20, -0.25), (100, 20, -0.5), (100, 0, 0.0)]
        {
            let got = overlong(tokens, 100, buffer, 0.5);
            assert!((got - paid).abs() < 1e-12, "{tokens} tokens pay {got}");
        }
    }
}
