//! From a group's rewards to its advantages.
//!
//! Owns the baseline and which samples count. Does not know where a reward came
//! from, nor how an advantage enters the loss (see [`super::loss`]).

use serde::{Deserialize, Serialize};

/// What a reward is divided by after the group's mean is taken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Nothing (Dr. GRPO). Dividing by the deviation would give the largest
    /// steps to groups that are almost solved or almost hopeless.
    #[default]
    None,
    /// The group's sample standard deviation plus 1e-4 (TRL's `scale_rewards="group"`).
    Group,
}

/// The advantages of one group, or nothing where it carries no signal.
///
/// `rewards` is (G,); `None` marks a sample that was lost by our fault. Lost
/// samples leave the group before the mean is taken and come back as `None`.
/// A group is silent when fewer than two samples are left or all rewards are equal.
pub fn advantages(rewards: &[Option<f32>], scale: Scale) -> Option<Vec<Option<f32>>> {
    let known: Vec<f64> = rewards.iter().flatten().map(|&r| f64::from(r)).collect();
    let first = *known.first()?;
    // Rewards are compared as they are: they come from one formula over small
    // integers, so equal outcomes give equal bits.
    if known.len() < 2 || known.iter().all(|r| r.to_bits() == first.to_bits()) {
        return None;
    }
    let n = known.len() as f64;
    let mean = known.iter().sum::<f64>() / n;
    let divisor = match scale {
        Scale::None => 1.0,
        Scale::Group => {
            let variance = known.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
            variance.sqrt() + 1e-4
        }
    };
    Some(rewards.iter().map(|r| r.map(|r| ((f64::from(r) - mean) / divisor) as f32)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centre_matches_reference() {
        // NumPy: r - r.mean() for r = [1, 0, 0, 0].
        let got = advantages(&[Some(1.0), Some(0.0), Some(0.0), Some(0.0)], Scale::None);
        assert_eq!(got, Some(vec![Some(0.75), Some(-0.25), Some(-0.25), Some(-0.25)]));
    }

    #[test]
    fn group_scale_matches_trl() {
        // torch: (r - r.mean()) / (r.std() + 1e-4) for r = [1, 0.3, 0.3, 0].
        let got = advantages(&[Some(1.0), Some(0.3), Some(0.3), Some(0.0)], Scale::Group);
        let want = [1.413_88_f32, -0.235_647, -0.235_647, -0.942_587];
        for (g, w) in got.expect("signal").iter().zip(want) {
            let g = g.expect("nothing was lost");
            assert!((g - w).abs() < 1e-5, "{g} is not {w}");
        }
    }

    #[test]
    fn lost_samples_leave_before_the_mean() {
        let got = advantages(&[Some(1.0), None, Some(0.0)], Scale::None);
        assert_eq!(got, Some(vec![Some(0.5), None, Some(-0.5)]));
    }

    #[test]
    fn groups_without_signal_are_silent() {
        assert_eq!(advantages(&[Some(0.3); 4], Scale::None), None);
        assert_eq!(advantages(&[Some(1.0), None, None], Scale::None), None);
        assert_eq!(advantages(&[None, None], Scale::None), None);
        assert_eq!(advantages(&[], Scale::None), None);
    }
}
