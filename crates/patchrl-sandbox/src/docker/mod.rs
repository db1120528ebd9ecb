//! Commands in containers of an image, through the Engine API of Docker or Podman.
//!
//! A blocking face over an asynchronous client with a small runtime of its own,
//! so not to be called from inside of another runtime. Owns the containers, their
//! number and rate, the images, and telling our failures from a command's. Does
//! not know what a command means. A container shares the machine's kernel: not a
//! boundary against kernel exploits.

mod archive;
mod command;
mod container;
mod export;
mod fault;
mod gate;
mod image;
mod job;
mod owner;
mod socket;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

pub(crate) use archive::OUT;
pub use container::Container;
pub use image::{ImageEvent, ImageName, ImageReport, ImageState, Step};
pub use job::ContainerJob;

use crate::{Bytes, SandboxError};
use gate::{Disk, Gate};
use owner::Owner;
use socket::Address;

/// Longest answer to a question: a list of everything an engine has is shorter.
const ANSWER: Bytes = Bytes::mib(64);
/// Longest stream: a command's output, a file, the progress of a pull.
const STREAM: Bytes = Bytes::mib(1024);
/// An engine that says nothing for this long is gone.
const CALL: Duration = Duration::from_mins(2);
/// And one that is slow to begin with is not used.
const HELLO: Duration = Duration::from_secs(10);
/// How long removals may go on at the end.
const FAREWELL: Duration = Duration::from_mins(1);

/// The next container's number in this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// What containers may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing but themselves.
    #[default]
    Off,
    /// The engine's bridge: other containers and the world.
    Bridge,
}

impl Network {
    fn mode(self) -> &'static str {
        match self {
            Self::Off => "none",
            Self::Bridge => "bridge",
        }
    }
}

/// How to find the engine and how much to ask of it.
#[derive(Clone, Debug)]
pub struct DockerSettings {
    /// `unix://PATH`, `tcp://HOST:PORT` or a path. `None` looks in the usual places.
    pub host: Option<String>,
    /// What containers may reach.
    pub network: Network,
    /// Containers with work at a time.
    pub workers: usize,
    /// Containers started per second.
    pub starts_per_second: f64,
    /// Processors for one container; `None` does not limit them.
    pub cpus: Option<f64>,
    /// Free space on the engine's disk under which nothing is started or pulled.
    pub min_free: Bytes,
    /// How long to wait for disk space, and for a registry that limits pulls.
    pub patience: Duration,
    /// Label of all containers.
    pub run: String,
    /// Who hears of waits and of what could not be removed.
    pub tell: Tell,
}

impl Default for DockerSettings {
    fn default() -> Self {
        Self {
            host: None,
            network: Network::Off,
            workers: 2,
            starts_per_second: 10.0,
            cpus: None,
            min_free: Bytes::mib(2048),
            // The window of Docker Hub's limit.
            patience: Duration::from_hours(6),
            run: "-".to_owned(),
            tell: Tell::new(|_| {}),
        }
    }
}

/// What is worth saying while somebody waits.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Nothing is started or pulled until there is space.
    DiskFull {
        /// The engine's folder.
        root: PathBuf,
        /// What it has.
        free: Bytes,
        /// What is wanted.
        least: Bytes,
    },
    /// It goes on.
    DiskBack {
        /// The engine's folder.
        root: PathBuf,
    },
    /// A container is still there; `sandbox reap` will find it.
    LeftBehind {
        /// Its name.
        container: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiskFull { root, free, least } => {
                write!(
                    f,
                    "waiting for disk space: {free} free on `{}`, {least} wanted",
                    root.display()
                )
            }
            Self::DiskBack { root } => write!(f, "`{}` has space again", root.display()),
            Self::LeftBehind { container, why } => {
                write!(f, "container {container} could not be removed: {why}")
            }
        }
    }
}

/// A listener for [`Notice`]s, called from any thread.
#[derive(Clone)]
pub struct Tell(Arc<dyn Fn(&Notice) + Send + Sync>);

impl Tell {
    /// Call this.
    pub fn new(listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    fn say(&self, notice: &Notice) {
        (self.0)(notice);
    }
}

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// What an engine says about itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EngineReport {
    /// Where it answers.
    pub address: String,
    /// Its version.
    pub version: String,
    /// Its storage driver; `vfs` copies whole images and is very slow.
    pub storage: String,
    /// Free space on its disk, where it can be seen from here.
    pub free: Option<Bytes>,
}

/// A connection to a container engine. Clones share it.
#[derive(Clone, Debug)]
pub struct Docker {
    engine: Arc<Engine>,
    life: Arc<Life>,
}

/// The runtime, and removals that nobody waits for.
#[derive(Debug)]
struct Life {
    runtime: Runtime,
    removals: Mutex<JoinSet<()>>,
}

/// What asynchronous code needs of a connection.
struct Engine {
    calls: bollard::Docker,
    streams: bollard::Docker,
    report: EngineReport,
    /// A memory file system begins with what it covers, unless it is told not to.
    is_podman: bool,
    owner: Owner,
    gate: Gate,
    tell: Tell,
    network: Network,
    cpus: Option<f64>,
    run: String,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.report.address)
    }
}

impl Docker {
    /// Find an engine that answers, and agree on a version of the API.
    pub fn connect(settings: &DockerSettings) -> Result<Self, SandboxError> {
        let addresses = match &settings.host {
            Some(host) => vec![Address::parse(host)?],
            None => Address::usual(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("engine")
            .enable_all()
            .build()?;
        let engine = runtime.block_on(async {
            let mut why = String::new();
            for address in &addresses {
                match timeout(HELLO, Engine::connect(address, settings)).await {
                    Ok(Ok(engine)) => return Ok(engine),
                    // Of several, one that is there but does not answer says more.
                    Ok(Err(e)) if why.is_empty() || address.exists() => why = fault::root(&e),
                    Ok(Err(_)) => {}
                    Err(_) => why = format!("`{address}` does not answer"),
                }
            }
            let tried: Vec<String> = addresses.iter().map(|a| format!("`{a}`")).collect();
            Err(SandboxError::EngineMissing { tried: tried.join(", "), why })
        })?;
        let life = Life { runtime, removals: Mutex::new(JoinSet::new()) };
        Ok(Self { engine: Arc::new(engine), life: Arc::new(life) })
    }

    /// What the engine says about itself.
    pub fn report(&self) -> &EngineReport {
        &self.engine.report
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.life.runtime.block_on(future)
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.life.runtime.spawn(future)
    }

    /// A removal that nobody waits for but the last clone of this connection.
    fn later(&self, removal: impl Future<Output = ()> + Send + 'static) {
        let mut removals = self.life.removals.lock().unwrap_or_else(PoisonError::into_inner);
        while removals.try_join_next().is_some() {}
        removals.spawn_on(removal, self.life.runtime.handle());
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let removals = self.removals.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.runtime.block_on(async {
            let all = async { while removals.join_next().await.is_some() {} };
            let _ = timeout(FAREWELL, all).await;
        });
    }
}

impl Engine {
    async fn connect(
        address: &Address,
        settings: &DockerSettings,
    ) -> Result<Self, bollard::errors::Error> {
        let calls = address.client(ANSWER, CALL)?.negotiate_version().await?;
        let streams = address.client(STREAM, CALL)?.negotiate_version().await?;
        let info = calls.info().await?;
        let parts = calls.version().await?.components.unwrap_or_default();
        let is_podman = parts.iter().any(|part| part.name.contains("Podman"));
        let root = info.docker_root_dir.map(PathBuf::from);
        let root = root.filter(|root| address.is_local() && root.is_dir());
        let report = EngineReport {
            address: address.to_string(),
            version: info.server_version.unwrap_or_default(),
            storage: info.driver.unwrap_or_default(),
            free: root.as_ref().and_then(gate::free),
        };
        let disk =
            Disk { root, free: gate::free, least: settings.min_free, patience: settings.patience };
        Ok(Self {
            calls,
            streams,
            report,
            is_podman,
            owner: Owner::this(),
            gate: Gate::new(settings.workers, settings.starts_per_second, disk),
            tell: settings.tell.clone(),
            network: settings.network,
            cpus: settings.cpus,
            run: settings.run.clone(),
        })
    }

    /// A call whose refusal is our failure.
    async fn call<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, bollard::errors::Error>>,
    ) -> Result<T, SandboxError> {
        self.ask(what, call).await?.map_err(|e| fault::of_call(what, e))
    }

    /// A call whose refusal the caller reads.
    async fn ask<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, bollard::errors::Error>>,
    ) -> Result<Result<T, bollard::errors::Error>, SandboxError> {
        timeout(CALL, call).await.map_err(|_| SandboxError::EngineGone {
            what: what.to_owned(),
            why: format!("no answer within {} s", CALL.as_secs()),
        })
    }

    fn next_name(&self) -> String {
        format!("patchrl-{}-{}", self.owner.id, NEXT.fetch_add(1, Ordering::Relaxed))
    }

    async fn remove_or_tell(&self, name: &str) {
        if let Err(e) = owner::remove(self, name).await {
            let container = name.to_owned();
            self.tell.say(&Notice::LeftBehind { container, why: e.to_string() });
        }
    }
}
