//! The same network in f64: `cargo test -p patchrl-model --features double --test double`.
//!
//! In f32 the two ways of computing a group differ by rounding, which could hide a small mistake.
//! Here nothing but 1e-10 is left of it.

#[path = "it/shared.rs"]
mod shared;
#[path = "it/tiny.rs"]
mod tiny;
