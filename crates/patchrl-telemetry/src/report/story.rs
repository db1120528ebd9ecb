//! A journal, told in the order a reader wants it.
//!
//! Owns which events make which part of the report. Draws nothing.

use std::fmt::Write as _;

use crate::clock::Stamp;
use crate::event::{Evaluation, Event, RunStart, Step, StepSft, Validation};
use crate::journal::Record;
use crate::sink::Window;

/// What the report needs of a run.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) start: RunStart,
    pub(super) began: Option<Stamp>,
    pub(super) steps: Vec<Step>,
    pub(super) sft: Vec<StepSft>,
    pub(super) validations: Vec<Validation>,
    /// Name and first step of each phase of updates.
    pub(super) phases: Vec<(String, u64)>,
    /// Before and after, of each the latest.
    pub(super) evaluations: Vec<Evaluation>,
    pub(super) windows: Vec<Rewards>,
    pub(super) warnings: Vec<String>,
    last: Option<Stamp>,
    resumed: usize,
    ended: bool,
}

/// The rewards of up to 50 steps of one phase.
#[derive(Debug)]
pub(super) struct Rewards {
    pub(super) phase: String,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) values: Vec<f32>,
}

impl Story {
    pub(super) fn of(records: &[Record]) -> Self {
        let mut story = Self {
            began: records.first().map(|record| record.at),
            last: records.last().map(|record| record.at),
            ..Self::default()
        };
        let mut window = Window::default();
        let mut first = None;
        for Record { event, .. } in records {
            let rewards = window.take(event);
            story.tell(event);
            if let Event::StepEnded(step) = event {
                first.get_or_insert(step.step);
            }
            if let Some(rewards) = rewards {
                story.close(first.take(), rewards);
            }
        }
        if let Some(rewards) = window.close() {
            story.close(first, rewards);
        }
        story.evaluations.sort_by_key(|evaluation| evaluation.when);
        story
    }

    /// `running` is all that can be known of a run that has not said its end.
    pub(super) fn state(&self) -> String {
        let seconds = match (self.began, self.last) {
            (Some(began), Some(last)) => last.0.saturating_sub(began.0) / 1000,
            _ => 0,
        };
        let state = if self.ended { "ended after" } else { "not ended, last heard of after" };
        let mut text = format!("{state} {}", duration(seconds));
        if self.resumed > 0 {
            let _ = write!(text, ", resumed {} times", self.resumed);
        }
        text
    }

    pub(super) fn steps_in_words(&self) -> String {
        let mut parts = Vec::new();
        if !self.sft.is_empty() {
            let phase = &self.sft[0].phase;
            parts.push(format!("{} {phase}", self.sft.len()));
        }
        for (phase, _) in &self.phases {
            let count = self.steps.iter().filter(|step| step.phase == *phase).count();
            parts.push(format!("{count} {phase}"));
        }
        parts.join(", ")
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::RunStarted(start) => self.start = start.clone(),
            Event::Resumed { .. } => {
                self.resumed += 1;
                self.ended = false;
            }
            Event::StepEnded(step) => {
                if self.phases.last().is_none_or(|(phase, _)| *phase != step.phase) {
                    self.phases.push((step.phase.clone(), step.step));
                }
                self.steps.push(step.clone());
            }
            Event::SftStep(step) => self.sft.push(step.clone()),
            Event::Validated(validation) => self.validations.push(validation.clone()),
            Event::EvalEnded(evaluation) => {
                self.evaluations.retain(|other| other.when != evaluation.when);
                self.evaluations.push(evaluation.clone());
            }
            Event::Warning { message } => self.warnings.push(message.clone()),
            Event::RunEnded { .. } => self.ended = true,
            Event::PhaseStarted { .. }
            | Event::TaskPrepared { .. }
            | Event::RolloutEnded(_)
            | Event::CheckpointWritten { .. } => {}
        }
    }

    fn close(&mut self, first: Option<u64>, rewards: Vec<f32>) {
        // Answers of a step that was never finished have no step to stand under.
        if let (Some(first), Some(step)) = (first, self.steps.last()) {
            let (phase, last) = (step.phase.clone(), step.step);
            self.windows.push(Rewards { phase, first, last, values: rewards });
        }
    }
}

fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}
