//! The answers of coming steps, drawn while an update runs.
//!
//! Owns how far ahead: the answers of a step are drawn by the newest weights that the server has,
//! and wait until those are at most `staleness` updates behind the step. Which weights drew which
//! token is in the answers.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Scope;

use patchrl_rollout::Remote;

use crate::TrainError;
use crate::groups::Drawn;

/// How far the weights at the server are.
pub(crate) struct Gate {
    /// Updates behind the newest of them; nothing once nobody waits for answers any more.
    at: Mutex<Option<u64>>,
    moved: Condvar,
}

impl Gate {
    pub(crate) fn at(version: u64) -> Self {
        Self { at: Mutex::new(Some(version)), moved: Condvar::new() }
    }

    /// The server has these weights now.
    pub(crate) fn open(&self, version: u64) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
        self.moved.notify_all();
    }

    fn close(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.moved.notify_all();
    }

    /// Wait for weights of at least this version; whether anybody still wants them.
    fn wait(&self, version: u64) -> bool {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let early = |at: &mut Option<u64>| at.is_some_and(|at| at < version);
        let at = self.moved.wait_while(at, early).unwrap_or_else(PoisonError::into_inner);
        at.is_some()
    }
}

/// Answers on their way. Dropped early, it breaks off what is under way.
pub(crate) struct Ahead<'a> {
    answers: Receiver<Result<Drawn, TrainError>>,
    gate: &'a Gate,
    remote: &'a Remote,
    left: u64,
}

impl<'a> Ahead<'a> {
    /// Draw `steps` in order on a thread of their own.
    pub(crate) fn start<'s>(
        scope: &'s Scope<'s, '_>,
        steps: std::ops::Range<u64>,
        (gate, remote, staleness): (&'a Gate, &'a Remote, u64),
        draw: impl Fn(u64) -> Result<Drawn, TrainError> + Send + 's,
    ) -> Self
    where
        'a: 's,
    {
        let (send, answers) = channel();
        let left = steps.end.saturating_sub(steps.start);
        scope.spawn(move || draw_all(steps, (gate, staleness), &draw, &send));
        Self { answers, gate, remote, left }
    }

    /// The answers of the next step.
    pub(crate) fn next(&mut self) -> Result<Drawn, TrainError> {
        self.left = self.left.saturating_sub(1);
        self.answers.recv().unwrap_or(Err(TrainError::NoAnswers("drawing ended early".into())))
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.gate.close();
            self.remote.server().cancel();
        }
    }
}

fn draw_all(
    steps: std::ops::Range<u64>,
    (gate, staleness): (&Gate, u64),
    draw: &dyn Fn(u64) -> Result<Drawn, TrainError>,
    send: &Sender<Result<Drawn, TrainError>>,
) {
    for step in steps {
        if !gate.wait(step.saturating_sub(staleness)) {
            return;
        }
        let drawn = draw(step);
        let failed = drawn.is_err();
        if send.send(drawn).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_is_drawn_by_weights_that_are_too_old() {
        for staleness in [0, 1, 3] {
            let gate = Gate::at(4);
            let drawn = AtomicU64::new(0);
            let (send, receive) = channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let draw = |step| {
                        drawn.store(step + 1, Ordering::SeqCst);
                        Ok(Drawn::default())
                    };
                    draw_all(4..12, (&gate, staleness), &draw, &send);
                });
                // As many as may be are drawn without an update, and no more.
                let mut come = 4;
                for version in 4..9 {
                    gate.open(version);
                    while come <= version + staleness {
                        receive.recv().expect("a step").expect("an answer");
                        come += 1;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                    assert_eq!(drawn.load(Ordering::SeqCst), come, "{staleness} {version}");
                }
                gate.close();
            });
        }
    }
}
