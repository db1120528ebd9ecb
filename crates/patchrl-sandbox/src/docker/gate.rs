//! How much is asked of the engine at a time.
//!
//! Owns the number of containers, the rate at which they start, and the wait
//! for disk space. An engine that starts too many at once answers none of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Notice, Tell};
use crate::{Bytes, SandboxError};

/// A disk with less is full: what runs fails for want of it.
const FULL: Bytes = Bytes::mib(32);
/// Between two looks at a disk that is full.
const LOOK: Duration = Duration::from_secs(2);

pub(super) struct Gate {
    slots: Arc<Semaphore>,
    next_start: Mutex<Instant>,
    gap: Duration,
    pub(super) disk: Disk,
}

/// The disk that the engine keeps images and containers on.
pub(super) struct Disk {
    /// `None`: on another machine.
    pub(super) root: Option<PathBuf>,
    pub(super) free: fn(&PathBuf) -> Option<Bytes>,
    pub(super) least: Bytes,
    pub(super) patience: Duration,
}

impl Gate {
    pub(super) fn new(workers: usize, starts_per_second: f64, disk: Disk) -> Self {
        let gap = Duration::try_from_secs_f64(1.0 / starts_per_second).unwrap_or(Duration::ZERO);
        Self {
            slots: Arc::new(Semaphore::new(workers.max(1))),
            next_start: Mutex::new(Instant::now()),
            gap,
            disk,
        }
    }

    /// Wait for one of the workers' places.
    pub(super) async fn slot(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Wait for the turn to start a container.
    pub(super) async fn start(&self, tell: &Tell) -> Result<(), SandboxError> {
        self.disk.room(tell).await?;
        let turn = {
            let mut next = self.next_start.lock().await;
            let turn = (*next).max(Instant::now());
            *next = turn + self.gap;
            turn
        };
        sleep_until(turn).await;
        Ok(())
    }
}

impl Disk {
    /// Nothing can be written any more.
    pub(super) fn is_full(&self) -> bool {
        let free = self.root.as_ref().and_then(self.free);
        free.is_some_and(|free| free < FULL.min(self.least))
    }

    /// Wait until there is room, and say so.
    pub(super) async fn room(&self, tell: &Tell) -> Result<(), SandboxError> {
        let Some(root) = &self.root else { return Ok(()) };
        let until = Instant::now() + self.patience;
        let mut told = false;
        loop {
            let free = match (self.free)(root) {
                Some(free) if free < self.least => free,
                _ => break,
            };
            if Instant::now() >= until {
                let why = format!(
                    "{free} free on `{}`, {} wanted, for {} s",
                    root.display(),
                    self.least,
                    self.patience.as_secs()
                );
                return Err(SandboxError::EngineFull { why });
            }
            if !told {
                told = true;
                tell.say(&Notice::DiskFull { root: root.clone(), free, least: self.least });
            }
            sleep(LOOK.min(self.patience)).await;
        }
        if told {
            tell.say(&Notice::DiskBack { root: root.clone() });
        }
        Ok(())
    }
}

/// Free space for others than root; `None` if it cannot be seen from here.
pub(super) fn free(root: &PathBuf) -> Option<Bytes> {
    let stat = nix::sys::statvfs::statvfs(root).ok()?;
    Some(Bytes(stat.blocks_available() * stat.fragment_size()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn listener() -> (Tell, Arc<Mutex<Vec<String>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&heard);
        (Tell::new(move |notice| into.lock().unwrap().push(notice.to_string())), heard)
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_disk_pauses_and_says_so() {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        let (tell, heard) = listener();
        let disk = Disk {
            root: Some("/engine".into()),
            free: |_| Some(Bytes::mib(LOOKS.fetch_add(1, Ordering::Relaxed) * 40)),
            least: Bytes::mib(100),
            patience: Duration::from_mins(1),
        };
        disk.room(&tell).await.unwrap();
        assert_eq!(LOOKS.load(Ordering::Relaxed), 4);
        let heard = heard.lock().unwrap();
        assert_eq!(heard.len(), 2);
        assert!(heard[0].contains("0 B free on `/engine`"), "{heard:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_stays_full_is_an_error_of_ours() {
        let disk = Disk {
            root: Some("/engine".into()),
            free: |_| Some(Bytes(0)),
            least: Bytes::mib(100),
            patience: Duration::from_secs(9),
        };
        let error = disk.room(&listener().0).await.unwrap_err();
        assert!(matches!(error, SandboxError::EngineFull { .. }) && error.is_worth_retrying());
    }

    #[tokio::test(start_paused = true)]
    async fn starts_are_spread_out() {
        let disk = Disk { root: None, free, least: Bytes(0), patience: Duration::ZERO };
        let gate = Gate::new(2, 10.0, disk);
        let began = Instant::now();
        for _ in 0..11 {
            gate.start(&listener().0).await.unwrap();
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
