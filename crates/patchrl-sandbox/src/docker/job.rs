//! What a container is asked to run.

use std::collections::BTreeMap;

use super::ImageName;
use crate::init::split;
use crate::{FileWrite, Limits, SandboxError};

/// One command in a container of an image.
#[derive(Clone, Debug)]
pub struct ContainerJob {
    /// The image. It must be there: see [`super::Docker::prepare`].
    pub image: ImageName,
    /// Working directory, absolute; it must exist in the image.
    pub workdir: String,
    /// A folder of the image, absolute, that is empty for the job; of one container all agree.
    pub hidden: Option<String>,
    /// Paths relative to `workdir`: what to put there first; `None` deletes.
    /// Files belong to root. A path leads through symbolic links of the image,
    /// but never out of the container.
    pub writes: BTreeMap<String, Option<FileWrite>>,
    /// Program and arguments. A program without a slash is looked up in `PATH`.
    pub argv: Vec<String>,
    /// Environment of the command, on top of the image's and of `PATCHRL_OUT`.
    pub env: BTreeMap<String, String>,
    /// User (`name`, `uid` or `uid:gid`) of the command; root if `None`, whatever
    /// the image says.
    pub user: Option<String>,
    /// Paths under `$PATCHRL_OUT` to read back. Regular files up to 4 MiB each;
    /// one that is missing or something else is left out.
    pub collect: Vec<String>,
    /// When to stop it. Memory, processes and file size are the container's: jobs
    /// of one container agree on them.
    pub limits: Limits,
}

impl ContainerJob {
    /// A job with default limits and no writes.
    pub fn new<S: Into<String>>(
        image: ImageName,
        workdir: impl Into<String>,
        argv: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            image,
            workdir: workdir.into(),
            hidden: None,
            writes: BTreeMap::new(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            user: None,
            collect: Vec::new(),
            limits: Limits::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), SandboxError> {
        let bad = |why: String| Err(SandboxError::BadJob(why));
        // A shell's `exec` would take a dash for an option of its own.
        if self.argv.first().is_none_or(|word| word.is_empty() || word.starts_with('-')) {
            return bad("no program given".to_owned());
        }
        let zero = |text: &String| text.contains('\0');
        if self.argv.iter().any(zero)
            || self.env.iter().any(|(k, v)| zero(k) || zero(v) || k.is_empty() || k.contains('='))
        {
            return bad("a zero byte in the command or its environment".to_owned());
        }
        if !self.workdir.starts_with('/') || zero(&self.workdir) {
            return bad(format!("the working directory `{}` is not absolute", self.workdir));
        }
        if let Some(path) = self.writes.keys().find(|path| split(path).is_none() || zero(path)) {
            return bad(format!("`{path}` does not lie in the working directory"));
        }
        if let Some(path) = self.collect.iter().find(|path| split(path).is_none() || zero(path)) {
            return bad(format!("`{path}` does not lie in the output folder"));
        }
        Ok(())
    }
}
