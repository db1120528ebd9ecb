//! The safetensors format: single files and sharded folders in, single files out.
//!
//! Owns the header (eight bytes of length, then JSON) and the checks that make a hostile one
//! harmless. Reads F32, F16 and BF16; writes F32.

use std::collections::BTreeMap;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs_err::File;
use serde_json::{Map, Value, json};

use super::TensorFile;
use super::quant::Format;
use crate::{ModelError, Params};

/// The format's own limit on the header.
const MAX_HEADER: u64 = 100_000_000;
/// Bytes converted at a time.
const CHUNK: usize = 1 << 20;
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// All tensors of a model folder.
pub(crate) struct Folder {
    path: PathBuf,
    shards: Vec<Shard>,
    /// Tensor name to shard.
    at: BTreeMap<String, usize>,
}

struct Shard {
    path: PathBuf,
    file: File,
    data_start: u64,
    data_len: u64,
    tensors: BTreeMap<String, Entry>,
}

struct Entry {
    dtype: String,
    shape: Vec<usize>,
    start: u64,
}

impl Folder {
    /// Read the headers of `model.safetensors`, or of the shards that the index names.
    pub(crate) fn open(folder: &Path) -> Result<Self, ModelError> {
        let names = shard_names(folder)?;
        let mut shards = Vec::new();
        let mut at = BTreeMap::new();
        for name in names {
            let shard = Shard::open(&folder.join(name))?;
            at.extend(shard.tensors.keys().map(|tensor| (tensor.clone(), shards.len())));
            shards.push(shard);
        }
        Ok(Self { path: folder.into(), shards, at })
    }

    /// Read the header of one file.
    pub(crate) fn single(path: &Path) -> Result<Self, ModelError> {
        let shard = Shard::open(path)?;
        let at = shard.tensors.keys().map(|tensor| (tensor.clone(), 0)).collect();
        Ok(Self { path: path.into(), shards: vec![shard], at })
    }

    /// Names of all tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.at.keys().map(String::as_str)
    }
}

fn shard_names(folder: &Path) -> Result<Vec<String>, ModelError> {
    if folder.join(SINGLE).is_file() {
        return Ok(vec![SINGLE.to_owned()]);
    }
    let path = folder.join(INDEX);
    if !path.is_file() {
        let file = format!("{SINGLE} or {INDEX}");
        return Err(ModelError::MissingFile { folder: folder.into(), file });
    }
    let damaged = |why: String| ModelError::Damaged { path: path.clone(), why };
    let text = fs_err::read_to_string(&path)
        .map_err(|e| ModelError::io("cannot read the index of the weights", e))?;
    let index: Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    let map = index["weight_map"].as_object().ok_or_else(|| damaged("no `weight_map`".into()))?;
    let mut names = Vec::new();
    for value in map.values() {
        let name = value.as_str().unwrap_or_default();
        // A name with a folder in it could point anywhere on this machine.
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(damaged(format!("`{value}` is not a plain file name")));
        }
        names.push(name.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

impl Shard {
    fn open(path: &Path) -> Result<Self, ModelError> {
        let io = |e| ModelError::io("cannot read weights", e);
        let damaged = |why: String| ModelError::Damaged { path: path.into(), why };
        let mut file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut prefix = [0_u8; 8];
        if length < 8 {
            return Err(damaged(format!("{length} bytes are too few for a header")));
        }
        file.read_exact(&mut prefix).map_err(io)?;
        let header_len = u64::from_le_bytes(prefix);
        if header_len > MAX_HEADER.min(length - 8) {
            return Err(damaged(format!(
                "a header of {header_len} bytes in a file of {length}; truncated, or not safetensors"
            )));
        }
        let mut header = vec![0; header_len as usize];
        file.read_exact(&mut header).map_err(io)?;
        let header: Map<String, Value> =
            serde_json::from_slice(&header).map_err(|e| damaged(format!("its header: {e}")))?;
        let (data_start, data_len) = (8 + header_len, length - 8 - header_len);
        let mut tensors = BTreeMap::new();
        for (name, value) in header {
            if name == "__metadata__" {
                continue;
            }
            let entry = Entry::parse(&value, data_len)
                .map_err(|why| damaged(format!("tensor `{name}`: {why}")))?;
            tensors.insert(name, entry);
        }
        Ok(Self { path: path.into(), file, data_start, data_len, tensors })
    }

    fn read(&mut self, name: &str, out: &mut [f32]) -> Result<(), ModelError> {
        let entry = &self.tensors[name];
        let Some(format) = format_of(&entry.dtype) else {
            let what = format!("tensor `{name}` of type {}", entry.dtype);
            return Err(ModelError::Unsupported { path: self.path.clone(), what });
        };
        let io = |e| ModelError::io("cannot read weights", e);
        self.file.seek(SeekFrom::Start(self.data_start + entry.start)).map_err(io)?;
        let mut buffer = vec![0; CHUNK];
        for part in out.chunks_mut(CHUNK / format.block_bytes()) {
            let bytes = &mut buffer[..part.len() * format.block_bytes()];
            self.file.read_exact(bytes).map_err(io)?;
            format.decode(bytes, part);
        }
        Ok(())
    }
}

impl Entry {
    /// `available` is the number of data bytes in the file.
    fn parse(value: &Value, available: u64) -> Result<Self, String> {
        let dtype = value["dtype"].as_str().ok_or("no dtype")?.to_owned();
        let shape = value["shape"].as_array().ok_or("no shape")?;
        let shape = shape
            .iter()
            .map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()))
            .collect::<Option<Vec<_>>>()
            .ok_or("a shape that is not made of sizes")?;
        let offsets = &value["data_offsets"];
        let (Some(start), Some(end)) = (offsets[0].as_u64(), offsets[1].as_u64()) else {
            return Err("no data_offsets".into());
        };
        if start > end || end > available {
            return Err(format!("bytes {start} to {end} of {available}; the file is truncated"));
        }
        let elements = element_count(&shape).ok_or("a shape that overflows")?;
        if let Some(format) = format_of(&dtype)
            && elements.checked_mul(format.block_bytes() as u64) != Some(end - start)
        {
            return Err(format!("shape {shape:?} of {dtype} in {} bytes", end - start));
        }
        Ok(Self { dtype, shape, start })
    }
}

fn element_count(shape: &[usize]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n as u64))
}

fn format_of(dtype: &str) -> Option<Format> {
    match dtype {
        "F32" => Some(Format::F32),
        "F16" => Some(Format::F16),
        "BF16" => Some(Format::Bf16),
        _ => None,
    }
}

impl TensorFile for Folder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.shards[*self.at.get(name)?].tensors[name].shape)
    }

    fn elements(&self) -> u64 {
        // From the length of the files, since entries may overlap. Two bytes for each number is
        // the least there is.
        self.shards.iter().map(|shard| shard.data_len / 2).sum()
    }

    fn read(&mut self, name: &str, out: &mut [f32]) -> Result<(), ModelError> {
        let Some(&shard) = self.at.get(name) else {
            return Err(ModelError::MissingTensor { path: self.path.clone(), tensor: name.into() });
        };
        self.shards[shard].read(name, out)
    }
}

/// Write all tensors in float32 and wait until they are on the disk.
pub(crate) fn write(path: &Path, params: &Params) -> Result<(), ModelError> {
    let file = File::create(path).map_err(|e| ModelError::write(path, e))?;
    let mut out = BufWriter::with_capacity(CHUNK, file);
    write_to(&mut out, params)
        .and_then(|()| out.into_inner().map_err(std::io::IntoInnerError::into_error))
        .and_then(|file| file.sync_all())
        .map_err(|e| ModelError::write(path, e))
}

fn write_to(out: &mut impl Write, params: &Params) -> std::io::Result<()> {
    let mut header = Map::new();
    // transformers refuses a file without it.
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    for (name, range, shape) in params.tensors() {
        let offsets = [range.start * 4, range.end * 4];
        header
            .insert(name.into(), json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}));
    }
    let mut header = serde_json::to_vec(&header)?;
    // The data begins at a multiple of eight, so that readers can map it.
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let mut bytes = Vec::with_capacity(CHUNK);
    for part in params.data().chunks(CHUNK / 4) {
        bytes.clear();
        bytes.extend(part.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    out.flush()
}
