//! A model on the Hugging Face hub: which of its files are needed.

use std::path::{Path, PathBuf};

use patchrl_hub::{Hub, Kind, Listing, Remote};

use super::{Miss, Report, Sources};

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

/// The cache's folder for `repo`, if it is whole.
pub(super) fn cached(models: &Path, repo: &str) -> Option<PathBuf> {
    let folder = patchrl_hub::folder_of(models, repo);
    patchrl_hub::whole(&folder).map(|_| folder)
}

/// Download what `repo` has into the cache.
pub(super) fn fetch(
    sources: &Sources<'_>,
    repo: &str,
    models: &Path,
    report: &mut Report<'_>,
) -> Result<PathBuf, Miss> {
    let token = sources.hub_token.as_deref();
    let hub = Hub::new(&sources.hub_endpoint, token, sources.connect_timeout);
    let listing = hub.listing(Kind::Model, repo, report)?;
    let files = choose(repo, &listing).map_err(Miss::Absent)?;
    let folder = patchrl_hub::folder_of(models, repo);
    hub.fetch((Kind::Model, repo), (&listing.revision, &files), &folder, report)?;
    Ok(folder)
}

/// The files to fetch.
fn choose(repo: &str, listing: &Listing) -> Result<Vec<Remote>, String> {
    let has = |name: &str| listing.files.iter().any(|file| file.name == name);
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
    let chosen = listing.files.iter().filter(|file| wanted(&file.name) && !file.name.contains('/'));
    Ok(chosen.cloned().collect())
}
