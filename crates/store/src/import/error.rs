//! Why data were not imported.

use std::io;
use std::path::PathBuf;

use bytegauge_model::Bytes;
use thiserror::Error;

use super::format::Format;

/// Why data were not imported. Nothing of them is in the store then.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}: check the path and its permissions")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What holds no data by itself.
    #[error("{path} is {kind}, not a file: pipe its data in with `bytegauge import - <{path}`")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// More than is read into memory.
    #[error("the data are larger than {max}: split them, or leave out columns that are not imported")]
    TooLarge {
        /// The most that is read.
        max: Bytes,
    },
    /// Reading failed, or the data are no text.
    #[error("cannot read the data: {0}: they must be UTF-8 text (csv, jsonl or text tables)")]
    Read(#[from] io::Error),
    /// No format fits.
    #[error(
        "the data are neither our JSON lines, nor a table with a header line, nor lines of buf_size=…; duration=…: \
         convert them to CSV, or name the format with --format csv, jsonl or text"
    )]
    Unrecognised,
    /// Not one of [`FORMATS`](super::FORMATS).
    #[error("no import format is called `{name}`{hint}")]
    UnknownFormat {
        /// The text given.
        name: String,
        /// The likely intention, or the names that exist.
        hint: String,
    },
    /// The data hold no trial.
    #[error("there is no trial in the data: nothing was imported; check that the file is whole")]
    Empty,
    /// An export of a later version.
    #[error(
        "the data were exported by a newer bytegauge (lines of version {found}, this one knows {known}): upgrade bytegauge"
    )]
    Newer {
        /// The version found.
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// A line that cannot be understood.
    // Lines of others may be long; what is wrong with them need not be.
    #[error("line {line}: {reason:.500}: mend the line or take it out; nothing was imported")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A table without a column that every trial needs.
    #[error(
        "no column for {what}; the columns are {found:.500}: name it with --map {name}=COLUMN, \
         or give every row one value with --map {name}==VALUE"
    )]
    MissingColumn {
        /// What is missing, in words.
        what: &'static str,
        /// A name of ours that would bring it.
        name: &'static str,
        /// The columns that are there.
        found: String,
    },
    /// The left side of a mapping.
    #[error("--map {ours}={theirs}: nothing is called `{ours}`{hint}")]
    MapUnknown {
        /// Our side.
        ours: String,
        /// Their side.
        theirs: String,
        /// The likely intention, or the names that exist.
        hint: String,
    },
    /// The right side of a mapping.
    #[error(
        "--map {ours}={theirs}: there is no such column; the columns are {found:.500} (for one level in every row write --map {ours}=={theirs})"
    )]
    MapNoColumn {
        /// Our side.
        ours: String,
        /// Their side.
        theirs: String,
        /// The columns that are there.
        found: String,
    },
    /// Two sources for one thing.
    #[error("--map {ours}={theirs}: {ours} is mapped twice: leave one of the two out")]
    MapTwice {
        /// Our side.
        ours: String,
        /// Their side.
        theirs: String,
    },
    /// A mapping for data that have no columns.
    #[error("--map {ours}={theirs}: data in the format {format} have no columns to map: leave --map out")]
    MapUseless {
        /// Our side.
        ours: String,
        /// Their side.
        theirs: String,
        /// The format.
        format: Format,
    },
    /// A level of a mapping that does not parse.
    #[error("--map {ours}={theirs}: {reason}")]
    MapLevel {
        /// Our side.
        ours: String,
        /// Their side.
        theirs: String,
        /// What is wrong.
        reason: String,
    },
}
