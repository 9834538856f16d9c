//! The texts that several renderers print of one cell: levels, rates with intervals, shares, marks.

use bytegauge_model::relay_program::short_relay_name;
use bytegauge_model::unit::{count_rate, significant};
use bytegauge_model::{Level, Stage, factor};
use serde_json::Value;

use crate::View;
use crate::outward::ends;
pub use crate::phrase::rate_unit;
use crate::sentence::percent;
use crate::view::document::{AvoidView, CellView, Estimate, Factors, GroupView, Standing, VerdictView};

/// What is not known.
pub const UNKNOWN: &str = "–";

/// What a cell is to the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The recommendation whatever the profile, proven.
    Recommended,
    /// Proven in its own group; the verdict over all profiles names another, or none.
    EnoughHere,
    /// Named over all profiles while nothing is proven.
    BestConfirmed,
    /// Named in its own group while nothing is proven; over all profiles another is.
    BestHere,
    /// May be the best.
    BestSet,
    /// Its level is to be avoided, whatever its own median.
    Avoid,
    /// None of these.
    None,
}

impl Mark {
    /// The marks that a legend explains.
    pub const SHOWN: [Mark; 6] =
        [Mark::Recommended, Mark::EnoughHere, Mark::BestConfirmed, Mark::BestHere, Mark::BestSet, Mark::Avoid];

    /// Whether it is what a verdict names.
    pub fn is_named(self) -> bool {
        !matches!(self, Mark::BestSet | Mark::Avoid | Mark::None)
    }

    /// One character; colour never stands alone.
    pub fn symbol(self) -> &'static str {
        match self {
            Mark::Recommended => "▶",
            Mark::EnoughHere => "◆",
            Mark::BestConfirmed => "▷",
            Mark::BestHere => "◇",
            Mark::BestSet => "●",
            Mark::Avoid => "✗",
            Mark::None => " ",
        }
    }
}

/// The marks of a group's cells.
pub struct Marks<'a> {
    group: &'a GroupView,
    verdict: Option<&'a VerdictView>,
}

impl<'a> Marks<'a> {
    /// Those of one group.
    pub fn of_group(view: &'a View, group: &'a GroupView) -> Marks<'a> {
        Marks { group, verdict: view.verdicts.iter().find(|verdict| verdict.groups.contains(&group.id)) }
    }

    /// The mark of a cell of the group.
    pub fn of(&self, cell: &CellView) -> Mark {
        let own = &self.group.recommendation;
        let named_here = own.cell.as_ref() == Some(&cell.id);
        let named = self.verdict.is_some_and(|verdict| verdict.recommendation.cells.values().any(|id| *id == cell.id));
        let proven = self.verdict.is_some_and(|verdict| verdict.recommendation.proven);
        match () {
            () if named && proven => Mark::Recommended,
            () if named_here && own.proven => Mark::EnoughHere,
            () if named => Mark::BestConfirmed,
            () if named_here && !proven => Mark::BestHere,
            () if self.group.best_set.contains(&cell.id) => Mark::BestSet,
            () if self.group.avoid.iter().any(|found| is_of(found, cell)) => Mark::Avoid,
            () => Mark::None,
        }
    }

    /// What a symbol means in this group.
    pub fn meaning(&self, mark: Mark) -> &'static str {
        let profiles = self.verdict.map_or(0, |verdict| verdict.profiles.len());
        match mark {
            Mark::Recommended if profiles > 1 => "recommended, whatever the profile",
            Mark::Recommended => "recommended",
            Mark::EnoughHere if self.group.throws_away && of_calls(self.group) => {
                "enough for a server that only echoes"
            }
            Mark::EnoughHere if self.group.throws_away => "enough for a reader that throws the bytes away",
            Mark::EnoughHere => "enough for this profile alone",
            Mark::BestConfirmed => "best bounded, not proven",
            Mark::BestHere => "best bounded in this profile, not proven",
            Mark::BestSet => "may be the best (without a mark: shown not to be)",
            Mark::Avoid => "to be avoided",
            Mark::None => "",
        }
    }
}

/// Whether a cell has a level that is to be avoided; of a level of which some cells are, whether it is one of them.
fn is_of(found: &AvoidView, cell: &CellView) -> bool {
    let has = |name: &String, level: &Value| cell.factors.get(name) == Some(level);
    let is_one = |with: &Factors| with.iter().all(|(name, level)| has(name, level));
    has(&found.factor, &found.level) && (found.with.is_empty() || found.with.iter().any(is_one))
}

/// How far a verdict is believed: as the row says among what to use that stands for all of its groups, or for the first.
pub fn standing(view: &View, verdict: &VerdictView) -> Standing {
    let rows = || view.answer.to_use.rows.iter();
    let of_all = rows().filter(|row| verdict.groups.iter().all(|group| row.groups.contains(group)));
    let of_first = rows().filter(|row| verdict.groups.first().is_some_and(|group| row.groups.contains(group)));
    let found = of_all.map(|row| row.standing).max().or_else(|| of_first.map(|row| row.standing).max());
    match (found, verdict.recommendation.proven) {
        // Of several choices none is for all; what is shown of a reader that throws the bytes away is shown of that one.
        (Some(Standing::Proven), false) if verdict.groups.len() > 1 => Standing::Open,
        (None, false) => Standing::Open,
        (None, true) => Standing::Proven,
        (Some(standing), _) => standing,
    }
}

/// A factor's level for people: `64 KiB`.
pub fn level(cell: &CellView, name: &str) -> String {
    shown(cell, name, |factor, level| factor.kind.show(level))
}

/// A factor's level as a flag takes it: `64K`.
pub fn compact_level(cell: &CellView, name: &str) -> String {
    shown(cell, name, |factor, level| factor.kind.compact(level))
}

fn shown(cell: &CellView, name: &str, show: impl Fn(&factor::Factor, &Level) -> String) -> String {
    match cell.level(name) {
        Level::Absent => UNKNOWN.into(),
        Level::Name(relay) if name == "relay" => short_relay_name(&relay),
        level => factor::find(name).map_or_else(|| level.to_string(), |factor| show(factor, &level)),
    }
}

/// What the harness's cost is counted by.
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

/// What rates are divided by, and the unit's name then: one for all that is compared by eye.
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

/// What a look or two can say: one decimal below 10, none above, and one digit of what is less than a tenth.
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

/// What a call moves on the average, to as many digits as the rate and the calls beside it, so that the three agree.
pub fn mean_size(bytes: f64) -> String {
    size(bytes, 3)
}

fn size(bytes: f64, digits: usize) -> String {
    let step = (bytes.max(1.0).log2() / 10.0).floor().clamp(0.0, 3.0) as usize;
    format!("{} {}", significant(bytes / 1024f64.powi(step as i32), digits), ["B", "KiB", "MiB", "GiB"][step])
}
