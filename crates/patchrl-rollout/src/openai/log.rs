//! The debug log: what was sent and what came back, one JSON object a line.
//!
//! Owns its form. Headers are not in it, and the key is taken out of bodies.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::key::ApiKey;

/// Characters of an answer's body that the log keeps.
const MOST: usize = 64 << 10;

/// An open log.
pub(super) struct Log(Mutex<fs_err::File>);

/// One exchange.
pub(super) struct Exchange<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    pub(super) request: Option<&'a Value>,
    /// Status and body, or why there are none.
    pub(super) answer: Result<(u16, &'a [u8]), &'a str>,
    pub(super) took: Duration,
}

impl Log {
    /// Open `path` to append to it.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            fs_err::create_dir_all(folder)?;
        }
        let file = fs_err::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Write one line. A log that cannot be written does not stop a run.
    pub(super) fn write(&self, it: &Exchange<'_>, key: Option<&ApiKey>) {
        let (status, body, error) = match it.answer {
            Ok((status, bytes)) => {
                let text = String::from_utf8_lossy(bytes);
                let cut: String = text.chars().take(MOST).collect();
                (json!(status), json!(cut), Value::Null)
            }
            Err(why) => (Value::Null, Value::Null, json!(why)),
        };
        let line = json!({
            "method": it.method, "url": it.url, "request": it.request, "status": status,
            "answer": body, "error": error, "seconds": it.took.as_secs_f64(),
        })
        .to_string();
        let line = key.map_or_else(|| line.clone(), |key| key.scrub(&line));
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = file.write_all((line + "\n").as_bytes());
    }
}
