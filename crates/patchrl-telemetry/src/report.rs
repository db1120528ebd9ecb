//! `report.html`: a run on one page that opens without a network.
//!
//! Owns the page: what stands on it and in which order. Reads the journal and a
//! few rollout files; draws nothing that the journal does not know. All text that
//! a model or a test wrote is escaped and cut to a length, the page runs no script
//! and loads nothing.

mod chart;
mod examples;
mod stages;
mod story;
mod text;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::TelemetryError;
use crate::event::{Evaluation, Step};
use crate::journal;
use chart::{Bars, Chart, Series};
use examples::Example;
use story::Story;
use text::{escape, figure, patch, whole};

pub use stages::{Effect, Figure, Goal, StageEnd, StagesReport};

/// Most histograms on a page; of more, some are left out evenly.
const HISTOGRAMS: usize = 24;
/// Most warnings on a page.
const WARNINGS: usize = 20;

/// Draw the report of the run in `run_dir` and say where it is. A run that is
/// still going or was killed gets one of what it did so far.
pub fn render(run_dir: &Path) -> Result<PathBuf, TelemetryError> {
    let records = journal::read(&run_dir.join("journal.jsonl"))?;
    let examples = examples::choose(&run_dir.join("rollouts"))?;
    let page = page(&Story::of(&records), &examples);
    let path = run_dir.join("report.html");
    let half = run_dir.join("report.html.part");
    fs_err::write(&half, page)
        .and_then(|()| fs_err::rename(&half, &path))
        .map_err(|source| TelemetryError::Report { path: path.clone(), source })?;
    Ok(path)
}

fn page(story: &Story, examples: &[Example]) -> String {
    let title = if story.start.run.is_empty() { "patchrl run" } else { &story.start.run };
    let mut out = head(title);
    header(&mut out, story, title);
    before_after(&mut out, &story.evaluations);
    warnings(&mut out, &story.warnings);
    curves(&mut out, story);
    histograms(&mut out, story);
    time(&mut out, &story.steps);
    gallery(&mut out, examples);
    out.push_str(foot());
    out
}

/// Everything before the first heading of a page.
fn head(title: &str) -> String {
    let mut out =
        String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    // Even if a text slipped through unescaped, it could neither run nor call home.
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n",
    );
    let _ = write!(
        out,
        "<title>{}</title>\n<style>{}</style></head><body><main>\n",
        escape(title),
        include_str!("report/style.css")
    );
    out
}

fn foot() -> &'static str {
    "</main></body></html>\n"
}

fn header(out: &mut String, story: &Story, title: &str) {
    let start = &story.start;
    let _ = write!(out, "<header><h1>{}</h1><dl class=\"facts\">", escape(title));
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
        }
    };
    fact("model", start.model.clone());
    fact("started", story.began.map(|at| at.to_string()).unwrap_or_default());
    fact("state", story.state());
    fact("steps", story.steps_in_words());
    if start.train_tasks + start.held_out_tasks > 0 {
        fact("tasks", format!("{} train, {} held out", start.train_tasks, start.held_out_tasks));
    }
    fact("sandbox", start.tier.clone());
    fact("seed", start.seed.to_string());
    fact("config", start.config_digest.chars().take(12).collect());
    fact("patchrl", start.version.clone());
    out.push_str("</dl></header>\n");
}

fn before_after(out: &mut String, evaluations: &[Evaluation]) {
    let (Some(before), after) = (evaluations.first(), evaluations.get(1)) else { return };
    let label = |of: &Evaluation| match of.when {
        crate::event::When::Before => "before",
        crate::event::When::After => "after",
    };
    out.push_str("<section><h2>Held-out tasks</h2><table class=\"measured\"><thead><tr><th></th>");
    let _ = write!(out, "<th>{}</th>", label(before));
    if let Some(after) = after {
        let _ = write!(out, "<th>{}</th><th>change</th>", label(after));
    }
    out.push_str("</tr></thead><tbody>");
    for (name, share) in [
        ("valid diff", (|e| e.valid_diff) as fn(&Evaluation) -> f64),
        ("applied", |e| e.applied),
        ("resolved", |e| e.resolved),
    ] {
        let _ = write!(out, "<tr><th>{name}</th><td>{:.1} %</td>", share(before) * 100.0);
        if let Some(after) = after {
            let change = (share(after) - share(before)) * 100.0;
            let class = if change > 0.0 { "up" } else { "flat" };
            let _ = write!(
                out,
                "<td>{:.1} %</td><td class=\"{class}\">{change:+.1} points</td>",
                share(after) * 100.0
            );
        }
        out.push_str("</tr>");
    }
    let _ = write!(out, "<tr><th>answers</th><td>{}</td>", before.samples);
    if let Some(after) = after {
        let _ = write!(out, "<td>{}</td><td></td>", after.samples);
    }
    out.push_str("</tr></tbody></table></section>\n");
}

fn warnings(out: &mut String, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let _ = write!(out, "<section class=\"warnings\"><h2>Warnings ({})</h2><ul>", warnings.len());
    for warning in warnings.iter().take(WARNINGS) {
        let _ = write!(out, "<li>{}</li>", whole(warning, 500));
    }
    out.push_str("</ul></section>\n");
}

fn curves(out: &mut String, story: &Story) {
    if story.steps.is_empty() && story.sft.is_empty() {
        return;
    }
    out.push_str("<section><h2>Curves</h2><div class=\"grid\">\n");
    let line = |name: &'static str, value: fn(&Step) -> f64| {
        Series::new(name, story.steps.iter().map(|step| (step.step as f64, value(step))))
    };
    let mut draw = |title: &'static str, series: Vec<Series>, phases: bool| {
        let phases = if phases { story.phases.as_slice() } else { &[] };
        out.push_str(&Chart { title, series, phases }.svg());
    };
    draw("Reward, mean", vec![line("reward", |s| f64::from(s.reward_mean))], true);
    draw(
        "Share of the step's answers",
        vec![
            line("held a patch", |s| part(s.patches_nonempty, s.samples)),
            line("applied", |s| part(s.patches_applied, s.samples)),
            line("tests passed", |s| part(s.tests_passed, s.samples)),
        ],
        true,
    );
    draw("Loss", vec![line("loss", |s| f64::from(s.loss))], true);
    draw("KL to the reference", vec![line("kl", |s| f64::from(s.kl))], true);
    draw("Gradient norm", vec![line("norm", |s| f64::from(s.grad_norm))], true);
    let sft = story.sft.iter().map(|step| (step.step as f64, f64::from(step.loss)));
    let held_out = story.validations.iter().map(|it| (it.step as f64, f64::from(it.loss)));
    draw(
        "Supervised loss per token",
        vec![Series::new("trained on", sft), Series::new("held out", held_out)],
        false,
    );
    out.push_str("</div></section>\n");
}

fn part(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

fn histograms(out: &mut String, story: &Story) {
    if story.windows.is_empty() {
        return;
    }
    let rewards = || story.windows.iter().flat_map(|window| window.values.iter().copied());
    let low = rewards().fold(0.0, f32::min);
    let high = rewards().fold(1.0, f32::max);
    out.push_str("<section><h2>Rewards, every 50 steps</h2><div class=\"grid small\">\n");
    let shown = evenly(story.windows.len(), HISTOGRAMS);
    for window in shown.iter().map(|at| &story.windows[*at]) {
        let title = format!("{} · steps {} to {}", window.phase, window.first, window.last);
        out.push_str(&Bars { title: &title, values: &window.values, low, high }.svg());
    }
    out.push_str("</div>");
    if shown.len() < story.windows.len() {
        let _ =
            write!(out, "<p class=\"note\">{} of {} shown</p>", shown.len(), story.windows.len());
    }
    out.push_str("</section>\n");
}

fn time(out: &mut String, steps: &[Step]) {
    if steps.is_empty() {
        return;
    }
    let count = steps.len() as f64;
    let mean = |value: fn(&Step) -> f64| steps.iter().map(value).sum::<f64>() / count;
    let (sample, reward, update) =
        (mean(|s| s.sample_s), mean(|s| s.reward_s), mean(|s| s.update_s));
    let total = sample + reward + update;
    let memory = steps.iter().map(|step| step.peak_memory_bytes).max().unwrap_or(0);
    out.push_str(
        "<section><h2>Time of a step</h2><table class=\"measured\"><thead><tr><th></th>\
         <th>mean</th><th>share</th></tr></thead><tbody>",
    );
    for (name, seconds) in [("sampling", sample), ("judging", reward), ("update", update)] {
        let share = if total > 0.0 { seconds / total * 100.0 } else { 0.0 };
        let seconds = figure(seconds);
        let _ = write!(out, "<tr><th>{name}</th><td>{seconds} s</td><td>{share:.0} %</td></tr>");
    }
    let _ = write!(out, "<tr><th>together</th><td>{} s</td><td></td></tr>", figure(total));
    if memory > 0 {
        let gib = memory as f64 / (1_u64 << 30) as f64;
        let _ = write!(out, "<tr><th>peak memory</th><td>{gib:.2} GiB</td><td></td></tr>");
    }
    out.push_str("</tbody></table></section>\n");
}

fn gallery(out: &mut String, examples: &[Example]) {
    if examples.is_empty() {
        return;
    }
    out.push_str("<section><h2>Answers</h2>\n");
    for (at, example) in examples.iter().enumerate() {
        let open = if at == 0 { " open" } else { "" };
        let reward = example.reward.map_or("no reward".into(), |r| format!("reward {}", figure(r)));
        let _ = writeln!(
            out,
            "<details class=\"example\"{open}><summary><span class=\"word\">{}</span> \
             <span>{reward}</span> <span>step {}</span> <span>{}</span></summary>",
            whole(&example.outcome, 80),
            example.step,
            whole(&example.task, 120),
        );
        if let Some(why) = &example.why {
            let _ = write!(out, "<p class=\"why\">{}</p>", whole(why, 600));
        }
        for (name, text) in [
            ("Prompt", whole(&example.prompt, 8_000)),
            ("Answer", whole(&example.answer, 8_000)),
            ("Patch", patch(&example.patch, 8_000)),
            ("Test log", whole(&example.test_log, 8_000)),
        ] {
            if !text.is_empty() {
                let open = if name == "Prompt" { "" } else { " open" };
                let _ = writeln!(
                    out,
                    "<details{open}><summary>{name}</summary><pre>{text}</pre></details>"
                );
            }
        }
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

/// At most `most` of the places 0 to `count`, evenly, with the first and the last.
fn evenly(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|n| n * (count - 1) / (most - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::evenly;

    #[test]
    fn an_even_choice_holds_both_ends() {
        assert_eq!(evenly(3, 5), [0, 1, 2]);
        assert_eq!(evenly(100, 4), [0, 33, 66, 99]);
        assert!(evenly(0, 4).is_empty());
    }
}
