//! Any texts between NULs as the replies of an agent, over and over until its episode ends.

#![no_main]

#[path = "../../crates/patchrl-agent/tests/it/hostile.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;
use patchrl_agent::Reply;

fuzz_target!(|input: &str| {
    let replies: Vec<Reply> = input.split('\0').map(Reply::said).collect();
    hostile::play(&replies);
});
