//! Lines and bars as inline SVG.
//!
//! Owns scales, ticks and shapes; colours stand in `style.css`. Bounded: a line
//! has at most 600 points, a chart of no points is not drawn.

use std::fmt::Write as _;

use super::evenly;
use super::text::{escape, figure};
use crate::tensorboard::Histogram;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 26.0;
const POINTS: usize = 600;
/// From here on the points are drawn faint under their moving mean.
const SMOOTH_FROM: usize = 40;

/// One line of a chart.
pub(super) struct Series {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Series {
    pub(super) fn new(name: &'static str, points: impl Iterator<Item = (f64, f64)>) -> Self {
        Self { name, points: points.filter(|(_, y)| y.is_finite()).collect() }
    }
}

/// Lines over steps.
pub(super) struct Chart<'a> {
    pub(super) title: &'static str,
    pub(super) series: Vec<Series>,
    /// Name and first step of each phase.
    pub(super) phases: &'a [(String, u64)],
}

impl Chart<'_> {
    /// Empty if there is nothing to draw.
    pub(super) fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        if all().next().is_none() {
            return String::new();
        }
        let x = Scale::over(all().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Scale::nice(all().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut out = figure_start(self.title);
        if self.series.len() > 1 {
            out.push_str("<p class=\"legend\">");
            for (at, series) in self.series.iter().enumerate() {
                let _ = write!(out, "<span class=\"s{at}\">{}</span> ", series.name);
            }
            out.push_str("</p>");
        } else if let Some(last) = self.series[0].points.last() {
            let _ = write!(out, "<p class=\"legend\">last {}</p>", figure(last.1));
        }
        svg_start(&mut out, self.title);
        y_axis(&mut out, &y);
        x_axis(&mut out, &x);
        self.draw_phases(&mut out, &x);
        for (at, series) in self.series.iter().enumerate() {
            draw_line(&mut out, series, at, (&x, &y));
        }
        out.push_str("</svg></figure>\n");
        out
    }

    fn draw_phases(&self, out: &mut String, x: &Scale) {
        for (at, (name, first)) in self.phases.iter().enumerate() {
            let left = if at == 0 { LEFT } else { x.place(*first as f64 - 0.5) };
            if at > 0 {
                let bottom = HEIGHT - BOTTOM;
                let _ = write!(
                    out,
                    "<line class=\"phase\" x1=\"{left:.1}\" x2=\"{left:.1}\" y1=\"{TOP}\" \
                     y2=\"{bottom}\"/>"
                );
            }
            let _ = write!(
                out,
                "<text class=\"phase\" x=\"{:.1}\" y=\"{}\">{}</text>",
                left + 3.0,
                TOP - 8.0,
                escape(name)
            );
        }
    }
}

/// Rewards of one window, with their mean and variance.
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) values: &'a [f32],
    pub(super) low: f32,
    pub(super) high: f32,
}

impl Bars<'_> {
    pub(super) fn svg(&self) -> String {
        let histogram = Histogram::within(self.values, self.low, self.high, 20);
        let most = histogram.counts.iter().copied().max().unwrap_or(0);
        let x = Scale {
            from: f64::from(self.low),
            to: f64::from(self.high),
            a: LEFT,
            b: WIDTH - RIGHT,
        };
        let y = Scale::nice([0.0, most as f64].into_iter(), HEIGHT - BOTTOM, TOP);
        let mut out = figure_start(self.title);
        let _ = write!(
            out,
            "<p class=\"legend\">mean {} · variance {} · {} answers</p>",
            figure(histogram.mean()),
            figure(histogram.variance()),
            histogram.count
        );
        svg_start(&mut out, self.title);
        y_axis(&mut out, &y);
        for tick in ticks(x.from, x.to) {
            x_label(&mut out, x.place(tick), tick);
        }
        let mut left = x.from;
        for (limit, count) in histogram.limits.iter().zip(&histogram.counts) {
            if *count > 0 {
                let (a, b, top) = (x.place(left), x.place(*limit), y.place(*count as f64));
                let _ = write!(
                    out,
                    "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                     height=\"{:.1}\" rx=\"1.5\"><title>{} to {}: {count}</title></rect>",
                    a + 0.75,
                    (b - a - 1.5).max(1.0),
                    HEIGHT - BOTTOM - top,
                    figure(left),
                    figure(*limit),
                );
            }
            left = *limit;
        }
        let mean = x.place(histogram.mean());
        let _ = write!(
            out,
            "<line class=\"mean\" x1=\"{mean:.1}\" x2=\"{mean:.1}\" y1=\"{TOP}\" y2=\"{}\"/>",
            HEIGHT - BOTTOM
        );
        out.push_str("</svg></figure>\n");
        out
    }
}

/// From values to places on the page.
struct Scale {
    from: f64,
    to: f64,
    a: f64,
    b: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, a: f64, b: f64) -> Self {
        let (mut from, mut to) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if to <= from {
            let room = (from.abs() * 0.1).max(0.5);
            (from, to) = (from - room, to + room);
        }
        Self { from, to, a, b }
    }

    /// Ends on ticks.
    fn nice(values: impl Iterator<Item = f64>, a: f64, b: f64) -> Self {
        let tight = Self::over(values, a, b);
        let step = tick_step(tight.from, tight.to);
        Self {
            from: (tight.from / step + 1e-9).floor() * step,
            to: (tight.to / step - 1e-9).ceil() * step,
            ..tight
        }
    }

    fn place(&self, value: f64) -> f64 {
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.a + share * (self.b - self.a)
    }
}

/// 1, 2 or 5 times a power of ten, so that three to six ticks fit.
fn tick_step(from: f64, to: f64) -> f64 {
    let rough = (to - from) / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * power >= rough * 0.999);
    step.unwrap_or(10.0) * power
}

fn ticks(from: f64, to: f64) -> Vec<f64> {
    let step = tick_step(from, to);
    let first = (from / step - 1e-9).ceil();
    (0..12).map(|n| (first + f64::from(n)) * step).take_while(|t| *t <= to + step * 1e-6).collect()
}

fn figure_start(title: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>", escape(title))
}

fn svg_start(out: &mut String, title: &str) {
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    );
}

fn y_axis(out: &mut String, y: &Scale) {
    for tick in ticks(y.from, y.to) {
        let at = y.place(tick);
        let _ = write!(
            out,
            "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 7.0,
            at + 4.5,
            figure(tick)
        );
    }
}

/// Steps are whole numbers.
fn x_axis(out: &mut String, x: &Scale) {
    for tick in ticks(x.from, x.to).into_iter().filter(|tick| tick.fract() == 0.0) {
        x_label(out, x.place(tick), tick);
    }
}

fn x_label(out: &mut String, at: f64, tick: f64) {
    let _ = write!(
        out,
        "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
        HEIGHT - 6.0,
        if tick.fract() == 0.0 { format!("{tick}") } else { figure(tick) }
    );
}

fn draw_line(out: &mut String, series: &Series, at: usize, (x, y): (&Scale, &Scale)) {
    let points: Vec<_> =
        evenly(series.points.len(), POINTS).iter().map(|n| series.points[*n]).collect();
    let faint = points.len() >= SMOOTH_FROM;
    path(out, &points, &format!("line s{at}{}", if faint { " faint" } else { "" }), (x, y));
    if faint {
        path(out, &moving_mean(&points), &format!("line s{at}"), (x, y));
        return;
    }
    for (step, value) in points {
        let _ = write!(
            out,
            "<circle class=\"s{at}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.4\">\
             <title>{} at step {step}: {}</title></circle>",
            x.place(step),
            y.place(value),
            series.name,
            figure(value)
        );
    }
}

fn path(out: &mut String, points: &[(f64, f64)], class: &str, (x, y): (&Scale, &Scale)) {
    let _ = write!(out, "<polyline class=\"{class}\" points=\"");
    for (step, value) in points {
        let _ = write!(out, "{:.1},{:.1} ", x.place(*step), y.place(*value));
    }
    out.push_str("\"/>");
}

/// Mean of each point and its neighbours, a twentieth of the line to either side.
fn moving_mean(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let reach = points.len() / 20;
    let mean = |n: usize| {
        let near = &points[n.saturating_sub(reach)..(n + reach + 1).min(points.len())];
        near.iter().map(|point| point.1).sum::<f64>() / near.len() as f64
    };
    points.iter().enumerate().map(|(n, point)| (point.0, mean(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Chart, Scale, Series, ticks};

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(0.0, 40.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        for (from, to) in [(-1e-9, 1e-9), (1e12, 1e12 + 1.0), (-5.0, -4.9)] {
            let count = ticks(from, to).len();
            assert!((2..=12).contains(&count), "{from} {to}: {count}");
        }
    }

    #[test]
    fn a_flat_line_has_a_scale() {
        let scale = Scale::nice([0.5, 0.5].into_iter(), 0.0, 100.0);
        assert!(scale.from < 0.5 && scale.to > 0.5);
        assert!(scale.place(0.5).is_finite());
    }

    #[test]
    fn values_that_are_not_numbers_draw_nothing() {
        let series = Series::new("loss", [(1.0, f64::NAN), (2.0, f64::INFINITY)].into_iter());
        assert!(Chart { title: "Loss", series: vec![series], phases: &[] }.svg().is_empty());
    }

    #[test]
    fn a_long_line_stays_short() {
        let series = Series::new("loss", (0..50_000).map(|n| (f64::from(n), f64::from(n % 7))));
        let svg = Chart { title: "Loss", series: vec![series], phases: &[] }.svg();
        assert!(svg.len() < 40_000, "{}", svg.len());
        assert!(!svg.contains("NaN"));
    }
}
