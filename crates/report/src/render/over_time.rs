//! The intervals of long trials, as a listing for each group.

use bytegauge_model::Nanos;
use bytegauge_model::unit::{counted, significant};

use crate::Report;
use crate::view::numbers::{GroupView, OverTimeView};
use crate::words::paint::wrap;
use crate::words::phrase::rate_unit;
use crate::words::table::{self, Column};

/// More flows than this have no column of their own.
const FLOWS_MAX: usize = 6;
/// More intervals than this are not listed one by one, only the slowest and the fastest.
const ROWS_MAX: usize = 60;
/// Longest line of text, indented as it is.
const COLUMNS: usize = 78;

/// All groups with intervals, or a line that there is none.
pub fn render(view: &Report) -> String {
    let known = view.groups.iter().filter_map(|group| Some((group, group.over_time.as_ref()?)));
    let lines: Vec<String> = known.flat_map(|(group, over_time)| listing(view, group, over_time)).collect();
    if lines.is_empty() {
        return "\nOVER TIME  no trial is known from millisecond to millisecond: those of a second or\n  \
                more are (--trial-time 10s), where they are longer than --interval\n"
            .into();
    }
    format!("\n{}\n", lines.join("\n"))
}

fn listing(view: &Report, group: &GroupView, over_time: &OverTimeView) -> Vec<String> {
    let OverTimeView { cell, interval_ns, unit, flows, sum, mean, spread } = over_time;
    let (least, most) = sum.iter().fold((f64::INFINITY, 0.0_f64), |ends, rate| (ends.0.min(*rate), ends.1.max(*rate)));
    let (scale, unit) = rate_unit(unit, most);
    let show = |rate: f64| significant(rate / scale, 3);
    let label = view.cell(cell).map_or("", |cell| cell.label.as_str());
    let spread = spread.map_or(String::new(), |share| {
        format!("; intervals differ by {} % (standard deviation)", significant(100.0 * share, 2))
    });
    let head = format!("OVER TIME  {}, {label}: the last long trial, from its first moment", group.id);
    let (count, each, least, most) = (counted(sum.len(), "interval"), Nanos(*interval_ns), show(least), show(most));
    let average = format!("{} {unit} on average of {count} of {each}, {least} to {most}{spread}", show(*mean));
    let mut rows: Vec<String> = wrap(&average, COLUMNS);
    if sum.len() <= ROWS_MAX {
        let places: Vec<usize> = (0..sum.len()).collect();
        let from = |at: &usize| Nanos(interval_ns * *at as u64).to_string();
        let mut columns =
            vec![Column::of("from", true, &places, from), Column::of(unit, true, &places, |at| show(sum[*at]))];
        if (2..=FLOWS_MAX).contains(&flows.len()) {
            let of_flow = |(at, rates): (usize, &Vec<f64>)| {
                Column::of(&format!("flow {}", at + 1), true, &places, |place| show(rates[*place]))
            };
            columns.extend(flows.iter().enumerate().map(of_flow));
        }
        rows.extend(table::lines(&columns));
    }
    wrap(&head, COLUMNS).into_iter().chain(rows.into_iter().map(|row| format!("  {row}"))).collect()
}
