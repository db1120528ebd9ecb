//! This engine's side of the comparison on small checkpoints; `parity/families.py` runs it.
//!
//! `families WORK` reads `WORK/model`, `WORK/adapter` (PEFT's) and `WORK/tokens.json`, and writes
//! `ours.f32` and `ours_adapter.f32` (logits, little-endian, one row of the vocabulary per token),
//! `ours/` and `ours_merged/` (checkpoints) and `ours_adapter/` (an adapter).

use std::error::Error;
use std::path::Path;

use patchrl_model::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let work = std::env::args().nth(1).ok_or("usage: families WORK")?;
    let work = Path::new(&work);
    let tokens: Vec<u32> = serde_json::from_slice(&fs_err::read(work.join("tokens.json"))?)?;
    let model = Model::load(&work.join("model"))?;
    model.save(&work.join("ours"))?;
    write(&work.join("ours.f32"), &model.logits(&tokens)?)?;
    let adapted = model.load_adapter(&work.join("adapter"))?;
    adapted.save_adapter(&work.join("ours_adapter"), None)?;
    adapted.save(&work.join("ours_merged"))?;
    write(&work.join("ours_adapter.f32"), &adapted.logits(&tokens)?)
}

fn write(path: &Path, logits: &[f32]) -> Result<(), Box<dyn Error>> {
    let bytes: Vec<u8> = logits.iter().flat_map(|value| value.to_le_bytes()).collect();
    Ok(fs_err::write(path, bytes)?)
}
