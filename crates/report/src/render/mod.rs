//! Prints views. Decides nothing: every number and every sentence is settled before.

pub mod json;
pub mod screen;
pub mod terminal;
mod versus;

mod both_ways;
mod calls;
pub mod cell_text;
mod datagrams;
pub mod details;
mod rings;
mod rows;
pub mod texts;

use bytegauge_text::{fit, paint};

pub use paint::{TerminalStyle, on_terminal, wrap};
