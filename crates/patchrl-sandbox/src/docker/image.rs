//! Images: which are there, getting the others, removing what is not used.
//!
//! One image that cannot be had does not stop the rest; an engine that is gone
//! does, and a registry that keeps failing. What is there is never pulled again, so a list that was broken off goes
//! on where it stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder};
use futures_util::StreamExt as _;
use serde::{Serialize, Serializer};
use tokio::time::{sleep, timeout};

use super::{Docker, Engine, fault};
use crate::{Bytes, SandboxError};

/// Pauses before another try where a pull failed for no lasting reason.
const RETRIES: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];
/// This many images in a row that fail after all tries are a registry that is down.
const GIVE_UP: usize = 3;
/// First and longest pause where the registry limits pulls and says no time.
const LIMITED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(15));
/// A pull that makes no progress for this long is tried again.
const STALL: Duration = Duration::from_mins(5);

/// The name of an image: `[registry/]name[:tag][@digest]`.
///
/// Names come from data sets and go into the paths of requests, so they hold
/// nothing that could lead elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName(String);

impl ImageName {
    /// Check a name. A tag that is missing is `latest`.
    pub fn parse(text: &str) -> Result<Self, SandboxError> {
        let text = text.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric());
        if text.len() > 512 || !text.chars().all(plain) || !text.split('/').all(part) {
            return Err(SandboxError::BadImageName { name: text.chars().take(80).collect() });
        }
        let last = text.rsplit('/').next().unwrap_or(text);
        Ok(Self(if last.contains([':', '@']) { text.to_owned() } else { format!("{text}:latest") }))
    }

    /// The name with its tag or digest.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ImageName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What became of one image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageReport {
    /// Its name.
    pub image: ImageName,
    /// What became of it.
    pub state: ImageState,
    /// Bytes on disk, layers shared with other images included.
    pub size: Option<Bytes>,
    /// Why not, where it failed.
    pub why: Option<String>,
}

/// What became of an image, or where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageState {
    /// It is there, and was.
    Present,
    /// It was pulled just now.
    Pulled,
    /// It is not there.
    Missing,
    /// It was removed just now.
    Removed,
    /// It was not removed since a container uses it.
    InUse,
    /// See [`ImageReport::why`].
    Failed,
}

/// Progress of [`Docker::prepare`].
#[derive(Debug)]
pub struct ImageEvent<'a> {
    /// Which one.
    pub image: &'a ImageName,
    /// Its number, from 0.
    pub index: usize,
    /// How many there are.
    pub of: usize,
    /// What happens.
    pub step: Step<'a>,
}

/// What happens to an image.
#[derive(Debug)]
pub enum Step<'a> {
    /// Bytes that came, of those that are known to come.
    Pulling {
        /// What is here.
        done: Bytes,
        /// What was announced so far.
        total: Bytes,
    },
    /// A pause before another try.
    Waiting {
        /// How long.
        pause: Duration,
        /// For what.
        why: &'a SandboxError,
    },
    /// Done with it.
    Ended(&'a ImageReport),
}

impl ImageReport {
    fn new(image: &ImageName, state: ImageState, size: Option<Bytes>) -> Self {
        Self { image: image.clone(), state, size, why: None }
    }

    fn failed(image: &ImageName, why: &SandboxError) -> Self {
        let why = Some(why.to_string());
        Self { image: image.clone(), state: ImageState::Failed, size: None, why }
    }
}

impl Docker {
    /// Pull what is missing. `listener` hears of progress and of waits.
    pub fn prepare(
        &self,
        images: &[ImageName],
        listener: &mut dyn FnMut(&ImageEvent<'_>),
    ) -> Result<Vec<ImageReport>, SandboxError> {
        let mut reports = Vec::new();
        let mut failing = 0;
        for (index, image) in images.iter().enumerate() {
            let mut tell =
                |step: Step<'_>| listener(&ImageEvent { image, index, of: images.len(), step });
            let report = match self.block_on(self.engine.prepare(image, &mut tell)) {
                Ok(report) => report,
                Err(e @ (SandboxError::EngineGone { .. } | SandboxError::EngineFull { .. })) => {
                    return Err(e);
                }
                Err(e) => {
                    failing = if e.is_worth_retrying() { failing + 1 } else { 0 };
                    if failing == GIVE_UP {
                        return Err(e);
                    }
                    ImageReport::failed(image, &e)
                }
            };
            if report.state == ImageState::Pulled {
                failing = 0;
            }
            tell(Step::Ended(&report));
            reports.push(report);
        }
        Ok(reports)
    }

    /// Which of these are there.
    pub fn images(&self, images: &[ImageName]) -> Result<Vec<ImageReport>, SandboxError> {
        let look = |image: &ImageName| {
            Ok(match self.block_on(self.engine.size(image))? {
                Some(size) => ImageReport::new(image, ImageState::Present, Some(size)),
                None => ImageReport::new(image, ImageState::Missing, None),
            })
        };
        images.iter().map(look).collect()
    }

    /// All images with a name.
    pub fn all_images(&self) -> Result<Vec<ImageReport>, SandboxError> {
        let options = ListImagesOptionsBuilder::default().build();
        let listed = self.engine.calls.list_images(Some(options));
        let listed = self.block_on(self.engine.call("a list of images", listed))?;
        let mut reports = Vec::new();
        for summary in listed {
            let size = Some(Bytes(summary.size.max(0).cast_unsigned()));
            let names = summary.repo_tags.iter().filter_map(|tag| ImageName::parse(tag).ok());
            reports.extend(names.map(|name| ImageReport::new(&name, ImageState::Present, size)));
        }
        reports.sort_by(|a, b| a.image.cmp(&b.image));
        Ok(reports)
    }

    /// Remove those that no container uses.
    pub fn remove_images(&self, images: &[ImageName]) -> Result<Vec<ImageReport>, SandboxError> {
        images.iter().map(|image| self.block_on(self.engine.remove_image(image))).collect()
    }
}

impl Engine {
    /// `None` if it is not there.
    async fn size(&self, image: &ImageName) -> Result<Option<Bytes>, SandboxError> {
        let what = "a look at an image";
        match self.ask(what, self.calls.inspect_image(image.as_str())).await? {
            Ok(found) => Ok(Some(Bytes(found.size.unwrap_or(0).max(0).cast_unsigned()))),
            Err(e) if fault::is_status(&e, 404) => Ok(None),
            Err(e) => Err(fault::of_call(what, e)),
        }
    }

    async fn prepare(
        &self,
        image: &ImageName,
        tell: &mut impl FnMut(Step<'_>),
    ) -> Result<ImageReport, SandboxError> {
        if let Some(size) = self.size(image).await? {
            return Ok(ImageReport::new(image, ImageState::Present, Some(size)));
        }
        let mut retries = RETRIES.iter();
        let mut limited = LIMITED.0;
        let mut waited = Duration::ZERO;
        loop {
            self.gate.disk.room(&self.tell).await?;
            let Err(error) = self.pull(image, tell).await else { break };
            let pause = match &error {
                SandboxError::RateLimited { wait, .. } => {
                    let pause = wait.map_or(limited, Duration::from_secs);
                    limited = (limited * 2).min(LIMITED.1);
                    waited += pause;
                    if waited > self.gate.disk.patience {
                        return Err(error);
                    }
                    pause
                }
                SandboxError::EngineRefused { .. } if error.is_worth_retrying() => {
                    match retries.next() {
                        Some(pause) => *pause,
                        None => return Err(error),
                    }
                }
                _ => return Err(error),
            };
            tell(Step::Waiting { pause, why: &error });
            sleep(pause).await;
        }
        let size = self.size(image).await?;
        Ok(ImageReport::new(image, ImageState::Pulled, size))
    }

    async fn pull(
        &self,
        image: &ImageName,
        tell: &mut impl FnMut(Step<'_>),
    ) -> Result<(), SandboxError> {
        let what = "a pull";
        let options = CreateImageOptionsBuilder::default().from_image(image.as_str()).build();
        let mut lines = self.streams.create_image(Some(options), None, None);
        let mut layers: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        loop {
            let Ok(line) = timeout(STALL, lines.next()).await else {
                let why = format!("no progress for {} s", STALL.as_secs());
                return Err(SandboxError::EngineRefused { what: what.into(), status: 504, why });
            };
            let Some(line) = line else { return Ok(()) };
            let line = line.map_err(|e| fault::of_image(image.as_str(), what, e))?;
            let (Some(id), Some(detail)) = (line.id, line.progress_detail) else { continue };
            if line.status.as_deref() != Some("Downloading") || layers.len() > 1000 {
                continue;
            }
            let bytes = |n: Option<i64>| n.unwrap_or(0).max(0).cast_unsigned();
            layers.insert(id, (bytes(detail.current), bytes(detail.total)));
            let done = Bytes(layers.values().fold(0, |sum, layer| sum.saturating_add(layer.0)));
            let total = Bytes(layers.values().fold(0, |sum, layer| sum.saturating_add(layer.1)));
            tell(Step::Pulling { done, total });
        }
    }

    async fn remove_image(&self, image: &ImageName) -> Result<ImageReport, SandboxError> {
        let Some(size) = self.size(image).await? else {
            return Ok(ImageReport::new(image, ImageState::Missing, None));
        };
        let what = "removal of an image";
        let options = None::<bollard::query_parameters::RemoveImageOptions>;
        let removed = self.calls.remove_image(image.as_str(), options, None);
        Ok(match self.ask(what, removed).await? {
            Ok(_) => ImageReport::new(image, ImageState::Removed, Some(size)),
            Err(e) if fault::is_status(&e, 409) => {
                ImageReport::new(image, ImageState::InUse, Some(size))
            }
            Err(e) => match fault::of_image(image.as_str(), what, e) {
                gone @ SandboxError::EngineGone { .. } => return Err(gone),
                other => ImageReport::failed(image, &other),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_an_image_and_nowhere_else() {
        for (text, name) in [
            ("swebench/sweb.eval.x86_64.a_1776_b-1", "swebench/sweb.eval.x86_64.a_1776_b-1:latest"),
            (" python:3.12 ", "python:3.12"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("x@sha256:00ff", "x@sha256:00ff"),
        ] {
            assert_eq!(ImageName::parse(text).unwrap().as_str(), name);
        }
        for bad in ["", "../containers/x", "a/../b", "a?force=1", "a b", "a/", "/a", "ä", "a#b"] {
            assert!(ImageName::parse(bad).is_err(), "{bad}");
        }
    }
}
