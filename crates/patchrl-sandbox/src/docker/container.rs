//! One container: started, given jobs, made new between them, removed.
//!
//! After each job the whole container is killed, which is the one way to end
//! everything a job started, whatever it did to its processes; its files stay
//! for the next job. A reset does not mend those files but takes another
//! container: on layered storage that costs less than comparing and restoring,
//! leaves nothing to verify, and covers what no comparison shows (shared
//! memory, mounts, volumes). A warm container has its successor started while
//! a job runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, ResourcesUlimits,
};
use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder,
    InspectContainerOptionsBuilder, KillContainerOptionsBuilder,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::command::{self, Command, How};
use super::{ContainerJob, Docker, Engine, ImageName, archive, fault};
use crate::{Bytes, Ending, FileWrite, Limits, Output, SandboxError};

/// What test suites that run as root need, and no more: to act on the files and
/// processes of other users and to become one. Not among them: mounts, raw
/// sockets, devices, tracing, other roots.
const CAPABILITIES: [&str; 7] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"];

/// Processes beside the job's: the first one, the shell that idles, the job's own shell.
const OUR_PROCESSES: u32 = 3;

/// Exit code of a command that was killed, or whose container was.
const KILLED: i32 = 128 + libc::SIGKILL;
/// How often the container of such a command is looked at, 50 ms apart.
const LAST_BREATH: u32 = 20;

/// The first process of a container, which nobody inside can kill: idles in any image with a
/// shell, as words on its standard input never come, and takes in orphans while it waits.
/// So a container that ended before it was told to was killed from outside.
const IDLE: &str = "while :; do (read -r _); done";

/// For deletions before a job.
const HOUSEKEEPING: Duration = Duration::from_mins(1);

/// Deletes the files named by its arguments, and folders that are empty then, as git does.
const DELETE: &str = r#"
for path do
  rm -f -- "./$path" || exit 1
  while case $path in */*) path=${path%/*} ;; *) false ;; esac; do
    rmdir -- "./$path" 2>/dev/null || break
  done
done"#;

/// A container of ours. Dropping it removes it.
#[derive(Debug)]
pub struct Container {
    docker: Docker,
    model: Model,
    reuse: Reuse,
    name: String,
    state: State,
    /// The next container, on its way.
    spare: Option<JoinHandle<Result<String, SandboxError>>>,
    /// Time of the files that were written last, in seconds.
    written: u64,
    _slot: OwnedSemaphorePermit,
}

/// What every container in a row of successors is made from.
#[derive(Clone, Debug)]
struct Model {
    image: ImageName,
    limits: Limits,
    /// A folder that is empty in it.
    hidden: Option<String>,
}

/// Whether a successor is kept ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    Once,
    Warm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Started, and nothing was run in it.
    Pristine,
    /// Killed after a job.
    Stopped,
    /// Something of ours failed in it, so nobody knows.
    Unknown,
}

impl Docker {
    /// Run a job in a container of its own.
    pub fn run(&self, job: &ContainerJob) -> Result<Output, SandboxError> {
        self.fresh(job)?.run(job)
    }

    /// Start a container for jobs like this one. Waits for a free worker, the start rate and
    /// disk space; a thread that holds the last worker itself waits for ever. Of the job's
    /// limits it keeps memory, processes and file size.
    pub fn fresh(&self, like: &ContainerJob) -> Result<Container, SandboxError> {
        self.start(like, Reuse::Once)
    }

    /// Start a container that will be reset often: its successor is started while
    /// it works, so that a reset takes no time. The successor needs no worker.
    pub fn warm(&self, like: &ContainerJob) -> Result<Container, SandboxError> {
        self.start(like, Reuse::Warm)
    }

    fn start(&self, like: &ContainerJob, reuse: Reuse) -> Result<Container, SandboxError> {
        let engine = &self.engine;
        let model = Model {
            image: like.image.clone(),
            limits: like.limits.clone(),
            hidden: like.hidden.clone(),
        };
        let (slot, name) = self.block_on(async {
            let slot = engine.gate.slot().await;
            Ok::<_, SandboxError>((slot, create(engine, &model).await?))
        })?;
        Ok(Container {
            docker: self.clone(),
            model,
            reuse,
            name,
            state: State::Pristine,
            spare: None,
            written: 0,
            _slot: slot,
        })
    }
}

impl Container {
    /// Its name at the engine. A reset changes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Run a job. Files of earlier jobs are there, processes are not. Nothing that
    /// the job started runs when this returns, unless the engine is gone.
    ///
    /// A command that a signal ended is [`Ending::Exited`] with 128 and the signal,
    /// which is all that an engine tells; one that filled the disk is
    /// [`Ending::Signaled`] with `SIGXFSZ`. Peak memory is not measured.
    pub fn run(&mut self, job: &ContainerJob) -> Result<Output, SandboxError> {
        job.check()?;
        self.check(job)?;
        let docker = self.docker.clone();
        if self.reuse == Reuse::Warm && self.spare.is_none() {
            self.spare = Some(self.successor());
        }
        let state = std::mem::replace(&mut self.state, State::Unknown);
        let output = docker.block_on(async {
            if state == State::Stopped {
                start(&docker.engine, &self.name).await?;
            }
            let seen = self.command(job).await;
            let killed = matches!(&seen, Ok(seen) if seen.how == How::Exited(KILLED));
            let ended = killed && self.ends_now().await?;
            let ran = stop(&docker.engine, &self.name).await? && !ended;
            let seen = seen?;
            let ending = self.ending(seen.how).await?;
            if !ran && ending != Ending::OutOfMemory {
                return Err(SandboxError::EngineGone {
                    what: "a job".to_owned(),
                    why: "its container was killed".to_owned(),
                });
            }
            let mut collected = BTreeMap::new();
            for path in &job.collect {
                if let Some(bytes) = archive::get(&docker.engine, &self.name, path).await? {
                    collected.insert(path.clone(), bytes);
                }
            }
            Ok::<_, SandboxError>(Output {
                ending,
                output: seen.output,
                output_truncated: seen.truncated,
                collected,
                wall: seen.wall,
                peak_memory: None,
            })
        })?;
        self.state = State::Stopped;
        Ok(output)
    }

    /// Make it what the image is: no files, processes or shared memory of earlier jobs.
    pub fn reset(&mut self) -> Result<(), SandboxError> {
        if self.state == State::Pristine {
            return Ok(());
        }
        let spare = self.spare.take();
        let docker = self.docker.clone();
        let next = docker.block_on(async {
            match spare {
                Some(spare) => match spare.await {
                    Ok(Ok(name)) => Ok(name),
                    _ => create(&docker.engine, &self.model).await,
                },
                None => create(&docker.engine, &self.model).await,
            }
        })?;
        let old = std::mem::replace(&mut self.name, next);
        self.state = State::Pristine;
        let engine = Arc::clone(&docker.engine);
        docker.later(async move { engine.remove_or_tell(&old).await });
        Ok(())
    }

    fn check(&self, job: &ContainerJob) -> Result<(), SandboxError> {
        let bad = |why: String| Err(SandboxError::BadJob(why));
        let Model { image, limits, hidden } = &self.model;
        if job.image != *image {
            return bad(format!("a container of `{image}` cannot run `{}`", job.image));
        }
        let needs = |limits: &Limits| (limits.memory, limits.processes, limits.file_size);
        if needs(&job.limits) != needs(limits) {
            return bad("the container was started with other limits".to_owned());
        }
        if job.hidden != *hidden {
            return bad("the container hides another folder".to_owned());
        }
        if self.state == State::Unknown {
            return bad("the last job in this container was lost: reset it first".to_owned());
        }
        Ok(())
    }

    fn successor(&self) -> JoinHandle<Result<String, SandboxError>> {
        let (engine, model) = (Arc::clone(&self.docker.engine), self.model.clone());
        self.docker.spawn(async move { create(&engine, &model).await })
    }

    /// Everything up to the end of the command; what it started may still run.
    async fn command(&mut self, job: &ContainerJob) -> Result<command::Seen, SandboxError> {
        let engine = &*self.docker.engine;
        if job.user.is_some() {
            archive::open_out(engine, &self.name).await?;
        }
        if !job.writes.is_empty() {
            // Later than the files of the job before: compilers and Python tell
            // by whole seconds whether a file has changed.
            self.written = now().max(self.written + 1);
            write(engine, &self.name, &job.workdir, (&job.writes, self.written)).await?;
        }
        let mut env = BTreeMap::from([("PATCHRL_OUT", archive::OUT)]);
        env.extend(job.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let command = Command {
            argv: &job.argv,
            env: env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            user: job.user.clone(),
            workdir: &job.workdir,
            wall: job.limits.wall,
            keep: job.limits.output,
        };
        match command::run(engine, &self.name, &command).await {
            Err(error) => Err(self.explain(error).await),
            seen => seen,
        }
    }

    /// A command that did not start, although its container did.
    async fn explain(&self, error: SandboxError) -> SandboxError {
        let SandboxError::EngineRefused { what, status, why } = error else { return error };
        let shell = ContainerArchiveInfoOptionsBuilder::default().path("/bin/sh").build();
        let calls = &self.docker.engine.calls;
        match calls.get_container_archive_info(&self.name, Some(shell)).await {
            Err(e) if fault::is_status(&e, 404) => {
                SandboxError::NoShell { image: self.model.image.to_string() }
            }
            // It does not run any more, and nothing was run in it that could have ended it.
            _ if status == 409 => SandboxError::EngineGone { what, why },
            _ => SandboxError::EngineRefused { what, status, why },
        }
    }

    /// Ask the stopped container what ended the command.
    /// Whether the container is about to end without us: its processes die first.
    async fn ends_now(&self) -> Result<bool, SandboxError> {
        let what = "the state of a container";
        let engine = &self.docker.engine;
        for _ in 0..LAST_BREATH {
            let asked = engine.ask(what, engine.calls.inspect_container(&self.name, None)).await?;
            let container = asked.map_err(|e| fault::of_container(what, e))?;
            if container.state.and_then(|state| state.running) == Some(false) {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(false)
    }

    async fn ending(&self, how: How) -> Result<Ending, SandboxError> {
        let what = "the state of a container";
        let engine = &self.docker.engine;
        // Its size takes a walk through its files, so it is asked for only if it matters.
        let size = how == How::DiskFull;
        let options = InspectContainerOptionsBuilder::default().size(size).build();
        let asked = engine.calls.inspect_container(&self.name, Some(options));
        let container = engine.ask(what, asked).await?;
        let container = container.map_err(|e| fault::of_container(what, e))?;
        let out_of_memory = container.state.and_then(|state| state.oom_killed) == Some(true);
        Ok(match how {
            How::TimedOut => Ending::TimedOut,
            How::Exited(0) => Ending::Exited(0),
            How::DiskFull => {
                // There was `least` when it started: one that wrote so much filled it.
                let least = i64::try_from(engine.gate.disk.least.0).unwrap_or(i64::MAX);
                if container.size_rw.unwrap_or(0) < least {
                    let why = "it was filled while a job ran, not by this job".to_owned();
                    return Err(SandboxError::EngineFull { why });
                }
                Ending::Signaled(libc::SIGXFSZ)
            }
            _ if out_of_memory => Ending::OutOfMemory,
            How::Exited(code) => Ending::Exited(code),
            How::Flooded => Ending::Signaled(libc::SIGKILL),
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let engine = Arc::clone(&self.docker.engine);
        if let Some(spare) = self.spare.take() {
            let engine = Arc::clone(&engine);
            // It may still wait for its turn or for disk space.
            self.docker.later(async move {
                if let Ok(Ok(name)) = spare.await {
                    engine.remove_or_tell(&name).await;
                }
            });
        }
        self.docker.block_on(engine.remove_or_tell(&self.name));
    }
}

/// A started container with nothing in it but the image and the output folder.
async fn create(engine: &Engine, model: &Model) -> Result<String, SandboxError> {
    let image = &model.image;
    engine.gate.start(&engine.tell).await?;
    // Named here, so that a start which fails half way leaves something to remove.
    let name = engine.next_name();
    let ready = async {
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let body = body(engine, model);
        let what = "creation of a container";
        let created = engine.ask(what, engine.calls.create_container(Some(options), body)).await?;
        created.map_err(|e| fault::of_image(image.as_str(), what, e))?;
        start(engine, &name).await.map_err(|e| match e {
            SandboxError::EngineRefused { why, .. } if why.contains("\"/bin/sh\"") => {
                SandboxError::NoShell { image: image.to_string() }
            }
            other => other,
        })
    };
    match ready.await {
        Ok(()) => Ok(name),
        Err(e) => {
            engine.remove_or_tell(&name).await;
            Err(e)
        }
    }
}

/// How every container of ours looks.
fn body(engine: &Engine, model: &Model) -> ContainerCreateBody {
    let Model { image, limits, hidden } = model;
    let bare = if engine.is_podman { ",notmpcopyup" } else { "" };
    let empty = |path: &String| (path.clone(), format!("ro,nosuid,nodev,noexec,size=4k{bare}"));
    let bytes = |size: Bytes| Some(i64::try_from(size.0).unwrap_or(i64::MAX));
    let ulimit = |name: &str, most: u64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: i64::try_from(most).ok(),
        hard: i64::try_from(most).ok(),
    };
    let host = HostConfig {
        network_mode: Some(engine.network.mode().to_owned()),
        memory: bytes(limits.memory),
        // Together with memory: no swap.
        memory_swap: bytes(limits.memory),
        nano_cpus: engine.cpus.map(|cpus| (cpus * 1e9) as i64),
        pids_limit: Some(i64::from(limits.processes) + i64::from(OUR_PROCESSES)),
        ulimits: Some(vec![
            ulimit("fsize", limits.file_size.0),
            ulimit("core", 0),
            // As in the local tiers; an engine's own is beyond what some machines allow.
            ulimit("nofile", 4096),
        ]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(CAPABILITIES.map(str::to_owned).into()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        tmpfs: hidden.as_ref().map(|folder| [empty(folder)].into()),
        // It would end with the shell that it started, which a job can kill.
        init: Some(false),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(image.as_str().to_owned()),
        entrypoint: Some(vec!["/bin/sh".to_owned()]),
        cmd: Some(vec!["-c".to_owned(), IDLE.to_owned()]),
        open_stdin: Some(true),
        // The engine makes this folder, which spares us a copy.
        working_dir: Some(archive::OUT.to_owned()),
        user: Some("0".to_owned()),
        // The image's would run beside the job.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        labels: Some(engine.owner.labels(&engine.run)),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

async fn start(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let what = "start of a container";
    let started = engine.ask(what, engine.calls.start_container(name, None)).await?;
    started.map_err(|e| fault::of_container(what, e))
}

/// Kill everything in a container. False if it had ended already.
async fn stop(engine: &Engine, name: &str) -> Result<bool, SandboxError> {
    let what = "the end of a container";
    let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
    match engine.ask(what, engine.calls.kill_container(name, Some(options))).await? {
        Err(e) if fault::is_status(&e, 409) => Ok(false),
        other => other.map(|()| true).map_err(|e| fault::of_container(what, e)),
    }
}

async fn write(
    engine: &Engine,
    name: &str,
    workdir: &str,
    (writes, mtime): (&BTreeMap<String, Option<FileWrite>>, u64),
) -> Result<(), SandboxError> {
    // Deletions first, so that a file may become a folder.
    let gone = writes.iter().filter(|(_, write)| write.is_none()).map(|(path, _)| path.clone());
    let mut argv: Vec<String> = ["/bin/sh", "-c", DELETE, "sh"].map(str::to_owned).into();
    argv.extend(gone);
    if argv.len() > 4 {
        let command = Command {
            argv: &argv,
            env: Vec::new(),
            user: Some("0".to_owned()),
            workdir,
            wall: HOUSEKEEPING,
            keep: Bytes(4096),
        };
        let seen = command::run(engine, name, &command).await?;
        if seen.how != How::Exited(0) {
            let said = String::from_utf8_lossy(&seen.output).trim().to_owned();
            return Err(SandboxError::BadJob(format!("cannot delete files: {said}")));
        }
    }
    if argv.len() - 4 < writes.len() {
        archive::put(engine, name, workdir, (writes, mtime)).await?;
    }
    Ok(())
}

/// Seconds since 1970, for the files that are written: build tools compare them
/// with the image's. Nothing else here asks for the time of day.
fn now() -> u64 {
    let clock = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME);
    clock.map_or(0, |time| time.tv_sec().cast_unsigned())
}
