//! What can go wrong in this room, with the thing named and, where the user can act, a way out.
//!
//! Owns the one error enum of the crate. Does not decide how an error is printed.

use std::io;
use std::path::PathBuf;

use patchrl_hub::HubError;

/// Every failure of `patchrl-model`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file is there, and what it says is wrong or truncated.
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not hold.
        why: String,
    },
    /// A model of a family that this engine does not compute.
    #[error("`{}` is a model of a kind that is not supported: {what}", path.display())]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// The architecture, activation, scaling or tokenizer in question.
        what: String,
    },
    /// A folder that should hold a model lacks one of its files.
    #[error("`{}` holds no `{file}`", folder.display())]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The file, or the alternatives, that were looked for.
        file: String,
    },
    /// Weights that the configuration asks for are not in the file.
    #[error("`{}` has no tensor `{tensor}`", path.display())]
    MissingTensor {
        /// The file or folder with the weights.
        path: PathBuf,
        /// Hugging Face's name of the tensor.
        tensor: String,
    },
    /// A tensor's shape is not the one that the configuration implies.
    #[error("tensor `{tensor}` in `{}` is {got:?}, the configuration needs {want:?}", path.display())]
    WrongShape {
        /// The file or folder with the weights.
        path: PathBuf,
        /// Hugging Face's name of the tensor.
        tensor: String,
        /// Shape from the configuration.
        want: Vec<usize>,
        /// Shape in the file.
        got: Vec<usize>,
    },
    /// No source had the model.
    #[error("no model `{name}`; tried: {}", tried.join("; "))]
    NotFound {
        /// The name as the user typed it.
        name: String,
        /// One entry for each place, with why it had nothing.
        tried: Vec<String>,
    },
    /// A file could not be read, written or fetched.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The tokenizer library refused something.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The model's own chat template could not be compiled or rendered.
    #[error("chat template: {0}")]
    Template(String),
    /// A prompt without tokens: nothing predicts the first answer token.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// A token id outside the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The id.
        token: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// A sequence longer than the model's positions.
    #[error("a sequence of {tokens} tokens exceeds the model's {limit} positions")]
    TooLong {
        /// Prompt and answer together.
        tokens: usize,
        /// `max_position_embeddings`.
        limit: usize,
    },
    /// A sampling or scoring parameter outside its range.
    #[error("`{name}` is {value}, but must be {want}")]
    BadSampling {
        /// Name of the parameter.
        name: &'static str,
        /// What was given.
        value: f64,
        /// The range in words.
        want: &'static str,
    },
    /// An adapter of a kind that this engine does not compute.
    #[error("`{}` is an adapter of a kind that is not supported: {what}", path.display())]
    UnsupportedAdapter {
        /// The file that says so.
        path: PathBuf,
        /// The setting and its value, or the tensor.
        what: String,
    },
    /// An adapter that cannot be put on the model.
    #[error("adapter: {0}")]
    Adapter(String),
    /// The network's output is infinite or not a number.
    #[error("the model's logits are not finite")]
    NotFinite,
    /// An argument that does not have the shape of the model or of the answers.
    #[error("{what}: expected {want}, got {got}")]
    Shape {
        /// Which argument.
        what: &'static str,
        /// Entries expected.
        want: usize,
        /// Entries given.
        got: usize,
    },
}

impl ModelError {
    /// What the user can do now, printed as `hint: ...` under the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { path, .. } => {
                Some(format!("remove `{}` and fetch or copy it again", path.display()))
            }
            Self::Unsupported { .. } => Some(
                "models of the Llama 2 and 3, Mistral, Qwen2, Qwen2.5, Qwen3 and DeepSeek-Coder \
                 families with full-precision or Q4/Q5/Q8/K-quant GGUF weights work, such as \
                 `smollm2-135m`"
                    .to_owned(),
            ),
            Self::UnsupportedAdapter { .. } => Some(
                "plain LoRA with one rank on some of q_proj, k_proj, v_proj, o_proj, gate_proj, \
                 up_proj, down_proj works; merge any other into its model with PEFT's \
                 `merge_and_unload`"
                    .to_owned(),
            ),
            Self::MissingFile { .. } => Some(
                "a model folder holds `config.json`, `model.safetensors` and `tokenizer.json`, \
                 as transformers saves them; a `.gguf` file is given by its own path"
                    .to_owned(),
            ),
            Self::NotFound { .. } => Some(
                "give the path of a model folder or of a `.gguf` file, the name `smollm2-135m`, \
                 or `owner/name` as on the Hugging Face hub"
                    .to_owned(),
            ),
            Self::Hub(error) => error.hint(),
            _ => None,
        }
    }

    /// An input or output error of `fs_err`, whose message already names the path.
    pub(crate) fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Hub(HubError::io(action, source))
    }

    /// A write error: a full disk is told apart, since the user can act on it.
    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Hub(HubError::write(path, source))
    }
}
