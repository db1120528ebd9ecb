//! Tests of the crate through its public items.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod _reference;
mod determinism;
mod gradient;
mod sampling;
mod tiny;
