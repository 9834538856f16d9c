//! Prints views. Decides nothing: every number and every sentence is settled before.

pub mod brief;
pub mod json;
pub mod markdown;
pub mod over_time;
pub mod page;
pub mod screen;
pub mod terminal;
mod versus;

mod both_ways;
mod calls;
mod cell_text;
mod datagrams;
mod details;
mod rings;
mod rows;
mod texts;

use bytegauge_text::{fit, paint};

pub use paint::{TerminalStyle, on_terminal, wrap};
