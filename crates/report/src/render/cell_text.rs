//! The texts that several renderers print of one cell: levels, rates with intervals, shares.

use bytegauge_model::relay_program::short_relay_name;
use bytegauge_model::unit::{count_rate, significant};
use bytegauge_model::{Level, Stage, factor};

use crate::View;
use crate::outward::{ends, percent};
pub use crate::phrase::rate_unit;
use crate::view::document::{CellView, Estimate, GroupView};

/// An unknown value.
pub const UNKNOWN: &str = "–";

/// A factor's level for people: `64 KiB`.
pub fn level(cell: &CellView, name: &str) -> String {
    shown(cell, name, |factor, level| factor.kind.show(level))
}

fn shown(cell: &CellView, name: &str, show: impl Fn(&factor::Factor, &Level) -> String) -> String {
    match cell.level(name) {
        Level::Absent => UNKNOWN.into(),
        Level::Name(relay) if name == "relay" => short_relay_name(&relay),
        level => factor::find(name).map_or_else(|| level.to_string(), |factor| show(factor, &level)),
    }
}

/// The unit of work by which the cost of the harness is counted.
pub fn call_noun(view: &View) -> &'static str {
    if view.cells.iter().any(|cell| cell.ring.is_some()) { "NOP" } else { "call" }
}

/// Whether a group compares calls.
pub fn of_calls(group: &GroupView) -> bool {
    group.cost.ends_with("per_call")
}

/// Whether a group compares rings.
pub fn of_rings(group: &GroupView) -> bool {
    group.cost == "ns_per_nop"
}

/// A rate with three digits.
pub fn rate(base: &str, per_second: f64) -> String {
    let (unit, name) = rate_unit(base, per_second);
    format!("{} {name}", fixed(per_second / unit, 3))
}

/// The divisor of rates, and the name of the unit: one for all rates that are compared by eye.
pub type RateScale = (f64, &'static str);

/// The scale in which the fastest of some cells is read best.
pub fn scale<'a>(cells: impl Iterator<Item = &'a CellView>) -> RateScale {
    let rates = cells.filter_map(|cell| Some((cell.estimate.unit, cell.estimate.median?)));
    let fastest = rates.max_by(|a, b| a.1.total_cmp(&b.1));
    fastest.map_or((1.0, ""), |(base, rate)| rate_unit(base, rate))
}

/// The primary rate of a cell, or that it is not known.
pub fn cell_rate(cell: &CellView, (unit, name): RateScale) -> String {
    let Some(per_second) = cell.estimate.median else { return UNKNOWN.into() };
    match is_confirmed(cell) {
        true => format!("{} {name}", fixed(per_second / unit, 3)),
        false => format!("({}) {name}", rounded(per_second / unit)),
    }
}

/// Whether the cell's numbers are those of confirmation; others come from a look or two and are printed in brackets.
pub fn is_confirmed(cell: &CellView) -> bool {
    cell.stage == Some(Stage::Confirm)
}

/// The precision of one or two trials: one decimal below 10, none above, and one digit below a tenth.
pub fn rounded(value: f64) -> String {
    match value {
        value if value > 0.0 && value < 0.095 => fixed(value, 1),
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// The median of an estimate of a time, such as `310 µs`.
pub fn time(cell: &CellView, name: &str) -> String {
    cell.median(name).map_or_else(
        || UNKNOWN.into(),
        |ns| {
            let (unit, name) = match ns {
                ns if ns < 1e6 => (1e3, "µs"),
                ns if ns < 1e9 => (1e6, "ms"),
                _ => (1e9, "s"),
            };
            format!("{} {name}", fixed(ns / unit, 3))
        },
    )
}

/// Calls that failed, as a share of those begun.
pub fn failed(cell: &CellView) -> String {
    share(cell.call.as_ref().and_then(|call| call.failed_share))
}

/// As many decimals as leave `digits` significant ones; zeros at the end stay, so that columns line up.
pub fn fixed(value: f64, digits: i32) -> String {
    let decimals = (digits - 1 - value.abs().max(1e-9).log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$}")
}

/// The interval without its unit: `3.85 – 3.99`; nothing without one. Zeros at the end stay, so that columns line up.
pub fn interval(estimate: &Estimate, (unit, _): RateScale) -> String {
    let (Some(lower), Some(upper)) = (estimate.lower, estimate.upper) else { return String::new() };
    let (ends, digits) = ends(lower / unit, upper / unit);
    ends.map(|end| end.parse().map_or(end, |end| fixed(end, digits as i32))).join(" – ")
}

/// The median of another estimate as a count rate: `128 k/s`.
pub fn calls(cell: &CellView, name: &str) -> String {
    cell.more.get(name).and_then(|estimate| estimate.median).map_or_else(|| UNKNOWN.into(), count_rate)
}

/// A share in per cent.
pub fn share(share: Option<f64>) -> String {
    match share {
        None => UNKNOWN.into(),
        Some(0.0) => "0 %".into(),
        Some(share) if share < 0.001 => "< 0.1 %".into(),
        Some(share) => percent(share),
    }
}

/// Three significant digits.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| significant(value, 3))
}

/// A size that was worked out, to two digits: more would feign precision.
pub fn rough_size(bytes: f64) -> String {
    size(bytes, 2)
}

/// The mean size of a call, to as many digits as the rate and the calls next to it, so that the three agree.
pub fn mean_size(bytes: f64) -> String {
    size(bytes, 3)
}

fn size(bytes: f64, digits: usize) -> String {
    let step = (bytes.max(1.0).log2() / 10.0).floor().clamp(0.0, 3.0) as usize;
    format!("{} {}", significant(bytes / 1024f64.powi(step as i32), digits), ["B", "KiB", "MiB", "GiB"][step])
}
