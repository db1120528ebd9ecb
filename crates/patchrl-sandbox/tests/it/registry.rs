//! A registry of images that fails in the ways registries do, and pulls from it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patchrl_sandbox::ImageState::{Failed, Present, Pulled, Removed};
use patchrl_sandbox::{ImageName, ImageState, SandboxError, Step};
use sha2::{Digest as _, Sha256};

use crate::engine::{Engine, tar};

/// Times that the limited repository refuses.
const REFUSALS: usize = 2;

/// Names in the registry say what it does with them.
pub(crate) fn pulls(engine: &Engine) {
    let (port, manifests) = serve();
    let name = |repo: &str| ImageName::parse(&format!("127.0.0.1:{port}/{repo}:1")).unwrap();
    let docker = engine.docker();
    let list = ["missing", "denied", "limited", "good"].map(name);
    let (mut waits, mut ended) = (Vec::new(), 0);
    let reports = docker
        .prepare(&list, &mut |event| match &event.step {
            Step::Waiting { pause, why } => {
                assert!(matches!(why, SandboxError::RateLimited { .. }), "{why}");
                waits.push((event.index, pause.as_secs()));
            }
            Step::Ended(_) => ended += 1,
            Step::Pulling { .. } => {}
        })
        .unwrap();
    let states: Vec<ImageState> = reports.iter().map(|r| r.state).collect();
    assert_eq!(states, [Failed, Failed, Pulled, Pulled], "{reports:?}");
    let why = |at: usize| reports[at].why.clone().unwrap();
    assert!(why(0).starts_with("no image `127.0.0.1"), "{}", why(0));
    assert!(why(1).starts_with("no access to the image"), "{}", why(1));
    assert!(!waits.is_empty() && waits.iter().all(|wait| *wait == (2, 1)), "{waits:?}");
    assert_eq!(ended, 4);
    // Once more: what is there is not asked for again.
    let asked = manifests.load(Ordering::Relaxed);
    let again = docker.prepare(&list[2..], &mut |_| {}).unwrap();
    assert!(again.iter().all(|r| r.state == Present && r.size.is_some()));
    assert_eq!(manifests.load(Ordering::Relaxed), asked);
    let removed = docker.remove_images(&list[2..]).unwrap();
    assert!(removed.iter().all(|r| r.state == Removed), "{removed:?}");
}

/// The port, and a count of the manifests asked for.
fn serve() -> (u16, Arc<AtomicUsize>) {
    let layer = tar(&[("file", Some(b"from a registry\n"))]);
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    let config = config.to_string().into_bytes();
    let part = |kind: &str, bytes: &[u8]| {
        let kind = format!("application/vnd.docker.{kind}");
        serde_json::json!({ "mediaType": kind, "size": bytes.len(), "digest": digest(bytes) })
    };
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": part("container.image.v1+json", &config),
        "layers": [part("image.rootfs.diff.tar.gzip", &layer)],
    });
    let blobs = BTreeMap::from([(digest(&config), config), (digest(&layer), layer)]);
    let manifest = manifest.to_string().into_bytes();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let manifests = Arc::new(AtomicUsize::new(0));
    let (count, limited) = (Arc::clone(&manifests), AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = |path: &str| -> (u16, Vec<u8>) {
                if path.contains("/manifests/") {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                match path.split('/').collect::<Vec<_>>()[..] {
                    [_, "v2", ""] => (200, b"{}".to_vec()),
                    [_, "v2", "missing", ..] => fault(404, "MANIFEST_UNKNOWN", "manifest unknown"),
                    [_, "v2", "denied", ..] => fault(403, "DENIED", "requested access is denied"),
                    [_, "v2", "limited", "manifests", _]
                        if limited.fetch_add(1, Ordering::Relaxed) < REFUSALS =>
                    {
                        fault(429, "TOOMANYREQUESTS", "retry-after: 900ms, slow down")
                    }
                    [_, "v2", _, "manifests", _] => (200, manifest.clone()),
                    [_, "v2", _, "blobs", digest] => (200, blobs[digest].clone()),
                    _ => (404, Vec::new()),
                }
            };
            let _ = reply(stream, answer);
        }
    });
    (port, manifests)
}

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

fn fault(status: u16, code: &str, message: &str) -> (u16, Vec<u8>) {
    let body = serde_json::json!({ "errors": [{ "code": code, "message": message }] });
    (status, body.to_string().into_bytes())
}

/// One request on a connection. The engine tries TLS first, which is no request.
fn reply(
    mut stream: TcpStream,
    answer: impl FnOnce(&str) -> (u16, Vec<u8>),
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(2)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        lines.push(line);
    }
    let mut words = lines.first().map(|line| line.split(' ')).into_iter().flatten();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let (status, body) = answer(path);
    let kind =
        if path.contains("manifests") && status == 200 { MANIFEST } else { "application/json" };
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Docker-Content-Digest: {}\r\nConnection: close\r\n\r\n",
        body.len(),
        digest(&body)
    )?;
    if method != "HEAD" {
        stream.write_all(&body)?;
    }
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    format!("sha256:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}
