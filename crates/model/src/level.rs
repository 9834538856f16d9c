//! One level of a factor, and the syntax of lists and ranges of levels.
//!
//! `64K`, `1K,4K,64K`, `1K..2M` (doubling; the upper end is always included), `auto`. The factor gives a level its
//! meaning; here it is a name, a number, a switch, `auto` or absent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::suggest;
use crate::unit::{Bytes, Nanos, TextError, bytes_per_second, call_rate, calls_per_second, megabits};

/// The highest rate, bytes per second.
const RATE_MAX: u64 = 1 << 40;

/// The highest rate of calls, per second.
const CALL_RATE_MAX: u64 = 1_000_000_000;

/// Prefix of a name that is a command of the user's.
pub(crate) const COMMAND: &str = "cmd:";

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
    /// A name; the system's default is the name `auto`.
    Name(String),
}

impl Level {
    /// The level of the system's default.
    pub fn auto() -> Level {
        Level::Name("auto".into())
    }

    /// Whether it is the system's default.
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

    /// The value of the name, if it has one of this type.
    pub fn parsed<T: FromStr>(&self) -> Option<T> {
        self.name()?.parse().ok()
    }
}

impl From<u64> for Level {
    fn from(number: u64) -> Level {
        Level::Number(number)
    }
}

impl From<&str> for Level {
    fn from(name: &str) -> Level {
        Level::Name(name.into())
    }
}

impl From<String> for Level {
    fn from(name: String) -> Level {
        Level::Name(name)
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

/// The kind of a factor's levels: how a level is read, bounded and printed.
#[derive(Clone, Copy, Debug)]
pub enum LevelKind {
    /// Bytes, from `min` to `max`, or a word.
    Size {
        /// The smallest size.
        min: u64,
        /// The largest size.
        max: u64,
        /// The word for a size that follows from elsewhere: `auto` does not set an option.
        word: Option<&'static str>,
    },
    /// A count, from `min` to `max`; `auto` allowed where the system has a default of its own.
    Count {
        /// The smallest count.
        min: u64,
        /// The largest count.
        max: u64,
        /// Whether `auto` is a level.
        auto: bool,
    },
    /// A power of two, up to `max`.
    PowerOfTwo {
        /// The largest, itself a power of two.
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
    /// Bytes per second, or a word for no limit of its own.
    Rate {
        /// The word.
        word: &'static str,
    },
    /// Calls per second, or `max` for as fast as replies come; `k` and `M` are decimal.
    CallRate,
    /// `on`, `off`; `auto` leaves the system's default, where it has one.
    Switch {
        /// Whether `auto` is a level.
        auto: bool,
    },
    /// Any argument of a program: a size if it, or another level of the list, is written with a unit; else a word.
    Value,
    /// A name that the function accepts (and returns in its canonical form).
    Name(fn(&str) -> Result<String, TextError>),
}

impl LevelKind {
    /// Reads one level.
    ///
    /// # Errors
    /// When the text is not of this kind, or out of bounds.
    pub fn parse(&self, text: &str) -> Result<Level, TextError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(empty(text));
        }
        let auto_allowed = matches!(
            self,
            LevelKind::Size { word: Some("auto"), .. }
                | LevelKind::Count { auto: true, .. }
                | LevelKind::Duration { auto: true, .. }
                | LevelKind::Switch { auto: true }
                | LevelKind::Rate { word: "auto" }
        );
        if auto_allowed && text == "auto" {
            return Ok(Level::auto());
        }
        if let (Some(bounds), "auto") = (self.bounds(), text) {
            let [min, max] = [bounds.0, bounds.1].map(|end| self.compact(&Level::Number(end)));
            return Err(TextError(format!("there is no `auto` here: write a value from {min} to {max}")));
        }
        if auto_allowed && suggest::nearest(text, ["auto"]).is_some() {
            return Err(TextError(format!("`{text}` is not a level: write auto to keep the system's default")));
        }
        let number = match *self {
            LevelKind::Size { word: Some(word), .. } | LevelKind::Rate { word } if text == word => {
                return Ok(word.into());
            }
            LevelKind::CallRate if text == "max" => return Ok("max".into()),
            LevelKind::Size { .. } => text.parse::<Bytes>()?.0,
            LevelKind::Count { .. } => count(text, "50")?,
            LevelKind::PowerOfTwo { .. } => count(text, "256")?,
            LevelKind::Duration { .. } => text.parse::<Nanos>()?.0,
            LevelKind::Rate { word } => bytes_per_second(text, word)?,
            LevelKind::CallRate => calls_per_second(text)?,
            LevelKind::Switch { auto } => {
                return match text {
                    "on" | "true" => Ok(Level::Switch(true)),
                    "off" | "false" => Ok(Level::Switch(false)),
                    _ if auto => Err(TextError::malformed(text, "a switch: use on, off or auto")),
                    _ => Err(TextError::malformed(text, "a switch: use on or off")),
                };
            }
            LevelKind::Value => return Ok(value(text, false)),
            LevelKind::Name(accept) => return Ok(Level::Name(accept(text)?)),
        };
        let level = Level::Number(number);
        self.check(&level)?;
        let above = number.next_power_of_two();
        if matches!(self, LevelKind::PowerOfTwo { .. }) && above != number {
            let below = above / 2;
            return Err(TextError(format!(
                "{number} is not a power of two, and the kernel would make it {above}: use {below} or {above}"
            )));
        }
        Ok(level)
    }

    /// Checks that a number is within the range: one that was read, or one from another host.
    ///
    /// # Errors
    /// With the range.
    pub fn check(&self, level: &Level) -> Result<(), TextError> {
        let Level::Number(n) = *level else { return Ok(()) };
        match self.bounds() {
            Some((min, max)) if !(min..=max).contains(&n) => {
                let [given, min, max] = [n, min, max].map(|n| self.compact(&Level::Number(n)));
                Err(TextError(format!("{given} is out of range: use {min} to {max}")))
            }
            _ => Ok(()),
        }
    }

    /// The smallest and the largest number; `None` where the levels are no numbers of a range.
    fn bounds(&self) -> Option<(u64, u64)> {
        match *self {
            LevelKind::Size { min, max, .. } | LevelKind::Count { min, max, .. } => Some((min, max)),
            LevelKind::PowerOfTwo { max } => Some((1, max)),
            LevelKind::Duration { min_ns, max_ns, .. } => Some((min_ns, max_ns)),
            LevelKind::Rate { .. } => Some((1, RATE_MAX)),
            LevelKind::CallRate => Some((1, CALL_RATE_MAX)),
            LevelKind::Switch { .. } | LevelKind::Value | LevelKind::Name(_) => None,
        }
    }

    /// Reads a list or a range of levels, in the order given.
    ///
    /// # Errors
    /// If an element is not of this kind, a range is in the wrong order, or a level occurs twice.
    pub fn parse_list(&self, text: &str) -> Result<Vec<Level>, TextError> {
        let mut levels = Vec::new();
        let sizes = matches!(self, LevelKind::Value) && are_sizes(text);
        let elements = if matches!(self, LevelKind::Name(_)) { names(text) } else { text.split(',').collect() };
        for element in elements {
            let element = element.trim();
            if element.is_empty() {
                return Err(empty(text));
            }
            // A path such as `../file` holds the range's two dots.
            match element.split_once("..") {
                _ if matches!(self, LevelKind::Value) => {
                    self.dashed(element).map_or(Ok(()), Err)?;
                    levels.extend(values(element, sizes)?);
                }
                Some((low, high)) if !matches!(self, LevelKind::Name(_) | LevelKind::Switch { .. }) => {
                    levels.extend(self.range(element, low, high)?);
                }
                Some(_) if matches!(self, LevelKind::Switch { .. }) => return Err(no_range(element)),
                _ => levels.push(self.parse(element).map_err(|error| self.dashed(element).unwrap_or(error))?),
            }
        }
        for (index, level) in levels.iter().enumerate() {
            if levels[..index].contains(level) {
                return Err(TextError(format!("{} is twice in the list: write every level once", self.show(level))));
            }
        }
        Ok(levels)
    }

    /// The error for an element that was meant as a range: numbers with a dash or a colon between them.
    fn dashed(&self, element: &str) -> Option<TextError> {
        let (low, high) = element.split_once(['-', ':'])?;
        let is_level = |text: &str| matches!(self.parse(text), Ok(Level::Number(_)));
        let (low, high) = (low.trim(), high.trim());
        (is_level(low) && is_level(high))
            .then(|| TextError(format!("`{element}` is not a level: write a range as {low}..{high}")))
    }

    fn range(&self, element: &str, low: &str, high: &str) -> Result<Vec<Level>, TextError> {
        if low.trim().is_empty() || high.trim().is_empty() {
            return Err(open_range(element));
        }
        let ends = (self.parse(low)?.number(), self.parse(high)?.number());
        let (Some(low), Some(high)) = ends else { return Err(no_range(element)) };
        Ok(doubled(element, low, high)?.into_iter().map(Level::Number).collect())
    }

    /// A level as shown to users: `64 KiB`, `42 ms`, `on`.
    pub fn show(&self, level: &Level) -> String {
        match (self, level) {
            (LevelKind::Size { .. } | LevelKind::Value, Level::Number(n)) => Bytes(*n).to_string(),
            (LevelKind::CallRate, Level::Number(n)) => call_rate(*n as f64),
            (LevelKind::Duration { .. }, Level::Number(n)) => Nanos(*n).to_string(),
            (LevelKind::Rate { .. }, Level::Number(n)) => match megabits(*n) {
                Some(megabits) => format!("{megabits} Mbit/s"),
                None => format!("{}/s", Bytes(*n)),
            },
            _ => level.to_string(),
        }
    }

    /// A level as a flag or a plan takes it: `64K`, `42ms`, `on`.
    pub fn compact(&self, level: &Level) -> String {
        match (self, level) {
            (LevelKind::Rate { .. }, Level::Number(n)) => match megabits(*n) {
                Some(megabits) => format!("{megabits}Mbit"),
                None => Bytes(*n).compact(),
            },
            (LevelKind::Size { .. } | LevelKind::Value, Level::Number(n)) => Bytes(*n).compact(),
            (LevelKind::CallRate, Level::Number(n)) => compact_calls(*n),
            (LevelKind::Duration { .. }, Level::Number(n)) => Nanos(*n).compact(),
            _ => level.to_string(),
        }
    }
}

fn empty(text: &str) -> TextError {
    TextError(format!("an empty level in `{text}`: write levels with commas between them"))
}

fn no_range(element: &str) -> TextError {
    TextError(format!("{element} is a range, and this factor has names: list them with commas"))
}

fn open_range(element: &str) -> TextError {
    TextError(format!("the range {element} lacks an end: write both, such as 1K..2M"))
}

/// The elements of a list of names. A command may hold commas: it ends where the next one begins, so commands come
/// last.
fn names(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let is_command = text.trim_start().starts_with(COMMAND);
        let split = if is_command { text.split_once(",cmd:") } else { text.split_once(',') };
        found.push(split.map_or(text, |(element, _)| element));
        // The comma goes, and nothing else.
        rest = split.map(|(element, _)| &text[element.len() + 1..]);
    }
    found
}

/// Doubles from `low`; `high` is always the last.
fn doubled(element: &str, low: u64, high: u64) -> Result<Vec<u64>, TextError> {
    if low > high {
        return Err(TextError(format!("the range {element} is in the wrong order: write the smaller end first")));
    }
    let mut numbers = Vec::new();
    let mut value = low;
    while value < high {
        numbers.push(value);
        // From 0 (no walk, no think) the next step is 1.
        value = value.saturating_mul(2).max(1);
    }
    numbers.push(high);
    Ok(numbers)
}

/// Whether any value of a program is written as a size: then plain numbers in the list are bytes.
fn are_sizes(text: &str) -> bool {
    let is_size = |part: &str| is_number(part) && !part.trim().bytes().all(|byte| byte.is_ascii_digit());
    text.split(',').flat_map(|element| element.split("..")).any(is_size)
}

fn is_number(text: &str) -> bool {
    text.trim().starts_with(|c: char| c.is_ascii_digit()) && text.parse::<Bytes>().is_ok()
}

/// One value of a program. A decimal such as `1.5` is a word, although it could be read as a size.
fn value(text: &str, sizes: bool) -> Level {
    let has_unit = !text.ends_with(|c: char| c.is_ascii_digit());
    match text.parse() {
        Ok(Bytes(bytes)) if is_number(text) && (has_unit || sizes) => Level::Number(bytes),
        _ => Level::Name(text.to_owned()),
    }
}

/// An element of a list of a program's values: one of them, or a range of sizes or of numbers.
fn values(element: &str, sizes: bool) -> Result<Vec<Level>, TextError> {
    match element.split_once("..") {
        Some((low, high)) if is_number(low) && is_number(high) => {
            let (Bytes(low), Bytes(high)) = (low.parse()?, high.parse()?);
            let level = |number: u64| if sizes { Level::Number(number) } else { Level::Name(number.to_string()) };
            Ok(doubled(element, low, high)?.into_iter().map(level).collect())
        }
        Some((low, high)) if is_number(low) && high.is_empty() => Err(open_range(element)),
        _ => Ok(vec![value(element, sizes)]),
    }
}

/// Calls per second as a flag takes them.
fn compact_calls(n: u64) -> String {
    match n {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A count. Counts take no units: the binary thousands of `1K` are never meant for flows.
fn count(text: &str, example: &'static str) -> Result<u64, TextError> {
    text.parse().map_err(|_| match text.starts_with('-') {
        true => TextError::negative(text),
        false => TextError::no_number(text, example),
    })
}

#[cfg(test)]
mod tests;
