//! Verdicts of the SWE-bench harness on logs that exist, and its report of a run.
//!
//! Open [`Instance::grade`] for one log, [`Folder`] for a run folder. What the verdict is
//! is in `patchrl_reward::harness`.

mod folder;
mod instance;
mod prediction;
mod run_report;

pub use folder::{Folder, FolderError, Logged};
pub use instance::{Instance, Unfit};
pub use prediction::{Prediction, PredictionError, load_predictions};
pub use run_report::RunReport;
