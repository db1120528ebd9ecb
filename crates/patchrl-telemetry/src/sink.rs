//! One place to say what happened: journal and `TensorBoard` of a run.
//!
//! Owns the two files and the window of rewards between two histograms. The
//! console is not here: the binary listens to the same events.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::clock::Stamp;
use crate::error::TelemetryError;
use crate::event::{Event, Mark};
use crate::journal::{Journal, Kept};
use crate::metric::{self, Metric};
use crate::tensorboard::{Histogram, TensorBoard};

/// Steps between two histograms of rewards.
pub(crate) const HISTOGRAM_STEPS: u64 = 50;
/// Buckets of a histogram of rewards.
pub(crate) const HISTOGRAM_BUCKETS: usize = 20;

/// The open journal and `TensorBoard` file of a run; usable from many threads.
#[derive(Debug)]
pub struct Telemetry(Mutex<Open>);

impl Telemetry {
    /// Open the run in `run_dir`, which is made if need be. Events are appended.
    pub fn open(run_dir: &Path) -> Result<Self, TelemetryError> {
        make(run_dir)?;
        let journal = Journal::open(&run_dir.join("journal.jsonl"))?;
        Ok(Self(Mutex::new(Open::start(run_dir, journal, None)?)))
    }

    /// Open a run that goes on after `mark`, the last step of its checkpoint, or
    /// from the beginning if it has none. What the journal says about later steps
    /// is cut. The caller emits [`Event::Resumed`].
    pub fn resume(run_dir: &Path, mark: Option<Mark<'_>>) -> Result<(Self, Kept), TelemetryError> {
        make(run_dir)?;
        let (journal, kept) = Journal::resume(&run_dir.join("journal.jsonl"), mark)?;
        let after = kept
            .records
            .iter()
            .rev()
            .find_map(|record| match &record.event {
                Event::StepEnded(step) => Some(step.step),
                _ => None,
            })
            .unwrap_or(0);
        let mut open = Open::start(run_dir, journal, Some(after))?;
        for record in &kept.records {
            let _ = open.window.take(&record.event);
        }
        open.last_step = after;
        Ok((Self(Mutex::new(open)), kept))
    }

    /// Write one event everywhere.
    pub fn emit(&self, event: &Event) -> Result<(), TelemetryError> {
        // A poisoned lock means that another thread panicked between two whole lines.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).emit(event)
    }
}

fn make(run_dir: &Path) -> Result<(), TelemetryError> {
    fs_err::create_dir_all(run_dir)
        .map_err(|source| TelemetryError::Journal { path: run_dir.to_owned(), source })
}

#[derive(Debug)]
struct Open {
    journal: Journal,
    board: TensorBoard,
    window: Window,
    last_step: u64,
}

impl Open {
    fn start(run_dir: &Path, journal: Journal, after: Option<u64>) -> Result<Self, TelemetryError> {
        let board = TensorBoard::start(&run_dir.join("tb"), Stamp::now(), after)?;
        Ok(Self { journal, board, window: Window::default(), last_step: 0 })
    }

    fn emit(&mut self, event: &Event) -> Result<(), TelemetryError> {
        let now = self.journal.append(event)?;
        match event {
            Event::StepEnded(step) => {
                self.last_step = step.step;
                self.scalars(now, step.step, &metric::of_step(step))?;
            }
            Event::SftStep(step) => self.scalars(now, step.step, &metric::of_sft(step))?,
            Event::Validated(it) => {
                self.scalars(now, it.step, &[(metric::VALIDATION_LOSS, it.loss)])?;
            }
            Event::EvalEnded(evaluation) => {
                let (step, curves) = metric::of_evaluation(evaluation, self.last_step);
                self.scalars(now, step, &curves)?;
            }
            _ => {}
        }
        if let Some(rewards) = self.window.take(event) {
            let histogram = Histogram::of(&rewards, HISTOGRAM_BUCKETS);
            self.board.histogram(now, self.last_step, metric::REWARD.tag, &histogram)?;
        }
        Ok(())
    }

    fn scalars(
        &mut self,
        now: Stamp,
        step: u64,
        curves: &[(Metric, f32)],
    ) -> Result<(), TelemetryError> {
        let values: Vec<_> = curves.iter().map(|(metric, value)| (metric.tag, *value)).collect();
        self.board.scalars(now, step, &values)
    }
}

/// Rewards since the last histogram.
#[derive(Debug, Default)]
pub(crate) struct Window(Vec<f32>);

impl Window {
    /// Take note of an event; gives the rewards back when a window closes: every
    /// 50 steps, when a phase begins, since each has rewards of its own, and at the end.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Vec<f32>> {
        match event {
            Event::RolloutEnded(end) => self.0.extend(end.reward.filter(|value| value.is_finite())),
            Event::StepEnded(step) if step.step.is_multiple_of(HISTOGRAM_STEPS) => {
                return self.close();
            }
            Event::PhaseStarted { .. } | Event::RunEnded { .. } => return self.close(),
            _ => {}
        }
        None
    }

    /// The rewards of a window that is still open.
    pub(crate) fn close(&mut self) -> Option<Vec<f32>> {
        if self.0.is_empty() { None } else { Some(std::mem::take(&mut self.0)) }
    }
}
