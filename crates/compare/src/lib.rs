//! Several sessions together: over all sessions of a plan ([`AcrossView`]), before and after a change ([`HistoryView`]), and
//! between machines, kernels or releases ([`BetweenView`]).
//!
//! A session counts once. Reads what each session confirmed ([`bytegauge_report::SessionGroup`]), and never pools the trials of
//! two sessions.
#![forbid(unsafe_code)]

pub mod across;
pub mod between;
pub mod history;
pub mod schema;

pub use across::AcrossView;
pub use between::BetweenView;
pub use history::HistoryView;
