//! Why data were not imported.

use std::io;
use std::path::PathBuf;

use bytegauge_model::Bytes;
use bytegauge_store::StoreError;
use thiserror::Error;

use super::Format;

/// Why data were not imported. The store is unchanged then.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}: check the path and its permissions")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("{path} is {kind}, not a file: pipe its data in with `bytegauge report import - <{path}`")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of file.
        kind: &'static str,
    },
    /// The data exceed the memory limit.
    #[error("the data are larger than {max}: split them, or leave out columns that are not imported")]
    TooLarge {
        /// The limit.
        max: Bytes,
    },
    /// More of something than a report can show.
    #[error("the data have more than {most} {what}: split them, or leave some out")]
    TooMany {
        /// The kind of thing.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// Reading failed, or the data are not UTF-8.
    #[error("cannot read the data: {0}: they must be UTF-8 text (bytegauge report import --help lists the formats)")]
    Read(#[from] io::Error),
    /// No format fits.
    #[error(
        "the data are in no format that is recognised (bytegauge report import --help lists them): convert them to CSV, or name \
         the format with --from"
    )]
    Unrecognised,
    /// The data hold no trial.
    #[error("there is no trial in the data: nothing was imported; check that the file is whole")]
    Empty,
    /// An export of a later version.
    #[error(
        "the data were exported by a newer bytegauge (line version {found}; this version supports {known}): upgrade bytegauge"
    )]
    Newer {
        /// The version found.
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// A line that cannot be parsed.
    // Lines may be long; the message is cut.
    #[error("line {line}: {reason:.500}: fix the line or remove it; nothing was imported")]
    Line {
        /// The line number, from 1.
        line: u64,
        /// The reason.
        reason: String,
    },
    /// A table that bytegauge exported: `import` reads its JSON lines.
    #[error("the table is an export of bytegauge: import the JSON lines that `bytegauge report export` writes")]
    OwnTable,
    /// A required column is missing.
    #[error(
        "no column for {what}; the columns are {found:.500}: name it with --map {name}=COLUMN, \
         or give every row one value with --map {name}==VALUE"
    )]
    MissingColumn {
        /// The missing value.
        what: &'static str,
        /// A column name that would provide it.
        name: &'static str,
        /// The existing columns.
        found: String,
    },
    /// A mapping that cannot be used.
    #[error("--map {ours}={theirs}: {reason}")]
    Map {
        /// The name in bytegauge.
        ours: String,
        /// The column in the data, or `=` and a level.
        theirs: String,
        /// The reason.
        reason: String,
    },
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ImportError {
    /// A mapping that cannot be used.
    pub(super) fn map(ours: &str, theirs: &str, reason: impl Into<String>) -> ImportError {
        ImportError::Map { ours: ours.to_owned(), theirs: theirs.to_owned(), reason: reason.into() }
    }

    /// A mapping for a format without columns.
    pub(super) fn map_without_columns(ours: &str, theirs: &str, format: Format) -> ImportError {
        let reason = format!("data in the format {format} have no columns to map: leave --map out");
        ImportError::map(ours, theirs, reason)
    }
}
