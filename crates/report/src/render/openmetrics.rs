//! OpenMetrics text, for programs that scrape or push results: a gauge for each number, a label for each level that varies.
//!
//! Specification: github.com/prometheus/OpenMetrics, version 1.0.0. Numbers are those of the document; an unknown one is
//! left out.

use std::fmt::Write as _;

use crate::Report;
use crate::view::numbers::{CellView, GroupView, Verdict};
use bytegauge_model::{CellKind, Level, escape, factor};

/// A family: its name, its unit's part of that, its help, and its number of a cell.
type MetricFamily = (&'static str, &'static str, fn(&Report, &CellView) -> Option<f64>);

const PROVEN: &str = "bytegauge_proven";

const FAMILIES: &[MetricFamily] = &[
    ("bytegauge_rate", "Median rate of the trials: bytes, calls, operations or runs a second.", |_, cell| {
        cell.estimate.median
    }),
    ("bytegauge_rate_lower", "Lower end of its interval.", |_, cell| cell.estimate.lower),
    ("bytegauge_rate_upper", "Upper end of its interval.", |_, cell| cell.estimate.upper),
    ("bytegauge_trials", "Trials behind the median.", |_, cell| Some(cell.trials as f64)),
    (
        "bytegauge_above_best_upper_ratio",
        "Upper end of the interval by which the option is slower than the best, as a share.",
        |_, cell| cell.above_best_upper,
    ),
    ("bytegauge_named", "1 for the cell that the answer names, else 0.", |view, cell| {
        let named = view.groups.iter().any(|group| group.recommendation.cell.as_ref() == Some(&cell.id));
        Some(f64::from(u8::from(named)))
    }),
    (
        PROVEN,
        "1 where the option is recommended and within the margin of the best, else 0; the label doubt is set where the A/A control does not confirm it.",
        |view, cell| {
            let proven =
                |group: &GroupView| group.recommendation.proven && group.recommendation.cell.as_ref() == Some(&cell.id);
            Some(f64::from(u8::from(view.groups.iter().any(proven))))
        },
    ),
];

/// The text format of Prometheus (version 0.0.4), which the textfile collector of node_exporter reads. It differs in its end:
/// that format has none.
pub fn prom(view: &Report) -> String {
    let mut text = render(view);
    text.truncate(text.len() - END.len());
    text
}

/// The last line of OpenMetrics.
const END: &str = "# EOF\n";

/// The candidates of a session.
pub fn render(view: &Report) -> String {
    let mut out = String::new();
    for (family, help, number) in FAMILIES {
        let _ = writeln!(out, "# TYPE {family} gauge\n# HELP {family} {help}");
        for cell in view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate) {
            if let Some(value) = number(view, cell).filter(|value| value.is_finite()) {
                let doubt = if *family == PROVEN && value > 0.0 { doubt(view, cell) } else { "" };
                let _ = writeln!(out, "{family}{{{}{doubt}}} {value}", labels(view, cell));
            }
        }
    }
    if let Some(between) = view.versus.as_ref().map(|versus| &versus.difference) {
        let _ = writeln!(out, "# TYPE bytegauge_versus_longer_ratio gauge");
        let _ = writeln!(
            out,
            "# HELP bytegauge_versus_longer_ratio How much slower B is than A, as a share; below 0 A is slower."
        );
        for (bound, value) in [("estimate", between.longer), ("lower", between.lower), ("upper", between.upper)] {
            if let Some(value) = value {
                let _ = writeln!(
                    out,
                    "bytegauge_versus_longer_ratio{{session=\"{}\",bound=\"{bound}\",verdict=\"{}\"}} {value}",
                    view.session,
                    verdict(between.verdict)
                );
            }
        }
    }
    out + END
}

/// A further label where the result depends on which trials of an A/A pair are used.
fn doubt(view: &Report, cell: &CellView) -> &'static str {
    let group = view.groups.iter().find(|group| group.id == cell.group);
    match group.and_then(|group| group.recommendation.survives_exchange) {
        Some(false) => ",doubt=\"second trials\"",
        _ => "",
    }
}

/// A verdict as in the document.
fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Equivalent => "equivalent",
        Verdict::Open => "open",
    }
}

fn labels(view: &Report, cell: &CellView) -> String {
    let mut labels: Vec<(&str, String)> = vec![
        ("session", view.session.to_string()),
        ("plan", view.plan.name.clone()),
        ("workload", view.plan.workload.clone()),
        ("group", cell.group.to_string()),
        ("cell", cell.id.to_string()),
        ("unit", cell.estimate.unit.to_owned()),
    ];
    // A level of an import may have a name that no label can have.
    let known = view.plan.varied.iter().filter_map(|name| factor::find(name));
    for row in known.filter(|row| cell.level(row.name) != Level::Absent) {
        labels.push((row.name, cell.level(row.name).to_string()));
    }
    let label = |(name, value): (&str, String)| format!("{name}=\"{}\"", escaped(&value));
    labels.into_iter().map(label).collect::<Vec<_>>().join(",")
}

/// The value of a label, in one line, without hidden characters.
fn escaped(value: &str) -> String {
    escape::lines(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
