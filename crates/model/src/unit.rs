//! Sizes, durations and rates: how they are read from a user and how they are printed.
//!
//! Sizes are binary (`64K` = `64KiB` = 65,536 bytes) because buffers are; decimal multiples are never
//! meant by a size flag, so `KB` is refused rather than guessed at. Never rounds what it stores.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Why a text is no size, level, name or other value: the text, and what to write instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct TextError(pub(crate) String);

impl TextError {
    /// Of a text that is not what was expected.
    pub(crate) fn malformed(text: &str, expected: &str) -> TextError {
        TextError(format!("`{text}` is not {expected}"))
    }

    /// Of a number with a minus sign.
    pub(crate) fn negative(text: &str) -> TextError {
        TextError(format!("`{text}` is negative: sizes, counts and durations start at 0"))
    }

    /// Of a text that does not begin with a number.
    pub(crate) fn no_number(text: &str, example: &str) -> TextError {
        TextError(format!("`{text}` is not a number with a unit: write for example {example}"))
    }
}

const SIZE_UNITS: &str = "B, K, M, G (binary: 1K = 1024), or KiB, MiB, GiB";
const TIME_UNITS: &str = "ns, us, ms, s, m, h";

/// Splits `12.5ms` into `12.5` and `ms`, refusing signs.
fn split(text: &str, example: &'static str) -> Result<(f64, String), TextError> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(TextError::negative(text));
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let digits = text[..end].replace('_', "");
    let number: f64 = digits.parse().map_err(|_| TextError::no_number(text, example))?;
    Ok((number, text[end..].trim().to_owned()))
}

fn unknown_unit(text: &str, unit: &str, known: &str) -> TextError {
    TextError(format!("`{unit}` in `{text}` is not a unit: use {known}"))
}

fn whole(number: f64, factor: u64, text: &str, unit: &'static str) -> Result<u64, TextError> {
    let value = number * factor as f64;
    // Above 2^53 a double no longer holds every integer; no size or duration here comes near.
    if value > (1u64 << 53) as f64 {
        return Err(TextError(format!("`{text}` is too large to count")));
    }
    nearly_whole(value).ok_or_else(|| TextError(format!("`{text}` is not a whole number of {unit}")))
}

/// A product that is a whole number, apart from the rounding of a decimal fraction: 8.2 × 10⁶ is 8199999.999999999.
fn nearly_whole(value: f64) -> Option<u64> {
    let near = value.round();
    ((value - near).abs() <= near * 4.0 * f64::EPSILON).then_some(near as u64)
}

impl FromStr for Bytes {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (number, unit) = split(text, "64K")?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            _ => return Err(unknown_unit(text, &unit, SIZE_UNITS)),
        };
        whole(number, factor, text, "bytes").map(Bytes)
    }
}

impl FromStr for Nanos {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        // `1m30s` is a sum.
        let is_end = |pair: &[u8]| pair[0].is_ascii_alphabetic() && pair[1].is_ascii_digit();
        if let Some(end) = text.trim().as_bytes().windows(2).position(is_end) {
            let (first, rest) = text.trim().split_at(end + 1);
            let (Nanos(first), Nanos(rest)) = (first.parse()?, rest.parse()?);
            return Ok(Nanos(first.saturating_add(rest)));
        }
        let (number, unit) = split(text, "50ms")?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if number == 0.0 => 1,
            "" => return Err(TextError(format!("`{text}` has no unit: use {TIME_UNITS}"))),
            _ => return Err(unknown_unit(text, &unit, TIME_UNITS)),
        };
        whole(number, factor, text, "nanoseconds").map(Nanos)
    }
}

impl fmt::Display for Bytes {
    /// `64 KiB`, `1.5 MiB`, `100 B`: the largest unit that keeps at most two decimals exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, name) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            let unit = 1u64 << shift;
            if self.0 >= unit && self.0.is_multiple_of(unit / 4) {
                return write!(f, "{} {name}", self.0 as f64 / unit as f64);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl Bytes {
    /// The short form that flags and plans take: `64K`, `1M`, `100`.
    pub fn compact(self) -> String {
        for (shift, name) in [(30, "G"), (20, "M"), (10, "K")] {
            let unit = 1u64 << shift;
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return format!("{}{name}", self.0 >> shift);
            }
        }
        self.0.to_string()
    }
}

impl fmt::Display for Nanos {
    /// `42 ms`, `1.5 s`, `800 ns`: three significant digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..=999 => return write!(f, "{} ns", self.0),
            1_000..=999_999 => (ns / 1e3, "µs"),
            1_000_000..=999_999_999 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        write!(f, "{} {unit}", significant(value, 3))
    }
}

impl Nanos {
    /// The short form that flags and plans take, exact: `42ms`, `1500us`.
    pub fn compact(self) -> String {
        for (factor, unit) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return format!("{}{unit}", self.0 / factor);
            }
        }
        format!("{}ns", self.0)
    }

    /// The duration in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// `1 block`, `2 blocks`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `value` with `digits` significant digits and no exponent, trailing zeros of the fraction dropped.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{}", value + 0.0);
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The same, never above `value`: for the lower end of an interval, so that it claims no more than was measured.
pub fn significant_down(value: f64, digits: usize) -> String {
    directed(value, digits, |parts| (parts + ROUNDING).floor())
}

/// The same, never below `value`: for the upper end of an interval.
pub fn significant_up(value: f64, digits: usize) -> String {
    directed(value, digits, |parts| (parts - ROUNDING).ceil())
}

/// Tolerance, in units of the last digit, for numbers that were meant to be round.
const ROUNDING: f64 = 1e-9;

fn directed(value: f64, digits: usize, round: fn(f64) -> f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return significant(value, digits);
    }
    let magnitude = value.abs().log10().floor() as i32;
    let scale = 10f64.powi((digits as i32 - 1 - magnitude).max(0));
    // Nothing is +0: -0 is printed with its sign.
    significant(round(value * scale) / scale + 0.0, digits)
}

/// A byte rate for display: `3.92 GiB/s`, `41.2 MiB/s`.
pub fn byte_rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, 1024.0, &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"])
}

/// The rate in whole megabits per second, if it was given so: it is no whole number of KiB/s.
pub fn megabits(bytes_per_second: u64) -> Option<u64> {
    let is_binary = bytes_per_second < 125_000 || bytes_per_second.is_multiple_of(1 << 10);
    (!is_binary && bytes_per_second.is_multiple_of(125_000)).then_some(bytes_per_second / 125_000)
}

/// An approximate size for display: `2.38 MiB`.
pub fn about_bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A count rate for display, decimal: `1.91 M/s`, `597 k/s`.
pub fn count_rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &["/s", "k/s", "M/s", "G/s"])
}

/// A rate of calls for display, decimal: `128 k calls/s`.
pub fn call_rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &["calls/s", "k calls/s", "M calls/s", "G calls/s"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut index = 0;
    while value.abs() >= step && index + 1 < units.len() {
        value /= step;
        index += 1;
    }
    format!("{} {}", significant(value, 3), units[index])
}

// Rates as a flag takes them: bytes, bits or calls per second.

/// Units of bits per second, decimal, with their bytes per second.
const BIT_RATES: [(&str, u64); 3] = [("gbit", 125_000_000), ("mbit", 125_000), ("kbit", 125)];

/// `100M`, a binary size for each second, or `100Mbit`, decimal bits; each with `/s` or without.
pub(crate) fn bytes_per_second(text: &str, word: &'static str) -> Result<u64, TextError> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let lower = number.to_ascii_lowercase();
    let bits = BIT_RATES.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?.trim().to_owned(), *bytes)));
    let Some((digits, bytes)) = bits else {
        let Bytes(bytes) = number.parse()?;
        return Ok(bytes);
    };
    whole_rate(&digits, bytes as f64).ok_or_else(|| {
        TextError(format!(
            "`{text}` is not a rate: write bytes per second such as 100M, bits such as 100Mbit, or {word}"
        ))
    })
}

/// `20k`, `1.5M`, `20000`, each with `/s` or without.
pub(crate) fn calls_per_second(text: &str) -> Result<u64, TextError> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let (digits, unit) = match number.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => number.strip_suffix('M').map_or((number, 1.0), |digits| (digits, 1e6)),
    };
    if digits.trim_start().starts_with('-') {
        return Err(TextError::negative(text));
    }
    whole_rate(digits, unit).ok_or_else(|| {
        TextError(format!("`{text}` is not a rate of calls: write calls per second such as 20k or 20000, or max"))
    })
}

/// A decimal number of units that is a whole rate. `1e9`, `inf` and `nan` are floats to the parser, but no rates.
fn whole_rate(digits: &str, unit: f64) -> Option<u64> {
    let plain =
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rate = digits.parse::<f64>().ok().filter(|_| plain)? * unit;
    nearly_whole(rate).filter(|_| rate < 1e15)
}

// Times that are shown before they have passed: one rule for a plan, for progress, and for suggestions.
//
// Two shown times may still differ, for one reason: a plan has the lengths of trials and assumes their overhead, while
// progress, and the report afterwards, use the blocks that this machine has measured.

/// How long something may take: rounded up to two digits, since the forecast is no more exact.
pub fn forecast(ns: u64) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    let unit = if ns < SECOND { SECOND / 1000 } else { SECOND };
    let whole = ns.div_ceil(unit).max(1);
    let step = 10_u64.pow(whole.ilog10().saturating_sub(1));
    Nanos(whole.div_ceil(step).saturating_mul(step).saturating_mul(unit))
}

/// Time of a long-trial check with this share of the whole, after `spent_ns` of other work, nanoseconds.
pub fn audit_after_ns(share: f64, spent_ns: u64) -> u64 {
    (spent_ns as f64 * share / (1.0 - share)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_bytes(text: &str, expected: Result<u64, &str>) {
        let got = text.parse::<Bytes>().map(|b| b.0).map_err(|e| e.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn sizes() {
        check_bytes("1", Ok(1));
        check_bytes("64K", Ok(65_536));
        check_bytes("64KiB", Ok(65_536));
        check_bytes("1.5k", Ok(1536));
        check_bytes("2 MiB", Ok(2 << 20));
        check_bytes("-1", Err("`-1` is negative: sizes, counts and durations start at 0"));
        check_bytes("1Q", Err("`Q` in `1Q` is not a unit: use B, K, M, G (binary: 1K = 1024), or KiB, MiB, GiB"));
        check_bytes("64KB", Err("`KB` in `64KB` is not a unit: use B, K, M, G (binary: 1K = 1024), or KiB, MiB, GiB"));
        check_bytes("0.3", Err("`0.3` is not a whole number of bytes"));
        check_bytes("big", Err("`big` is not a number with a unit: write for example 64K"));
        check_bytes("99999999999999999999", Err("`99999999999999999999` is too large to count"));
    }

    #[test]
    fn durations_and_rates() {
        assert_eq!("42ms".parse::<Nanos>(), Ok(Nanos(42_000_000)));
        for tenth in 1..1000_u64 {
            let expected = Ok(Nanos(tenth * 100_000_000));
            assert_eq!(format!("{}.{}s", tenth / 10, tenth % 10).parse::<Nanos>(), expected);
        }
        assert!("0.5ns".parse::<Nanos>().is_err());
        assert_eq!("1.5s".parse::<Nanos>(), Ok(Nanos(1_500_000_000)));
        assert_eq!("1m30s".parse::<Nanos>(), Ok(Nanos(90_000_000_000)));
        assert_eq!("1h".parse::<Nanos>(), Ok(Nanos(3_600_000_000_000)));
        assert!("42".parse::<Nanos>().is_err() && "1m30".parse::<Nanos>().is_err() && "s1s".parse::<Nanos>().is_err());
        assert_eq!(Nanos(42_000_000).to_string(), "42 ms");
        assert_eq!(byte_rate(3.92 * 1024.0 * 1024.0 * 1024.0), "3.92 GiB/s");
        assert_eq!(count_rate(1_910_355.1), "1.91 M/s");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(1000).to_string(), "1000 B");
    }

    #[test]
    fn ends_of_intervals_are_rounded_outwards() {
        let check = |value: f64, digits: usize, expected: [&str; 3]| {
            assert_eq!(
                [significant_down(value, digits), significant(value, digits), significant_up(value, digits)],
                expected
            );
        };
        check(2.786, 3, ["2.78", "2.79", "2.79"]);
        check(2.784, 3, ["2.78", "2.78", "2.79"]);
        check(0.0098, 1, ["0.009", "0.01", "0.01"]);
        check(12.6, 2, ["12", "13", "13"]);
        check(-0.126, 2, ["-0.13", "-0.13", "-0.12"]);
        // Digits before the point are never lost, and a number that was meant to be round stays it.
        check(1234.4, 2, ["1234", "1234", "1235"]);
        check(0.1 + 0.2, 2, ["0.3", "0.3", "0.3"]);
        check(99.99, 2, ["99", "100", "100"]);
        check(0.0, 2, ["0", "0", "0"]);
    }

    proptest! {
        #[test]
        fn compact_sizes_round_trip(n in 0u64..(1 << 40)) {
            prop_assert_eq!(Bytes(n).compact().parse::<Bytes>(), Ok(Bytes(n)));
        }

        #[test]
        fn compact_durations_round_trip(n in 1u64..(1 << 50)) {
            prop_assert_eq!(Nanos(n).compact().parse::<Nanos>(), Ok(Nanos(n)));
        }
    }
}

#[cfg(test)]
mod forecast_tests {
    use super::*;

    #[test]
    fn a_forecast_rounds_up_to_two_digits() {
        let cases = [
            (0, "1 ms"),
            (123_400_000, "130 ms"),
            (1_200_000_000, "2 s"),
            (41_200_000_000, "42 s"),
            (99_500_000_000, "100 s"),
            (3_225_000_000_000, "3300 s"),
            (120_000_000_000, "120 s"),
        ];
        for (ns, expected) in cases {
            assert_eq!(forecast(ns).to_string(), expected);
        }
    }

    #[test]
    fn an_audit_has_its_share_of_all() {
        assert_eq!(audit_after_ns(0.1, 90), 10);
        assert_eq!(audit_after_ns(0.0, 90), 0);
    }
}
