//! `patchrl eval run --predictions`: patches that exist, judged by running the tests.

use std::collections::BTreeMap;
use std::path::Path;

use patchrl_eval::harness::{Prediction, load_predictions};
use patchrl_eval::{Verdict, Verdicts, Work};
use patchrl_task::Task;
use patchrl_train::Listener as _;
use serde::Serialize;

use super::Which;
use crate::console::Console;
use crate::exit::{Exit, usage};
use crate::printer::{self, Form};
use crate::session::Session;
use crate::settings::{Environment, Settings};

/// What is judged, and where the verdicts go.
pub(super) struct Files<'a> {
    pub(super) predictions: &'a Path,
    pub(super) out: &'a Path,
}

pub(super) fn run(
    settings: &Settings,
    environment: &Environment,
    Files { predictions, out }: Files<'_>,
    wanted: &Which,
    json: bool,
) -> anyhow::Result<Exit> {
    let session = Session::open_fresh(settings, environment)?;
    let tasks = session.tasks(|task| wanted.takes(task))?;
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
    if strange == predictions.len() {
        return Err(usage(
            format!("none of the {strange} predictions is for an instance of `--tasks`"),
            "name the rows that the predictions belong to with `--tasks`",
        ));
    }
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
    for lost in predictions.iter().filter_map(|it| verdicts.lost(it)).take(SHOWN) {
        let why = lost.why.as_deref().unwrap_or("nobody knows why");
        console.say(&format!("lost: {}: {why}", lost.instance_id));
    }
    let report = report(&tasks, &predictions, strange, &found);
    if report.lost > 0 {
        console.say("the same command tries what was lost again");
    }
    printer::report(Form::of(json), &report, || told(&report))?;
    Ok(if report.lost > 0 { Exit::Internal } else { Exit::Success })
}

/// Lost predictions that are named.
const SHOWN: usize = 10;

#[derive(Serialize)]
struct Report {
    tasks: usize,
    predictions: usize,
    judged: usize,
    lost: usize,
    /// Instances with a prediction that resolves them.
    resolved: usize,
    /// Mean over the instances that were answered, by `k`: 1, and the samples that all have.
    pass_at: BTreeMap<u64, f64>,
    seconds: f64,
    test_seconds: f64,
}

fn report(
    tasks: &[Task],
    predictions: &[Prediction],
    strange: usize,
    found: &[&Verdict],
) -> Report {
    // Samples and right ones of each instance.
    let mut samples = BTreeMap::<&str, (u64, u64)>::new();
    for verdict in found {
        let (n, right) = samples.entry(&verdict.instance_id).or_default();
        *n += 1;
        *right += u64::from(verdict.resolved == Some(true));
    }
    let fewest = samples.values().map(|(n, _)| *n).min().unwrap_or(0);
    let mean = |k: u64| {
        let all: Option<f64> =
            samples.values().map(|(n, right)| patchrl_eval::pass_at_k(*n, *right, k)).sum();
        all.map(|sum| (k, sum / samples.len() as f64))
    };
    Report {
        tasks: tasks.len(),
        predictions: predictions.len(),
        judged: found.len(),
        lost: predictions.len() - strange - found.len(),
        resolved: samples.values().filter(|(_, right)| *right > 0).count(),
        pass_at: [1, fewest]
            .into_iter()
            .filter(|k| (1..=fewest).contains(k))
            .filter_map(mean)
            .collect(),
        seconds: found.iter().map(|it| it.seconds).sum(),
        test_seconds: found.iter().map(|it| it.test_seconds).sum(),
    }
}

fn told(report: &Report) -> String {
    let pass = report.pass_at.iter().map(|(k, share)| format!(", pass@{k} {:.1} %", 100.0 * share));
    let times = if report.judged == 0 {
        String::new()
    } else {
        format!(
            "\n{:.2} s an evaluation, of which {:.1} % is not the tests",
            report.seconds / report.judged as f64,
            100.0 * (report.seconds - report.test_seconds).max(0.0) / report.seconds.max(1e-9),
        )
    };
    format!(
        "{} of {} instances resolved{}\n{} of {} predictions judged, {} lost{times}",
        report.resolved,
        report.tasks,
        pass.collect::<String>(),
        report.judged,
        report.predictions,
        report.lost,
    )
}

fn gold(task: &Task) -> Prediction {
    Prediction {
        instance_id: task.id.to_string(),
        model_patch: Some(task.patch.clone()),
        model_name_or_path: Some("gold".to_owned()),
    }
}
