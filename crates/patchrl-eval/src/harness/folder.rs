//! A run folder as the harness lays it out: `RUN/MODEL/INSTANCE/test_output.txt`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest log that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// Why a folder is none of a run.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be read.
    #[error("cannot read the run folder")]
    Io(#[from] std::io::Error),
    /// It holds no log.
    #[error("`{0}` holds no INSTANCE/test_output.txt, and no folder in it does")]
    NoLogs(PathBuf),
    /// It holds several models.
    #[error("`{path}` holds runs of several models: {models}")]
    Models {
        /// The folder.
        path: PathBuf,
        /// Their names.
        models: String,
    },
}

/// The logs of one model.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The model's name with `__` for `/`: the folder's.
    pub model: String,
    /// The run's name: the folder's above.
    pub run_id: String,
    /// Each instance's folder, by name.
    pub instances: Vec<(String, PathBuf)>,
}

/// What one instance's folder holds.
#[derive(Clone, Debug)]
pub struct Logged {
    /// `test_output.txt`; bytes that are no UTF-8 are replaced.
    pub test_output: Option<String>,
    /// `run_instance.log`.
    pub run_log: Option<String>,
    /// `patch.diff`.
    pub patch: Option<String>,
}

impl Folder {
    /// Open `RUN/MODEL`, or `RUN` with one model in it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let path = fs_err::canonicalize(path)?;
        if has_logs(&path)? {
            return Self::of_model(&path);
        }
        let models: Vec<(String, PathBuf)> = folders(&path)?
            .into_iter()
            .filter(|(_, path)| has_logs(path).unwrap_or(false))
            .collect();
        match models.as_slice() {
            [] => Err(FolderError::NoLogs(path)),
            [(_, model)] => Self::of_model(model),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                Err(FolderError::Models { path, models: names.join(", ") })
            }
        }
    }

    fn of_model(path: &Path) -> Result<Self, FolderError> {
        let name = |path: &Path| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        Ok(Self {
            model: name(path),
            run_id: path.parent().map(name).unwrap_or_default(),
            instances: folders(path)?,
        })
    }
}

impl Logged {
    /// Read an instance's folder.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            test_output: text(&path.join("test_output.txt"))?,
            run_log: text(&path.join("run_instance.log"))?,
            patch: text(&path.join("patch.diff"))?,
        })
    }
}

fn text(path: &Path) -> std::io::Result<Option<String>> {
    let file = match fs_err::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::with_capacity(file.metadata()?.len().min(LONGEST) as usize);
    file.take(LONGEST).read_to_end(&mut bytes)?;
    let lossy = |e: std::string::FromUtf8Error| String::from_utf8_lossy(e.as_bytes()).into_owned();
    Ok(Some(String::from_utf8(bytes).unwrap_or_else(lossy)))
}

fn has_logs(path: &Path) -> std::io::Result<bool> {
    Ok(folders(path)?.iter().any(|(_, path)| {
        path.join("test_output.txt").exists() || path.join("run_instance.log").exists()
    }))
}

/// Folders in a folder, by name.
fn folders(path: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(path)? {
        let entry = entry?;
        if entry.path().is_dir() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}
