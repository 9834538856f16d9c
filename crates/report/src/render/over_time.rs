//! The intervals of long trials, as a listing for each group.

use bytegauge_model::Nanos;
use bytegauge_model::unit::{counted, significant};

use crate::Report;
use crate::view::numbers::{GroupView, OverTimeView};
use crate::words::paint::wrap;
use crate::words::phrase::rate_unit;

/// More flows than this have no column of their own.
const FLOWS_MAX: usize = 6;
/// More intervals than this are not listed one by one, only the slowest and the fastest.
const ROWS_MAX: usize = 60;
/// Longest line of text, indented as it is.
const COLUMNS: usize = 78;

/// All groups with intervals, or a line that there is none.
pub fn render(view: &Report) -> String {
    let lines: Vec<String> = view
        .groups
        .iter()
        .filter_map(|group| Some((group, group.over_time.as_ref()?)))
        .flat_map(|(group, over_time)| listing(view, group, over_time))
        .collect();
    if lines.is_empty() {
        return "\nOVER TIME  no trial is known from millisecond to millisecond: those of a second or\n  \
                more are (--trial-time 10s), where they are longer than --interval\n"
            .into();
    }
    format!("\n{}\n", lines.join("\n"))
}

fn listing(view: &Report, group: &GroupView, over_time: &OverTimeView) -> Vec<String> {
    let most = over_time.sum.iter().copied().fold(0.0, f64::max);
    let least = over_time.sum.iter().copied().fold(f64::INFINITY, f64::min);
    let (scale, unit) = rate_unit(over_time.unit, most);
    let show = |rate: f64| format!("{:>9}", significant(rate / scale, 3));
    let label = view.cell(&over_time.cell).map_or("", |cell| cell.label.as_str());
    let spread = over_time.spread.map_or(String::new(), |share| {
        format!("; intervals differ by {} % (standard deviation)", significant(100.0 * share, 2))
    });
    let head = format!("OVER TIME  {}, {label}: the last long trial, from its first moment", group.id);
    let average = format!(
        "{} {unit} on average of {} of {}, {} to {}{spread}",
        significant(over_time.mean / scale, 3),
        counted(over_time.sum.len(), "interval"),
        Nanos(over_time.interval_ns),
        significant(least / scale, 3),
        significant(most / scale, 3),
    );
    let mut lines = wrap(&head, COLUMNS);
    lines[1..].iter_mut().for_each(|line| line.insert_str(0, "  "));
    lines.extend(wrap(&average, COLUMNS).into_iter().map(|line| format!("  {line}")));
    let apart: &[Vec<f64>] = match over_time.flows.as_slice() {
        flows @ [_, _, ..] if flows.len() <= FLOWS_MAX => flows,
        _ => &[],
    };
    if over_time.sum.len() <= ROWS_MAX {
        let mut head = format!("  {:>9}{:>9}", "from", "sum");
        for flow in 1..=apart.len() {
            head.push_str(&format!("{:>9}", format!("flow {flow}")));
        }
        lines.push(format!("{head}  {unit}"));
        for (at, sum) in over_time.sum.iter().enumerate() {
            let from = if at == 0 { "0 s".into() } else { Nanos(over_time.interval_ns * at as u64).to_string() };
            let flows: String = apart.iter().map(|rates| show(rates[at])).collect();
            lines.push(format!("  {from:>9}{}{flows}", show(*sum)));
        }
    }
    lines
}
