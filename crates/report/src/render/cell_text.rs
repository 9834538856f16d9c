//! The texts that several renderers print of one cell.

use bytegauge_model::relay_program::short_relay_name;
use bytegauge_model::{Level, factor};

use crate::View;
use crate::view::document::CellView;

pub use bytegauge_text::number::{UNKNOWN, fixed, mean_size, number, rate, rough_size, share};

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
