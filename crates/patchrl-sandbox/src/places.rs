//! Where a job runs: here, or in a container if it names an image.
//!
//! Owns the containers that are kept warm between jobs of one image. Everything a container
//! was told is gone before it is used again; with [`Places::fresh`] each job has its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Container, ContainerJob, Docker, ImagePlace, Job, Limits, Local, Output, SandboxError,
};

/// The places of this machine.
#[derive(Debug)]
pub struct Places {
    local: Arc<Local>,
    docker: Option<Docker>,
    fresh: bool,
    warm: Mutex<Vec<(ImagePlace, Limits, Container)>>,
}

impl Places {
    /// The local sandbox alone.
    pub fn new(local: Arc<Local>) -> Self {
        Self { local, docker: None, fresh: false, warm: Mutex::default() }
    }

    /// And an engine for jobs that name an image. No more threads may run such jobs at a
    /// time than the engine has workers.
    #[must_use]
    pub fn with_docker(mut self, docker: Docker) -> Self {
        self.docker = Some(docker);
        self
    }

    /// A container of its own for each job.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// The local sandbox.
    pub fn local(&self) -> &Arc<Local> {
        &self.local
    }

    /// Run a job to its end.
    pub fn run(&self, job: &Job) -> Result<Output, SandboxError> {
        let Some(place) = &job.image else { return self.local.run(job) };
        let docker = self.docker.as_ref().ok_or_else(|| SandboxError::EngineMissing {
            tried: "none".to_owned(),
            why: format!("the job needs the image `{}`", place.image),
        })?;
        let asked = in_container(job, place);
        if self.fresh {
            return docker.run(&asked);
        }
        let mut container = self.take(docker, (place, &asked))?;
        let output = container.run(&asked)?;
        // One that cannot be made new is not kept; what it showed stands.
        if container.reset().is_ok() {
            let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
            warm.push((place.clone(), job.limits.clone(), container));
        }
        Ok(output)
    }

    /// A warm container of this image, or a new one in place of one of another.
    fn take(
        &self,
        docker: &Docker,
        (place, asked): (&ImagePlace, &ContainerJob),
    ) -> Result<Container, SandboxError> {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &(ImagePlace, Limits, Container)| it.0 == *place && it.1 == asked.limits;
        if let Some(at) = warm.iter().position(fits) {
            return Ok(warm.swap_remove(at).2);
        }
        let other = (!warm.is_empty()).then(|| warm.swap_remove(0));
        drop(warm);
        // Its worker is free before another is asked for.
        drop(other);
        docker.warm(asked)
    }
}

fn in_container(job: &Job, place: &ImagePlace) -> ContainerJob {
    let words =
        [("{workspace}", place.workdir.as_str()), ("{out}", crate::docker::OUT), ("{tmp}", "/tmp")];
    let fill = |text: &String| words.iter().fold(text.clone(), |t, (from, to)| t.replace(from, to));
    let mut asked =
        ContainerJob::new(place.image.clone(), place.workdir.clone(), job.argv.iter().map(fill));
    asked.hidden = place.hidden();
    asked.writes.clone_from(&job.writes);
    let env = job.env.iter().map(|(name, value)| (name.clone(), fill(value)));
    asked.env = env.collect::<BTreeMap<_, _>>();
    asked.collect.clone_from(&job.collect);
    asked.limits = job.limits.clone();
    asked
}
