//! A whole policy: weights, tokenizer and chat template, loaded and saved together.
//!
//! Owns what a model folder is: `config.json`, `model.safetensors`, `tokenizer.json`,
//! `tokenizer_config.json` and `generation_config.json`, loadable by transformers as they are.
//! A folder is written whole or not at all. Does not know where models come from (see `source`).

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::params::Layout;
use crate::weights::{self, GgufModel, TensorFile, safetensors};
use crate::{ChatTemplate, Config, Message, Model, ModelError, Tokenizer, config};

const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";
const WEIGHTS: &str = "model.safetensors";

/// What samples, and what is trained.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Configuration and weights.
    pub model: Model,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Turns to text.
    pub chat: ChatTemplate,
}

impl Policy {
    /// Load a Hugging Face folder, a `.gguf` file, or a folder with one `.gguf` file.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        match gguf_in(path)? {
            Some(file) => Self::load_gguf(&file),
            None => Self::load_folder(path),
        }
    }

    fn load_gguf(path: &Path) -> Result<Self, ModelError> {
        let mut file = GgufModel::open(path)?;
        let tokenizer = Tokenizer::from_gguf(file.gguf())?;
        let config = file.config().clone();
        Self::assemble(config, tokenizer, &mut file)
    }

    fn load_folder(folder: &Path) -> Result<Self, ModelError> {
        let config = read_config(folder)?;
        let tokenizer = Tokenizer::read(folder)?;
        Self::assemble(config, tokenizer, &mut safetensors::Folder::open(folder)?)
    }

    fn assemble(
        config: Config,
        mut tokenizer: Tokenizer,
        file: &mut dyn TensorFile,
    ) -> Result<Self, ModelError> {
        if tokenizer.vocab() > config.vocab {
            return Err(ModelError::Damaged {
                path: file.path().into(),
                why: format!(
                    "its tokenizer has {} tokens, its embedding {} rows",
                    tokenizer.vocab(),
                    config.vocab
                ),
            });
        }
        tokenizer.also_end_at(&config.eos);
        let chat = ChatTemplate::of(&tokenizer)?;
        let params = weights::load(Layout::of(&config), file)?;
        Ok(Self { model: Model::new(config, params), tokenizer, chat })
    }

    /// Tokens of a conversation, ready for the model to answer. Special tokens come from the
    /// template alone.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, ModelError> {
        self.chat.encode(&self.tokenizer, messages, true)
    }

    /// Write the policy as a folder, replacing one that is there; an adapter goes into the
    /// weights. Until the last step everything happens beside `folder`; what fails or is killed
    /// on the way leaves `folder` as it was.
    pub fn save(&self, folder: &Path) -> Result<(), ModelError> {
        let draft = Draft::start(folder)?;
        self.model.write(&draft.path)?;
        self.tokenizer.save(&draft.path)?;
        draft.publish()
    }
}

impl Model {
    /// The network of a Hugging Face folder, without a tokenizer.
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        let config = read_config(folder)?;
        let mut file = safetensors::Folder::open(folder)?;
        let params = weights::load(Layout::of(&config), &mut file)?;
        Ok(Self::new(config, params))
    }

    /// As [`Policy::save`], without a tokenizer.
    pub fn save(&self, folder: &Path) -> Result<(), ModelError> {
        let draft = Draft::start(folder)?;
        self.write(&draft.path)?;
        draft.publish()
    }

    fn write(&self, folder: &Path) -> Result<(), ModelError> {
        let config = &self.config;
        let files = [(CONFIG, config.to_hf()), (GENERATION, config::generation_config(config))];
        for (name, value) in files {
            let path = folder.join(name);
            fs_err::write(&path, format!("{value:#}\n"))
                .map_err(|e| ModelError::write(&path, e))?;
        }
        safetensors::write(&folder.join(WEIGHTS), &self.merged().params)
    }
}

fn read_config(folder: &Path) -> Result<Config, ModelError> {
    let mut config = Config::read(&folder.join(CONFIG))?;
    for id in generation_eos(&folder.join(GENERATION))? {
        if !config.eos.contains(&id) {
            config.eos.push(id);
        }
    }
    Ok(config)
}

/// A folder under a hidden name next to the one it will become. Dropped unpublished, it is
/// removed.
pub(crate) struct Draft {
    path: PathBuf,
    target: PathBuf,
}

impl Draft {
    pub(crate) fn start(target: &Path) -> Result<Self, ModelError> {
        let parent = parent_of(target);
        fs_err::create_dir_all(parent).map_err(|e| ModelError::write(parent, e))?;
        let path = sibling(target, "partial");
        // Of a run that was killed here.
        remove(&path)?;
        let replaced = sibling(target, "replaced");
        if replaced.exists() && !target.exists() {
            fs_err::rename(&replaced, target).map_err(|e| ModelError::write(target, e))?;
        }
        fs_err::create_dir(&path).map_err(|e| ModelError::write(&path, e))?;
        Ok(Self { path, target: target.into() })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn publish(self) -> Result<(), ModelError> {
        let write = |e| ModelError::write(&self.target, e);
        for entry in fs_err::read_dir(&self.path).map_err(write)? {
            sync(&entry.map_err(write)?.path()).map_err(write)?;
        }
        sync(&self.path).map_err(write)?;
        let old = sibling(&self.target, "replaced");
        remove(&old)?;
        if self.target.exists() {
            fs_err::rename(&self.target, &old).map_err(write)?;
        }
        fs_err::rename(&self.path, &self.target).map_err(write)?;
        sync(parent_of(&self.target)).map_err(write)?;
        remove(&old)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After publishing there is nothing under this name.
        let _ = remove(&self.path);
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// `.<name>.<suffix>` beside `path`.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent_of(path).join(format!(".{name}.{suffix}"))
}

fn remove(path: &Path) -> Result<(), ModelError> {
    match fs_err::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(ModelError::io("cannot clear an unfinished checkpoint", e))
        }
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> std::io::Result<()> {
    fs_err::File::open(path)?.sync_all()
}

/// The `.gguf` file that `path` is, or holds instead of a Hugging Face model.
fn gguf_in(path: &Path) -> Result<Option<PathBuf>, ModelError> {
    let is_gguf =
        |path: &Path| path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("gguf"));
    if !path.is_dir() {
        // A file under another name is read by what it is: the header says so if it is not GGUF.
        return Ok(Some(path.into()));
    }
    if path.join(CONFIG).is_file() {
        return Ok(None);
    }
    let io = |e| ModelError::io("cannot look into the model's folder", e);
    let mut found = Vec::new();
    for entry in fs_err::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if is_gguf(&file) {
            found.push(file);
        }
    }
    match found.as_slice() {
        [one] => Ok(Some(one.clone())),
        [] => Err(ModelError::MissingFile { folder: path.into(), file: CONFIG.into() }),
        many => Err(ModelError::Damaged {
            path: path.into(),
            why: format!("it holds {} `.gguf` files; name one of them", many.len()),
        }),
    }
}

/// Where generation stops according to `generation_config.json`, which not every model has.
fn generation_eos(path: &Path) -> Result<Vec<u32>, ModelError> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = fs_err::read_to_string(path)
        .map_err(|e| ModelError::io("cannot read the generation settings", e))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|e| ModelError::Damaged { path: path.into(), why: e.to_string() })?;
    Ok(config::token_ids(&value["eos_token_id"]))
}
