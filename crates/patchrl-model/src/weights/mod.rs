//! Weights on disk, in and out of [`Params`].
//!
//! Owns the way from a file's tensors to the engine's: every tensor that the configuration
//! implies must be there with its shape, and the file must be long enough for all of them before
//! a single byte is allocated. Formats live in `safetensors` and `gguf`.

pub(crate) mod gguf;
mod gguf_llama;
mod quant;
pub(crate) mod safetensors;

use std::path::Path;

use crate::params::Layout;
use crate::{ModelError, Params};

pub(crate) use gguf_llama::GgufModel;

/// A file or folder with tensors, under Hugging Face's names.
pub(crate) trait TensorFile {
    /// For errors.
    fn path(&self) -> &Path;
    /// Shape of one tensor, outermost dimension first.
    fn shape(&self, name: &str) -> Option<&[usize]>;
    /// Scalars in all tensors together. Each is backed by bytes of the file.
    fn elements(&self) -> u64;
    /// Fill `out`, which has the tensor's length, with its values.
    fn read(&mut self, name: &str, out: &mut [f32]) -> Result<(), ModelError>;
}

/// Read every tensor of `layout`.
pub(crate) fn load(layout: Layout, file: &mut dyn TensorFile) -> Result<Params, ModelError> {
    // A configuration is a few bytes that may ask for terabytes. The file cannot lie about how
    // long it is.
    if layout.total as u64 > file.elements() {
        return Err(ModelError::Damaged {
            path: file.path().into(),
            why: format!(
                "it holds {} numbers, the configuration asks for {}",
                file.elements(),
                layout.total
            ),
        });
    }
    let mut params = Params::of(layout);
    let wanted: Vec<(String, Vec<usize>)> =
        params.tensors().map(|(name, _, shape)| (name.to_owned(), shape.to_vec())).collect();
    for (name, want) in wanted {
        let Some(got) = file.shape(&name) else {
            return Err(ModelError::MissingTensor { path: file.path().into(), tensor: name });
        };
        if got != want {
            let (path, got) = (file.path().into(), got.to_vec());
            return Err(ModelError::WrongShape { path, tensor: name, want, got });
        }
        let out = params.tensor_mut(&name).expect("the name came from the same layout");
        file.read(&name, out)?;
    }
    Ok(params)
}
