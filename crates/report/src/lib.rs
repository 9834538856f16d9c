//! From stored trials to what a person reads.
//!
//! [`View::of`] turns the trials of a session into settled numbers and findings by calling `stats`, [`bytegauge_bottleneck`] names
//! what limits a cell, and [`render`] prints: terminal, JSON, CSV, markdown.
//! Reads results from any machine and never measures, so it knows nothing of sockets.
#![forbid(unsafe_code)]

mod data;
pub mod render;
pub mod view;

use bytegauge_text::{interval_rounding, number, phrase};

pub use data::SessionData;
pub use view::confirmed::{ConfirmedCell, ConfirmedRate, SessionGroup};
pub use view::{AuditedGroup, Progress, Settings, View, paused_ns};
