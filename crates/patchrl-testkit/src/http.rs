//! As much of HTTP/1.1 as a client of an inference server needs, and ways to break it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// What the server does in place of an answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status, these further header lines, this body.
    Status(u16, &'static str, String),
    /// An answer of which half arrives.
    Cut,
    /// The connection closes without a word.
    Close,
    /// The answer, after this long.
    Late(Duration),
    /// A body of this many bytes.
    Huge(usize),
}

impl Fault {
    /// Status 200 with another body than was asked for.
    pub fn body(text: impl Into<String>) -> Self {
        Self::Status(200, "", text.into())
    }

    /// A status with an error object as vLLM writes it.
    pub fn error(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "error": { "message": message, "code": status } });
        Self::Status(status, "", body.to_string())
    }
}

/// A request that came whole.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

/// Read one request; nothing at the connection's end.
pub(crate) fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut key) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => key = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok()?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Some(Request { method, path, key, body })
}

/// Send an answer, or do what the fault says. Whether the connection goes on.
pub(crate) fn answer(
    stream: &mut TcpStream,
    status: u16,
    body: &str,
    fault: Option<&Fault>,
) -> bool {
    let (mut status, mut more, mut body) = (status, "", body.to_owned());
    let mut keep = body.len();
    match fault {
        None => {}
        Some(Fault::Late(time)) => std::thread::sleep(*time),
        Some(Fault::Close) => return false,
        Some(Fault::Cut) => keep /= 2,
        Some(Fault::Huge(bytes)) => {
            body = "x".repeat(*bytes);
            keep = body.len();
        }
        Some(Fault::Status(code, headers, text)) => {
            (status, more, body) = (*code, headers, text.clone());
            keep = body.len();
        }
    }
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n",
        body.len()
    );
    let sent =
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body.as_bytes()[..keep]));
    sent.is_ok() && keep == body.len()
}
