//! New weights on their way to a server.
//!
//! Owns the folders they travel in, what is loaded there and what has to leave, and that the server
//! is asked for the newest. One run at a time may own a server: adapters are named by version, and
//! what an earlier run left under such a name is taken away first. How each server is told is in
//! `told`.

mod told;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use patchrl_agent::PolicyFault;
use patchrl_model::Policy;

use crate::config::{HandoverKind, Server};
use crate::openai::{OpenAi, PREFIX, Target, Trouble, name_of};
use crate::{RolloutConfig, RolloutError};

/// Hands each version of the weights to a server.
pub struct Handover {
    server: OpenAi,
    way: Way,
    /// Where they are written.
    folder: PathBuf,
    /// The same as the server sees it.
    there: PathBuf,
    /// Versions that stay beside the newest.
    keep: u64,
    /// What the server calls its own weights.
    base: String,
    loaded: Mutex<BTreeSet<u64>>,
}

/// How they get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Lora,
    Disk,
    None,
}

impl Handover {
    /// Find the way, see that the server is well, and take away what an earlier run left there.
    /// `lora`: an adapter is trained.
    pub fn open(server: OpenAi, lora: bool, run_dir: &Path) -> Result<Self, RolloutError> {
        let config = server.config();
        let way = way(config, server.server(), lora)?;
        let folder = config.handover_dir.clone().unwrap_or_else(|| run_dir.join("handover"));
        fs_err::create_dir_all(&folder)?;
        let folder = fs_err::canonicalize(folder)?;
        let there = config.server_dir.clone().unwrap_or_else(|| folder.clone());
        let (keep, base) = (config.staleness, server.model());
        let loaded = Mutex::default();
        let handover = Self { server, way, folder, there, keep, base, loaded };
        handover.clear()?;
        Ok(handover)
    }

    /// Whether new weights reach the server at all.
    pub fn reaches(&self) -> bool {
        self.way != Way::None
    }

    /// Hand over what `policy` is after `version` updates. Afterwards the server is asked for it,
    /// and versions that nobody may ask for any more are gone.
    pub fn publish(&self, policy: &Policy, version: u64) -> Result<(), RolloutError> {
        let name = name_of(version);
        if self.server.target().version == version && self.has(version) {
            // A phase ends with the weights that the next one begins with.
            return Ok(());
        }
        let (ours, theirs) = (self.folder.join(&name), self.there.join(&name));
        match self.way {
            Way::None => return Ok(()),
            Way::Lora => {
                policy.model.save_adapter(&ours, Some(&self.base))?;
                self.tell(version, &|again| self.load(&name, &theirs, again))?;
                let base = self.base.clone();
                self.server.aim(Target { base, adapter: Some(name), version });
            }
            Way::Disk => {
                policy.save(&ours)?;
                self.tell(version, &|_| self.update(&name, &theirs))?;
                self.server.aim(Target { base: self.base.clone(), adapter: None, version });
            }
        }
        let gone: Vec<u64> = {
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.insert(version);
            let oldest = version.saturating_sub(self.keep);
            loaded.iter().copied().filter(|it| *it < oldest || *it > version).collect()
        };
        gone.into_iter().try_for_each(|version| self.retire(version))
    }

    fn has(&self, version: u64) -> bool {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).contains(&version)
    }

    fn retire(&self, version: u64) -> Result<(), RolloutError> {
        let name = name_of(version);
        if self.way == Way::Lora {
            self.tell(version, &|again| self.unload(&name, again))?;
        }
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).remove(&version);
        match fs_err::remove_dir_all(self.folder.join(&name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// What an earlier run left: adapters under our names, here and there, and prefixes computed
    /// with them.
    fn clear(&self) -> Result<(), RolloutError> {
        if self.way == Way::None {
            return Ok(());
        }
        for entry in fs_err::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.path().is_dir() {
                fs_err::remove_dir_all(entry.path())?;
            }
        }
        self.tell(0, &|_| self.is_well())?;
        let listed = self.tell(0, &|_| self.names())?;
        for name in listed.iter().filter(|name| name.starts_with(PREFIX)) {
            self.tell(0, &|again| self.unload(name, again))?;
        }
        self.tell(0, &|_| self.forget_prefixes())
    }

    /// Tell the server until it hears; `told` learns whether it was told before.
    fn tell<T>(
        &self,
        version: u64,
        told: &dyn Fn(bool) -> Result<T, Trouble>,
    ) -> Result<T, RolloutError> {
        let before = std::cell::Cell::new(false);
        let attempt = || told(before.replace(true));
        let told = self.server.until_it_comes(version, &|| false, &attempt);
        Ok(told.map_err(|fault| match fault {
            PolicyFault::Lost(what) | PolicyFault::Overflow(what) => PolicyFault::Fatal {
                what: format!("the weights did not reach the server: {what}"),
                hint: "see what the server's log says, then go on with `--resume`".into(),
            },
            fatal @ PolicyFault::Fatal { .. } => fatal,
        })?)
    }
}

fn way(config: &RolloutConfig, server: Server, lora: bool) -> Result<Way, RolloutError> {
    let refuse = |what: &str, hint: &str| {
        Err(PolicyFault::Fatal { what: what.to_owned(), hint: hint.to_owned() }.into())
    };
    let kind = match config.handover {
        HandoverKind::Auto if lora => HandoverKind::Lora,
        HandoverKind::Auto => HandoverKind::Disk,
        kind => kind,
    };
    match (kind, server) {
        (HandoverKind::None, _) => Ok(Way::None),
        (HandoverKind::Lora | HandoverKind::Auto, Server::Vllm | Server::Sglang) if lora => {
            Ok(Way::Lora)
        }
        (HandoverKind::Lora | HandoverKind::Auto, Server::Vllm | Server::Sglang) => refuse(
            "`rollout.handover: lora` hands adapters over, but every weight is trained",
            "set `train.lora`, such as `train: { lora: { rank: 16 } }`",
        ),
        (HandoverKind::Disk, Server::Sglang) if config.staleness == 0 => Ok(Way::Disk),
        (HandoverKind::Disk, Server::Sglang) => refuse(
            "whole weights are exchanged under the answers that are being drawn, so that their \
             tokens would have no version",
            "set `rollout.staleness: 0`, or train an adapter with `train.lora`",
        ),
        (HandoverKind::Disk, _) => refuse(
            "only SGLang takes whole weights from the disk",
            "train an adapter with `train.lora`, which vLLM and SGLang load while they run",
        ),
        _ => refuse(
            "this server loads no adapters while it runs: vLLM and SGLang do",
            "set `rollout.server` if it is one of them, or `rollout.handover: none` to train on \
             the answers of weights that stay as they are",
        ),
    }
}
