//! Conversions between Rust values and columns: counters as integers, structures as JSON, names as text.

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
    from_name(name).ok_or_else(|| unknown(index, name))
}

/// The error for a name that is in none of the tables.
pub(crate) fn unknown(index: usize, name: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, format!("`{name}` is not a valid name here").into())
}
