//! Checkpoints: a Hugging Face folder with our own state beside it.
//!
//! Owns their layout, the `latest` link and what is kept. A checkpoint is
//! written under another name and renamed when it is whole, so a crash or a full
//! disk leaves the last one as it was.
//!
//! ```text
//! checkpoints/step-000100/   config.json, model.safetensors, tokenizer.json ...
//!                  state/    state.json, moments.bin (first then second, f32 little-endian)
//!                  adapter/  with `lora:`, PEFT's files; the weights above have it added in
//! checkpoints/latest         a link, moved only when its target is whole
//! ```

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use patchrl_model::Policy;
use patchrl_telemetry::Event;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::optimizer::{AdamW, AdamWConfig};

/// Where a run stands. Everything else follows from the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Index of the phase the next step belongs to.
    pub phase: usize,
    /// Name of the phase the last finished step belongs to.
    pub phase_name: String,
    /// Steps of the phase at `phase` that are done.
    pub phase_step: u64,
    /// Steps done over all phases.
    pub step: u64,
    /// Optimizer steps since the phase began.
    pub optimizer_steps: u64,
    /// The checkpoint whose weights the phase began with; the KL term's reference.
    /// `None` is the model the run began with.
    pub reference: Option<String>,
    /// Hash of the configuration that decides the numbers; a resume under another is refused.
    pub config: String,
}

impl State {
    /// The event that says the checkpoint of this state is whole.
    pub fn written(&self) -> Event {
        Event::CheckpointWritten {
            path: format!("checkpoints/{}", checkpoint_name(self.step)),
            phase: self.phase_name.clone(),
            step: self.step,
        }
    }
}

/// The checkpoints of one run.
pub struct Checkpoints {
    dir: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// The checkpoints under `run_dir`; nothing is touched yet.
    pub fn new(run_dir: &Path, keep: usize) -> Self {
        Self { dir: run_dir.join("checkpoints"), keep }
    }

    /// The folder of the checkpoint named `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Write a checkpoint, whole or not at all, point `latest` at it, and drop
    /// the oldest beyond what is kept. Returns its name.
    pub fn write(
        &self,
        policy: &Policy,
        optimizer: &AdamW,
        state: &State,
    ) -> Result<String, TrainError> {
        let name = checkpoint_name(state.step);
        let path = self.path(&name);
        let partial = self.path(&format!(".{name}.partial"));
        let written = self.write_partial(&partial, policy, optimizer, state);
        if let Err(error) = written {
            // Give the space back: on a full disk the partial copy is what fills it.
            let _ = fs_err::remove_dir_all(&partial);
            return Err(error);
        }
        if path.exists() {
            fs_err::remove_dir_all(&path).map_err(|e| TrainError::checkpoint(&path, e))?;
        }
        fs_err::rename(&partial, &path).map_err(|e| TrainError::checkpoint(&path, e))?;
        self.point_latest(&name).map_err(|e| TrainError::checkpoint(&path, e))?;
        self.prune(&name, state.reference.as_deref())?;
        Ok(name)
    }

    fn write_partial(
        &self,
        partial: &Path,
        policy: &Policy,
        optimizer: &AdamW,
        state: &State,
    ) -> Result<(), TrainError> {
        let failed = |e| TrainError::checkpoint(partial, e);
        if partial.exists() {
            fs_err::remove_dir_all(partial).map_err(failed)?;
        }
        fs_err::create_dir_all(&self.dir).map_err(failed)?;
        policy.save(partial)?;
        if policy.model.base.is_some() {
            policy.model.save_adapter(&adapter_of(partial), None)?;
        }
        let folder = partial.join("state");
        fs_err::create_dir_all(&folder).map_err(failed)?;
        write_synced(&folder.join("moments.bin"), |file| {
            file.write_all(bytemuck::cast_slice(&optimizer.first))?;
            file.write_all(bytemuck::cast_slice(&optimizer.second))
        })
        .map_err(failed)?;
        let text = serde_json::to_string_pretty(state).map_err(|e| failed(e.into()))?;
        write_synced(&folder.join("state.json"), |file| file.write_all(text.as_bytes()))
            .map_err(failed)
    }

    fn point_latest(&self, name: &str) -> std::io::Result<()> {
        let link = self.dir.join(".latest.partial");
        if link.symlink_metadata().is_ok() {
            fs_err::remove_file(&link)?;
        }
        fs_err::os::unix::fs::symlink(name, &link)?;
        fs_err::rename(&link, self.dir.join("latest"))?;
        fs_err::File::open(&self.dir)?.sync_all()
    }

    fn prune(&self, newest: &str, reference: Option<&str>) -> Result<(), TrainError> {
        let mut names = self.names().map_err(|e| TrainError::checkpoint(&self.dir, e))?;
        names.sort_unstable();
        names.reverse();
        for old in names.iter().filter(|n| *n != newest).skip(self.keep - 1) {
            if Some(old.as_str()) != reference {
                let path = self.path(old);
                fs_err::remove_dir_all(&path).map_err(|e| TrainError::checkpoint(&path, e))?;
            }
        }
        Ok(())
    }

    fn names(&self) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs_err::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with("step-") {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Remove what a crash in the middle of a write left. Returns how many folders.
    pub fn sweep(&self) -> Result<usize, TrainError> {
        let mut swept = 0;
        let Ok(entries) = fs_err::read_dir(&self.dir) else { return Ok(0) };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') && name.ends_with(".partial") && entry.path().is_dir() {
                let path = entry.path();
                fs_err::remove_dir_all(&path).map_err(|e| TrainError::checkpoint(&path, e))?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// The newest whole checkpoint and its state, if there is one.
    pub fn latest(&self) -> Result<Option<(PathBuf, State)>, TrainError> {
        let path = self.path("latest");
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let path = fs_err::canonicalize(&path).map_err(|e| TrainError::checkpoint(&path, e))?;
        let file = path.join("state").join("state.json");
        let text = fs_err::read_to_string(&file).map_err(|e| TrainError::checkpoint(&path, e))?;
        let state =
            serde_json::from_str(&text).map_err(|e| TrainError::checkpoint(&path, e.into()))?;
        Ok(Some((path, state)))
    }
}

/// The folder of the checkpoint after `step` steps.
pub(crate) fn checkpoint_name(step: u64) -> String {
    format!("step-{step:06}")
}

/// The adapter in the checkpoint at `path`.
pub(crate) fn adapter_of(path: &Path) -> PathBuf {
    path.join("adapter")
}

/// Read the optimizer's memory of the checkpoint at `path`.
pub(crate) fn read_optimizer(
    path: &Path,
    config: AdamWConfig,
    parameters: usize,
    steps: u64,
) -> Result<AdamW, TrainError> {
    let mut optimizer = AdamW::new(config, parameters);
    optimizer.steps = steps;
    let failed = |e| TrainError::checkpoint(path, e);
    let mut file = fs_err::File::open(path.join("state").join("moments.bin")).map_err(failed)?;
    file.read_exact(bytemuck::cast_slice_mut(&mut optimizer.first)).map_err(failed)?;
    file.read_exact(bytemuck::cast_slice_mut(&mut optimizer.second)).map_err(failed)?;
    Ok(optimizer)
}

fn write_synced(
    path: &Path,
    write: impl FnOnce(&mut fs_err::File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut file = fs_err::File::create(path)?;
    write(&mut file)?;
    file.sync_all()
}
