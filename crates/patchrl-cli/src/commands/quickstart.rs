//! `patchrl quickstart`: the main job, small and real, on the embedded defaults.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use patchrl_model::Policy;
use patchrl_reward::Ready;
use patchrl_telemetry::{Evaluation, Event, Telemetry, When};
use patchrl_train::Listener as _;
use serde_json::json;

use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::{self, Session};
use crate::settings::{Environment, SandboxChoice, Settings};
use crate::training::Training;

/// The settings of this command, as a file that `patchrl train grpo --config` takes too.
const CONFIG: &str = include_str!("../../../../configs/quickstart.yaml");

#[derive(Debug, Args)]
pub(crate) struct Quickstart {
    /// Seed of every draw and every order.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A model to use instead of `smollm2-135m`.
    #[arg(long)]
    model: Option<String>,
    /// Where tests run.
    #[arg(long, value_enum)]
    sandbox: Option<SandboxChoice>,
    /// Name of the run, or a path for its folder.
    #[arg(long)]
    run: Option<String>,
    /// Go on with the run from its last whole checkpoint.
    #[arg(long)]
    resume: bool,
    /// Print a JSON object at the end.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(flags: &Quickstart, environment: &Environment) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let mut settings = Settings::parse(CONFIG, Path::new("configs/quickstart.yaml"))?;
    settings.train.seed = flags.seed;
    if let Some(model) = &flags.model {
        settings.model.clone_from(model);
    }
    if let Some(sandbox) = flags.sandbox {
        settings.sandbox = sandbox;
    }
    if flags.resume && flags.run.is_none() {
        return Err(usage("`--resume` needs `--run`", "name the run to go on with"));
    }
    let dir = session::run_dir(flags.run.as_deref(), "quickstart");
    session::check_run(&dir, flags.resume)?;

    let mut console = Console::new();
    let session = Session::open(&settings, environment)?;
    console.say(&format!("sandbox: {}", session.sandbox.tier()));
    let model = session.find_model(&mut console)?;
    let train = session.prepare(&session.tasks(session::is_train)?, &mut console)?;
    let held_out = session.prepare(&session.tasks(session::is_held_out)?, &mut console)?;
    console.say(&format!("{} tasks to train on, {} held out", train.len(), held_out.len()));

    let measure = Measure { session: &session, tasks: &held_out };
    let training = Training {
        settings: &settings,
        dir: &dir,
        model: &model,
        tier: session.sandbox.tier().to_string(),
        inputs: train.iter().map(|it| it.task.id.as_str().to_owned()).collect(),
        counts: (train.len(), held_out.len()),
        draws: true,
    };
    let material = |_: &Policy| Ok(session.material(&train));
    let (policy, telemetry) =
        training.run(flags.resume, &mut console, material, |policy, telemetry, c| {
            c.say("measuring the base model on held-out tasks");
            measure.run(policy, When::Before, telemetry, c)
        })?;
    console.say("measuring the trained model on the same tasks");
    measure.run(&policy, When::After, &telemetry, &mut console)?;
    let seconds = started.elapsed().as_secs_f64();
    telemetry.emit(&Event::RunEnded { seconds })?;
    let report = patchrl_telemetry::render_report(&dir)?;
    let (before, after) = measured(&dir)?;
    finish(flags, &dir, &report, seconds, &before, &after)
}

/// The two measurements of a run, from its journal: a resumed run has made the first one earlier.
fn measured(dir: &Path) -> anyhow::Result<(Evaluation, Evaluation)> {
    let (mut before, mut after) = (None, None);
    for record in patchrl_telemetry::read_journal(&dir.join("journal.jsonl"))? {
        if let Event::EvalEnded(e) = record.event {
            match e.when {
                When::Before => before = Some(e),
                When::After => after = Some(e),
            }
        }
    }
    match (before, after) {
        (Some(before), Some(after)) => Ok((before, after)),
        _ => anyhow::bail!("the journal of `{}` lacks a measurement", dir.display()),
    }
}

/// Held-out tasks and who judges the answers to them.
struct Measure<'a> {
    session: &'a Session<'a>,
    tasks: &'a [Ready],
}

impl Measure<'_> {
    fn run(
        &self,
        policy: &Policy,
        when: When,
        telemetry: &Telemetry,
        console: &mut Console,
    ) -> anyhow::Result<()> {
        let shares = self.session.measure(policy, self.tasks, console, &mut |_| {})?;
        let event = Event::EvalEnded(Evaluation {
            when,
            valid_diff: shares.valid_diff,
            applied: shares.applied,
            resolved: shares.resolved,
            samples: shares.samples,
            seconds: shares.seconds,
        });
        telemetry.emit(&event)?;
        console.event(&event);
        Ok(())
    }
}

fn finish(
    flags: &Quickstart,
    dir: &Path,
    report: &Path,
    seconds: f64,
    before: &Evaluation,
    after: &Evaluation,
) -> anyhow::Result<Exit> {
    let shares = |e: &Evaluation| json!({ "valid_diff": e.valid_diff, "applied": e.applied, "resolved": e.resolved });
    let value = json!({
        "before": shares(before),
        "after": shares(after),
        "seconds": seconds,
        "run_dir": dir,
    });
    printer::report(Form::of(flags.json), &value, || {
        let row = |name: &str, b: f64, a: f64| {
            format!("  {name:<22}{:>7.1} %{:>9.1} %\n", b * 100.0, a * 100.0)
        };
        format!(
            "\n  {} held-out answers       before      after\n{}{}{}\n\
             {:.0} s. Open {} in a browser; the trained model is {}.",
            after.samples,
            row("hold a valid diff", before.valid_diff, after.valid_diff),
            row("apply", before.applied, after.applied),
            row("pass the tests", before.resolved, after.resolved),
            seconds,
            report.display(),
            dir.join("checkpoints/latest").display()
        )
    })?;
    Ok(Exit::Success)
}
