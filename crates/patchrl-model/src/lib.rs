//! The policy network: configuration, weights, forward and explicit backward, sampling.

#![cfg_attr(
    feature = "double",
    allow(dead_code, unused_imports, reason = "what reads files and samples is not in that build")
)]

mod attention;
#[cfg(not(feature = "double"))]
mod chat;
mod config;
#[cfg(not(feature = "double"))]
mod continuation;
mod cost;
#[cfg(not(feature = "double"))]
mod decode;
#[cfg(not(feature = "double"))]
mod diff_forms;
#[cfg(not(feature = "double"))]
mod draw;
mod error;
#[cfg(not(feature = "double"))]
mod generate;
mod head;
#[cfg(not(feature = "double"))]
mod kept;
mod kernels;
mod lora;
mod memory;
mod network;
mod packing;
mod params;
#[cfg(not(feature = "double"))]
mod peft;
#[cfg(not(feature = "double"))]
mod policy;
mod rate;
mod rotary;
#[cfg(not(feature = "double"))]
mod scratch;
#[cfg(not(feature = "double"))]
mod source;
#[cfg(not(feature = "double"))]
mod speculate;
#[cfg(not(feature = "double"))]
mod suffix;
#[cfg(not(feature = "double"))]
mod tokenizer;
mod uniform;
#[cfg(not(feature = "double"))]
mod weights;

#[cfg(not(feature = "double"))]
pub use self::{
    chat::{ChatTemplate, Day, Message},
    continuation::Said,
    diff_forms::diff_forms,
    generate::{
        Finish, NextPart, Part, Request, Sample, Sampling, generate, generate_in_parts,
        generate_kept, generate_with,
    },
    kept::Kept,
    policy::Policy,
    scratch::Scratch,
    source::{FetchWheel, HUB, Progress, Sources, resolve},
    speculate::{Drafts, Step},
    suffix::{Copied, Suffixes},
    tokenizer::Tokenizer,
};
pub use config::{Config, Family, Window};
pub use cost::{Lengths, update_flops};
pub use error::ModelError;
pub use lora::{Base, LoraConfig, Target};
pub use memory::keep_freed_memory;
pub use network::{Activations, Forward, Group, Model};
pub use params::Params;
pub use rate::product_rate;
pub use rotary::RopeScaling;

/// What weights and activations are made of. With the feature `double` it is `f64`, for the test
/// that needs it and nothing else: files, tokens and sampling are left out then.
#[cfg(not(feature = "double"))]
pub type Real = f32;
/// What weights and activations are made of.
#[cfg(feature = "double")]
pub type Real = f64;
