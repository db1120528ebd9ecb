//! How much one edit may cost.
//!
//! Owns the budget that makes hostile edits end: hunks that walk a repetitive file over
//! and over, or a copy of a large file made a thousand times. Honest edits use a fraction.

use crate::fault::ApplyFault;

/// One unit is about one byte read or written.
const TOTAL: u64 = 1 << 28;
/// What looking at one line costs beside its bytes.
pub(crate) const LINE: u64 = 16;

/// What is left of the budget.
pub(crate) struct Work {
    left: u64,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { left: TOTAL }
    }

    pub(crate) fn spend(&mut self, units: u64) -> Result<(), ApplyFault> {
        self.left = self.left.checked_sub(units).ok_or(ApplyFault::TooMuchWork)?;
        Ok(())
    }
}
