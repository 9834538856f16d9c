//! The import formats.

use std::fmt;
use std::str::FromStr;

use bytegauge_model::catalog::Row;
use bytegauge_model::suggest;

use super::error::ImportError;

/// The format of data to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An export of bytegauge.
    JsonLines,
    /// A table with a header line.
    Csv,
    /// Lines such as `buf_size=4096; duration=2.1s; num_syscalls=226948; 420.6 MiB/s; short_reads=0`.
    Text,
}

/// The formats that can be imported.
pub const FORMATS: &[Row<Format>] = &[
    Row {
        value: Format::JsonLines,
        name: "jsonl",
        summary: "JSON lines as `bytegauge report export --format jsonl` writes",
    },
    Row { value: Format::Csv, name: "csv", summary: "a table of trials with a header line" },
    Row {
        value: Format::Text, name: "text", summary: "lines of buf_size=…; duration=…; num_syscalls=…; … MiB/s"
    },
];

impl FromStr for Format {
    type Err = ImportError;

    fn from_str(name: &str) -> Result<Self, ImportError> {
        FORMATS.iter().find(|row| row.name == name).map(|row| row.value).ok_or_else(|| ImportError::UnknownFormat {
            name: name.into(),
            hint: suggest::hint(name, FORMATS.iter().map(|row| row.name)),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(FORMATS.iter().find(|row| row.value == *self).map_or("?", |row| row.name))
    }
}
