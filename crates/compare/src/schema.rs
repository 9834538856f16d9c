//! The JSON Schemas of the documents of several sessions, written to `schema/` by `cargo xtask generate`.

use bytegauge_report::view::numbers::schema::of;

use crate::{BetweenView, HistoryView};

/// JSON Schema (2020-12) of the comparison of several sessions, indented, with a newline at its end.
pub fn between_text() -> String {
    of::<BetweenView>("between", "bytegauge between")
}

/// The same for sessions before and after.
pub fn compare_text() -> String {
    of::<HistoryView>("compare", "bytegauge report compare")
}
