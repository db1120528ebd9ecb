//! report
use crate::error::TelemetryError;
use std::path::{Path, PathBuf};
/// Draw.
pub fn render(run_dir: &Path) -> Result<PathBuf, TelemetryError> {
    Ok(run_dir.join("report.html"))
}
