//! Names, numbers and lines: how levels, rates, intervals and options are written everywhere. Knows no session.

pub mod code_line;
pub mod fit;
pub mod interval_rounding;
pub mod number;
pub mod paint;
pub mod phrase;
pub mod table;

pub use phrase::{change_label, cost_words, level_label, option_label, relay_method};
