//! `patchrl eval run --predictions`: patches that exist, judged by running the tests.

use std::path::Path;

use patchrl_eval::harness::{Prediction, load_predictions};
use patchrl_eval::{Verdict, Verdicts, Work};
use patchrl_train::Listener as _;
use serde_json::json;

use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::Session;
use crate::settings::{Environment, Settings};

pub(super) fn run(
    settings: &Settings,
    environment: &Environment,
    predictions: &Path,
    out: &Path,
    json: bool,
) -> anyhow::Result<Exit> {
    let session = Session::open_fresh(settings, environment)?;
    let tasks = session.tasks(|_| true)?;
    let bad = |e: &dyn std::fmt::Display, hint: &str| usage(format!("{e}"), hint.to_owned());
    let predictions = if predictions == Path::new("gold") {
        tasks.iter().map(gold).collect()
    } else {
        load_predictions(predictions).map_err(|e| {
            bad(
                &format!("{:#}", anyhow::Error::from(e)),
                "one object for each: `instance_id`, `model_patch`",
            )
        })?
    };
    let known: std::collections::BTreeSet<&str> = tasks.iter().map(|t| t.id.as_str()).collect();
    let strange = predictions.iter().filter(|it| !known.contains(it.instance_id.as_str())).count();
    let mut verdicts = Verdicts::open(out).map_err(|e| {
        bad(&format!("{:#}", anyhow::Error::from(e)), "name another file with `--out`")
    })?;
    let mut console = Console::new();
    if strange > 0 {
        console.say(&format!("{strange} predictions are for instances that `--tasks` lacks"));
    }
    let preparer = session.preparer();
    let work = Work {
        judge: &session.judge,
        sandbox: &session.sandbox,
        preparer: &preparer,
        tasks: &tasks,
        predictions: &predictions,
        workers: settings.workers,
    };
    work.run(&mut verdicts, &mut |done, total| {
        console.progress("judging predictions", done, total);
        true
    })?;
    console.clear();
    let found: Vec<&Verdict> = predictions.iter().filter_map(|it| verdicts.of(it)).collect();
    let resolved = found.iter().filter(|it| it.resolved == Some(true)).count();
    let (tests, seconds) = found
        .iter()
        .fold((0.0, 0.0), |(tests, all), it| (tests + it.test_seconds, all + it.seconds));
    let lost = predictions.len() - strange - found.len();
    let value = json!({
        "tasks": tasks.len(), "predictions": predictions.len(), "judged": found.len(),
        "resolved": resolved, "lost": lost, "seconds": seconds, "test_seconds": tests,
    });
    printer::report(Form::of(json), &value, || {
        format!(
            "{resolved} of {} instances resolved; {} of {} predictions judged, {lost} lost\n\
             {:.1} s an evaluation, of which {:.1} % is not the tests",
            tasks.len(),
            found.len(),
            predictions.len(),
            seconds / found.len().max(1) as f64,
            100.0 * (seconds - tests).max(0.0) / seconds.max(1e-9),
        )
    })?;
    Ok(if lost > 0 { Exit::Internal } else { Exit::Success })
}

fn gold(task: &patchrl_task::Task) -> Prediction {
    Prediction {
        instance_id: task.id.to_string(),
        model_patch: Some(task.patch.clone()),
        model_name_or_path: Some("gold".to_owned()),
    }
}
