//! The files of an image, on this machine: what a patch is applied to before a container runs.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder,
};
use futures_util::StreamExt as _;
use tar::Archive;

use super::{Docker, Engine, ImageName, fault};
use crate::scratch::{Scratch, rename_into_place};
use crate::{Bytes, SandboxError};

/// Most bytes of a folder that is copied out of an image.
const LARGEST: Bytes = Bytes::mib(1000);

impl Docker {
    /// What tells two images of one name apart.
    pub fn image_id(&self, image: &ImageName) -> Result<String, SandboxError> {
        let what = "a look at an image";
        let calls = &self.engine.calls;
        let found = self.block_on(self.engine.ask(what, calls.inspect_image(image.as_str())))?;
        let found = found.map_err(|e| fault::of_image(image.as_str(), what, e))?;
        Ok(found.id.unwrap_or_default())
    }

    /// Write the folder `workdir` of an image to `dest`, whole or not at all; without its
    /// `.git`, which holds what came after, and a word on whether there is such a folder.
    /// Somebody else having put it there is fine.
    pub fn export(
        &self,
        image: &ImageName,
        workdir: &str,
        dest: &Path,
    ) -> Result<bool, SandboxError> {
        let mut history = dest.as_os_str().to_owned();
        history.push(".history");
        let history = Path::new(&history);
        if dest.is_dir() {
            return Ok(history.exists());
        }
        let scratch = Scratch::beside(dest)?;
        let file = scratch.path().join("tar");
        self.block_on(download(&self.engine, image, workdir, File::create_new(&file)?))?;
        let tree = scratch.path().join("tree");
        fs_err::create_dir(&tree)?;
        let mut archive = Archive::new(fs_err::File::open(&file)?);
        let mut has_git = false;
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?;
            let mut parts = path.components().skip(1);
            let is_git = parts.next().is_some_and(|it| it.as_os_str() == ".git");
            has_git |= is_git && (parts.next().is_some() || entry.header().entry_type().is_dir());
            drop(path);
            if !is_git {
                // Refuses whatever would lie outside, also through links.
                entry.unpack_in(&tree)?;
            }
        }
        let name = Path::new(workdir).file_name();
        let top = name.map(|name| tree.join(name)).filter(|top| top.is_dir());
        let top = top.ok_or_else(|| {
            SandboxError::BadJob(format!("`{workdir}` of the image `{image}` is no folder"))
        })?;
        if has_git {
            fs_err::write(history, "")?;
        }
        rename_into_place(&top, dest)?;
        Ok(has_git)
    }
}

async fn download(
    engine: &Engine,
    image: &ImageName,
    workdir: &str,
    mut file: File,
) -> Result<(), SandboxError> {
    let what = "a copy out of an image";
    let name = engine.next_name();
    let options = CreateContainerOptionsBuilder::default().name(&name).build();
    let body = ContainerCreateBody {
        image: Some(image.as_str().to_owned()),
        entrypoint: Some(vec!["/bin/sh".to_owned()]),
        labels: Some(engine.owner.labels(&engine.run)),
        ..ContainerCreateBody::default()
    };
    let created = engine.ask(what, engine.calls.create_container(Some(options), body)).await?;
    created.map_err(|e| fault::of_image(image.as_str(), what, e))?;
    let options = DownloadFromContainerOptionsBuilder::default().path(workdir).build();
    let read = async {
        let mut written = 0_u64;
        let mut chunks = Box::pin(engine.streams.download_from_container(&name, Some(options)));
        while let Some(chunk) = chunks.next().await {
            let missing = || format!("the image `{image}` has no `{workdir}`");
            let chunk = chunk.map_err(|e| {
                if fault::is_status(&e, 404) {
                    SandboxError::BadJob(missing())
                } else {
                    fault::of_call(what, e)
                }
            })?;
            written += chunk.len() as u64;
            if written > LARGEST.0 {
                let why = format!("`{workdir}` of the image `{image}` is larger than {LARGEST}");
                return Err(SandboxError::BadJob(why));
            }
            file.write_all(&chunk)?;
        }
        file.rewind()?;
        Ok(())
    };
    let done = read.await;
    engine.remove_or_tell(&name).await;
    done
}
