//! Agents through the front door, without a sandbox.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod anew;
mod hostile;
mod properties;
mod retokenization;
mod thinking;
