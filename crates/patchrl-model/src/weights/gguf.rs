//! The GGUF container, versions 2 and 3: metadata and a table of tensors.
//!
//! Owns the binary format and the checks that make a hostile or truncated file harmless: no
//! length is believed beyond the bytes that are left. Does not know what a key or a tensor means
//! (see `gguf_llama`, and `tokenizer` for the vocabulary).

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fs_err::File;

use super::quant::Format;
use crate::ModelError;

const MAGIC: &[u8; 4] = b"GGUF";
/// Arrays of arrays exist in the format and in no model; a few levels are read.
const MAX_DEPTH: usize = 4;
/// A vocabulary is the longest list there is. Elements cost more here than in the file.
const MAX_LIST: u64 = 1 << 23;
const MAX_DIMENSIONS: u32 = 4;
const MAX_ALIGNMENT: u64 = 1 << 20;
/// Bytes read from the file at a time.
const CHUNK: usize = 1 << 20;

/// An open file, with its metadata in memory.
pub(crate) struct Gguf {
    path: PathBuf,
    file: File,
    metadata: BTreeMap<String, Meta>,
    tensors: BTreeMap<String, Tensor>,
    data_start: u64,
    data_len: u64,
}

/// One value of the metadata. All integers are widened, booleans among them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meta {
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Meta>),
    Texts(Vec<String>),
}

/// One entry of the tensor table.
pub(crate) struct Tensor {
    /// Outermost dimension first: GGUF writes the reverse.
    pub(crate) shape: Vec<usize>,
    format: Result<Format, u32>,
    /// Counted from the start of the data.
    offset: u64,
}

impl Gguf {
    /// Read metadata and tensor table, and check that every tensor lies inside the file.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let mut file = File::open(path).map_err(|e| ModelError::io("cannot read weights", e))?;
        let length = file.metadata().map_err(|e| ModelError::io("cannot read weights", e))?.len();
        let mut reader = Reader { inner: BufReader::new(&mut file), left: length };
        let damaged = |why: String| ModelError::Damaged { path: path.into(), why };
        let Contents { metadata, tensors } = reader.contents().map_err(|fault| match fault {
            Fault::Damaged(why) => damaged(why),
            Fault::Version(what) => ModelError::Unsupported { path: path.into(), what },
            Fault::Io(error) => ModelError::io(format!("cannot read `{}`", path.display()), error),
        })?;
        let header_len = length - reader.left;
        let alignment = metadata.get("general.alignment").and_then(Meta::as_u64).unwrap_or(32);
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            return Err(damaged(format!("an alignment of {alignment}")));
        }
        let data_start = header_len.next_multiple_of(alignment);
        let data_len = length.saturating_sub(data_start);
        for (name, tensor) in &tensors {
            tensor.check(data_len).map_err(|why| damaged(format!("tensor `{name}`: {why}")))?;
        }
        Ok(Self { path: path.into(), file, metadata, tensors, data_start, data_len })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn meta(&self, key: &str) -> Option<&Meta> {
        self.metadata.get(key)
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The most numbers that this many bytes can hold: the densest format has 256 in 144 bytes.
    pub(crate) fn elements(&self) -> u64 {
        self.data_len.saturating_mul(16) / 9
    }

    /// Fill `out` with the values of a tensor of that length.
    pub(crate) fn read(&mut self, name: &str, out: &mut [f32]) -> Result<(), ModelError> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(ModelError::MissingTensor { path: self.path.clone(), tensor: name.into() });
        };
        let format = tensor.format.map_err(|id| ModelError::Unsupported {
            path: self.path.clone(),
            what: format!("tensor `{name}` in GGML format {id}"),
        })?;
        let io = |e| ModelError::io("cannot read weights", e);
        self.file.seek(SeekFrom::Start(self.data_start + tensor.offset)).map_err(io)?;
        let blocks = CHUNK / format.block_bytes();
        let mut buffer = vec![0; blocks * format.block_bytes()];
        for part in out.chunks_mut(blocks * format.block_len()) {
            let bytes = &mut buffer[..part.len() / format.block_len() * format.block_bytes()];
            self.file.read_exact(bytes).map_err(io)?;
            format.decode(bytes, part);
        }
        Ok(())
    }
}

impl Meta {
    pub(crate) fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_texts(&self) -> Option<&[String]> {
        match self {
            Self::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Meta]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

impl Tensor {
    /// Bytes `offset..offset + size` must lie within the data, in whole blocks by row.
    fn check(&self, data_len: u64) -> Result<(), String> {
        // A format that is not known is refused when the tensor is asked for.
        let Ok(format) = self.format else { return Ok(()) };
        let row = self.shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(format.block_len()) {
            return Err(format!("rows of {row} do not divide into blocks of {format:?}"));
        }
        let size = self
            .shape
            .iter()
            .try_fold(1_u64, |product, &n| product.checked_mul(n as u64))
            .and_then(|n| (n / format.block_len() as u64).checked_mul(format.block_bytes() as u64));
        match size.and_then(|size| size.checked_add(self.offset)) {
            Some(end) if end <= data_len => Ok(()),
            _ => Err(format!(
                "shape {:?} at byte {} does not fit in {data_len} bytes; the file is truncated",
                self.shape, self.offset
            )),
        }
    }
}

struct Contents {
    metadata: BTreeMap<String, Meta>,
    tensors: BTreeMap<String, Tensor>,
}

enum Fault {
    Damaged(String),
    Version(String),
    Io(std::io::Error),
}

/// A reader that knows how many bytes are left, and so what a length can be at most.
struct Reader<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Reader<R> {
    fn contents(&mut self) -> Result<Contents, Fault> {
        if &self.array::<4>()? != MAGIC {
            return Err(Fault::Damaged("it does not begin with `GGUF`".into()));
        }
        let version = self.u32()?;
        if version != 2 && version != 3 {
            return Err(Fault::Version(format!("GGUF version {version}; 2 and 3 are read")));
        }
        let (tensor_count, key_count) = (self.u64()?, self.u64()?);
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let key = self.text()?;
            let kind = self.u32()?;
            let value = self.value(kind, 0)?;
            metadata.insert(key, value);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let name = self.text()?;
            let tensor = self.tensor()?;
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(Fault::Damaged(format!("two tensors called `{name}`")));
            }
        }
        Ok(Contents { metadata, tensors })
    }

    fn tensor(&mut self) -> Result<Tensor, Fault> {
        let dimensions = self.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(Fault::Damaged(format!("a tensor of {dimensions} dimensions")));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let size = usize::try_from(self.u64()?)
                .map_err(|_| Fault::Damaged("a dimension that no address reaches".into()))?;
            shape.push(size);
        }
        shape.reverse();
        let id = self.u32()?;
        Ok(Tensor { shape, format: Format::from_ggml(id).ok_or(id), offset: self.u64()? })
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Meta, Fault> {
        Ok(match kind {
            0 => Meta::Int(i128::from(self.array::<1>()?[0])),
            1 => Meta::Int(i128::from(self.array::<1>()?[0].cast_signed())),
            2 => Meta::Int(i128::from(u16::from_le_bytes(self.array()?))),
            3 => Meta::Int(i128::from(i16::from_le_bytes(self.array()?))),
            4 => Meta::Int(i128::from(self.u32()?)),
            5 => Meta::Int(i128::from(i32::from_le_bytes(self.array()?))),
            6 => Meta::Float(f64::from(f32::from_le_bytes(self.array()?))),
            7 => Meta::Int(i128::from(self.array::<1>()?[0] != 0)),
            8 => Meta::Text(self.text()?),
            9 => self.list(depth)?,
            10 => Meta::Int(i128::from(self.u64()?)),
            11 => Meta::Int(i128::from(i64::from_le_bytes(self.array()?))),
            12 => Meta::Float(f64::from_le_bytes(self.array()?)),
            _ => return Err(Fault::Damaged(format!("metadata of unknown type {kind}"))),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Meta, Fault> {
        if depth >= MAX_DEPTH {
            return Err(Fault::Damaged("lists nested too deeply".into()));
        }
        let (kind, count) = (self.u32()?, self.u64()?);
        if count > MAX_LIST {
            return Err(Fault::Damaged(format!("a list of {count} elements")));
        }
        // The vectors grow by pushing: each element is paid for with bytes of the file.
        if kind == 8 {
            let mut texts = Vec::new();
            for _ in 0..count {
                texts.push(self.text()?);
            }
            return Ok(Meta::Texts(texts));
        }
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.value(kind, depth + 1)?);
        }
        Ok(Meta::List(list))
    }

    fn text(&mut self) -> Result<String, Fault> {
        let length = self.u64()?;
        if length > self.left {
            return Err(Fault::Damaged(format!(
                "a text of {length} bytes where {} are left; the file is truncated",
                self.left
            )));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Fault::Damaged("a text that is not UTF-8".into()))
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        let wanted = bytes.len() as u64;
        if wanted > self.left {
            return Err(Fault::Damaged("the file ends in the middle of its header".into()));
        }
        self.inner.read_exact(bytes).map_err(Fault::Io)?;
        self.left -= wanted;
        Ok(())
    }
}
