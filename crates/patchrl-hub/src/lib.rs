//! Files of the Hugging Face hub or a mirror of it: which there are, and a folder that has them.
//!
//! Owns the hub's addresses, transfers that go on where they broke off, and the checks of size and
//! SHA-256. A folder counts as whole once `.complete.json`, written last, names every file and its
//! size. Does not know what the files are for: which are wanted is the caller's choice.

mod download;
mod error;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use ureq::Agent;

use download::Transfer;
pub use download::hex;
pub use error::{HubError, Miss};

/// The Hugging Face hub's own address.
pub const HUB: &str = "https://huggingface.co";

const COMPLETE: &str = ".complete.json";
/// More than any list of files.
const MAX_LISTING: u64 = 16 << 20;
/// A transfer that gives no byte for this long is broken off, and resumed.
const STALL: Duration = Duration::from_secs(30);

/// What a repository of the hub holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Weights and a tokenizer.
    Model,
    /// Rows.
    Dataset,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "data set",
        }
    }

    /// Between the address and the repository's name, for files.
    fn prefix(self) -> &'static str {
        match self {
            Self::Model => "",
            Self::Dataset => "datasets/",
        }
    }

    fn listed_under(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

/// What happens while something is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A line for the user: what is asked next, or why a place had nothing.
    Note(&'a str),
    /// Bytes of one file that have arrived.
    Bytes {
        /// File name.
        file: &'a str,
        /// Bytes on the disk by now.
        done: u64,
        /// Size of the whole, if it was announced.
        total: Option<u64>,
    },
}

/// Receiver of [`Progress`].
pub type Report<'a> = dyn FnMut(Progress<'_>) + 'a;

/// What was announced about a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// In bytes.
    pub size: Option<u64>,
    /// Lower-case hexadecimal.
    pub sha256: Option<String>,
}

/// A file that the hub has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its path in the repository.
    pub name: String,
    /// What its bytes must be.
    pub expected: Expected,
}

/// The files of a repository at one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The commit.
    pub revision: String,
    /// All files.
    pub files: Vec<Remote>,
}

/// The hub, and how it is asked.
pub struct Hub<'a> {
    agent: Agent,
    endpoint: &'a str,
    token: Option<&'a str>,
}

impl<'a> Hub<'a> {
    /// The hub at `endpoint`, without a slash at its end. The token is sent there alone.
    pub fn new(endpoint: &'a str, token: Option<&'a str>, connect: Duration) -> Self {
        let agent = Agent::config_builder()
            .user_agent(concat!("patchrl/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_recv_response(Some(STALL))
            .timeout_per_read(Some(STALL))
            .build()
            .into();
        Self { agent, endpoint, token }
    }

    /// The files of `repo` at the head of its main branch.
    pub fn listing(
        &self,
        kind: Kind,
        repo: &str,
        report: &mut Report<'_>,
    ) -> Result<Listing, Miss> {
        report(Progress::Note(&format!("asking {} for `{repo}`", self.endpoint)));
        let (endpoint, under, word) = (self.endpoint, kind.listed_under(), kind.word());
        let url = format!("{endpoint}/api/{under}/{repo}/revision/main?blobs=true");
        let mut request = self.agent.get(&url);
        if let Some(token) = self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let absent = |why: String| Err(Miss::Absent(why));
        let mut response = match request.call() {
            Ok(response) => response,
            Err(e) => return absent(format!("the hub at {endpoint} cannot be reached ({e})")),
        };
        let status = response.status().as_u16();
        match status {
            200 => {}
            401 | 403 => {
                return absent(format!(
                    "the hub has no open {word} `{repo}` (status {status}); a private or gated one \
                     needs a token"
                ));
            }
            404 => return absent(format!("the hub has no {word} `{repo}`")),
            _ => return absent(format!("the hub answered with status {status}")),
        }
        let text = response.body_mut().with_config().limit(MAX_LISTING).read_to_string();
        let text =
            text.map_err(|e| Miss::Absent(format!("the hub's list of files broke off ({e})")))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|e| Miss::Absent(format!("the hub's list of files is not JSON ({e})")))?;
        read_listing(&value).map_err(Miss::Absent)
    }

    /// Fetch `files` of a repository into `folder`, each under the last part of its name, and
    /// mark the folder as whole. Two runs that need the same: the second waits, and finds it.
    pub fn fetch(
        &self,
        (kind, repo): (Kind, &str),
        (revision, files): (&str, &[Remote]),
        folder: &Path,
        report: &mut Report<'_>,
    ) -> Result<(), Miss> {
        fs_err::create_dir_all(folder).map_err(|e| HubError::write(folder, e))?;
        let _lock = lock(folder)?;
        if whole(folder).is_some() {
            return Ok(());
        }
        let mut sizes = Map::new();
        for file in files {
            let (endpoint, prefix, path) = (self.endpoint, kind.prefix(), &file.name);
            let url = format!("{endpoint}/{prefix}{repo}/resolve/{revision}/{path}");
            let name = path.rsplit('/').next().unwrap_or(path);
            let transfer = Transfer {
                agent: &self.agent,
                url: &url,
                token: self.token,
                name,
                expected: &file.expected,
            };
            let size = transfer.fetch_into(folder, revision, report)?;
            sizes.insert(name.to_owned(), json!(size));
        }
        let manifest = json!({"repo": repo, "revision": revision, "files": sizes});
        let path = folder.join(COMPLETE);
        let draft = folder.join(".complete.json.part");
        fs_err::write(&draft, format!("{manifest:#}\n")).map_err(|e| HubError::write(&draft, e))?;
        Ok(fs_err::rename(&draft, &path).map_err(|e| HubError::write(&path, e))?)
    }
}

/// Held until dropped, by this process alone; the system lets go of it when the process ends.
fn lock(folder: &Path) -> Result<fs_err::File, HubError> {
    let path = folder.join(".lock");
    let file = fs_err::File::create(&path).map_err(|e| HubError::write(&path, e))?;
    file.file().lock().map_err(|e| HubError::io("cannot lock the cache", e))?;
    Ok(file)
}

/// The files of a folder that was fetched whole, sorted by name.
pub fn whole(folder: &Path) -> Option<Vec<PathBuf>> {
    let text = fs_err::read_to_string(folder.join(COMPLETE)).ok()?;
    let manifest: Value = serde_json::from_str(&text).ok()?;
    let mut files = Vec::new();
    for (name, size) in manifest["files"].as_object()? {
        let path = folder.join(name);
        if fs_err::metadata(&path).ok()?.len() != size.as_u64()? {
            return None;
        }
        files.push(path);
    }
    files.sort();
    Some(files)
}

/// `owner/name` as the hub allows it, and nothing that could leave a folder.
pub fn is_repo(name: &str) -> bool {
    let fine = |part: &str| {
        !part.is_empty()
            && part.len() <= 96
            && !part.starts_with(['.', '-'])
            && !part.contains("..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    name.split_once('/').is_some_and(|(owner, name)| fine(owner) && fine(name))
}

/// The folder of a repository in a cache of them.
pub fn folder_of(cache: &Path, repo: &str) -> PathBuf {
    cache.join(repo.replace('/', "--"))
}

fn read_listing(listing: &Value) -> Result<Listing, String> {
    let revision = listing["sha"].as_str().unwrap_or_default();
    if revision.is_empty() || !revision.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("the hub's answer names no commit".to_owned());
    }
    let siblings = listing["siblings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let files = siblings.iter().filter_map(|file| {
        let name = file["rfilename"].as_str().filter(|name| is_path(name))?;
        let lfs = &file["lfs"];
        let expected = Expected {
            size: lfs["size"].as_u64().or(file["size"].as_u64()),
            sha256: lfs["sha256"].as_str().map(str::to_ascii_lowercase),
        };
        Some(Remote { name: name.to_owned(), expected })
    });
    Ok(Listing { revision: revision.to_owned(), files: files.collect() })
}

/// A path inside a repository that can stand in an address as it is.
fn is_path(name: &str) -> bool {
    name.len() <= 512
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+/=".contains(c))
}
