//! Several sessions together: over all sessions of a plan ([`AcrossView`]), and before and after a change ([`HistoryView`]).
//!
//! A session counts once. Reads what each session confirmed ([`bytegauge_report::SessionGroup`]), and never pools the trials of
//! two sessions.
#![forbid(unsafe_code)]

pub mod across;
pub mod history;

pub use across::AcrossView;
use bytegauge_report::view::numbers::schema;
pub use history::HistoryView;

/// JSON Schema (2020-12) of the comparison of sessions before and after, indented, with a newline at its end: `cargo xtask generate`
/// writes it to `schema/`.
pub fn history_schema() -> String {
    schema::of::<HistoryView>("compare", "bytegauge report compare")
}
