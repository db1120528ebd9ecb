//! Starting an init, reading what it and its command say, and the last resort
//! if it does not end.
#![expect(clippy::disallowed_methods, reason = "this room owns process spawning")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cgroup;
use super::record::{MARK, Record};
use crate::init::wire::{Ended, Frame, Spec, encode};
use crate::{Bytes, Ending, Output, SandboxError};

/// For building the walls, copying a tree included.
const SETUP: Duration = Duration::from_mins(2);
/// For killing and reading back after the wall-clock limit.
const GRACE: Duration = Duration::from_secs(10);
/// A command that prints this many times its cap is stopped.
const FLOOD: u64 = 64;

/// Run the job that `spec` describes.
pub(super) fn run(
    init: &Path,
    record: &Record,
    spec: &Spec,
    blob: &[u8],
) -> Result<Output, SandboxError> {
    let (output_r, output_w) = pipe()?;
    let (control_r, control_w) = pipe()?;
    let child = Command::new(init)
        .arg(crate::init::WORD)
        .env_clear()
        .env(MARK, &record.id)
        .stdin(memory_file(&encode(spec, blob))?)
        .stdout(Stdio::from(output_w))
        .stderr(Stdio::from(control_w))
        .process_group(0)
        .spawn()
        .map_err(|source| SandboxError::Start { program: init.display().to_string(), source })?;
    let mut job = Running {
        child,
        cap: spec.limits.output.0,
        wall: spec.limits.wall,
        printed: 0,
        output: Vec::new(),
        frames: Vec::new(),
        collected: BTreeMap::new(),
        started: None,
        ended: None,
        failed: None,
    };
    let listened = job.listen(output_r.into(), control_r.into());
    let status = job.finish(record)?;
    listened?;
    if let Some(why) = job.failed {
        return Err(SandboxError::Setup(why));
    }
    let measured = cgroup::Measured::read(&record.cgroups);
    let ended = match job.ended {
        Some(ended) => ended,
        // The kernel chose the init, or the init did not come to an end in time.
        None if measured.out_of_memory => job.without_report(Ending::OutOfMemory),
        None => match job.started {
            Some(start) if start.elapsed() >= job.wall => job.without_report(Ending::TimedOut),
            _ => return Err(SandboxError::Vanished(status)),
        },
    };
    let ending = match ended.ending {
        Ending::Exited(0) | Ending::TimedOut => ended.ending,
        _ if measured.out_of_memory => Ending::OutOfMemory,
        other => other,
    };
    let peak = measured.peak.unwrap_or(ended.peak_memory);
    Ok(Output {
        ending,
        output_truncated: job.printed > job.output.len() as u64,
        output: job.output,
        collected: job.collected,
        wall: Duration::from_micros(ended.wall_micros),
        peak_memory: (peak > 0).then_some(Bytes(peak)),
    })
}

struct Running {
    child: Child,
    cap: u64,
    wall: Duration,
    printed: u64,
    output: Vec<u8>,
    frames: Vec<u8>,
    collected: BTreeMap<String, Vec<u8>>,
    started: Option<Instant>,
    ended: Option<Ended>,
    failed: Option<String>,
}

impl Running {
    /// Read both pipes until the init has closed its own, which it does by ending.
    fn listen(&mut self, mut output: File, mut control: File) -> Result<(), SandboxError> {
        let begun = Instant::now();
        let mut chunk = vec![0; 1 << 16];
        let mut output_open = true;
        let mut told = None::<Instant>;
        loop {
            let until = match (told, self.started) {
                (Some(told), _) => told + GRACE,
                (None, Some(start)) => start + self.wall + GRACE,
                (None, None) => begun + SETUP,
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let none = PollFlags::empty();
            let mut fds = [
                PollFd::new(control.as_fd(), PollFlags::POLLIN),
                PollFd::new(output.as_fd(), if output_open { PollFlags::POLLIN } else { none }),
            ];
            let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            let ready = poll(&mut fds[..=usize::from(output_open)], PollTimeout::from(millis));
            if ready == Err(nix::errno::Errno::EINTR) {
                continue;
            }
            ready.map_err(std::io::Error::from)?;
            let has = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
            let (words, prints) = (has(&fds[0]), output_open && has(&fds[1]));
            if prints {
                match output.read(&mut chunk)? {
                    0 => output_open = false,
                    n => self.keep(&chunk[..n]),
                }
                if self.printed > self.cap.saturating_mul(FLOOD) && told.is_none() {
                    told = Some(Instant::now());
                    let _ = kill(self.pid(), Signal::SIGTERM);
                }
            }
            if words {
                match control.read(&mut chunk)? {
                    0 => return self.drain(&mut output, &mut chunk),
                    n => self.hear(&chunk[..n]),
                }
            }
        }
    }

    /// All writers are dead; take what is still in the pipe.
    fn drain(&mut self, output: &mut File, chunk: &mut [u8]) -> Result<(), SandboxError> {
        let flags = nix::fcntl::OFlag::O_NONBLOCK;
        nix::fcntl::fcntl(output.as_fd(), nix::fcntl::FcntlArg::F_SETFL(flags))
            .map_err(std::io::Error::from)?;
        while let Ok(n @ 1..) = output.read(chunk) {
            self.keep(&chunk[..n]);
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.printed += bytes.len() as u64;
        let room = self.cap.saturating_sub(self.output.len() as u64) as usize;
        self.output.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.frames.extend_from_slice(bytes);
        while let Some(frame) = Frame::take(&mut self.frames) {
            match frame {
                Frame::Started => self.started = Some(Instant::now()),
                Frame::Collected(name, bytes) => {
                    self.collected.insert(name, bytes);
                }
                Frame::Ended(ended) => self.ended = Some(ended),
                Frame::Failed(why) => self.failed = Some(why),
            }
        }
    }

    /// Make sure that the init is gone, and everything with it.
    fn finish(&mut self, record: &Record) -> Result<String, SandboxError> {
        let until = Instant::now() + Duration::from_millis(500);
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                self.child.kill()?;
                let status = self.child.wait()?;
                record.kill_leftovers();
                break status;
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        if self.ended.is_none() && self.failed.is_none() {
            record.kill_leftovers();
        }
        Ok(status.to_string())
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn without_report(&self, ending: Ending) -> Ended {
        let wall = self.started.map_or(Duration::ZERO, |start| start.elapsed());
        Ended { ending, wall_micros: wall.as_micros() as u64, peak_memory: 0 }
    }
}

/// The job, in a file that has no name.
fn memory_file(bytes: &[u8]) -> Result<Stdio, SandboxError> {
    #[expect(unsafe_code, reason = "memfd_create has no wrapper here")]
    // SAFETY: the name is a C string; the new descriptor is owned by the file.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"sandbox-job".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| std::io::Error::from(e).into())
}
