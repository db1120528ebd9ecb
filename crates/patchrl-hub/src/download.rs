//! One file over HTTP: resumed where it broke off, checked, and put in place in one step.
//!
//! Owns the partial file (`.<name>.<revision>.part`), the retries and the checks of size and
//! SHA-256. Does not know what the file is for.

use std::fmt::Write as _;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use fs_err::{File, OpenOptions};
use sha2::{Digest, Sha256};
use ureq::Agent;

use crate::error::{HubError, Miss};
use crate::{Expected, Progress, Report};

const ATTEMPTS: usize = 4;
const CHUNK: usize = 1 << 17;

/// One file to fetch.
pub(crate) struct Transfer<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) url: &'a str,
    pub(crate) token: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) expected: &'a Expected,
}

/// How one attempt ended.
enum Attempt {
    /// Everything that the server has is on the disk.
    Whole,
    /// The connection broke; what arrived is kept.
    Broken(String),
}

impl Transfer<'_> {
    /// Fetch into `folder` unless it is there already. Returns the size.
    pub(crate) fn fetch_into(
        &self,
        folder: &Path,
        revision: &str,
        report: &mut Report<'_>,
    ) -> Result<u64, Miss> {
        let target = folder.join(self.name);
        let revision = revision.get(..12).unwrap_or(revision);
        let part = folder.join(format!(".{}.{revision}.part", self.name));
        let mut broken = String::new();
        for _ in 0..ATTEMPTS {
            match self.attempt(&part, report)? {
                Attempt::Whole => {
                    let size = check(&part, self.name, self.expected)?;
                    fs_err::rename(&part, &target).map_err(|e| HubError::write(&target, e))?;
                    return Ok(size);
                }
                Attempt::Broken(why) => broken = why,
            }
        }
        Err(Miss::Absent(format!(
            "`{}` broke off {ATTEMPTS} times ({broken}); the next run goes on where it stopped",
            self.name
        )))
    }

    fn attempt(&self, part: &Path, report: &mut Report<'_>) -> Result<Attempt, Miss> {
        let write = |e| HubError::write(part, e);
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).open(part).map_err(write)?;
        let have = file.metadata().map_err(write)?.len();
        if have > 0 && self.expected.size == Some(have) {
            return Ok(Attempt::Whole);
        }
        let mut request = self.agent.get(self.url);
        if let Some(token) = self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if have > 0 {
            request = request.header("Range", format!("bytes={have}-"));
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(error) => return Ok(Attempt::Broken(error.to_string())),
        };
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        let start = match response.status().as_u16() {
            200 => 0,
            206 if header("content-range").and_then(range_start) == Some(have) => have,
            206 | 416 => {
                file.set_len(0).map_err(write)?;
                return Ok(Attempt::Broken("the server resumed at the wrong place".into()));
            }
            status @ 500.. => return Ok(Attempt::Broken(format!("status {status}"))),
            status => return Err(Miss::Absent(format!("`{}`: status {status}", self.name))),
        };
        if start == 0 {
            file.set_len(0).map_err(write)?;
            file.seek(SeekFrom::Start(0)).map_err(write)?;
        }
        let length = header("content-length").and_then(|text| text.parse::<u64>().ok());
        let total = self.expected.size.or(length.map(|length| start.saturating_add(length)));
        let body = response.into_body().into_reader();
        self.copy(body, &mut file, start..total.unwrap_or(u64::MAX), report)
    }

    /// Append `body` to `file`, which holds the bytes before `range.start`.
    fn copy(
        &self,
        mut body: impl Read,
        file: &mut File,
        range: std::ops::Range<u64>,
        report: &mut Report<'_>,
    ) -> Result<Attempt, Miss> {
        let total = (range.end < u64::MAX).then_some(range.end);
        let mut done = range.start;
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = match body.read(&mut buffer) {
                Ok(read) => read,
                Err(error) => return Ok(Attempt::Broken(error.to_string())),
            };
            if read == 0 {
                break;
            }
            done += read as u64;
            if done > range.end {
                // Keep nothing of a file that is not the one announced.
                file.set_len(0).map_err(|e| HubError::write(file.path(), e))?;
                return Err(Miss::Absent(format!("`{}` is longer than announced", self.name)));
            }
            file.write_all(&buffer[..read]).map_err(|e| HubError::write(file.path(), e))?;
            report(Progress::Bytes { file: self.name, done, total });
        }
        if total.is_some_and(|total| done < total) {
            return Ok(Attempt::Broken(format!("it ended after {done} bytes")));
        }
        file.sync_all().map_err(|e| HubError::write(file.path(), e))?;
        Ok(Attempt::Whole)
    }
}

/// Compare with what was announced; a file that differs is removed.
fn check(path: &Path, name: &str, expected: &Expected) -> Result<u64, HubError> {
    let size = fs_err::metadata(path).map_err(|e| HubError::io("cannot read a download", e))?.len();
    let wrong = |what, want: String, got: String| {
        let _ = fs_err::remove_file(path);
        Err(HubError::WrongDigest { file: name.to_owned(), what, want, got })
    };
    if let Some(want) = expected.size.filter(|want| *want != size) {
        return wrong("size", want.to_string(), size.to_string());
    }
    if let Some(want) = &expected.sha256 {
        let got = sha256(path)?;
        if got != *want {
            return wrong("SHA-256", want.clone(), got);
        }
    }
    Ok(size)
}

fn sha256(path: &Path) -> Result<String, HubError> {
    let io = |e| HubError::io("cannot read a download", e);
    let mut file = File::open(path).map_err(io)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = file.read(&mut buffer).map_err(io)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first byte in `bytes 100-199/200`.
fn range_start(header: &str) -> Option<u64> {
    header.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}
