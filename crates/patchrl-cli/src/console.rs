//! What a person sees while a run goes on: a bar for what is going on, a line for what happened.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use patchrl_telemetry::Event;
use patchrl_train::Listener;

use crate::printer;

/// Bars on a terminal; elsewhere a line now and then.
pub(crate) struct Console {
    bar: ProgressBar,
    what: String,
    begun: Instant,
    last: Instant,
    /// Steps of the whole run, for the reader's sense of how far it is.
    pub(crate) steps: u64,
}

/// Between two lines of progress where there is no terminal.
const QUIET: Duration = Duration::from_secs(15);

impl Console {
    /// A console with nothing going on.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let now = Instant::now();
        Self { bar, what: String::new(), begun: now, last: now, steps: 0 }
    }

    /// A line for people, above the bar.
    pub(crate) fn say(&mut self, line: &str) {
        self.clear();
        printer::say(line);
    }

    /// Progress in bytes.
    pub(crate) fn bytes(&mut self, what: &str, done: u64, total: u64) {
        self.draw(
            what,
            done,
            total,
            "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        );
    }

    /// Take the bar away.
    pub(crate) fn clear(&mut self) {
        self.bar.finish_and_clear();
        self.what.clear();
    }

    /// Rate and time left, once something is done.
    fn pace(&self, done: u64, total: u64) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        if done == 0 || seconds < 1.0 {
            return String::new();
        }
        let rate = done as f64 / seconds;
        let left = total.saturating_sub(done) as f64 / rate;
        format!(
            ", {rate:.2} a second, {:.0} min {:02.0} s left",
            (left / 60.0).floor(),
            left % 60.0
        )
    }

    fn draw(&mut self, what: &str, done: u64, total: u64, template: &str) {
        if self.what != what {
            self.bar.finish_and_clear();
            what.clone_into(&mut self.what);
            (self.begun, self.last) = (Instant::now(), Instant::now());
            self.bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.bar.set_style(style.progress_chars("=> "));
            }
            self.bar.set_message(what.to_owned());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        if !printer::is_terminal() && self.last.elapsed() > QUIET {
            self.last = Instant::now();
            printer::say(&format!("  {what}: {done} of {total}{}", self.pace(done, total)));
        }
    }
}

impl Listener for Console {
    fn event(&mut self, event: &Event) {
        let line = match event {
            Event::PhaseStarted { phase } => format!("phase {phase}"),
            Event::SftStep(s) => format!(
                "  {} {}/{}  loss {:.3}  lr {:.1e}  grad {:.2}  {:.1} s",
                s.phase, s.step, self.steps, s.loss, s.lr, s.grad_norm, s.seconds
            ),
            Event::StepEnded(s) => format!(
                "  {} {}/{}  reward {:.3} ± {:.3}  patches {} applied {} passed {} of {}  silent groups {}{}  \
                 loss {:+.4}  kl {:.4}  sample {:.1} s  judge {:.1} s  update {:.1} s",
                s.phase,
                s.step,
                self.steps,
                s.reward_mean,
                s.reward_std,
                s.patches_nonempty,
                s.patches_applied,
                s.tests_passed,
                s.samples,
                s.groups_without_signal,
                if s.lost > 0 { format!("  lost {}", s.lost) } else { String::new() },
                s.loss,
                s.kl,
                s.sample_s,
                s.reward_s,
                s.update_s
            ),
            Event::Validated(v) => {
                format!("  held-out loss {:.4} on {} tokens", v.loss, v.tokens)
            }
            Event::CheckpointWritten { path, .. } => format!("  checkpoint {path}"),
            Event::Resumed { phase, step } => format!("resumed after step {step} ({phase})"),
            Event::Warning { message } => format!("warning: {message}"),
            Event::EvalEnded(e) => format!(
                "  held-out {:?}: valid diff {:.1} %  applied {:.1} %  resolved {:.1} %  of {} answers, {:.0} s",
                e.when,
                e.valid_diff * 100.0,
                e.applied * 100.0,
                e.resolved * 100.0,
                e.samples,
                e.seconds
            )
            .to_lowercase(),
            Event::RunStarted(_)
            | Event::TaskPrepared { .. }
            | Event::RolloutEnded(_)
            | Event::RunEnded { .. } => return,
        };
        self.say(&line);
    }

    fn progress(&mut self, what: &str, done: u64, total: u64) {
        self.draw(what, done, total, "  {msg} [{bar:30}] {pos}/{len} {per_sec} {eta}");
    }
}
