//! Conversions between Rust values and columns: counters as integers, structures as JSON, names as text.
//!
//! Also outcomes: a tag and a reason.

use bytegauge_model::{EndCounts, EndReport, FlowReport, OptionalCount, Outcome};
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An unsigned 64-bit counter. SQLite's integers are signed, so the upper half is stored as negative numbers. No
/// counter gets that large, but none may be rejected or rounded.
#[derive(Clone, Copy)]
pub(crate) struct UnsignedColumn(pub u64);

impl ToSql for UnsignedColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(Value::Integer(self.0.cast_signed())))
    }
}

impl FromSql for UnsignedColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(|n| UnsignedColumn(n.cast_unsigned()))
    }
}

/// A structure stored as JSON text.
pub(crate) struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text =
            serde_json::to_string(&self.0).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(ToSqlOutput::Owned(Value::Text(text)))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        serde_json::from_str(text).map(Json).map_err(|error| FromSqlError::Other(error.into()))
    }
}

/// Reads a column that holds a name from one of the model's tables.
pub(crate) fn named<T>(row: &Row<'_>, index: usize, from_name: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let name = row.get_ref(index)?.as_str()?;
    from_name(name).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            index,
            Type::Text,
            format!("`{name}` is not a valid name here").into(),
        )
    })
}

// The counters that an end and each of its flows share, as one list for columns, export and detail.

/// Number of counters.
pub const COUNT: usize = NAMES.len();

/// Generates everything that depends on the list. A value that may be unknown is in the JSON column. The
/// pattern names every field, so a field that the model gains cannot be forgotten here.
macro_rules! counters {
    ($($name:ident),+ $(,)?) => {
        /// Their names, in the order of [`of_end`].
        pub const NAMES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        /// An end's counters.
        pub fn of_end(end: &EndReport) -> [u64; COUNT] {
            let EndCounts { $($name,)+ queued_ns: _ } = end.counts;
            [$($name),+]
        }

        /// An end with these counters and flows.
        pub fn end(counters: [u64; COUNT], flows: Vec<FlowReport>) -> EndReport {
            let [$($name),+] = counters;
            let counts = EndCounts { $($name,)+ queued_ns: OptionalCount::NONE };
            EndReport { counts, flows, ..EndReport::default() }
        }
    };
}

counters![
    bytes,
    calls,
    short_calls,
    window_ns,
    user_ns,
    system_ns,
    cpu_ns,
    voluntary_switches,
    involuntary_switches,
    total_bytes,
    verified_bytes,
];

/// The outcome of a row: its tag, and in the next column its reason.
pub(crate) fn outcome(row: &Row<'_>, index: usize) -> rusqlite::Result<Outcome> {
    let reason = row.get::<_, Option<String>>(index + 1)?.unwrap_or_default();
    named(row, index, |tag| stored(tag, &reason))
}

fn stored(tag: &str, reason: &str) -> Option<Outcome> {
    let with_reason: [fn(String) -> Outcome; 4] =
        [|_| Outcome::Measured, Outcome::Skipped, Outcome::Failed, Outcome::NothingMoved];
    with_reason.into_iter().map(|outcome| outcome(reason.to_owned())).find(|outcome| outcome.tag() == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tag: &str, reason: &str, expected: Option<fn(String) -> Outcome>) {
        let expected = expected.map(|outcome| outcome(reason.into()));
        assert_eq!(stored(tag, reason), expected, "{tag}: {reason}");
    }

    #[test]
    fn tags_are_read_with_any_text() {
        check("failed", "the sink died", Some(Outcome::Failed));
        check("nothing-moved", "left out", Some(Outcome::NothingMoved));
        check("measured", "", Some(|_| Outcome::Measured));
        check("lost", "", None);
    }
}
