//! What tests share: a model of a few thousand parameters, and an inference server that speaks as
//! vLLM, `SGLang` or llama.cpp do, samples from real weights, and fails as it is told.
//!
//! Used by tests alone; ships nowhere.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test may fail by panicking")]

mod brain;
mod desk;
mod fake;
mod http;
mod shapes;
mod tiny;

pub use brain::Brain;
pub use fake::{Change, FakeServer, Flavour, Seen};
pub use http::Fault;
pub use tiny::write_model;
