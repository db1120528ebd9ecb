//! A small made-up run, the same for every test.

use patchrl_telemetry::{Evaluation, Event, RolloutEnd, RunStart, Step, StepSft, Telemetry, When};

pub(crate) fn step_events(phase: &str, step: u64) -> Vec<Event> {
    let mut events: Vec<Event> = (0..4)
        .map(|sample| {
            Event::RolloutEnded(RolloutEnd {
                step,
                task: format!("toy__calc-{}", step % 3),
                sample,
                outcome: if sample == 3 { "lost" } else { "applied" }.into(),
                reward: (sample < 3).then_some(0.3 + sample as f32 * 0.01 * step as f32),
                tokens: 40 + sample,
                finish: "stop".into(),
            })
        })
        .collect();
    events.push(Event::StepEnded(Step {
        phase: phase.into(),
        step,
        loss: -0.01 * step as f32,
        kl: 0.001 * step as f32,
        reward_mean: 0.3 + 0.01 * step as f32,
        samples: 4,
        patches_nonempty: 4,
        patches_applied: 3,
        lost: 1,
        sample_s: 1.5,
        ..Step::default()
    }));
    events
}

/// Two supervised steps, then `steps` updates, the second half in another phase.
pub(crate) fn events(steps: u64) -> Vec<Event> {
    let mut all = vec![Event::RunStarted(RunStart { run: "demo".into(), ..RunStart::default() })];
    all.push(evaluation(When::Before, 0.2));
    all.push(Event::PhaseStarted { phase: "sft".into() });
    all.extend((1..=2).map(|step| {
        Event::SftStep(StepSft {
            phase: "sft".into(),
            step,
            loss: 2.0 / step as f32,
            ..StepSft::default()
        })
    }));
    for step in 1..=steps {
        let phase = if step <= steps / 2 { "syntax" } else { "tests" };
        if step == 1 || step == steps / 2 + 1 {
            all.push(Event::PhaseStarted { phase: phase.into() });
        }
        all.extend(step_events(phase, step));
        if step.is_multiple_of(2) {
            all.push(Event::CheckpointWritten {
                path: format!("checkpoints/step-{step:06}"),
                phase: phase.into(),
                step,
            });
        }
    }
    all.push(evaluation(When::After, 0.6));
    all.push(Event::RunEnded { seconds: 12.0 });
    all
}

pub(crate) fn emit_all(telemetry: &Telemetry, events: &[Event]) {
    for event in events {
        telemetry.emit(event).unwrap();
    }
}

fn evaluation(when: When, applied: f64) -> Event {
    Event::EvalEnded(Evaluation {
        when,
        valid_diff: 0.75,
        applied,
        resolved: applied / 2.0,
        samples: 40,
        seconds: 3.0,
    })
}
