//! The Hugging Face hub: which files a model has, and a folder of the cache with all of them.
//!
//! Owns the hub's addresses and the choice of files. The folder counts as cached once
//! `.complete.json`, written last, names every file and its size. Does not move bytes (see
//! `download`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use super::download::{Expected, Transfer};
use super::{Miss, Progress, Report, Sources};
use crate::ModelError;

const COMPLETE: &str = ".complete.json";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Small files that a model may have; the first two it must.
const SMALL: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];
/// More than any list of files.
const MAX_LISTING: u64 = 16 << 20;
/// A transfer that gives no byte for this long is broken off, and resumed.
const STALL: Duration = Duration::from_secs(30);

/// The cache's folder for `repo`, if it is whole.
pub(super) fn cached(models: &Path, repo: &str) -> Option<PathBuf> {
    let folder = folder_of(models, repo);
    let text = fs_err::read_to_string(folder.join(COMPLETE)).ok()?;
    let manifest: Value = serde_json::from_str(&text).ok()?;
    let whole = manifest["files"].as_object()?.iter().all(|(name, size)| {
        let found = fs_err::metadata(folder.join(name)).map(|meta| meta.len());
        found.is_ok_and(|found| Some(found) == size.as_u64())
    });
    whole.then_some(folder)
}

/// Download what `repo` has into the cache.
pub(super) fn fetch(
    sources: &Sources<'_>,
    repo: &str,
    models: &Path,
    report: &mut Report<'_>,
) -> Result<PathBuf, Miss> {
    let hub = Hub { agent: agent(sources), sources, repo };
    report(Progress::Note(&format!("asking {} for `{repo}`", sources.hub_endpoint)));
    let listing = hub.listing()?;
    let folder = folder_of(models, repo);
    fs_err::create_dir_all(&folder).map_err(|e| ModelError::write(&folder, e))?;
    let mut sizes = serde_json::Map::new();
    for file in &listing.files {
        let url =
            format!("{}/{repo}/resolve/{}/{}", sources.hub_endpoint, listing.revision, file.name);
        let transfer = Transfer {
            agent: &hub.agent,
            url: &url,
            token: sources.hub_token.as_deref(),
            name: &file.name,
            expected: &file.expected,
        };
        let size = transfer.fetch_into(&folder, &listing.revision, report)?;
        sizes.insert(file.name.clone(), json!(size));
    }
    let manifest = json!({"repo": repo, "revision": listing.revision, "files": sizes});
    let path = folder.join(COMPLETE);
    let draft = folder.join(".complete.json.part");
    fs_err::write(&draft, format!("{manifest:#}\n")).map_err(|e| ModelError::write(&draft, e))?;
    fs_err::rename(&draft, &path).map_err(|e| ModelError::write(&path, e))?;
    Ok(folder)
}

fn folder_of(models: &Path, repo: &str) -> PathBuf {
    models.join(repo.replace('/', "--"))
}

fn agent(sources: &Sources<'_>) -> Agent {
    Agent::config_builder()
        .user_agent(concat!("patchrl/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .timeout_resolve(Some(sources.connect_timeout))
        .timeout_connect(Some(sources.connect_timeout))
        .timeout_recv_response(Some(STALL))
        .timeout_per_read(Some(STALL))
        .build()
        .into()
}

struct Hub<'a> {
    agent: Agent,
    sources: &'a Sources<'a>,
    repo: &'a str,
}

/// The files of a model that are worth fetching, at one commit.
struct Listing {
    revision: String,
    files: Vec<Remote>,
}

struct Remote {
    name: String,
    expected: Expected,
}

impl Hub<'_> {
    fn listing(&self) -> Result<Listing, Miss> {
        let Self { sources, repo, .. } = self;
        let url = format!("{}/api/models/{repo}/revision/main?blobs=true", sources.hub_endpoint);
        let mut request = self.agent.get(&url);
        if let Some(token) = &sources.hub_token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().map_err(|error| {
            Miss::Absent(format!("the hub at {} cannot be reached ({error})", sources.hub_endpoint))
        })?;
        let status = response.status().as_u16();
        match status {
            200 => {}
            401 | 403 => {
                return Err(Miss::Absent(format!(
                    "the hub has no open model `{repo}` (status {status}); a private or gated one needs a token"
                )));
            }
            404 => return Err(Miss::Absent(format!("the hub has no model `{repo}`"))),
            _ => return Err(Miss::Absent(format!("the hub answered with status {status}"))),
        }
        let text = response.body_mut().with_config().limit(MAX_LISTING).read_to_string();
        let text =
            text.map_err(|e| Miss::Absent(format!("the hub's list of files broke off ({e})")))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|e| Miss::Absent(format!("the hub's list of files is not JSON ({e})")))?;
        choose(repo, &value).map_err(Miss::Absent)
    }
}

/// From the hub's answer, the commit and the files to fetch.
fn choose(repo: &str, listing: &Value) -> Result<Listing, String> {
    let revision = listing["sha"].as_str().unwrap_or_default();
    if revision.is_empty() || !revision.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("the hub's answer names no commit".to_owned());
    }
    let siblings = listing["siblings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |name: &str| siblings.iter().any(|file| file["rfilename"] == name);
    let wanted = |name: &str| {
        let shard = name.starts_with("model-") && name.ends_with(".safetensors");
        SMALL.contains(&name) || if has(SINGLE) { name == SINGLE } else { name == INDEX || shard }
    };
    for name in &SMALL[..2] {
        if !has(name) {
            return Err(format!("`{repo}` on the hub has no `{name}`"));
        }
    }
    if !has(SINGLE) && !has(INDEX) {
        return Err(format!("`{repo}` on the hub has no weights as safetensors"));
    }
    let files = siblings.iter().filter_map(|file| {
        let name = file["rfilename"].as_str().filter(|name| wanted(name) && !name.contains('/'))?;
        let lfs = &file["lfs"];
        let expected = Expected {
            size: lfs["size"].as_u64().or(file["size"].as_u64()),
            sha256: lfs["sha256"].as_str().map(str::to_ascii_lowercase),
        };
        Some(Remote { name: name.to_owned(), expected })
    });
    Ok(Listing { revision: revision.to_owned(), files: files.collect() })
}
