//! `report.html` and `report.json` of a pipeline: what each stage changed.
//!
//! Owns the comparison of a stage with what was before it, in numbers and in one word. Does not
//! measure.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Story, curves, foot, head};
use crate::error::TelemetryError;
use crate::journal;
use crate::report::text::{escape, figure};

/// One figure of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Such as `mbpp passes`.
    pub name: String,
    /// A share from 0 to 1, or a loss.
    pub value: f64,
    /// Answers of a share, tokens of a loss: what it was measured on.
    pub of: u64,
    /// Which way is better.
    pub goal: Goal,
}

/// Which way a figure is better, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// A loss, in nats per token: less is better.
    Loss,
    /// A share of answers: more is better.
    Share,
}

/// The part of a loss by which it must change to count as moved.
const LOSS_MOVES: f64 = 0.01;

/// What a stage did to a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Better than before.
    Helped,
    /// As before: a share within two standard errors of the difference, a loss within 1 %.
    DidNotHelp,
    /// Worse than before.
    Hurt,
}

impl Effect {
    fn words(self) -> &'static str {
        match self {
            Self::Helped => "helped",
            Self::DidNotHelp => "did not help",
            Self::Hurt => "hurt",
        }
    }
}

/// A model after a stage, or before the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageEnd {
    /// The stage's name; `start` before the first.
    pub name: String,
    /// Wall seconds of training, without measuring.
    pub seconds: f64,
    /// The stage's own run, relative to the pipeline's folder; none where nothing was trained.
    pub run: Option<String>,
    /// The model's figures.
    pub figures: Vec<Figure>,
    /// What the stage did to each figure that was known before it.
    pub effects: Vec<(String, Effect)>,
}

/// A whole pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagesReport {
    /// The pipeline's folder as the user knows it.
    pub run: String,
    /// Wall seconds of everything.
    pub seconds: f64,
    /// The start, then each stage.
    pub stages: Vec<StageEnd>,
}

impl StagesReport {
    /// Add a stage's end; its effects are found here. One that trained nothing has none.
    pub fn push(&mut self, mut end: StageEnd) {
        if let Some(before) = self.stages.last().filter(|_| end.run.is_some()) {
            end.effects = end
                .figures
                .iter()
                .filter_map(|after| {
                    let before = before.figures.iter().find(|it| it.name == after.name)?;
                    Some((after.name.clone(), effect(before, after)))
                })
                .collect();
        }
        self.stages.push(end);
    }

    /// What did not help, and what hurt: a line for each stage, with the figures before and after.
    pub fn no_help(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for pair in self.stages.windows(2) {
            for wanted in [Effect::DidNotHelp, Effect::Hurt] {
                let effects = pair[1].effects.iter().filter(|(_, effect)| *effect == wanted);
                let told: Vec<String> =
                    effects.filter_map(|(name, _)| told(name, &pair[0], &pair[1])).collect();
                if !told.is_empty() {
                    lines.push(format!("{} {}: {}", pair[1].name, wanted.words(), told.join("; ")));
                }
            }
        }
        lines
    }

    /// The figures as lines of text: names, then a column for the start and each stage.
    pub fn table(&self) -> Vec<String> {
        let cell = |text: &str| format!("{text:>12}");
        let row = |name: &str, cells: Vec<String>| format!("  {name:<34}{}", cells.concat());
        let heads = self.stages.iter().map(|end| cell(&end.name)).collect();
        let mut lines = vec![row("", heads)];
        for name in self.names() {
            let of = |end: &StageEnd| end.figures.iter().find(|it| it.name == name).map(shown);
            let cells = self.stages.iter().map(|end| cell(&of(end).unwrap_or_default()));
            lines.push(row(name, cells.collect()));
        }
        lines
    }

    /// Write `report.json` and `report.html` into `dir`; says where the page is.
    pub fn write(&self, dir: &Path) -> Result<PathBuf, TelemetryError> {
        let json = serde_json::to_string_pretty(self).map_err(TelemetryError::Encode)?;
        put(&dir.join("report.json"), &(json + "\n"))?;
        let path = dir.join("report.html");
        put(&path, &self.page(dir)?)?;
        Ok(path)
    }

    fn page(&self, dir: &Path) -> Result<String, TelemetryError> {
        let mut out = head(&self.run);
        let _ = writeln!(out, "<header><h1>{}</h1></header>", escape(&self.run));
        self.html_table(&mut out);
        out.push_str("<section><h2>What did not help</h2><ul>");
        for line in self.no_help() {
            let _ = write!(out, "<li>{}</li>", escape(&line));
        }
        out.push_str(
            "</ul><p class=\"note\">A share that moved by less than two standard errors of the \
             difference counts as not moved, and so does a loss that moved by less than \
             1 %.</p></section>\n",
        );
        for (end, run) in self.stages.iter().filter_map(|end| Some((end, end.run.as_ref()?))) {
            let records = journal::read(&dir.join(run).join("journal.jsonl"))?;
            let _ = writeln!(
                out,
                "<section><h2>{}</h2><p><a href=\"{}/report.html\">its own report</a></p></section>",
                escape(&end.name),
                escape(run)
            );
            curves(&mut out, &Story::of(&records));
        }
        out.push_str(foot());
        Ok(out)
    }

    fn html_table(&self, out: &mut String) {
        out.push_str("<section><h2>Figures</h2><table class=\"measured\"><thead><tr><th></th>");
        for end in &self.stages {
            let _ = write!(out, "<th>{}</th>", escape(&end.name));
        }
        out.push_str("</tr></thead><tbody>");
        for name in self.names() {
            let _ = write!(out, "<tr><th>{}</th>", escape(name));
            for end in &self.stages {
                let figure = end.figures.iter().find(|it| it.name == name);
                let helped = end.effects.iter().any(|(n, e)| n == name && *e == Effect::Helped);
                let class = if helped { "up" } else { "flat" };
                let shown = figure.map(shown).unwrap_or_default();
                let _ = write!(out, "<td class=\"{class}\">{shown}</td>");
            }
            out.push_str("</tr>");
        }
        out.push_str("<tr><th>seconds of training</th>");
        for end in &self.stages {
            let _ = write!(out, "<td>{:.0}</td>", end.seconds);
        }
        let _ = writeln!(
            out,
            "</tr></tbody></table><p class=\"note\">{:.0} s in all, measuring included.</p></section>",
            self.seconds
        );
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for figure in self.stages.iter().flat_map(|end| &end.figures) {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        names
    }
}

/// A figure before and after a stage; the value alone where it is the same.
fn told(name: &str, before: &StageEnd, after: &StageEnd) -> Option<String> {
    let of = |end: &StageEnd| end.figures.iter().find(|it| it.name == name).map(shown);
    let (before, after) = (of(before)?, of(after)?);
    let values = if before == after { after } else { format!("{before} to {after}") };
    Some(format!("{name} ({values})"))
}

fn shown(figure: &Figure) -> String {
    match figure.goal {
        Goal::Loss => self::figure(figure.value),
        Goal::Share => format!("{:.1} %", 100.0 * figure.value),
    }
}

fn effect(before: &Figure, after: &Figure) -> Effect {
    let (gain, noise) = match after.goal {
        // Both on the same tokens: no draw stands between them.
        Goal::Loss => (before.value - after.value, LOSS_MOVES * before.value),
        Goal::Share => (after.value - before.value, 2.0 * spread(before, after)),
    };
    if gain > noise {
        Effect::Helped
    } else if gain < -noise {
        Effect::Hurt
    } else {
        Effect::DidNotHelp
    }
}

/// Standard error of the difference of two shares.
fn spread(a: &Figure, b: &Figure) -> f64 {
    let variance = |it: &Figure| it.value * (1.0 - it.value) / it.of.max(1) as f64;
    (variance(a) + variance(b)).sqrt()
}

fn put(path: &Path, text: &str) -> Result<(), TelemetryError> {
    let half = path.with_extension("part");
    fs_err::write(&half, text)
        .and_then(|()| fs_err::rename(&half, path))
        .map_err(|source| TelemetryError::Report { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::Effect::{DidNotHelp, Helped, Hurt};
    use super::*;

    fn end(name: &str, loss: f64, share: f64) -> StageEnd {
        let figure = |name: &str, value, of, goal| Figure { name: name.into(), value, of, goal };
        StageEnd {
            name: name.into(),
            run: Some(name.into()),
            figures: vec![
                figure("loss", loss, 1000, Goal::Loss),
                figure("<passes>", share, 100, Goal::Share),
            ],
            ..StageEnd::default()
        }
    }

    #[test]
    fn what_did_not_help_is_said() {
        let mut report = StagesReport { run: "runs/x".into(), ..StagesReport::default() };
        report.push(end("start", 8.0, 0.0));
        report.push(end("pretrain", 4.0, 0.01));
        report.push(end("sft", 4.5, 0.2));
        report.push(end("mbpp", 4.52, 0.2));
        report.push(StageEnd { run: None, ..end("rollout", 4.52, 0.2) });
        let effects: Vec<Effect> =
            report.stages[1..].iter().flat_map(|s| &s.effects).map(|e| e.1).collect();
        assert_eq!(effects, [Helped, DidNotHelp, Hurt, Helped, DidNotHelp, DidNotHelp]);
        assert_eq!(
            report.no_help(),
            [
                "pretrain did not help: <passes> (0.0 % to 1.0 %)",
                "sft hurt: loss (4 to 4.5)",
                "mbpp did not help: loss (4.5 to 4.52); <passes> (20.0 %)"
            ]
        );
        // There are no journals to draw curves from.
        report.stages.iter_mut().for_each(|end| end.run = None);
        let folder = tempfile::tempdir().unwrap();
        let page = fs_err::read_to_string(report.write(folder.path()).unwrap()).unwrap();
        assert!(page.contains("&lt;passes&gt;") && !page.contains("<passes>"));
        let json = fs_err::read_to_string(folder.path().join("report.json")).unwrap();
        assert_eq!(serde_json::from_str::<StagesReport>(&json).unwrap(), report);
    }
}
