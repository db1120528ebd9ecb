//! GRPO: advantages, the loss of an answer, and one update of the weights.

mod advantage;
mod aggregation;
mod config;
mod kl;
mod loss;
mod preset;
mod sampler;
mod tally;
mod update;

pub use advantage::{Advantages, Scale, advantages, overlong};
pub use aggregation::{Aggregation, Denominator, Empty, Extent};
pub use config::{CispoClip, GrpoConfig, LossName, Signal, Silent};
pub use kl::{Estimator, Kl, KlGradient};
pub use loss::{Bounds, Form, Loss, Scored};
pub use preset::Preset;
pub use sampler::{Correction, Reject, Weight};
pub use tally::{Clip, Health, Tally};
pub use update::{Answer, Batch, Update, Updater};
