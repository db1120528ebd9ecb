//! One command in a running container: started, read, and given up on in time.
//!
//! Does not stop what it started: a command's children need not be its own any
//! more, so the container as a whole is stopped afterwards.

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::StreamExt as _;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::{CALL, Engine, fault};
use crate::{Bytes, SandboxError};

/// A command that prints this many times what is kept is stopped.
const FLOOD: u64 = 64;
/// But not later than here: the stream itself has a bound.
const MOST: u64 = 512 << 20;
/// Between two questions whether a silent command still runs.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The engine's own failure is not longer.
const COMPLAINT: usize = 16 << 10;
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

/// The first thing that is printed. Without it what was printed is the engine's
/// own failure, which it puts where the command's output would be.
const BEGUN: &str = "patchrl-begun";
/// Says so, and becomes the command with one stream for both outputs: of two, the
/// order would be lost.
const BEGIN: &str = "echo \"$0\"; exec \"$@\" 2>&1";

/// Start a command and listen to it.
pub(super) async fn run(
    engine: &Engine,
    name: &str,
    command: &Command<'_>,
) -> Result<Seen, SandboxError> {
    let mut cmd: Vec<String> = ["/bin/sh", "-c", BEGIN, BEGUN].map(str::to_owned).into();
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
    let mut listener = Listener { engine, id, output, heard: Heard::new(command.keep) };
    let how = listener.listen(command.wall).await?;
    let Heard { kept, total, began, .. } = listener.heard;
    let truncated = total > kept.len() as u64;
    let wall = began.map_or(Duration::ZERO, |began| began.elapsed());
    Ok(Seen { how, output: kept, truncated, wall })
}

struct Listener<'a, S> {
    engine: &'a Engine,
    id: String,
    output: S,
    heard: Heard,
}

impl<S: futures_util::Stream<Item = Result<LogOutput, Error>> + Unpin> Listener<'_, S> {
    /// Listen until the command has ended, or must.
    async fn listen(&mut self, wall: Duration) -> Result<How, SandboxError> {
        let given_up = Instant::now() + CALL;
        let mut pause = LOOK.0;
        let mut look = Instant::now() + pause;
        let mut open = true;
        loop {
            let until = self.heard.began.map_or(given_up, |began| began + wall);
            tokio::select! {
                biased;
                () = sleep_until(until) => return self.heard.begun(How::TimedOut),
                // The end of the output is not the end of the command, nor the
                // other way round: a child may hold it open.
                () = sleep_until(look) => {
                    let code = self.exit_code().await?;
                    // Asked also at the end: a command that failed for want of space
                    // did not fail by itself.
                    if code != Some(0) && self.engine.gate.disk.is_full() {
                        return Ok(How::DiskFull);
                    }
                    // Before it began, an engine may already say that it does not run.
                    if let Some(code) = code
                        && (self.heard.began.is_some() || !open)
                    {
                        if open {
                            self.rest().await?;
                        }
                        return self.heard.begun(How::Exited(code));
                    }
                    pause = (pause * 2).min(LOOK.1);
                    look = Instant::now() + pause;
                }
                chunk = self.output.next(), if open => if let Some(chunk) = chunk {
                    if self.heard.add(&bytes_of(chunk)?)? {
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
            if self.heard.add(&bytes_of(chunk)?)? {
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
        match exec.exit_code.and_then(|code| i32::try_from(code).ok()) {
            None if self.heard.began.is_some() => {
                Err(broken(what, "the engine tells no exit code"))
            }
            code => Ok(code),
        }
    }
}

/// What the engine says of a command that never ran.
fn not_started(said: &[u8]) -> SandboxError {
    let why = String::from_utf8_lossy(&said[..said.len().min(1000)]).trim().to_owned();
    if ["chdir to cwd", "unable to find", "not a directory"].iter().any(|word| why.contains(word)) {
        return SandboxError::BadJob(why);
    }
    SandboxError::EngineRefused { what: "start of a command".to_owned(), status: 500, why }
}

fn bytes_of(chunk: Result<LogOutput, Error>) -> Result<bytes::Bytes, SandboxError> {
    let chunk = chunk.map_err(|e| broken("the output of a command", &e.to_string()))?;
    Ok(chunk.into_bytes())
}

fn broken(what: &str, why: &str) -> SandboxError {
    SandboxError::EngineGone { what: what.to_owned(), why: why.to_owned() }
}

/// The beginning of what was printed.
struct Heard {
    /// When the command began; before that, `kept` is not its own.
    began: Option<Instant>,
    kept: Vec<u8>,
    total: u64,
    keep: u64,
}

impl Heard {
    fn new(keep: Bytes) -> Self {
        Self { began: None, kept: Vec::new(), total: 0, keep: keep.0 }
    }

    /// True once it is too much.
    fn add(&mut self, bytes: &[u8]) -> Result<bool, SandboxError> {
        if self.began.is_some() {
            return Ok(self.count(bytes));
        }
        self.kept.extend_from_slice(bytes);
        let own = BEGUN.len() + 1;
        if self.kept.starts_with(BEGUN.as_bytes()) && self.kept.len() >= own {
            self.began = Some(Instant::now());
            let rest = std::mem::take(&mut self.kept).split_off(own);
            return Ok(self.count(&rest));
        }
        if self.kept.len() > COMPLAINT { Err(not_started(&self.kept)) } else { Ok(false) }
    }

    fn count(&mut self, bytes: &[u8]) -> bool {
        let room = self.keep.saturating_sub(self.kept.len() as u64);
        self.kept.extend_from_slice(&bytes[..(bytes.len() as u64).min(room) as usize]);
        self.total += bytes.len() as u64;
        self.total > self.keep.saturating_mul(FLOOD).clamp(1, MOST)
    }

    /// This ending, of a command that had begun.
    fn begun(&self, how: How) -> Result<How, SandboxError> {
        if self.began.is_some() { Ok(how) } else { Err(not_started(&self.kept)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_says_is_not_the_commands_output() {
        let chdir =
            &b"OCI runtime exec failed: exec failed: chdir to cwd (\"/x\") set in config"[..];
        for said in [chdir, b"cannot exec in a deleted state: unknown", b"", b"patchrl-beg"] {
            let mut heard = Heard::new(Bytes(99));
            heard.add(said).unwrap();
            let error = heard.begun(How::Exited(126)).unwrap_err();
            assert_eq!(error.is_worth_retrying(), said != chdir, "{error}");
        }
        let mut heard = Heard::new(Bytes(99));
        for said in [&b"patchrl-"[..], b"begun\nOCI", b" runtime"] {
            heard.add(said).unwrap();
        }
        assert_eq!(heard.begun(How::Exited(126)).unwrap(), How::Exited(126));
        assert_eq!(heard.kept, b"OCI runtime");
    }

    #[test]
    fn output_is_capped_while_it_comes() {
        let mut heard = Heard::new(Bytes(4));
        heard.add(b"patchrl-begun\n").unwrap();
        assert!(!heard.add(&[b'x'; 3]).unwrap());
        assert!(!heard.add(&[b'x'; 200]).unwrap());
        assert_eq!((heard.kept.len(), heard.total), (4, 203));
        assert!(heard.add(&[b'x'; 60]).unwrap());
    }
}
