//! Run a command somewhere and get the truth back.
//!
//! Untrusted commands go through [`Local`] or, with an image, through [`Docker`];
//! trusted ones (git, pip) through [`host`]. A binary that uses [`Local`] calls [`init_main`] first in `main`.

mod docker;
#[cfg(feature = "init-before-main")]
mod early;
mod error;
pub mod git;
pub mod host;
mod init;
mod job;
mod local;
mod places;
mod probe;
pub mod python;
mod scratch;

pub use docker::{
    Container, ContainerJob, Docker, DockerSettings, EngineReport, ImageEvent, ImageName,
    ImageReport, ImageState, Network, Notice, Step, Tell,
};
pub use error::SandboxError;
pub use init::init_main;
pub use job::{Bytes, Ending, FileWrite, ImagePlace, Job, Limits, Output, Tier, TierChoice};
pub use local::Local;
pub use local::record::{Reaped, reap};
pub use places::Places;
pub use probe::{Feature, Report, probe, probe_with_init};
pub use scratch::copy_tree;
