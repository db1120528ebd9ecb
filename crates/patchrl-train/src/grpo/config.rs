//! `grpo:` in a configuration: as written over a preset, and as the loss reads it.
//!
//! Owns the keys and what serde cannot check of them. The presets' values are in
//! [`super::preset`].

use serde::{Deserialize, Serialize};

use super::{
    Aggregation, Bounds, Correction, Denominator, Empty, Estimator, Form, Kl, KlGradient, Loss,
    Preset, Reject, Scale, Weight,
};

/// A loss by the name under which trainers know it: the form of its policy term, and what
/// it is averaged over unless `aggregation` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossName {
    /// Clipped token ratios, `sequence-mean`.
    Grpo,
    /// Clipped token ratios, `group-token-mean`.
    Bnpo,
    /// Clipped token ratios, `constant`.
    #[serde(alias = "dr_grpo")]
    DrGrpo,
    /// Clipped token ratios, `token-mean`.
    Dapo,
    /// The clipped ratio of the whole answer, `sequence-mean` (`token-mean` in verl).
    Gspo,
    /// The clipped ratio as a weight, `token-mean`.
    Cispo,
    /// A soft gate for the clip, `sequence-mean`.
    Sapo,
}

/// What `clip_low` and `clip_high` mean for `cispo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CispoClip {
    /// The ratio is held between `1 - clip_low` and `1 + clip_high` (the paper, verl).
    AroundOne,
    /// The ratio is held below `clip_high` itself, and `clip_low` means nothing (TRL).
    Cap,
}

/// What happens to groups without signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Silent {
    /// They leave the step (DAPO).
    Drop,
    /// They count in every denominator, and in the KL term where there is one (TRL, verl).
    Keep,
}

/// What a group must differ in to carry signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Its rewards.
    Reward,
    /// Whether its answers resolve their task, in the phases `tests` and `resolved`; elsewhere
    /// its rewards.
    Outcome,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident: $type:ty,)*) => {
        /// GRPO's constants. A key that is not written has its preset's value.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(from = "Written")]
        pub struct GrpoConfig {
            /// Whose defaults hold for the keys that are not written.
            pub preset: Preset,
            /// The loss. It decides the default of `aggregation`, and of the clips where they
            /// mean something else for it.
            pub loss: LossName,
            $($(#[$doc])* pub $key: $type,)*
        }

        /// The same keys as the user wrote them.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            preset: Option<Preset>,
            loss: Option<LossName>,
            $($key: Option<$type>,)*
        }

        impl From<Written> for GrpoConfig {
            fn from(written: Written) -> Self {
                let preset = written.preset.unwrap_or_default();
                let base = preset.defaults(written.loss);
                Self { preset, loss: base.loss, $($key: written.$key.unwrap_or(base.$key),)* }
            }
        }
    };
}

keys! {
    /// Answers per task and step. At least 2: one answer has no group mean to beat.
    group_size: u32,
    /// Tasks per step.
    tasks_per_step: usize,
    /// Optimizer steps on each batch of answers. Above 1 the ratio leaves 1 and the clip acts.
    updates_per_step: u32,
    /// Peak learning rate.
    lr: f32,
    /// Steps of linear warm-up, in each phase.
    warmup_steps: u64,
    /// What the losses of tokens are averaged over.
    aggregation: Aggregation,
    /// The length, in tokens, of `aggregation: constant`; 0 takes what an answer may have:
    /// `sampling.max_new_tokens`, and `sampling.thinking_tokens` with it.
    constant_length: usize,
    /// The ratio's lower clip: it is held at `1 - clip_low`.
    clip_low: f32,
    /// The ratio's upper clip: it is held at `1 + clip_high`.
    clip_high: f32,
    /// The ratio that counts at most where the advantage is below 0; 0 for no such limit. Above
    /// `1 + clip_high` it is verl's `clip_ratio_c` and TRL's `delta`.
    dual_clip: f32,
    /// What the clips mean for `loss: cispo`.
    cispo_clip: CispoClip,
    /// Temperature of `loss: sapo` where the advantage is above 0.
    sapo_tau_positive: f64,
    /// Temperature of `loss: sapo` elsewhere.
    sapo_tau_negative: f64,
    /// Where exponents are cut off.
    bounds: Bounds,
    /// Weight of the KL term against the weights the phase began with; 0 keeps no reference.
    kl_coef: f32,
    /// Which estimate of the divergence.
    kl_estimator: Estimator,
    /// What makes its gradient that of the divergence.
    kl_gradient: KlGradient,
    /// Weight of the bonus for the entropy of each token's distribution; 0 for none.
    entropy_coef: f32,
    /// What a reward becomes after its group's mean is taken off.
    advantage_scale: Scale,
    /// Added to the deviation that `advantage_scale` divides by.
    advantage_eps: f64,
    /// What a group must differ in to carry signal.
    signal: Signal,
    /// How often, at most, a step draws other tasks in place of groups without signal.
    resample_attempts: u32,
    /// What happens to groups without signal.
    silent_groups: Silent,
    /// Leave the tokens of answers that ran into the token limit out of the loss. The answers
    /// stay in their group's mean.
    mask_truncated: bool,
    /// Whether an answer without a token in the loss is one of the answers of a mean.
    masked_answers: Empty,
    /// Tokens before the most that an answer may have, from which its length costs reward; 0 for
    /// none.
    overlong_buffer: usize,
    /// What an answer of full length pays.
    overlong_penalty: f32,
    /// How the ratio of trainer and sampler weighs the policy term.
    sampler_weight: Weight,
    /// The weight's lower bound.
    sampler_weight_low: f32,
    /// The weight's upper bound.
    sampler_weight_high: f32,
    /// Which answers leave the step because trainer and sampler disagree. Costs a forward pass.
    sampler_reject: Reject,
    /// The rejection's lower bound. 1e-4 to 100 for `outlier` and 0.99 to 1.01 for `geometric`
    /// are usual.
    sampler_reject_low: f32,
    /// The rejection's upper bound.
    sampler_reject_high: f32,
    /// Answers with a negative advantage weigh nothing above this mean of the sampler's less the
    /// trainer's log-probability; 0 for no limit.
    drift_limit: f32,
}

impl Default for GrpoConfig {
    fn default() -> Self {
        Preset::default().defaults(None)
    }
}

impl GrpoConfig {
    /// The constants of the loss.
    pub fn loss(&self) -> Loss {
        let form = match self.loss {
            LossName::Grpo | LossName::Bnpo | LossName::DrGrpo | LossName::Dapo => Form::Token,
            LossName::Gspo => Form::Sequence,
            LossName::Cispo => Form::Cispo,
            LossName::Sapo => {
                Form::Sapo { positive: self.sapo_tau_positive, negative: self.sapo_tau_negative }
            }
        };
        let ratio = if self.capped() {
            (0.0, f64::from(self.clip_high))
        } else {
            (1.0 - f64::from(self.clip_low), 1.0 + f64::from(self.clip_high))
        };
        Loss {
            form,
            ratio,
            dual_clip: self.dual_clip,
            kl: Kl { coef: self.kl_coef, estimator: self.kl_estimator, gradient: self.kl_gradient },
            correction: Correction {
                weight: self.sampler_weight,
                weight_bounds: (self.sampler_weight_low, self.sampler_weight_high),
                reject: self.sampler_reject,
                reject_bounds: (self.sampler_reject_low, self.sampler_reject_high),
                drift_limit: self.drift_limit,
            },
            bounds: self.bounds,
            entropy_coef: self.entropy_coef,
        }
    }

    /// The denominators of a step whose answers have `limit` tokens at most.
    pub fn denominator(&self, limit: usize) -> Denominator {
        let length = if self.constant_length == 0 { limit } else { self.constant_length };
        Denominator { over: self.aggregation, empty: self.masked_answers, length }
    }

    fn capped(&self) -> bool {
        self.loss == LossName::Cispo && self.cispo_clip == CispoClip::Cap
    }

    /// What serde cannot check: the first thing that is wrong, by its key.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.group_size < 2 {
            return Err(format!(
                "`grpo.group_size` is {}, but a group needs at least 2 samples",
                self.group_size
            ));
        }
        let counts = [
            ("tasks_per_step", self.tasks_per_step as u64),
            ("updates_per_step", u64::from(self.updates_per_step)),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, v)| *v == 0) {
            return Err(format!("`grpo.{key}` is 0, but it must be at least 1"));
        }
        let above = [
            ("lr", f64::from(self.lr)),
            ("sapo_tau_positive", self.sapo_tau_positive),
            ("sapo_tau_negative", self.sapo_tau_negative),
        ];
        if let Some((key, v)) = above.iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
            return Err(format!("`grpo.{key}` is {v}, but it must be above 0"));
        }
        let at_least = [
            ("kl_coef", f64::from(self.kl_coef)),
            ("entropy_coef", f64::from(self.entropy_coef)),
            ("advantage_eps", self.advantage_eps),
            ("overlong_penalty", f64::from(self.overlong_penalty)),
            ("drift_limit", f64::from(self.drift_limit)),
            ("sampler_weight_low", f64::from(self.sampler_weight_low)),
            ("sampler_reject_low", f64::from(self.sampler_reject_low)),
        ];
        if let Some((key, v)) = at_least.iter().find(|(_, v)| !(v.is_finite() && *v >= 0.0)) {
            return Err(format!("`grpo.{key}` is {v}, but it must be 0 or more"));
        }
        if self.resample_attempts > 0 && self.silent_groups == Silent::Keep {
            return Err("`grpo.resample_attempts` is above 0, so `grpo.silent_groups` must be \
                        `drop`: a group that is replaced is not kept"
                .into());
        }
        self.check_bounds()
    }

    fn check_bounds(&self) -> Result<(), String> {
        let high = self.clip_high;
        if !(0.0..=1.0).contains(&self.clip_low) || high <= 0.0 || high.is_nan() {
            return Err("`grpo.clip_low` must be in 0 to 1 and `grpo.clip_high` above 0".into());
        }
        if self.capped() && high < 1.0 {
            return Err(format!(
                "`grpo.clip_high` is {high}, but with `cispo_clip: cap` it is the largest ratio \
                 itself, so it must be at least 1; 5 is usual"
            ));
        }
        if self.dual_clip != 0.0 && (self.dual_clip.is_nan() || self.dual_clip <= 1.0 + high) {
            return Err(format!(
                "`grpo.dual_clip` is {}, but it must be above 1 + `clip_high`, or 0 for none",
                self.dual_clip
            ));
        }
        let bounds = [
            ("sampler_weight", self.sampler_weight_low, self.sampler_weight_high),
            ("sampler_reject", self.sampler_reject_low, self.sampler_reject_high),
        ];
        match bounds.iter().find(|(_, low, high)| high.is_nan() || low >= high) {
            Some((key, low, high)) => Err(format!(
                "`grpo.{key}_low` is {low}, but it must be below `{key}_high`, which is {high}"
            )),
            None => Ok(()),
        }
    }
}
