//! A hub on this machine, real HTTP included: lists files, serves ranges, and can break off.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What the server has, and what it saw.
#[derive(Default)]
pub(crate) struct Hub {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Extra entries of the listing, such as a digest: file name to `lfs` object.
    pub(crate) lfs: BTreeMap<String, Value>,
    /// The first answer that is longer than this is cut here.
    pub(crate) cut_once: Option<usize>,
    /// `GET` targets with their `Range`, in order.
    pub(crate) seen: Vec<(String, Option<String>)>,
}

/// Serve on a free port until the test process ends. Returns the endpoint.
pub(crate) fn serve(hub: &Arc<Mutex<Hub>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let hub = Arc::clone(hub);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(&hub, stream);
        }
    });
    endpoint
}

fn answer(hub: &Mutex<Hub>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut range = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: ") {
            range = Some(value.to_owned());
        }
    }
    let mut hub = hub.lock().unwrap();
    hub.seen.push((target.clone(), range.clone()));
    if target.starts_with("/api/models/tiny/model/") {
        let siblings: Vec<Value> = hub
            .files
            .iter()
            .map(|(name, bytes)| {
                json!({"rfilename": name, "size": bytes.len(), "lfs": hub.lfs.get(name)})
            })
            .collect();
        let body = json!({"sha": "0123456789abcdef", "siblings": siblings}).to_string();
        return respond(&mut stream, "200 OK", "", body.as_bytes(), None);
    }
    let Some(bytes) = target.rsplit('/').next().and_then(|name| hub.files.get(name)).cloned()
    else {
        return respond(&mut stream, "404 Not Found", "", b"", None);
    };
    let start = range
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok())
        .unwrap_or(0);
    let cut = hub.cut_once.filter(|cut| *cut < bytes.len() - start);
    if cut.is_some() {
        hub.cut_once = None;
    }
    if start > 0 {
        let header =
            format!("Content-Range: bytes {start}-{}/{}\r\n", bytes.len() - 1, bytes.len());
        return respond(&mut stream, "206 Partial Content", &header, &bytes[start..], cut);
    }
    respond(&mut stream, "200 OK", "", &bytes, cut)
}

fn respond(
    stream: &mut TcpStream,
    status: &str,
    headers: &str,
    body: &[u8],
    cut: Option<usize>,
) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n"
    )?;
    stream.write_all(&body[..cut.unwrap_or(length)])?;
    stream.flush()
}
