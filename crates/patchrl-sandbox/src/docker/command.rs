//! One command in a running container: started, read, and given up on in time.
//!
//! Does not stop what it started: a command's children need not be its own any
//! more, so the container as a whole is stopped afterwards.

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::{ExecConfig, ExecInspectResponse};
use futures_util::StreamExt as _;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::{Engine, fault};
use crate::{Bytes, SandboxError};

/// A command that prints this many times what is kept is stopped.
const FLOOD: u64 = 64;
/// But not later than here: the stream itself has a bound.
const MOST: u64 = 512 << 20;
/// Between two questions whether a silent command still runs.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// What a command printed arrives within this after its end.
const GRACE: Duration = Duration::from_millis(300);

/// What to start, and how long and how much to listen.
pub(super) struct Command<'a> {
    pub(super) argv: &'a [String],
    pub(super) env: Vec<String>,
    pub(super) user: Option<String>,
    pub(super) workdir: &'a str,
    pub(super) wall: Duration,
    pub(super) keep: Bytes,
}

/// What was seen of it.
pub(super) struct Seen {
    pub(super) how: How,
    pub(super) output: Vec<u8>,
    pub(super) truncated: bool,
    pub(super) wall: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Exited(i32),
    /// It still runs.
    TimedOut,
    /// It still runs and prints without end.
    Flooded,
    /// It still runs, and there is no space for it to do so.
    DiskFull,
}

/// Start a command and listen to it.
pub(super) async fn run(
    engine: &Engine,
    name: &str,
    command: &Command<'_>,
) -> Result<Seen, SandboxError> {
    // One stream for both outputs, or their order would be lost.
    let mut cmd: Vec<String> =
        ["/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"].map(str::to_owned).into();
    cmd.extend_from_slice(command.argv);
    let config = ExecConfig {
        attach_stdout: Some(true),
        cmd: Some(cmd),
        env: Some(command.env.clone()),
        user: command.user.clone(),
        working_dir: Some(command.workdir.to_owned()),
        ..ExecConfig::default()
    };
    let what = "start of a command";
    let created = engine.ask(what, engine.calls.create_exec(name, config)).await?;
    let id = created.map_err(|e| fault::of_container(what, e))?.id;
    let started = engine.call(what, engine.streams.start_exec(&id, None)).await?;
    let StartExecResults::Attached { output, .. } = started else {
        return Err(broken(what, "the engine gave no output"));
    };
    let mut listener =
        Listener { engine, id, output, heard: Heard::new(command.keep), began: Instant::now() };
    let how = listener.listen(command.wall).await?;
    let Listener { heard, began, .. } = listener;
    let Heard { kept, total, .. } = heard;
    let truncated = total > kept.len() as u64;
    Ok(Seen { how, output: kept, truncated, wall: began.elapsed() })
}

struct Listener<'a, S> {
    engine: &'a Engine,
    id: String,
    output: S,
    heard: Heard,
    began: Instant,
}

impl<S: futures_util::Stream<Item = Result<LogOutput, Error>> + Unpin> Listener<'_, S> {
    /// Listen until the command has ended, or must.
    async fn listen(&mut self, wall: Duration) -> Result<How, SandboxError> {
        let until = self.began + wall;
        let mut pause = LOOK.0;
        let mut look = self.began + pause;
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until) => return Ok(How::TimedOut),
                // The end of the output is not the end of the command, nor the
                // other way round: a child may hold it open.
                () = sleep_until(look) => {
                    let code = self.exit_code().await?;
                    // Asked also at the end: a command that failed for want of space
                    // did not fail by itself.
                    if code != Some(0) && self.engine.gate.disk.is_full() {
                        return Ok(How::DiskFull);
                    }
                    if let Some(code) = code {
                        if open {
                            self.rest().await?;
                        }
                        return Ok(How::Exited(code));
                    }
                    pause = (pause * 2).min(LOOK.1);
                    look = Instant::now() + pause;
                }
                chunk = self.output.next(), if open => if let Some(chunk) = chunk {
                    if self.heard.add(chunk)? {
                        return Ok(How::Flooded);
                    }
                } else {
                    open = false;
                    pause = Duration::from_millis(1);
                    look = Instant::now();
                },
            }
        }
    }

    /// What is still on its way.
    async fn rest(&mut self) -> Result<(), SandboxError> {
        let until = Instant::now() + GRACE;
        while let Ok(Some(chunk)) = timeout_at(until, self.output.next()).await {
            if self.heard.add(chunk)? {
                break;
            }
        }
        Ok(())
    }

    /// `None` while it runs.
    async fn exit_code(&self) -> Result<Option<i32>, SandboxError> {
        let what = "the end of a command";
        let exec = self.engine.ask(what, self.engine.calls.inspect_exec(&self.id)).await?;
        let exec = exec.map_err(|e| fault::of_container(what, e))?;
        if exec.running != Some(false) {
            return Ok(None);
        }
        let code = exec.exit_code.and_then(|code| i32::try_from(code).ok());
        let Some(code) = code else { return Err(broken(what, "the engine tells no exit code")) };
        if never_ran(&exec, &self.heard.kept) {
            return Err(not_started(&self.heard.kept));
        }
        Ok(Some(code))
    }
}

/// The engine puts its own failure where the command's output would be; but a
/// command that never ran has no process.
fn never_ran(exec: &ExecInspectResponse, said: &[u8]) -> bool {
    let engine_says = [&b"OCI runtime"[..], b"unable to find", b"failed to"];
    exec.pid.unwrap_or(0) == 0
        && matches!(exec.exit_code, Some(126..=128))
        && engine_says.iter().any(|words| said.starts_with(words))
}

fn not_started(said: &[u8]) -> SandboxError {
    let why = String::from_utf8_lossy(&said[..said.len().min(1000)]).trim().to_owned();
    if ["chdir to cwd", "unable to find", "not a directory"].iter().any(|word| why.contains(word)) {
        return SandboxError::BadJob(why);
    }
    SandboxError::EngineRefused { what: "start of a command".to_owned(), status: 500, why }
}

fn broken(what: &str, why: &str) -> SandboxError {
    SandboxError::EngineGone { what: what.to_owned(), why: why.to_owned() }
}

/// The beginning of what was printed.
struct Heard {
    kept: Vec<u8>,
    total: u64,
    keep: u64,
}

impl Heard {
    fn new(keep: Bytes) -> Self {
        Self { kept: Vec::new(), total: 0, keep: keep.0 }
    }

    /// True once it is too much.
    fn add(&mut self, chunk: Result<LogOutput, Error>) -> Result<bool, SandboxError> {
        let chunk = chunk.map_err(|e| broken("the output of a command", &e.to_string()))?;
        let bytes = chunk.into_bytes();
        let room = self.keep.saturating_sub(self.kept.len() as u64);
        self.kept.extend_from_slice(&bytes[..(bytes.len() as u64).min(room) as usize]);
        self.total += bytes.len() as u64;
        Ok(self.total > (self.keep.saturating_mul(FLOOD)).clamp(1, MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_cannot_pose_as_one_that_never_ran() {
        let exec = |pid, code| ExecInspectResponse {
            pid: Some(pid),
            exit_code: Some(code),
            ..ExecInspectResponse::default()
        };
        let said = b"OCI runtime exec failed: exec failed: chdir to cwd (\"/x\") set in config";
        assert!(never_ran(&exec(0, 126), said));
        assert!(!never_ran(&exec(77, 126), said));
        assert!(!never_ran(&exec(0, 1), said));
        assert!(matches!(not_started(said), SandboxError::BadJob(_)));
        assert!(not_started(b"OCI runtime exec failed: EAGAIN").is_worth_retrying());
    }

    #[test]
    fn output_is_capped_while_it_comes() {
        let mut heard = Heard::new(Bytes(4));
        let chunk = |n| Ok(LogOutput::StdOut { message: vec![b'x'; n].into() });
        assert!(!heard.add(chunk(3)).unwrap());
        assert!(!heard.add(chunk(200)).unwrap());
        assert_eq!((heard.kept.len(), heard.total), (4, 203));
        assert!(heard.add(chunk(60)).unwrap());
    }
}
