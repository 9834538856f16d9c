//! Two compared with each other on a terminal: a line for each. The verdict is in the summary.

use bytegauge_model::unit::significant;

use super::cell_text::{fixed, rate};
use super::paint::{Paint, wrap};
use crate::View;
use crate::interval_rounding::range;
use crate::phrase::rate_unit;
use crate::view::document::{VersusSideView, VersusView};

/// The two sides, and the rate of each.
pub(super) fn lines(view: &View, versus: &VersusView, width: usize, paint: &Paint) -> Vec<String> {
    let mut out = Vec::new();
    let sides = [("A", &versus.a), ("B", &versus.b)];
    for (name, side) in sides {
        out.extend(words(name, side, width, paint));
    }
    let texts: Vec<[String; 4]> = sides.iter().map(|(name, side)| columns(view, name, side)).collect();
    let widths: Vec<usize> =
        (0..4).map(|at| texts.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    for row in &texts {
        let line =
            format!("  {}  {:>4$}  {:>5$}  {:>6$}", row[0], row[1], row[2], row[3], widths[1], widths[2], widths[3]);
        out.push(line.trim_end().to_owned());
    }
    if !versus.alike.is_empty() {
        let lines = wrap(&format!("Both: {}", versus.alike), width - 4).into_iter().enumerate();
        out.extend(lines.map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })));
    }
    out.push(String::new());
    out
}

/// The settings of one side that the other does not have, or its command.
fn words(name: &str, side: &VersusSideView, width: usize, paint: &Paint) -> Vec<String> {
    let differs: Vec<String> = side.differs.iter().map(|(name, level)| format!("{name} {level}")).collect();
    let differs = if differs.is_empty() { String::new() } else { format!(" ({})", differs.join(", ")) };
    let mut out: Vec<String> = Vec::new();
    for (at, line) in wrap(&format!("{}{differs}", side.words), width - 5).into_iter().enumerate() {
        out.push(if at == 0 { format!("  {}  {line}", paint.bold(name)) } else { format!("     {line}") });
    }
    let reason = side.reason.iter().flat_map(|reason| wrap(reason, width - 5));
    out.extend(reason.map(|line| format!("     {line}")));
    out
}

fn columns(view: &View, name: &str, side: &VersusSideView) -> [String; 4] {
    let cell = view.cell(&side.cell);
    let estimate = cell.map(|cell| &cell.estimate).filter(|estimate| estimate.median.is_some());
    let events = cell.and_then(|cell| cell.median("events_per_run"));
    let shown = match estimate.and_then(|estimate| Some((estimate, estimate.median?))) {
        _ if events.is_some() => format!("{} events a run", significant(events.unwrap_or_default(), 4)),
        None => String::new(),
        // The duration of a program is read as time.
        Some((estimate, rate)) if estimate.unit == "runs/s" && rate > 0.0 => {
            let (unit, name) = if rate >= 1.0 { (1e3, "ms") } else { (1.0, "s") };
            let ends = estimate.lower.zip(estimate.upper).map(|(lower, upper)| range(unit / upper, unit / lower));
            format!("{} {name} a run{}", fixed(unit / rate, 3), in_brackets(ends))
        }
        Some((estimate, median)) => {
            let (divisor, _) = rate_unit(estimate.unit, median);
            let ends = estimate.lower.zip(estimate.upper).map(|(lower, upper)| range(lower / divisor, upper / divisor));
            format!("{}{}", rate(estimate.unit, median), in_brackets(ends))
        }
    };
    let cpu = side.cpu_ns.map_or_else(String::new, |ns| cpu_of_unit(&view.plan.workload, ns));
    [name.to_owned(), shown, cpu, format!("{} trials", side.trials)]
}

/// CPU time of a unit of a workload.
fn cpu_of_unit(workload: &str, ns: f64) -> String {
    match workload {
        "stream" => format!("{} CPU s/GiB", significant(ns * 1.073_741_824, 3)),
        "call" => format!("{} CPU µs/call", significant(ns / 1e3, 3)),
        "ring" => format!("{} CPU ns/op", significant(ns, 3)),
        _ => format!("{} CPU ms/run", significant(ns / 1e6, 3)),
    }
}

fn in_brackets(ends: Option<String>) -> String {
    ends.map_or_else(String::new, |ends| format!(" ({ends})"))
}
