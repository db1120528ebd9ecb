//! Task sets on disk: JSON lines and JSON arrays, plain or packed with gzip or zstd, and Parquet.
//!
//! Owns reading rows with the line and field of what is wrong, and writing a file whole or not at
//! all. Does not know the network. A row may be 64 MiB, a file 4 GiB unpacked.

mod columns;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use fs_err as fs;
use serde_json::Value;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::record::{FieldFault, Task, TaskId};

const MAX_ROW: u64 = 64 << 20;
const MAX_FILE: u64 = 4 << 30;

/// Why a task set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The file cannot be opened, read or written.
    #[error("cannot use the task file `{path}`")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The ending names no format.
    #[error(
        "`{path}` is no task file: its name ends in none of .jsonl, .json, .parquet, and .gz or .zst \
         after the first two"
    )]
    Format {
        /// Which file.
        path: PathBuf,
    },
    /// A row is no JSON object.
    #[error("`{path}`, line {line}: {why}")]
    Row {
        /// Which file.
        path: PathBuf,
        /// Line, or position in a JSON array, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A field of a row is wrong.
    #[error("`{path}`, line {line}{}", .task.as_ref().map(|t| format!(" (`{t}`)")).unwrap_or_default())]
    Field {
        /// Which file.
        path: PathBuf,
        /// Line, or position in a JSON array, from 1.
        line: usize,
        /// The row's id, where it has one.
        task: Option<String>,
        /// Which field and why.
        source: FieldFault,
    },
    /// Two rows have one id.
    #[error("`{path}`, line {line}: the id `{id}` is already on line {first}")]
    Duplicate {
        /// Which file.
        path: PathBuf,
        /// The later line.
        line: usize,
        /// The earlier line.
        first: usize,
        /// The id.
        id: TaskId,
    },
    /// There is no row.
    #[error("`{path}` holds no task")]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

impl TaskError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "give the path of a task set: SWE-bench rows as .jsonl or .json, also .gz or .zst, \
                 or as .parquet"
                    .into(),
            ),
            Self::File { .. } => None,
            Self::Format { .. } => Some("convert the rows to JSON lines (.jsonl)".into()),
            Self::Row { .. } => Some("each line must be one JSON object".into()),
            Self::Field { .. } => Some(
                "a task needs instance_id, repo, base_commit, problem_statement and patch".into(),
            ),
            Self::Duplicate { .. } => Some("remove or rename one of the two rows".into()),
            Self::Empty { .. } => Some("each line must be one task".into()),
        }
    }
}

/// Reads a task set. Refuses files without rows and ids that occur twice.
pub fn load(path: &Path) -> Result<Vec<Task>, TaskError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let fail = |source| TaskError::File { path: path.to_owned(), source };
    let (stem, packing) = match name.rsplit_once('.') {
        Some((stem, packing @ ("gz" | "zst"))) => (stem, packing),
        _ => (name.as_str(), ""),
    };
    let file = fs::File::open(path).map_err(fail)?;
    let read = match stem.rsplit_once('.') {
        Some((_, "jsonl")) => read_lines,
        Some((_, "json")) => read_array,
        Some((_, "parquet")) if packing.is_empty() => return read_columns(file, path),
        _ => return Err(TaskError::Format { path: path.to_owned() }),
    };
    let reader: Box<dyn Read> = match packing {
        "gz" => Box::new(MultiGzDecoder::new(file)),
        "zst" => Box::new(ZstdDecoder::new(file).map_err(fail)?),
        _ => Box::new(file),
    };
    read(Box::new(BufReader::new(reader.take(MAX_FILE))), path)
}

/// Reads JSON lines that are already in memory; `path` names them in errors.
pub fn parse_lines(text: &str, path: &Path) -> Result<Vec<Task>, TaskError> {
    read_lines(Box::new(io::Cursor::new(text.to_owned())), path)
}

/// Writes a task set as JSON lines, packed if the name ends in `.gz` or `.zst`. An existing file is
/// replaced only when the new one is whole.
pub fn save(path: &Path, tasks: &[Task]) -> Result<(), TaskError> {
    let ends_in = |ending| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending));
    if ends_in("parquet") {
        return Err(TaskError::Format { path: path.to_owned() });
    }
    let fail = |source| TaskError::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    for task in tasks {
        serde_json::to_writer(&mut bytes, task).map_err(|fault| fail(fault.into()))?;
        bytes.push(b'\n');
    }
    if ends_in("gz") {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&bytes).map_err(fail)?;
        bytes = packer.finish().map_err(fail)?;
    } else if ends_in("zst") {
        bytes =
            zstd::encode_all(bytes.as_slice(), zstd::DEFAULT_COMPRESSION_LEVEL).map_err(fail)?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&part, path)).map_err(|source| {
        // The half-written file is ours; the error below is the one that matters.
        let _ = fs::remove_file(&part);
        fail(source)
    })
}

fn read_lines(mut reader: Box<dyn BufRead>, path: &Path) -> Result<Vec<Task>, TaskError> {
    let mut set = Set::new(path);
    let mut line = 0;
    let mut bytes = Vec::new();
    loop {
        line += 1;
        bytes.clear();
        let read = (&mut reader)
            .take(MAX_ROW + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| TaskError::File { path: path.to_owned(), source })?;
        if read == 0 {
            return set.finish();
        }
        if bytes.len() as u64 > MAX_ROW {
            return Err(set.row_fault(line, format!("the row is over {} MiB", MAX_ROW >> 20)));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let value = serde_json::from_slice(&bytes).map_err(|fault| {
            set.row_fault(line, format!("is no JSON, column {}: {fault}", fault.column()))
        })?;
        set.add(line, value)?;
    }
}

fn read_array(reader: Box<dyn BufRead>, path: &Path) -> Result<Vec<Task>, TaskError> {
    let mut set = Set::new(path);
    let value: Value = serde_json::from_reader(reader)
        .map_err(|fault| set.row_fault(fault.line(), format!("is no JSON: {fault}")))?;
    let rows = match value {
        Value::Array(rows) => rows,
        single @ Value::Object(_) => vec![single],
        _ => return Err(set.row_fault(1, "is no list of tasks".into())),
    };
    for (at, row) in rows.into_iter().enumerate() {
        set.add(at + 1, row)?;
    }
    set.finish()
}

fn read_columns(file: fs::File, path: &Path) -> Result<Vec<Task>, TaskError> {
    let fail = |source| TaskError::File { path: path.to_owned(), source };
    let mut set = Set::new(path);
    for (at, row) in columns::rows(file).map_err(fail)?.enumerate() {
        set.add(at + 1, row.map_err(fail)?)?;
    }
    set.finish()
}

/// Tasks read so far, with the line of each id.
struct Set<'a> {
    path: &'a Path,
    tasks: Vec<Task>,
    lines: BTreeMap<TaskId, usize>,
}

impl<'a> Set<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, tasks: Vec::new(), lines: BTreeMap::new() }
    }

    fn add(&mut self, line: usize, row: Value) -> Result<(), TaskError> {
        let Value::Object(row) = row else {
            return Err(self.row_fault(line, "is no JSON object".into()));
        };
        let id = row.get("instance_id").and_then(Value::as_str).map(str::to_owned);
        let task = Task::from_row(row).map_err(|source| TaskError::Field {
            path: self.path.to_owned(),
            line,
            task: id.filter(|_| source.field != "instance_id"),
            source,
        })?;
        if let Some(&first) = self.lines.get(&task.id) {
            let path = self.path.to_owned();
            return Err(TaskError::Duplicate { path, line, first, id: task.id });
        }
        self.lines.insert(task.id.clone(), line);
        self.tasks.push(task);
        Ok(())
    }

    fn row_fault(&self, line: usize, why: String) -> TaskError {
        TaskError::Row { path: self.path.to_owned(), line, why }
    }

    fn finish(self) -> Result<Vec<Task>, TaskError> {
        if self.tasks.is_empty() {
            return Err(TaskError::Empty { path: self.path.to_owned() });
        }
        Ok(self.tasks)
    }
}
