//! A user's program where no value is better than another one: a change needs a reason, so the present value is kept; without a
//! present value the result names what it costs to take any.

use super::super::check::has_value;
use super::super::document::{Because, GroupView, OptionResult, OptionStatus, Test, TestState, View};
use super::outcome::{better, listed};
use crate::interval_rounding::percent;

/// The factor whose levels are tried.
const VALUE: &str = "value";

/// Values from this one on are taken for sizes: counts of connections or threads are smaller.
const SIZE_FROM: u64 = 512;

/// The option with the present value (`--default`), where no other one is significantly better. `None` where one is, where none has
/// an interval, and without a present value.
pub fn present<'a>(view: &View, group: &GroupView, options: &'a [OptionResult]) -> Option<&'a OptionResult> {
    let gain = view.check.as_ref()?.gains.iter().find(|gain| gain.group == group.id)?;
    let is_present = |option: &&OptionResult| view.cell(&option.id).is_some_and(|cell| has_value(cell, &gain.default));
    let own = options.iter().find(is_present)?;
    let has_interval = own.slower_upper.is_some_and(f64::is_finite);
    let is_open = matches!(own.status, OptionStatus::Best | OptionStatus::Tied);
    let is_beaten = gain.lower.is_some_and(|lower| lower > 0.0);
    (has_interval && is_open && !is_beaten).then_some(own)
}

/// The words around the recommended value where no difference was found.
pub struct NoDifference {
    /// Before the value.
    pub before: String,
    /// Between its rate and the words of how good it is.
    pub after: &'static str,
    /// Whether the other values without a difference are named, or need not be.
    pub names_others: bool,
}

/// Those words; `None` where a value is better than another one, and of no program. `good` are the other values within the margin,
/// `open` the undecided ones.
pub fn no_difference(
    (view, test): (&View, &Test),
    own: &OptionResult,
    [good, open]: [&[String]; 2],
) -> Option<NoDifference> {
    view.check.as_ref().filter(|_| view.versus.is_none())?;
    let is_decided = test.state == TestState::Decided;
    if test.because == Some(Because::Present) {
        let (before, after) = match is_decided {
            true if good.is_empty() => ("keep the present".into(), ","),
            true => (format!("no difference found between {} and {}: keep the present", own.label, listed(good)), ","),
            false => (format!("undecided: no value is surely {} than the present", better(test)), ", which is"),
        };
        return Some(NoDifference { before, after, names_others: true });
    }
    let is_slower = |option: &OptionResult| option.slower_upper.is_some() && option.status == OptionStatus::Slower;
    if test.options.iter().any(is_slower) || !test.avoid.is_empty() || good.is_empty() && open.is_empty() {
        return None;
    }
    if !is_decided {
        let before = "undecided so far: the safest is".into();
        return Some(NoDifference { before, after: ":", names_others: false });
    }
    let before = format!("no difference found (within {}): take", percent(test.margin));
    let none = NoDifference { before, after: cost(test, own), names_others: true };
    open.is_empty().then_some(none)
}

/// The saving of the smallest value.
fn cost(test: &Test, own: &OptionResult) -> &'static str {
    let number = |option: &OptionResult| option.settings.get(VALUE).and_then(serde_json::Value::as_u64);
    let all: Option<Vec<u64>> = test.options.iter().map(number).collect();
    let least = all.and_then(|all| all.into_iter().min());
    match least.filter(|least| number(own) == Some(*least)) {
        Some(SIZE_FROM..) => ", the smallest, which takes least memory,",
        Some(_) => ", the smallest,",
        None => ",",
    }
}
