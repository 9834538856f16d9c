//! A user's program where no value is better than the present one: a change needs a reason.

use super::{OptionResult, OptionStatus};
use crate::view::check::has_value;
use crate::view::numbers::{GroupView, View};

/// The option with the present value (`--now`), where no other one is significantly better. `None` where one is, where none has
/// an interval, and without a present value.
pub fn of<'a>(view: &View, group: &GroupView, options: &'a [OptionResult]) -> Option<&'a OptionResult> {
    let gain = view.check.as_ref()?.gains.iter().find(|gain| gain.group == group.id)?;
    let is_present = |option: &&OptionResult| view.cell(&option.id).is_some_and(|cell| has_value(cell, &gain.default));
    let own = options.iter().find(is_present)?;
    let is_open = matches!(own.status, OptionStatus::AsGood | OptionStatus::Undecided);
    let is_beaten = gain.lower.is_some_and(|lower| lower > 0.0);
    (own.slower_upper.is_some_and(f64::is_finite) && is_open && !is_beaten).then_some(own)
}
