//! One level of a factor, and the syntax of lists and ranges of levels.
//!
//! `64K`, `1K,4K,64K`, `1K..2M` (doubling; the upper end is always included), `auto`. What a level means
//! is the factor's business; here it is a name, a number, a switch, `auto` or absent.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalog::NameError;
use crate::unit::{Bytes, Nanos, UnitError};

/// One level of one factor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The factor does not exist here (no write size for a device): `null`.
    Absent,
    /// A switch.
    Switch(bool),
    /// A number in base units: bytes, nanoseconds, bytes per second, or a count.
    Number(u64),
    /// A name; the option that the system chooses is the name `auto`.
    Name(String),
}

impl Level {
    /// The level that leaves the choice to the system.
    pub fn auto() -> Level {
        Level::Name("auto".into())
    }

    /// Whether the choice is left to the system.
    pub fn is_auto(&self) -> bool {
        matches!(self, Level::Name(name) if name == "auto")
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Level::Number(n) => Some(*n),
            _ => None,
        }
    }

    /// The name, if it is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Level::Name(name) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Absent => f.pad("–"),
            Level::Switch(true) => f.pad("on"),
            Level::Switch(false) => f.pad("off"),
            Level::Number(n) => f.pad(&n.to_string()),
            Level::Name(name) => f.pad(name),
        }
    }
}

/// What kind of levels a factor has: how a level is read, bounded and printed.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Bytes, from `min` to `max`; `auto` allowed where the system has a default of its own.
    Size {
        /// The smallest size.
        min: u64,
        /// The largest size.
        max: u64,
        /// Whether `auto` (do not set the option) is a level.
        auto: bool,
    },
    /// A count, from `min` to `max`.
    Count {
        /// The smallest count.
        min: u64,
        /// The largest count.
        max: u64,
    },
    /// A duration; with `auto` where the design chooses.
    Duration {
        /// The shortest, in nanoseconds.
        min_ns: u64,
        /// The longest, in nanoseconds.
        max_ns: u64,
        /// Whether `auto` is a level.
        auto: bool,
    },
    /// Bytes per second, or `max` for as fast as it goes.
    Rate,
    /// `on`, `off`; `auto` leaves the system's default.
    Switch,
    /// A name that the function accepts (and returns in its canonical form).
    Name(fn(&str) -> Result<String, NameError>),
}

/// Why a text is not a level, or a list of levels.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LevelError {
    /// Not a size or duration.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// Not a name of the table.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Outside what the factor allows.
    #[error("{given} is out of range: use {min} to {max}")]
    OutOfRange {
        /// The value given.
        given: String,
        /// The smallest allowed.
        min: String,
        /// The largest allowed.
        max: String,
    },
    /// `64K..1K`.
    #[error("the range {0} is upside down: write the smaller end first")]
    UpsideDown(String),
    /// A range over names or switches.
    #[error("{0} is a range, but this factor has names: list them with commas")]
    NoRange(String),
    /// Neither `on` nor `off`.
    #[error("`{0}` is not a switch: use on, off or auto")]
    NotSwitch(String),
    /// A range without one of its ends.
    #[error("the range {0} lacks an end: write both, such as 1K..2M")]
    OpenRange(String),
    /// An empty element or nothing at all.
    #[error("an empty level in `{0}`: write levels with commas between them")]
    Empty(String),
    /// The same level twice.
    #[error("{0} stands twice in the list: every level once, please")]
    Twice(String),
}

impl Kind {
    /// Reads one level.
    ///
    /// # Errors
    /// When the text is not of this kind, or out of bounds.
    pub fn parse(&self, text: &str) -> Result<Level, LevelError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(LevelError::Empty(text.into()));
        }
        let auto_allowed =
            matches!(self, Kind::Size { auto: true, .. } | Kind::Duration { auto: true, .. } | Kind::Switch);
        if auto_allowed && text == "auto" {
            return Ok(Level::auto());
        }
        match *self {
            Kind::Size { min, max, .. } => {
                let Bytes(n) = text.parse()?;
                bounded(n, min, max, |n| Bytes(n).compact())
            }
            Kind::Count { min, max } => {
                // Counts take no units except the binary thousands of `1K`, which nobody means for flows.
                let n = text.parse::<u64>().map_err(|_| match text.parse::<Bytes>() {
                    Err(error @ UnitError::Negative(_)) => error,
                    _ => UnitError::NotANumber(text.into(), "50"),
                })?;
                bounded(n, min, max, |n| n.to_string())
            }
            Kind::Duration { min_ns, max_ns, .. } => {
                let Nanos(n) = text.parse()?;
                bounded(n, min_ns, max_ns, |n| Nanos(n).compact())
            }
            Kind::Rate if text == "max" => Ok(Level::Name("max".into())),
            Kind::Rate => {
                let Bytes(n) = text.strip_suffix("/s").unwrap_or(text).parse()?;
                bounded(n, 1, 1 << 40, |n| format!("{}/s", Bytes(n).compact()))
            }
            Kind::Switch => match text {
                "on" | "true" => Ok(Level::Switch(true)),
                "off" | "false" => Ok(Level::Switch(false)),
                _ => Err(LevelError::NotSwitch(text.into())),
            },
            Kind::Name(accept) => Ok(Level::Name(accept(text)?)),
        }
    }

    /// Reads a list or a range of levels, in the order given.
    ///
    /// # Errors
    /// When an element is not of this kind, a range is upside down, or a level stands twice.
    pub fn parse_list(&self, text: &str) -> Result<Vec<Level>, LevelError> {
        let mut levels = Vec::new();
        for element in text.split(',') {
            let element = element.trim();
            if element.is_empty() {
                return Err(LevelError::Empty(text.into()));
            }
            // A path such as `../file` holds the range's two dots.
            match element.split_once("..") {
                Some((low, high)) if !matches!(self, Kind::Name(_) | Kind::Switch) => {
                    levels.extend(self.range(element, low, high)?);
                }
                Some(_) if matches!(self, Kind::Switch) => return Err(LevelError::NoRange(element.into())),
                _ => levels.push(self.parse(element)?),
            }
        }
        for (index, level) in levels.iter().enumerate() {
            if levels[..index].contains(level) {
                return Err(LevelError::Twice(self.show(level)));
            }
        }
        Ok(levels)
    }

    /// Doubles from `low`; `high` is always the last level.
    fn range(&self, element: &str, low: &str, high: &str) -> Result<Vec<Level>, LevelError> {
        if low.trim().is_empty() || high.trim().is_empty() {
            return Err(LevelError::OpenRange(element.into()));
        }
        let ends = (self.parse(low)?.number(), self.parse(high)?.number());
        let (Some(low), Some(high)) = ends else { return Err(LevelError::NoRange(element.into())) };
        if low > high {
            return Err(LevelError::UpsideDown(element.into()));
        }
        let mut levels = Vec::new();
        let mut value = low;
        while value < high {
            levels.push(Level::Number(value));
            // From 0 (no walk, no think) the next step is 1.
            value = (value * 2).max(1);
        }
        levels.push(Level::Number(high));
        Ok(levels)
    }

    /// A level as a person reads it: `64 KiB`, `42 ms`, `on`.
    pub fn show(&self, level: &Level) -> String {
        match (self, level) {
            (Kind::Size { .. }, Level::Number(n)) => Bytes(*n).to_string(),
            (Kind::Duration { .. }, Level::Number(n)) => Nanos(*n).to_string(),
            (Kind::Rate, Level::Number(n)) => format!("{}/s", Bytes(*n)),
            _ => level.to_string(),
        }
    }

    /// A level as a flag or a plan takes it: `64K`, `42ms`, `on`.
    pub fn compact(&self, level: &Level) -> String {
        match (self, level) {
            (Kind::Size { .. } | Kind::Rate, Level::Number(n)) => Bytes(*n).compact(),
            (Kind::Duration { .. }, Level::Number(n)) => Nanos(*n).compact(),
            _ => level.to_string(),
        }
    }
}

fn bounded(n: u64, min: u64, max: u64, show: impl Fn(u64) -> String) -> Result<Level, LevelError> {
    if (min..=max).contains(&n) {
        Ok(Level::Number(n))
    } else {
        Err(LevelError::OutOfRange { given: show(n), min: show(min), max: show(max) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: Kind = Kind::Size { min: 1, max: 16 << 20, auto: true };

    fn check(kind: Kind, text: &str, expected: &str) {
        let got = match kind.parse_list(text) {
            Ok(levels) => levels.iter().map(|l| kind.compact(l)).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn lists_and_ranges() {
        check(SIZE, "1K..8K", "1K 2K 4K 8K");
        check(SIZE, "1000..5000", "1000 2000 4000 5000");
        check(SIZE, "64K", "64K");
        check(SIZE, "64K..64K", "64K");
        check(SIZE, "auto,4K..8K", "auto 4K 8K");
        check(SIZE, "8K..4K", "the range 8K..4K is upside down: write the smaller end first");
        check(SIZE, "4K..", "the range 4K.. lacks an end: write both, such as 1K..2M");
        check(SIZE, "0", "0 is out of range: use 1 to 16M");
        check(SIZE, "32M", "32M is out of range: use 1 to 16M");
        check(SIZE, "4K,,8K", "an empty level in `4K,,8K`: write levels with commas between them");
        check(SIZE, "4K,4096", "4 KiB stands twice in the list: every level once, please");
        check(Kind::Count { min: 1, max: 5000 }, "1,50,150", "1 50 150");
        check(Kind::Count { min: 1, max: 5000 }, "-2", "`-2` is negative: sizes, counts and durations start at 0");
        check(Kind::Switch, "on,off,auto", "on off auto");
        check(Kind::Rate, "max,100M", "max 100M");
    }

    proptest! {
        #[test]
        fn a_range_doubles_and_keeps_its_ends(low in 1u64..(1 << 20), span in 0u64..(1 << 23)) {
            let high = (low + span).min(16 << 20);
            let levels = SIZE.parse_list(&format!("{low}..{high}")).unwrap();
            prop_assert_eq!(levels.first(), Some(&Level::Number(low)));
            prop_assert_eq!(levels.last(), Some(&Level::Number(high)));
            for pair in levels.windows(2) {
                let (a, b) = (pair[0].number().unwrap(), pair[1].number().unwrap());
                prop_assert!(b > a && b <= 2 * a);
            }
        }
    }
}
