//! A model's folder behind vLLM's, `SGLang`'s or llama.cpp's protocol, adapters included, for runs
//! that need a server with real weights where none is installed.
//!
//! `cargo run --release -p patchrl-testkit --example serve -- DIR [vllm|sglang|llama-cpp] [PORT]`

use patchrl_model::Policy;
use patchrl_testkit::{Brain, FakeServer, Flavour};

#[expect(clippy::print_stdout, reason = "the address is the program's answer")]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = words.first().expect("a model's folder");
    let flavour = match words.get(1).map_or("vllm", String::as_str) {
        "vllm" => Flavour::Vllm,
        "sglang" => Flavour::Sglang,
        "llama-cpp" => Flavour::LlamaCpp,
        other => panic!("`{other}` is no server that can be played"),
    };
    let port = words.get(2).map_or("8000", String::as_str);
    let policy = Policy::load(folder.as_ref()).expect("a model that can be read");
    let brain = Brain::Model(Box::new(policy));
    let server = FakeServer::listen(&format!("127.0.0.1:{port}"), flavour, brain, None);
    println!("{}", server.base_url());
    loop {
        std::thread::park();
    }
}
