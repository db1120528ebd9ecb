//! This engine's side of the comparison with transformers; `parity/parity.py` runs it.
//!
//! `parity MODEL WORK` reads `WORK/prompts.json` (conversations) and `WORK/lines.json` (texts),
//! and writes `rendered.json`, `prompt_tokens.json`, `line_tokens.json`, `line_texts.json`
//! (tokens decoded again), `logits/<n>.f32` (little-endian, one row of the vocabulary per token)
//! and `checkpoint/`, a saved copy of the model.

use std::error::Error;
use std::path::Path;

use patchrl_model::{Message, Policy};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, work] = arguments.as_slice() else {
        return Err("usage: parity MODEL WORK".into());
    };
    let work = Path::new(work);
    let policy = Policy::load(Path::new(model))?;
    write_tokens(&policy, work)?;
    let prompts: Vec<Vec<Message>> = read(&work.join("prompts.json"))?;
    let logits = work.join("logits");
    fs_err::create_dir_all(&logits)?;
    let mut rendered = Vec::new();
    let mut tokens = Vec::new();
    for (at, prompt) in prompts.iter().enumerate() {
        rendered.push(policy.chat.render(prompt, true)?);
        let prompt = policy.prompt(prompt)?;
        let rows = policy.model.logits(&prompt)?;
        let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs_err::write(logits.join(format!("{at}.f32")), bytes)?;
        tokens.push(prompt);
    }
    write(&work.join("rendered.json"), &rendered)?;
    write(&work.join("prompt_tokens.json"), &tokens)?;
    policy.save(&work.join("checkpoint"))?;
    Ok(())
}

fn write_tokens(policy: &Policy, work: &Path) -> Result<(), Box<dyn Error>> {
    let lines: Vec<String> = read(&work.join("lines.json"))?;
    let tokens: Vec<Vec<u32>> = lines.iter().map(|line| policy.tokenizer.encode(line)).collect();
    let texts: Vec<String> = tokens.iter().map(|line| policy.tokenizer.decode(line)).collect();
    write(&work.join("line_tokens.json"), &tokens)?;
    write(&work.join("line_texts.json"), &texts)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Box<dyn Error>> {
    Ok(serde_json::from_slice(&fs_err::read(path)?)?)
}

fn write<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), Box<dyn Error>> {
    Ok(fs_err::write(path, serde_json::to_vec(value)?)?)
}
