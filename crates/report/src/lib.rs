//! From stored trials to what a person reads, in stages that each use those before them alone.
//!
//! [`view`] (numbers, from the trials and `stats`) → [`results`] (states and claims) → [`findings`] (facts with numbers, no text) →
//! [`document`] (the [`Report`] with every sentence) → [`render`] (terminal, page, Markdown, JSON, CSV and others). [`words`] has
//! the names of levels and the rules of rounding. Reads results from any machine and never measures.
#![forbid(unsafe_code)]

pub mod document;
pub mod findings;
pub mod render;
pub mod results;
pub mod view;
pub mod words;

pub use bytegauge_store::SessionData;
pub use document::{Report, progress};
pub use view::compare::{ConfirmedCell, ConfirmedRate, SessionGroup};
pub use view::numbers::View;
pub use view::{Settings, analysed_groups};
use words::{interval_rounding, phrase};
