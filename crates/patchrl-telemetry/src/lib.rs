//! What happened in a run, as data.
//!
//! Owns the events, the names of the metrics, the journal, the `TensorBoard`
//! writer, the report and the wall clock. Decides nothing and prints nothing:
//! the console belongs to the binary.

mod clock;
mod error;
mod event;
mod journal;
pub mod metric;
mod report;
mod sink;
mod tensorboard;
pub mod usage;

pub use clock::Stamp;
pub use error::TelemetryError;
pub use event::{
    Evaluation, Event, Mark, RolloutEnd, RunStart, Step, StepSft, Validation, When, timeless,
};
pub use journal::{Journal, Kept, Record, read as read_journal};
pub use report::render as render_report;
pub use report::{Effect, Figure, Goal, StageEnd, StagesReport};
pub use sink::Telemetry;
pub use tensorboard::{Histogram, TensorBoard};
