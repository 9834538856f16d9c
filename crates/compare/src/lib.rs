//! Several sessions together: over all sessions of a plan ([`AcrossView`]), before and after a change ([`HistoryView`]), and
//! between machines, kernels or releases ([`BetweenView`]).
//!
//! A session counts once. Reads what each session confirmed ([`bytegauge_report::SessionGroup`]), and never pools the trials of
//! two sessions.
#![forbid(unsafe_code)]

pub mod across;
pub mod between;
pub mod history;

pub use across::AcrossView;
pub use between::BetweenView;
use bytegauge_report::view::numbers::schema;
pub use history::HistoryView;

/// JSON Schema (2020-12) of the comparison of several sessions, indented, with a newline at its end: `cargo xtask generate` writes it
/// to `schema/`.
pub fn between_schema() -> String {
    schema::of::<BetweenView>("between", "bytegauge between")
}

/// The same for sessions before and after.
pub fn history_schema() -> String {
    schema::of::<HistoryView>("compare", "bytegauge report compare")
}
