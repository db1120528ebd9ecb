//! The policy network: configuration, weights, forward and explicit backward, sampling.

mod attention;
mod chat;
mod config;
mod decode;
mod draw;
mod error;
mod generate;
mod head;
mod kernels;
mod lora;
mod memory;
mod network;
mod packing;
mod params;
mod peft;
mod policy;
mod rotary;
mod scratch;
mod source;
mod tokenizer;
mod weights;

pub use chat::{ChatTemplate, Day, Message};
pub use config::{Config, Family, Window};
pub use error::ModelError;
pub use generate::{Finish, Request, Sample, Sampling, generate};
pub use lora::{Base, LoraConfig, Target};
pub use memory::keep_freed_memory;
pub use network::{Forward, Group, Model};
pub use params::Params;
pub use policy::Policy;
pub use rotary::RopeScaling;
pub use scratch::Scratch;
pub use source::{FetchWheel, HUB, Progress, Sources, resolve};
pub use tokenizer::Tokenizer;
