//! The defaults of the trainers that users come from.
//!
//! Owns the values of [`GrpoConfig`]'s keys by preset. What a trainer keeps
//! elsewhere is not in here: temperature (`sampling`), weight decay (`optimizer`),
//! and its schedule of the learning rate (here a warm-up, then constant).

use serde::{Deserialize, Serialize};

use super::{
    Aggregation, Bounds, CispoClip, Empty, Estimator, GrpoConfig, KlGradient, LossName, Reject,
    Scale, Signal, Silent, Weight,
};

/// Whose defaults.
///
/// | | mission | paper | trl-1.16 | verl-0.9 |
/// |---|---|---|---|---|
/// | answers, tasks per step | 4, 1 | 16, 32 | 8, 1 | 4, 1 |
/// | learning rate | 5e-6 | 1e-6 | 1e-6 | 1e-6 |
/// | loss | `dapo` | `grpo` | `dapo` | `dapo` |
/// | advantage over | 1 | deviation | deviation + 1e-4 | deviation + 1e-6 |
/// | KL | 0.02 k3 | 0.04 k3 | 0, k3 times ratio | 0, k3 |
/// | second clip | none | none | none | 3 |
/// | `clip_high` of `cispo` | 1 + 4 | 1 + 4 | the cap itself | 1 + 0.2 |
/// | truncated answers | masked | trained | trained | trained |
/// | groups speak by | outcome | reward | reward | reward |
/// | silent groups | dropped | kept | kept | kept |
/// | answers all masked | not counted | counted | counted | not counted |
/// | sampler's weight | none | none | sequence mask at 3 | none |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The mission's flags, with what small models need.
    #[default]
    Mission,
    /// GRPO as `DeepSeekMath` writes it (arXiv 2402.03300 equations 3 and 4, and its learning
    /// rate and KL weight), with the group and batch of SWE-RL (arXiv 2502.18449), which does
    /// not give the other two.
    Paper,
    /// TRL's `GRPOConfig`.
    #[serde(rename = "trl-1.16")]
    Trl,
    /// verl's actor and algorithm, with `adv_estimator: grpo`. Its group of 1 is no group, so
    /// the size stays the mission's.
    #[serde(rename = "verl-0.9")]
    Verl,
}

impl Preset {
    /// Every key's default under this preset; `loss` where the user names one.
    pub(super) fn defaults(self, loss: Option<LossName>) -> GrpoConfig {
        let loss = loss.unwrap_or(match self {
            Self::Paper => LossName::Grpo,
            Self::Mission | Self::Trl | Self::Verl => LossName::Dapo,
        });
        match self {
            Self::Mission => mission(loss),
            Self::Paper => paper(loss),
            Self::Trl => trl(loss),
            Self::Verl => verl(loss),
        }
    }
}

fn mission(loss: LossName) -> GrpoConfig {
    let (clip_low, clip_high) = match loss {
        // The paper's 3e-4 and 4e-4: the ratio of a whole answer hardly moves.
        LossName::Gspo => (3e-4, 4e-4),
        // A ratio of 0 to 5: only the upper end is meant to act.
        LossName::Cispo => (1.0, 4.0),
        _ => (0.2, 0.2),
    };
    GrpoConfig {
        preset: Preset::Mission,
        loss,
        group_size: 4,
        tasks_per_step: 1,
        updates_per_step: 1,
        lr: 5e-6,
        warmup_steps: 0,
        aggregation: match loss {
            LossName::Grpo | LossName::Gspo | LossName::Sapo => Aggregation::SequenceMean,
            LossName::Bnpo => Aggregation::GroupTokenMean,
            LossName::DrGrpo => Aggregation::Constant,
            LossName::Dapo | LossName::Cispo => Aggregation::TokenMean,
        },
        constant_length: 0,
        clip_low,
        clip_high,
        dual_clip: 0.0,
        cispo_clip: CispoClip::AroundOne,
        sapo_tau_positive: 1.0,
        sapo_tau_negative: 1.05,
        bounds: Bounds::Exponent,
        kl_coef: 0.02,
        kl_estimator: Estimator::K3,
        kl_gradient: KlGradient::Plain,
        entropy_coef: 0.0,
        advantage_scale: Scale::None,
        advantage_eps: 1e-4,
        signal: Signal::Outcome,
        resample_attempts: 0,
        silent_groups: Silent::Drop,
        mask_truncated: true,
        masked_answers: Empty::Leave,
        overlong_buffer: 0,
        overlong_penalty: 1.0,
        sampler_weight: Weight::Off,
        sampler_weight_low: 0.0,
        sampler_weight_high: 2.0,
        sampler_reject: Reject::Off,
        sampler_reject_low: 1e-4,
        sampler_reject_high: 100.0,
        drift_limit: 0.0,
    }
}

fn paper(loss: LossName) -> GrpoConfig {
    GrpoConfig {
        preset: Preset::Paper,
        group_size: 16,
        tasks_per_step: 32,
        lr: 1e-6,
        bounds: Bounds::None,
        kl_coef: 0.04,
        advantage_scale: Scale::Group,
        advantage_eps: 0.0,
        signal: Signal::Reward,
        silent_groups: Silent::Keep,
        mask_truncated: false,
        masked_answers: Empty::Count,
        ..mission(loss)
    }
}

fn trl(loss: LossName) -> GrpoConfig {
    GrpoConfig {
        preset: Preset::Trl,
        group_size: 8,
        lr: 1e-6,
        clip_low: 0.2,
        clip_high: 0.2,
        cispo_clip: CispoClip::Cap,
        bounds: Bounds::None,
        kl_coef: 0.0,
        kl_gradient: KlGradient::Ratio,
        advantage_scale: Scale::Group,
        signal: Signal::Reward,
        silent_groups: Silent::Keep,
        mask_truncated: false,
        masked_answers: Empty::Count,
        sampler_weight: Weight::SequenceMask,
        sampler_weight_high: 3.0,
        ..mission(loss)
    }
}

fn verl(loss: LossName) -> GrpoConfig {
    let base = mission(loss);
    let token = matches!(base.loss().form, super::Form::Token);
    GrpoConfig {
        preset: Preset::Verl,
        lr: 1e-6,
        aggregation: match loss {
            LossName::Gspo => Aggregation::TokenMean,
            _ => base.aggregation,
        },
        clip_low: 0.2,
        clip_high: 0.2,
        // Only verl's vanilla loss has it.
        dual_clip: if token { 3.0 } else { 0.0 },
        bounds: Bounds::Verl,
        kl_coef: 0.0,
        advantage_scale: Scale::Group,
        advantage_eps: 1e-6,
        signal: Signal::Reward,
        silent_groups: Silent::Keep,
        mask_truncated: false,
        ..base
    }
}
