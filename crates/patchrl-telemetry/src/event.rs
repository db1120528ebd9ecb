//! Everything a run can say.
//!
//! Owns the enum that the journal, `TensorBoard`, the report, the console and the
//! tests read. Ids and outcomes of other rooms arrive as the words they print;
//! numbers that are not finite survive the journal.

use serde::{Deserialize, Serialize};

/// One thing that happened. In the journal it is one JSON object whose `event`
/// field holds the variant in `snake_case`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began, for the first time.
    RunStarted(RunStart),
    /// A run that had stopped goes on after this step.
    Resumed {
        /// Phase of the checkpoint.
        phase: String,
        /// Its last finished step.
        step: u64,
    },
    /// A stage of the curriculum began.
    PhaseStarted {
        /// `sft`, `syntax`, `apply-only`, `tests`, ...
        phase: String,
    },
    /// A task's tree and interpreter are ready.
    TaskPrepared {
        /// Which one.
        task: String,
        /// Wall time.
        seconds: f64,
    },
    /// One answer was judged.
    RolloutEnded(RolloutEnd),
    /// One GRPO update was made.
    StepEnded(Step),
    /// One supervised update was made.
    SftStep(StepSft),
    /// The loss on text or chats that are not trained on was measured.
    Validated(Validation),
    /// The policy was measured on held-out tasks.
    EvalEnded(Evaluation),
    /// A checkpoint is whole.
    CheckpointWritten {
        /// Relative to the run.
        path: String,
        /// Phase it belongs to.
        phase: String,
        /// The last step it holds.
        step: u64,
    },
    /// Something the user should read; the run goes on.
    Warning {
        /// One line.
        message: String,
    },
    /// The run came to its end.
    RunEnded {
        /// Wall time of this process.
        seconds: f64,
    },
}

/// What a run is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// The run's name.
    pub run: String,
    /// Version of the program.
    pub version: String,
    /// The base model as the user named it.
    pub model: String,
    /// Hash of the resolved configuration.
    pub config_digest: String,
    /// Which sandbox runs the tests.
    pub tier: String,
    /// The seed every other seed comes from.
    pub seed: u64,
    /// Tasks to train on.
    pub train_tasks: u64,
    /// Tasks to measure on.
    pub held_out_tasks: u64,
}

/// How one answer ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RolloutEnd {
    /// Step that asked for it.
    pub step: u64,
    /// Task it answers.
    pub task: String,
    /// Its place in the group, from 0.
    pub sample: u32,
    /// The outcome's machine word.
    pub outcome: String,
    /// None: lost, never scored.
    #[serde(with = "maybe_number")]
    pub reward: Option<f32>,
    /// Tokens of the answer.
    pub tokens: u32,
    /// `stop` or `length`.
    pub finish: String,
}

/// One GRPO update. Counts are of this step's answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Stage of the curriculum.
    pub phase: String,
    /// Counted from 1 over the whole run, not per phase: the axis of every curve.
    pub step: u64,
    /// Policy loss and KL penalty together.
    #[serde(with = "number")]
    pub loss: f32,
    /// Mean k3 estimate per token against the frozen reference.
    #[serde(with = "number")]
    pub kl: f32,
    /// Norm of the gradient before clipping.
    #[serde(with = "number")]
    pub grad_norm: f32,
    /// Learning rate of this update.
    #[serde(with = "number")]
    pub lr: f32,
    /// Over answers that have a reward.
    #[serde(with = "number")]
    pub reward_mean: f32,
    /// Over answers that have a reward, with their number as denominator.
    #[serde(with = "number")]
    pub reward_std: f32,
    /// Answers judged or lost.
    pub samples: u64,
    /// Answers that held a patch.
    pub patches_nonempty: u64,
    /// Answers whose patch applied.
    pub patches_applied: u64,
    /// Answers whose task's tests all passed.
    pub tests_passed: u64,
    /// Groups whose rewards were all equal: no update came from them.
    pub groups_without_signal: u64,
    /// Answers without a reward, by our own fault.
    pub lost: u64,
    /// Mean absolute difference of sampler and trainer log-probabilities per token.
    #[serde(with = "number")]
    pub ratio_mismatch: f32,
    /// The largest of these differences.
    #[serde(with = "number")]
    pub ratio_mismatch_max: f32,
    /// Mean ratio of the policy to the weights of the step's start, in the last pass.
    #[serde(with = "number")]
    pub ratio_mean: f32,
    /// The largest of these ratios.
    #[serde(with = "number")]
    pub ratio_max: f32,
    /// Mean log-probability lost since the step's start, in the last pass: how far it went.
    #[serde(with = "number")]
    pub drift: f32,
    /// Share of tokens whose gradient stopped at the lower clip.
    #[serde(with = "number")]
    pub clipped_low: f32,
    /// Share of tokens whose gradient stopped at the upper clip.
    #[serde(with = "number")]
    pub clipped_high: f32,
    /// Share of tokens whose gradient stopped at the second clip.
    #[serde(with = "number")]
    pub clipped_dual: f32,
    /// Mean entropy per token, in nats.
    #[serde(with = "number")]
    pub entropy: f32,
    /// Mean weight of the correction for the sampler.
    #[serde(with = "number")]
    pub sampler_weight: f32,
    /// Effective share of tokens under these weights.
    #[serde(with = "number")]
    pub sampler_effective: f32,
    /// Share of tokens that weigh nothing.
    #[serde(with = "number")]
    pub sampler_weightless: f32,
    /// Answers that left the step because trainer and sampler disagree.
    pub rejected: u64,
    /// Mean number of updates that the weights behind the answers' tokens were behind.
    #[serde(default, with = "number")]
    pub stale: f32,
    /// Answers that ran into the token limit.
    pub truncated: u64,
    /// Groups drawn in place of groups without signal.
    pub resampled: u64,
    /// Tokens of the answers.
    pub tokens: u64,
    /// Wall time of sampling.
    pub sample_s: f64,
    /// Wall time of judging.
    pub reward_s: f64,
    /// Wall time of the update.
    pub update_s: f64,
    /// Highest resident memory of the process so far.
    pub peak_memory_bytes: u64,
}

/// One supervised update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSft {
    /// `sft`, or `pretrain`.
    #[serde(default = "sft")]
    pub phase: String,
    /// Counted from 1, on an axis of its own.
    pub step: u64,
    /// Mean cross entropy per token that carries loss.
    #[serde(with = "number")]
    pub loss: f32,
    /// Learning rate of this update.
    #[serde(with = "number")]
    pub lr: f32,
    /// Norm of the gradient before clipping.
    #[serde(with = "number")]
    pub grad_norm: f32,
    /// Tokens that carried loss.
    pub tokens: u64,
    /// Wall time.
    pub seconds: f64,
}

/// The loss on what is held out of a supervised phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// `sft`, or `pretrain`.
    pub phase: String,
    /// The step after which it was measured; 0 is before the first.
    pub step: u64,
    /// Mean cross entropy per token.
    #[serde(with = "number")]
    pub loss: f32,
    /// Tokens measured on.
    pub tokens: u64,
}

/// One measurement on held-out tasks. Shares are of `samples`, from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Before or after training.
    pub when: When,
    /// Answers with a patch that can be read.
    pub valid_diff: f64,
    /// Answers whose patch applies.
    pub applied: f64,
    /// Answers that pass the tests.
    pub resolved: f64,
    /// Answers taken.
    pub samples: u64,
    /// Wall time.
    pub seconds: f64,
}

/// When an evaluation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// With the weights the run started from.
    Before,
    /// With the weights it ended with.
    After,
}

/// A finished step, the place where a run can be taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// Its phase.
    pub phase: &'a str,
    /// Its number, on that phase's axis.
    pub step: u64,
}

/// The phase of a [`StepSft`] from before it said so.
fn sft() -> String {
    "sft".into()
}

impl Event {
    /// The step that this event closes, if it closes one.
    pub fn mark(&self) -> Option<Mark<'_>> {
        match self {
            Self::StepEnded(step) => Some(Mark { phase: &step.phase, step: step.step }),
            Self::SftStep(step) => Some(Mark { phase: &step.phase, step: step.step }),
            _ => None,
        }
    }
}

/// The event without what differs between two runs of the same inputs: wall
/// times and memory are zero. What is left must be equal bit for bit.
pub fn timeless(event: &Event) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::TaskPrepared { seconds, .. } | Event::RunEnded { seconds } => *seconds = 0.0,
        Event::StepEnded(step) => {
            (step.sample_s, step.reward_s, step.update_s) = (0.0, 0.0, 0.0);
            step.peak_memory_bytes = 0;
        }
        Event::SftStep(step) => step.seconds = 0.0,
        Event::EvalEnded(evaluation) => evaluation.seconds = 0.0,
        Event::RunStarted(_)
        | Event::Resumed { .. }
        | Event::PhaseStarted { .. }
        | Event::RolloutEnded(_)
        | Event::Validated(_)
        | Event::CheckpointWritten { .. }
        | Event::Warning { .. } => {}
    }
    event
}

/// A number in JSON that may be NaN or infinite, then written as a word: the
/// loss that exploded is the one worth reading.
mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f32),
        Word(String),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub(super) fn serialize<S: Serializer>(value: &f32, out: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { out.serialize_f32(*value) } else { out.collect_str(value) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(value) => Ok(value),
            Written::Word(word) => word.parse().map_err(D::Error::custom),
        }
    }
}

/// [`number`], or null.
mod maybe_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Number(#[serde(with = "super::number")] f32);

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    pub(super) fn serialize<S: Serializer>(value: &Option<f32>, out: S) -> Result<S::Ok, S::Error> {
        value.map(Number).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f32>, D::Error> {
        Ok(Option::<Number>::deserialize(from)?.map(|number| number.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, RolloutEnd, Step, timeless};

    #[test]
    fn an_event_is_one_flat_object() {
        let event = Event::RolloutEnded(RolloutEnd {
            step: 3,
            task: "toy__x-1".into(),
            reward: Some(0.3),
            outcome: "applied".into(),
            finish: "stop".into(),
            ..RolloutEnd::default()
        });
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(
            text,
            r#"{"event":"rollout_ended","step":3,"task":"toy__x-1","sample":0,"outcome":"applied","reward":0.3,"tokens":0,"finish":"stop"}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }

    #[test]
    fn a_lost_reward_is_null_and_an_exploded_loss_is_a_word() {
        let lost = Event::RolloutEnded(RolloutEnd::default());
        let text = serde_json::to_string(&lost).unwrap();
        assert!(text.contains(r#""reward":null"#));
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), lost);
        for (loss, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")]
        {
            let text =
                serde_json::to_string(&Event::StepEnded(Step { loss, ..Step::default() })).unwrap();
            assert!(text.contains(&format!(r#""loss":"{word}""#)), "{text}");
            let Event::StepEnded(read) = serde_json::from_str(&text).unwrap() else { panic!() };
            assert_eq!(read.loss.to_bits() << 1 >> 1, loss.to_bits() << 1 >> 1);
        }
    }

    #[test]
    fn floats_come_back_bit_for_bit() {
        let mut state = 1_u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let loss = f32::from_bits(state);
            if !loss.is_finite() {
                continue;
            }
            let text =
                serde_json::to_string(&Event::StepEnded(Step { loss, ..Step::default() })).unwrap();
            let Event::StepEnded(read) = serde_json::from_str(&text).unwrap() else { panic!() };
            assert_eq!(read.loss.to_bits(), loss.to_bits(), "{text}");
        }
    }

    #[test]
    fn two_runs_differ_in_nothing_but_time() {
        let step = Step { step: 1, loss: 0.5, ..Step::default() };
        let other = Step { sample_s: 2.0, update_s: 1.0, peak_memory_bytes: 9, ..step.clone() };
        assert_eq!(timeless(&Event::StepEnded(other)), timeless(&Event::StepEnded(step)));
    }
}
