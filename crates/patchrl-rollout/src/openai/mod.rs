//! A server that speaks `OpenAI`'s protocol, as a policy.
//!
//! Owns requests, replies in every shape that vLLM, `SGLang` and llama.cpp give them, what to try
//! again and what to tell the user. The bytes are in `wire`, the words for faults in `fault`, what
//! is sent in `request`, what comes back in `reply` and `tokens`. How weights get there is in
//! `handover`.

mod client;
mod fault;
mod key;
mod limit;
mod log;
mod probe;
mod reply;
mod request;
mod tokens;
mod wire;

pub use client::OpenAi;
pub use key::ApiKey;
pub use probe::{Compared, compare_tokenizers};

pub(crate) use client::Target;
pub(crate) use fault::Trouble;
pub(crate) use tokens::{PREFIX, name_of};
pub(crate) use wire::Answer;
