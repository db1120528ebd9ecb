//! Tests of the crate through its public items.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod _reference;
mod adapter;
mod determinism;
mod fake_hub;
mod gguf_file;
mod golden;
mod gradient;
mod kept;
mod policy_files;
mod sampling;
mod scratch;
mod shared;
mod sources;
mod tiny;
