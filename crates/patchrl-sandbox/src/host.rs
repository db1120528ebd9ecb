//! Trusted programs: git, pip, python's venv.
//!
//! Owns deadlines, output caps and the process group of such a program. Gives
//! no protection from it: what a stranger or a model wrote goes to
//! [`crate::Local`].
#![expect(clippy::disallowed_methods, reason = "this room owns process spawning")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::SandboxError;

/// Bytes kept of each stream; the rest is read and thrown away.
const OUTPUT_CAP: usize = 64 << 20;

/// A command line for [`run`]. Inherits the environment of this process.
#[derive(Clone, Debug)]
pub struct Trusted {
    argv: Vec<String>,
    cwd: Option<PathBuf>,
    env: BTreeMap<String, String>,
    unset: Vec<String>,
    stdin: Vec<u8>,
    deadline: Duration,
}

impl Trusted {
    /// Program and arguments, with a deadline of ten minutes.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            env: BTreeMap::new(),
            unset: Vec::new(),
            stdin: Vec::new(),
            deadline: Duration::from_mins(10),
        }
    }

    /// Run in this folder.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Set an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Leave out an environment variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<String>) -> Self {
        self.unset.push(name.into());
        self
    }

    /// Give it this to read.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Stop it after this long.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    fn line(&self) -> String {
        self.argv.join(" ")
    }
}

/// What a trusted program said.
#[derive(Clone, Debug)]
pub struct Said {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output, up to 64 MiB.
    pub stdout: Vec<u8>,
    /// Standard error, up to 64 MiB.
    pub stderr: Vec<u8>,
}

impl Said {
    /// Standard output as text, without the last line break.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }
}

/// Run to the end, whatever the exit code.
pub fn run(trusted: &Trusted) -> Result<Said, SandboxError> {
    let (said, _) = finish(trusted)?;
    Ok(said)
}

/// Run to the end; any exit code but 0 is an error with the last lines of its
/// standard error.
pub fn run_ok(trusted: &Trusted) -> Result<Said, SandboxError> {
    let (said, status) = finish(trusted)?;
    if status.success() {
        return Ok(said);
    }
    let mut text = String::from_utf8_lossy(&said.stderr).trim_end().to_owned();
    if text.is_empty() {
        text = said.text();
    }
    let lines: Vec<&str> = text.lines().collect();
    Err(SandboxError::Failed {
        command: trusted.line(),
        status: match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        },
        stderr: lines[lines.len().saturating_sub(12)..].join("\n"),
    })
}

fn finish(trusted: &Trusted) -> Result<(Said, ExitStatus), SandboxError> {
    let mut child = spawn(trusted)?;
    let group = child.id().cast_signed();
    let (sender, streams) = mpsc::channel();
    for (index, pipe) in [
        child.stdout.take().map(|p| Box::new(p) as Box<dyn Read + Send>),
        child.stderr.take().map(|p| Box::new(p) as Box<dyn Read + Send>),
    ]
    .into_iter()
    .enumerate()
    {
        let sender = sender.clone();
        let Some(pipe) = pipe else { continue };
        thread::spawn(move || sender.send((index, drain(pipe))));
    }
    if let Some(mut pipe) = child.stdin.take() {
        let bytes = trusted.stdin.clone();
        // A program that stops reading early is not an error here; its exit code says it.
        thread::spawn(move || pipe.write_all(&bytes));
    }
    let until = Instant::now() + trusted.deadline;
    let mut texts = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        let left = until.saturating_duration_since(Instant::now());
        match streams.recv_timeout(left) {
            Ok((index, bytes)) => texts[index] = bytes,
            Err(_) => return Err(stop(trusted, &mut child, group)),
        }
    }
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= until => return Err(stop(trusted, &mut child, group)),
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let [stdout, stderr] = texts;
    Ok((Said { code: status.code(), stdout, stderr }, status))
}

fn spawn(trusted: &Trusted) -> Result<Child, SandboxError> {
    let Some((program, args)) = trusted.argv.split_first() else {
        return Err(SandboxError::BadJob("no program given".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(args).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if trusted.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    for name in &trusted.unset {
        command.env_remove(name);
    }
    command.envs(&trusted.env);
    if let Some(cwd) = &trusted.cwd {
        command.current_dir(cwd);
    }
    let parent = std::process::id().cast_signed();
    #[expect(unsafe_code, reason = "the death signal must be set between fork and exec")]
    // SAFETY: the closure calls only prctl, getppid and kill, which are
    // async-signal-safe and touch no memory of this process.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::raise(libc::SIGKILL);
            }
            Ok(())
        });
    }
    command.spawn().map_err(|source| SandboxError::Start { program: program.clone(), source })
}

fn drain(mut pipe: Box<dyn Read + Send>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    while let Ok(n @ 1..) = pipe.read(&mut chunk) {
        let room = OUTPUT_CAP.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..n.min(room)]);
    }
    kept
}

fn stop(trusted: &Trusted, child: &mut Child, group: i32) -> SandboxError {
    let _ = nix::sys::signal::killpg(
        nix::unistd::Pid::from_raw(group),
        nix::sys::signal::Signal::SIGKILL,
    );
    let _ = child.wait();
    SandboxError::Deadline { command: trusted.line(), seconds: trusted.deadline.as_secs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_and_the_code_come_back() {
        let said = run(&Trusted::new(["sh", "-c", "cat; echo e >&2; exit 3"]).stdin("in")).unwrap();
        assert_eq!(
            (said.code, said.text().as_str(), said.stderr.as_slice()),
            (Some(3), "in", &b"e\n"[..])
        );
    }

    #[test]
    fn a_deadline_kills_the_group() {
        let start = Instant::now();
        let slow =
            Trusted::new(["sh", "-c", "sleep 60 & sleep 60"]).deadline(Duration::from_millis(200));
        assert!(matches!(run(&slow), Err(SandboxError::Deadline { .. })));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&Trusted::new(["no-such-program-here"])).unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"));
    }
}
