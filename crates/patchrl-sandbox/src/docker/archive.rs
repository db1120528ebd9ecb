//! Files on their way in and out of a container, as the engine's tar archives.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Cursor, Read as _};
use std::os::unix::ffi::OsStrExt as _;

use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use futures_util::StreamExt as _;
use tar::{Archive, Builder, EntryType, Header};

use super::{Engine, fault};
use crate::{FileWrite, SandboxError};

/// The folder that a job may leave files in, as the command sees it.
pub(crate) const OUT: &str = "/patchrl-out";

/// Larger files are not read back.
const COLLECT_CAP: usize = 4 << 20;
/// Headers of one file in an archive, with room for a long name.
const HEADERS: usize = 64 << 10;

/// Let every user write to the output folder.
pub(super) async fn open_out(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let mut tar = Builder::new(Vec::new());
    let mut header = header(EntryType::Directory, 0o777, 0);
    tar.append_data(&mut header, OUT.trim_start_matches('/'), std::io::empty())?;
    upload(engine, name, "/", tar.into_inner()?).await
}

/// Put files below `folder`, with the time `mtime` in seconds.
pub(super) async fn put(
    engine: &Engine,
    name: &str,
    folder: &str,
    (writes, mtime): (&BTreeMap<String, Option<FileWrite>>, u64),
) -> Result<(), SandboxError> {
    let mut tar = Builder::new(Vec::new());
    for (path, write) in writes {
        let Some(write) = write else { continue };
        if write.symlink {
            let mut header = header(EntryType::Symlink, 0o777, mtime);
            tar.append_link(&mut header, path, OsStr::from_bytes(&write.bytes))?;
        } else {
            let mut header = header(EntryType::Regular, write.mode & 0o777, mtime);
            header.set_size(write.bytes.len() as u64);
            tar.append_data(&mut header, path, write.bytes.as_slice())?;
        }
    }
    upload(engine, name, folder, tar.into_inner()?).await
}

fn header(kind: EntryType, mode: u32, mtime: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(mtime);
    header.set_size(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

async fn upload(
    engine: &Engine,
    name: &str,
    folder: &str,
    tar: Vec<u8>,
) -> Result<(), SandboxError> {
    let options = UploadToContainerOptionsBuilder::default().path(folder).build();
    let body = bollard::body_full(tar.into());
    let what = "a copy into a container";
    let sent = engine.calls.upload_to_container(name, Some(options), body);
    match engine.ask(what, sent).await? {
        Err(e) if fault::is_status(&e, 404) || fault::is_status(&e, 400) => Err(
            // The engine says 404 for the folder and for the container.
            match engine.calls.inspect_container(name, None).await {
                Ok(_) => SandboxError::BadJob(format!("cannot write below `{folder}`: {e}")),
                Err(e) => fault::of_container(what, e),
            },
        ),
        other => other.map_err(|e| fault::of_call(what, e)),
    }
}

/// The content of a regular file, if it is one and not too large.
pub(super) async fn get(
    engine: &Engine,
    name: &str,
    path: &str,
) -> Result<Option<Vec<u8>>, SandboxError> {
    let path = format!("{OUT}/{path}");
    let options = DownloadFromContainerOptionsBuilder::default().path(&path).build();
    let mut tar = Vec::new();
    let read = async {
        let mut chunks = Box::pin(engine.streams.download_from_container(name, Some(options)));
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => tar.extend_from_slice(&chunk),
                Err(e) if fault::is_status(&e, 404) => return Ok(()),
                Err(e) => return Err(e),
            }
            if tar.len() > COLLECT_CAP + HEADERS {
                break;
            }
        }
        Ok(())
    };
    engine.call("a copy out of a container", read).await?;
    Ok(only_file(tar))
}

fn only_file(tar: Vec<u8>) -> Option<Vec<u8>> {
    let mut archive = Archive::new(Cursor::new(tar));
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    if entry.header().entry_type() != EntryType::Regular || entry.size() > COLLECT_CAP as u64 {
        return None;
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == entry.size()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_archive_holds_no_file() {
        assert_eq!(only_file(Vec::new()), None);
        assert_eq!(only_file(vec![0; 2048]), None);
        assert_eq!(only_file(vec![b'x'; 5000]), None);
        let mut tar = Builder::new(Vec::new());
        let mut header = header(EntryType::Regular, 0o644, 0);
        header.set_size(5);
        tar.append_data(&mut header, "f", &b"12345"[..]).unwrap();
        let whole = tar.into_inner().unwrap();
        assert_eq!(only_file(whole.clone()).as_deref(), Some(&b"12345"[..]));
        assert_eq!(only_file(whole[..514].to_vec()), None);
    }
}
