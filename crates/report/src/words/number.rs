//! Measured numbers, rounded to the digits that they have.

use bytegauge_model::unit::{Nanos, significant, significant_down};

use super::interval_rounding::percent;
use super::phrase::rate_unit;

/// An unknown value.
pub const UNKNOWN: &str = "–";

/// A rate with three digits.
pub fn rate(base: &str, per_second: f64) -> String {
    let (unit, name) = rate_unit(base, per_second);
    format!("{} {name}", fixed(per_second / unit, 3))
}

/// A smaller rate in the unit of the fastest one has too many zeros to be read.
const SHARE_READ: f64 = 0.1;
/// A larger rate in the unit of the slowest one has too many digits.
const UNITS_READ: f64 = 1e4;

/// The divisor and the unit in which the fastest and the slowest of these rates can be read; `None` where there is none.
pub fn common_unit(base: &str, rates: impl Iterator<Item = f64>) -> Option<(f64, &'static str)> {
    let (least, most) = rates
        .filter(|rate| *rate > 0.0)
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), rate| (least.min(rate), most.max(rate)));
    let large = rate_unit(base, most);
    let small = rate_unit(base, least.min(most));
    match least < SHARE_READ * large.0 {
        false => Some(large),
        true => (most < UNITS_READ * small.0).then_some(small),
    }
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

/// A size with this many significant digits.
pub fn size(bytes: f64, digits: usize) -> String {
    let step = (bytes.max(1.0).log2() / 10.0).floor().clamp(0.0, 3.0) as usize;
    format!("{} {}", significant(bytes / 1024f64.powi(step as i32), digits), ["B", "KiB", "MiB", "GiB"][step])
}

/// A time to three digits.
pub fn time(ns: f64) -> String {
    Nanos(ns.round() as u64).to_string()
}

/// A lower end as a multiple of the best's time, rounded down: `2.1`.
pub fn times_at_least(share: f64) -> String {
    significant_down(1.0 + share, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_suits_all_rates() {
        let unit = |rates: &[f64]| common_unit("bytes/s", rates.iter().copied()).map(|(_, unit)| unit);
        let (mib, gib) = (f64::from(1 << 20), f64::from(1 << 30));
        assert_eq!(unit(&[0.3 * gib, 2.0 * gib]), Some("GiB/s"));
        assert_eq!(unit(&[50.0 * mib, 2.0 * gib]), Some("MiB/s"));
        assert_eq!(unit(&[2.0 * mib, 12.0 * gib]), None);
        assert_eq!(unit(&[]), Some("B/s"));
    }
}
