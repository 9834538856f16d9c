//! A cell's levels as what they mean.

use bytegauge_model::Levels;

use crate::fault::Fault;

/// Parses a named level; absent ones, and what leaves it to somebody else, are `None`.
pub(crate) fn parsed<T: std::str::FromStr>(levels: &Levels, name: &str) -> Result<Option<T>, Fault>
where
    T::Err: std::fmt::Display,
{
    match levels.get(name).name() {
        None | Some("auto" | "max" | "same") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error| Fault::Impossible(format!("{name}: {error}"))),
    }
}

/// A number that every cell of the workload has.
pub(crate) fn required(levels: &Levels, name: &str) -> Result<u64, Fault> {
    levels.get(name).number().ok_or_else(|| Fault::Impossible(format!("a cell without {name}")))
}
