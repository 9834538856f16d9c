//! Lays reports out: terminal, page, Markdown, JSON, and formats for other programs. Decides nothing: every number and every sentence
//! about a result is settled before; headings and the facts of the measurement are written here.

pub mod csv;
pub mod full;
pub mod go_bench;
pub mod json;
pub mod junit;
mod layout;
pub mod markdown;
pub mod over_time;
pub mod page;
pub mod screen;

pub use crate::words::paint::{TerminalStyle, on_terminal, wrap};
