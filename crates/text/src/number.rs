//! Measured numbers, rounded to the digits that they have.

use bytegauge_model::unit::significant;

use crate::interval_rounding::percent;
use crate::phrase::rate_unit;

/// An unknown value.
pub const UNKNOWN: &str = "–";

/// A rate with three digits.
pub fn rate(base: &str, per_second: f64) -> String {
    let (unit, name) = rate_unit(base, per_second);
    format!("{} {name}", fixed(per_second / unit, 3))
}

/// As many decimals as leave `digits` significant ones; zeros at the end stay, so that columns line up.
pub fn fixed(value: f64, digits: i32) -> String {
    let decimals = (digits - 1 - value.abs().max(1e-9).log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A share in per cent.
pub fn share(share: Option<f64>) -> String {
    match share {
        None => UNKNOWN.into(),
        Some(0.0) => "0 %".into(),
        Some(share) if share < 0.001 => "< 0.1 %".into(),
        Some(share) => percent(share),
    }
}

/// Three significant digits.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| significant(value, 3))
}

/// A size that was worked out, to two digits: more would feign precision.
pub fn rough_size(bytes: f64) -> String {
    size(bytes, 2)
}

/// The mean size of a call, to as many digits as the rate and the calls next to it, so that the three agree.
pub fn mean_size(bytes: f64) -> String {
    size(bytes, 3)
}

fn size(bytes: f64, digits: usize) -> String {
    let step = (bytes.max(1.0).log2() / 10.0).floor().clamp(0.0, 3.0) as usize;
    format!("{} {}", significant(bytes / 1024f64.powi(step as i32), digits), ["B", "KiB", "MiB", "GiB"][step])
}
