//! The name of every metric, and which event it is read from.
//!
//! Nothing else in the program spells a metric's name.

use crate::event::{Evaluation, Step, StepSft, When};

/// A name under which `TensorBoard` draws a curve, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// With its prefix.
    pub tag: &'static str,
    /// One line for people.
    pub meaning: &'static str,
}

macro_rules! metrics {
    ($($name:ident = $tag:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: Metric = Metric { tag: concat!("swebrl/", $tag), meaning: $meaning };
        )*
        /// All of them.
        pub const ALL: &[Metric] = &[$($name),*];
    };
}

metrics! {
    REWARD_MEAN = "reward_mean", "Mean reward of the step's answers";
    REWARD_STD = "reward_std", "Standard deviation of the step's rewards";
    REWARD = "reward", "Histogram of rewards, one per 50 steps";
    PATCHES_NONEMPTY = "patches_nonempty", "Answers of the step that held a patch";
    PATCHES_APPLIED = "patches_applied", "Answers of the step whose patch applied";
    TESTS_PASSED_TOTAL = "tests_passed_total", "Answers of the step whose tests all passed";
    LOSS = "loss", "Policy loss and KL penalty together";
    KL = "kl", "Mean k3 estimate per token against the frozen reference";
    GRAD_NORM = "grad_norm", "Norm of the gradient before clipping";
    LR = "lr", "Learning rate";
    GROUPS_WITHOUT_SIGNAL = "groups_without_signal", "Groups whose rewards were all equal";
    LOST = "lost", "Answers without a reward, by our own fault";
    RATIO_MISMATCH = "ratio_mismatch", "Mean difference of sampler and trainer log-probabilities";
    RATIO_MISMATCH_MAX = "ratio_mismatch_max", "Largest difference of sampler and trainer log-probabilities";
    RATIO_MEAN = "ratio_mean", "Mean ratio of the policy to the weights of the step's start";
    RATIO_MAX = "ratio_max", "Largest ratio of the policy to the weights of the step's start";
    DRIFT = "drift", "Mean log-probability lost since the step's start";
    CLIPPED_LOW = "clipped_low", "Share of tokens stopped at the lower clip";
    CLIPPED_HIGH = "clipped_high", "Share of tokens stopped at the upper clip";
    CLIPPED_DUAL = "clipped_dual", "Share of tokens stopped at the second clip";
    ENTROPY = "entropy", "Mean entropy per token, in nats";
    SAMPLER_WEIGHT = "sampler_weight", "Mean weight of the correction for the sampler";
    SAMPLER_EFFECTIVE = "sampler_effective", "Effective share of tokens under the sampler's weights";
    SAMPLER_WEIGHTLESS = "sampler_weightless", "Share of tokens that the sampler's weights leave out";
    REJECTED = "rejected", "Answers left out because trainer and sampler disagree";
    STALE = "stale", "Mean updates that the weights behind the answers were behind";
    TRUNCATED = "truncated", "Answers that ran into the token limit";
    RESAMPLED = "resampled", "Groups drawn in place of groups without signal";
    TOKENS = "tokens", "Tokens of the step's answers";
    SAMPLE_TIME_S = "sample_time_s", "Wall seconds of sampling";
    REWARD_TIME_S = "reward_time_s", "Wall seconds of judging";
    UPDATE_TIME_S = "update_time_s", "Wall seconds of the update";
    PEAK_MEMORY_BYTES = "peak_memory_bytes", "Highest resident memory so far";
    SFT_LOSS = "sft_loss", "Mean cross entropy per token, of SFT or pretraining";
    SFT_LR = "sft_lr", "Learning rate of the supervised phase";
    SFT_GRAD_NORM = "sft_grad_norm", "Norm of the supervised gradient before clipping";
    SFT_TOKENS = "sft_tokens", "Tokens that carried supervised loss";
    SFT_TIME_S = "sft_time_s", "Wall seconds of one supervised update";
    VALIDATION_LOSS = "validation_loss", "Mean cross entropy per token of what is held out";
    EVAL_VALID_DIFF = "eval_valid_diff", "Share of held-out answers with a readable patch";
    EVAL_APPLIED = "eval_applied", "Share of held-out answers whose patch applies";
    EVAL_RESOLVED = "eval_resolved", "Share of held-out answers that pass the tests";
}

/// The curves of one GRPO update.
pub(crate) fn of_step(step: &Step) -> [(Metric, f32); 32] {
    [
        (REWARD_MEAN, step.reward_mean),
        (REWARD_STD, step.reward_std),
        (PATCHES_NONEMPTY, step.patches_nonempty as f32),
        (PATCHES_APPLIED, step.patches_applied as f32),
        (TESTS_PASSED_TOTAL, step.tests_passed as f32),
        (LOSS, step.loss),
        (KL, step.kl),
        (GRAD_NORM, step.grad_norm),
        (LR, step.lr),
        (GROUPS_WITHOUT_SIGNAL, step.groups_without_signal as f32),
        (LOST, step.lost as f32),
        (RATIO_MISMATCH, step.ratio_mismatch),
        (RATIO_MISMATCH_MAX, step.ratio_mismatch_max),
        (RATIO_MEAN, step.ratio_mean),
        (RATIO_MAX, step.ratio_max),
        (DRIFT, step.drift),
        (CLIPPED_LOW, step.clipped_low),
        (CLIPPED_HIGH, step.clipped_high),
        (CLIPPED_DUAL, step.clipped_dual),
        (ENTROPY, step.entropy),
        (SAMPLER_WEIGHT, step.sampler_weight),
        (SAMPLER_EFFECTIVE, step.sampler_effective),
        (SAMPLER_WEIGHTLESS, step.sampler_weightless),
        (REJECTED, step.rejected as f32),
        (STALE, step.stale),
        (TRUNCATED, step.truncated as f32),
        (RESAMPLED, step.resampled as f32),
        (TOKENS, step.tokens as f32),
        (SAMPLE_TIME_S, step.sample_s as f32),
        (REWARD_TIME_S, step.reward_s as f32),
        (UPDATE_TIME_S, step.update_s as f32),
        (PEAK_MEMORY_BYTES, step.peak_memory_bytes as f32),
    ]
}

/// The curves of one supervised update.
pub(crate) fn of_sft(step: &StepSft) -> [(Metric, f32); 5] {
    [
        (SFT_LOSS, step.loss),
        (SFT_LR, step.lr),
        (SFT_GRAD_NORM, step.grad_norm),
        (SFT_TOKENS, step.tokens as f32),
        (SFT_TIME_S, step.seconds as f32),
    ]
}

/// The curves of one evaluation. The first one stands at step 0, whatever came
/// before it, so that before and after are two points of one line.
pub(crate) fn of_evaluation(evaluation: &Evaluation, last_step: u64) -> (u64, [(Metric, f32); 3]) {
    let step = match evaluation.when {
        When::Before => 0,
        When::After => last_step,
    };
    let curves = [
        (EVAL_VALID_DIFF, evaluation.valid_diff as f32),
        (EVAL_APPLIED, evaluation.applied as f32),
        (EVAL_RESOLVED, evaluation.resolved as f32),
    ];
    (step, curves)
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn the_names_others_read_are_there_once() {
        let tags: Vec<_> = ALL.iter().map(|metric| metric.tag).collect();
        for name in [
            "reward_mean",
            "patches_nonempty",
            "patches_applied",
            "tests_passed_total",
            "kl",
            "reward_time_s",
            "sample_time_s",
        ] {
            let tag = format!("swebrl/{name}");
            assert_eq!(tags.iter().filter(|seen| **seen == tag).count(), 1, "{tag}");
        }
    }
}
