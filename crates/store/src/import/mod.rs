//! Brings in trials that were measured elsewhere, so that published data go through our statistics.
//!
//! Our own JSON lines rebuild a session as it was. Tables (any CSV, and the text tables that the published
//! buffer-size benchmark prints) become a session of status `imported`: a row is a trial, rows that agree in
//! every condition are a group, the nth row of each of its cells is its nth block. What a table does not
//! say stays absent. A file is parsed whole before anything is written, and written in one transaction.

mod arrange;
mod csv;
mod jsonl;
mod mapping;
mod observation;
mod serial;
mod target;
mod text;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bytegauge_model::catalog::Row;
use bytegauge_model::{BlockRecord, Bytes, SessionId, SessionRecord, Trial, suggest};
use thiserror::Error;

use crate::cell::{CellRow, GroupRow};
use crate::error::StoreError;
use crate::path::special;
use crate::{Store, block, cell, session, trial};

/// How the data to import are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An export of ours.
    JsonLines,
    /// A table with a header line.
    Csv,
    /// Lines such as `buf_size=4096; duration=2.1s; num_syscalls=226948; 420.6 MiB/s; short_reads=0`.
    Text,
}

/// The formats that can be imported.
pub const FORMATS: &[Row<Format>] = &[
    Row { value: Format::JsonLines, name: "jsonl", summary: "JSON lines as `bytegauge export --format jsonl` writes" },
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

/// What the user says about the data.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The format; found out from the data if not given.
    pub format: Option<Format>,
    /// Pairs of our name and the data's column: `("read_size", "read_buffer_bytes")`. A second part that
    /// begins with `=` is one level for every row: `("transport", "=unix")`, on the command line
    /// `--map transport==unix`.
    pub map: Vec<(String, String)>,
    /// The plan name under which the session is listed; without it, the export's own, or the file's name.
    pub name: Option<String>,
}

/// What was brought in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The new session.
    pub session: SessionId,
    /// Its trials.
    pub trials: usize,
    /// Its cells.
    pub cells: usize,
    /// What was left out, and how to bring it in.
    pub warnings: Vec<String>,
}

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
    /// Not one of [`FORMATS`].
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

/// A session parsed whole, ready to be written.
struct Draft {
    session: SessionRecord,
    groups: Vec<GroupRow>,
    cells: Vec<CellRow>,
    blocks: Vec<BlockRecord>,
    trials: Vec<Trial>,
    warnings: Vec<String>,
}

impl Store {
    /// Imports a file; a table is listed under the file's name unless the options say otherwise.
    ///
    /// # Errors
    /// As [`Store::import`], or when the file cannot be opened.
    pub fn import_file(&mut self, path: &Path, options: &ImportOptions) -> Result<Imported, StoreError> {
        let open = |source| ImportError::Open { path: path.to_owned(), source };
        // Opening a named pipe would wait for its writer without a word.
        if let Some(kind) = special(path.metadata().map_err(open)?.file_type()) {
            return Err(ImportError::NotAFile { path: path.to_owned(), kind }.into());
        }
        let text = read(std::fs::File::open(path).map_err(open)?)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.import_text(&text, options, stem)
    }

    /// Imports data from a reader.
    ///
    /// # Errors
    /// When the data cannot be read or understood, or the store not be written. Nothing is kept then.
    pub fn import(&mut self, reader: impl Read, options: &ImportOptions) -> Result<Imported, StoreError> {
        self.import_text(&read(reader)?, options, None)
    }

    fn import_text(
        &mut self,
        text: &str,
        options: &ImportOptions,
        file_name: Option<String>,
    ) -> Result<Imported, StoreError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut draft = match options.format.map_or_else(|| sniff(text), Ok)? {
            Format::JsonLines => jsonl::parse(text, &options.map)?,
            Format::Csv => csv::parse(text, &options.map, file_name)?,
            Format::Text => text::parse(text, &options.map, file_name)?,
        };
        if let Some(name) = &options.name {
            draft.session.plan_name.clone_from(name);
        }
        let session = self.write(|connection| write(connection, &draft))?;
        Ok(Imported { session, trials: draft.trials.len(), cells: draft.cells.len(), warnings: draft.warnings })
    }
}

/// More than this is no table of trials, bytes.
const DATA_MAX: u64 = 512 << 20;

fn read(reader: impl Read) -> Result<String, ImportError> {
    let mut text = String::new();
    let len = reader.take(DATA_MAX + 1).read_to_string(&mut text).map_err(ImportError::Read)?;
    if len as u64 > DATA_MAX { Err(ImportError::TooLarge { max: Bytes(DATA_MAX) }) } else { Ok(text) }
}

fn sniff(text: &str) -> Result<Format, ImportError> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or(ImportError::Empty)?;
    if first.starts_with('{') {
        Ok(Format::JsonLines)
    } else if text.lines().any(text::is_row) {
        Ok(Format::Text)
    } else if csv::delimiter(first).is_some() {
        Ok(Format::Csv)
    } else {
        Err(ImportError::Unrecognised)
    }
}

fn write(connection: &rusqlite::Connection, draft: &Draft) -> Result<SessionId, StoreError> {
    let id = session::insert(connection, &draft.session, true)?;
    for GroupRow { group, facts } in &draft.groups {
        cell::upsert_group(connection, id, group)?;
        for (name, value) in facts {
            cell::upsert_fact(connection, id, &group.id, name, value)?;
        }
    }
    for row in &draft.cells {
        cell::upsert_cell(connection, id, &row.cell)?;
        if let Some(outcome) = &row.outcome {
            cell::write_outcome(connection, id, &row.cell.id, outcome)?;
        }
    }
    for record in &draft.blocks {
        block::upsert(connection, id, record)?;
    }
    for trial in &draft.trials {
        trial::insert(connection, id, trial)?;
    }
    Ok(id)
}
