//! The details of a test: the counts behind its rates, and the cost of a call and of a byte.

use bytegauge_model::unit::{Bytes, significant};

use super::cell_text::{mean_size, number, rough_size};
use super::rows::{Rows, rows};
use crate::View;
use crate::interval_rounding::percent;
use crate::phrase;
use crate::view::cost::ERROR_MAX;
use crate::view::document::{CellView, GroupView, OptionResult, Slice};

/// The counts of a test, a sentence each.
pub fn counts(view: &View, group: &GroupView) -> Vec<String> {
    let rows = rows(view, group);
    if rows.cells.is_empty() {
        return Vec::new();
    }
    [
        super::calls::lines(&rows),
        super::datagrams::lines(&rows),
        super::both_ways::lines(&rows),
        super::rings::lines(view, group, &rows),
    ]
    .concat()
}

/// The averages, the counts, the size of calls, and the cost of calls and bytes.
pub fn lines(view: &View, group: &GroupView) -> Vec<String> {
    let sizes = sizes(&rows(view, group));
    averages(view, group).into_iter().chain(counts(view, group)).chain(sizes).chain(costs(group)).collect()
}

/// The averages that are far from the medians of the table.
fn averages(view: &View, group: &GroupView) -> Option<String> {
    let test = view.test(&group.id).filter(|test| test.unit != "runs/s")?;
    let (divisor, unit) = test.rate_scale(&view.tests);
    let one = |option: &OptionResult| Some(format!("{} {}", option.label, significant(option.rate_all? / divisor, 3)));
    let all: Vec<String> = test.options.iter().filter_map(one).collect();
    (!all.is_empty())
        .then(|| format!("average (all trials by all their time) far from the median, {unit}: {}", all.join(", ")))
}

/// The bytes that a call moved on average, over all trials: less than was asked for where reads are short.
fn sizes(rows: &Rows) -> Option<String> {
    let cell: &CellView = rows.named().filter(|cell| cell.call.is_none() && cell.ring.is_none())?;
    let moved = |each: Option<f64>| each.filter(|bytes| *bytes > 0.0).map(mean_size);
    let read = moved(cell.counters.bytes_per_read)?;
    let write = moved(cell.counters.bytes_per_write).map_or_else(String::new, |size| format!(", a write {size}"));
    Some(format!("{}: on average over all trials, a read moved {read}{write}", cell.label))
}

fn costs(group: &GroupView) -> impl Iterator<Item = String> {
    let slices = [("reading", &group.cost_model.reader), ("writing", &group.cost_model.writer)];
    slices.into_iter().filter_map(|(end, slice)| slice_text(end, slice.as_ref()?))
}

fn slice_text(end: &str, slice: &Slice) -> Option<String> {
    // The curve, whose costs are never negative; the plain line is for comparison with published fits.
    let Some((call, byte)) = slice.per_call_ns.zip(slice.segments.first().map(|first| first.per_byte_ns)) else {
        return unreported(end, slice);
    };
    let mut off =
        slice.relative_error.map_or_else(String::new, |error| format!(", trials differ from it by {}", percent(error)));
    off += &missed(slice).map_or_else(String::new, |at| format!(", and it does not fit at {at}"));
    let metric = if slice.metric == Some("on_cpu_ns_per_call") { "CPU" } else { "wall" };
    let up_to = slice.fit_max.map_or_else(String::new, |most| format!(", up to {}", Bytes(most)));
    let most = if metric == "CPU" { "highest bytes per CPU second" } else { "highest rate" };
    let sizes = [("half", slice.size_for_half), ("95 %", slice.size_for_95)]
        .into_iter()
        .filter_map(|(share, size)| Some(format!("calls of {} reach {share}", rough_size(size?))));
    let sizes: Vec<String> = sizes.collect();
    let sizes = if sizes.is_empty() { String::new() } else { format!("; {} of the {most}", sizes.join(", ")) };
    let breaks: Vec<String> = slice
        .breaks
        .iter()
        .zip(slice.segments.iter().skip(1))
        .map(|(at, after)| format!(", {} from {}", number(Some(after.per_byte_ns)), rough_size(at.at_bytes)))
        .collect();
    Some(format!(
        "{end} costs about {} ns a call + {} ns a byte{} ({metric} time{up_to}, descriptive{off}){sizes}",
        number(Some(call)),
        number(Some(byte)),
        breaks.concat()
    ))
}

/// The sizes that the curve misses by more than chance; of many how many there are.
fn missed(slice: &Slice) -> Option<String> {
    let sizes = slice.off_curve.iter().filter(|one| one.is_off).map(|one| Bytes(one.asked_bytes).to_string());
    let sizes: Vec<String> = sizes.collect();
    match sizes.len() {
        0 => None,
        1 | 2 => Some(phrase::join(&sizes, "and")),
        many => Some(format!("{many} of {} sizes", slice.off_curve.len())),
    }
}

/// Why there is no cost line although there are enough sizes for one.
fn unreported(end: &str, slice: &Slice) -> Option<String> {
    let why = match slice.relative_error? {
        error if error >= ERROR_MAX => format!("trials differ from every line by {}", percent(error)),
        _ => "a line would have calls or bytes that cost nothing".to_owned(),
    };
    Some(format!("the cost of {end} per call and per byte is unknown here: {why}"))
}
