//! Names, numbers and lines: how levels, rates, intervals and options are written everywhere. Knows no session.

pub mod code_line;
mod cost;
pub mod fit;
pub mod interval_rounding;
mod label;
pub mod number;
pub mod paint;
pub mod phrase;
pub mod table;

pub use cost::cost_words;
pub use label::{change_label, level_label, option_label, own_buffer, relay_method};
