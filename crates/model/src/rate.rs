//! Rates as a flag takes them: bytes, bits or calls per second.

use crate::level::LevelError;
use crate::unit::{Bytes, UnitError};

/// Units of bits per second, decimal, with their bytes per second.
const BIT_RATES: [(&str, u64); 3] = [("gbit", 125_000_000), ("mbit", 125_000), ("kbit", 125)];

/// `100M`, a binary size for each second, or `100Mbit`, decimal bits; each with `/s` or without.
pub(crate) fn bytes_per_second(text: &str, word: &'static str) -> Result<u64, LevelError> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let lower = number.to_ascii_lowercase();
    let bits = BIT_RATES.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?.trim().to_owned(), *bytes)));
    let Some((digits, bytes)) = bits else {
        let Bytes(bytes) = number.parse()?;
        return Ok(bytes);
    };
    let plain =
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rate = digits.parse::<f64>().ok().filter(|_| plain).map(|number| number * bytes as f64);
    let whole = rate.filter(|rate| rate.fract() == 0.0 && *rate < 1e15).map(|rate| rate as u64);
    whole.ok_or_else(|| LevelError::NotRate(text.into(), word))
}

/// `20k`, `1.5M`, `20000`, each with `/s` or without.
pub(crate) fn calls_per_second(text: &str) -> Result<u64, LevelError> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let (digits, unit) = match number.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => number.strip_suffix('M').map_or((number, 1.0), |digits| (digits, 1e6)),
    };
    if digits.trim_start().starts_with('-') {
        return Err(UnitError::Negative(text.into()).into());
    }
    // Only plain decimal numbers: `1e9`, `inf` and `nan` are floats to the parser, but no rates.
    let plain =
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let calls = digits.parse::<f64>().ok().filter(|_| plain).map(|calls| calls * unit);
    let whole = calls.filter(|calls| calls.fract() == 0.0 && *calls < 1e15);
    whole.map(|calls| calls as u64).ok_or_else(|| LevelError::NotCallRate(text.into()))
}
