//! Imports trials that other programs measured, so that published data can be analysed with our statistics.
//!
//! Our own JSON lines rebuild a session as it was. Tables (CSV, and the text tables of the published buffer-size benchmark) become a
//! session of status `imported`: a row is a trial, rows that agree in every condition are a group, the nth row of each of its
//! cells is its nth block. Values that are not in a table stay absent. A file is parsed whole, then written in one transaction.
#![forbid(unsafe_code)]

mod arrange;
mod csv;
mod jsonl;
mod observation;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytegauge_model::name_tables::Row;
use bytegauge_model::{Bytes, Outcome, SessionId};
use bytegauge_store::{SessionData, Store, StoreError, special};
pub use observation::units as rate_units;
use thiserror::Error;

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

/// How to import data.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The format; detected if not given.
    pub format: Option<Format>,
    /// Pairs of our name and the data's column: `("read_size", "read_buffer_bytes")`. A second part that
    /// begins with `=` is one level for every row: `("transport", "=unix")`, on the command line
    /// `--map transport==unix`.
    pub map: Vec<(String, String)>,
    /// The plan name under which the session is listed; without it, the export's own, or the file's name.
    pub name: Option<String>,
}

/// A finished import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The new session.
    pub session: SessionId,
    /// Its trials.
    pub trials: usize,
    /// Its cells.
    pub cells: usize,
    /// Values that were not imported, and how to import them.
    pub warnings: Vec<String>,
}

/// A session parsed whole, ready to be written.
struct ImportDraft {
    whole: SessionData,
    warnings: Vec<String>,
}

/// Imports a file; a table is listed under the file's name unless the options name it.
///
/// # Errors
/// As [`import`], or when the file cannot be opened.
pub fn import_file(store: &mut Store, path: &Path, options: &ImportOptions) -> Result<Imported, ImportError> {
    let open = |source| ImportError::Open { path: path.to_owned(), source };
    // Opening a named pipe would block until it has a writer.
    if let Some(kind) = special(path.metadata().map_err(open)?.file_type()) {
        return Err(ImportError::NotAFile { path: path.to_owned(), kind });
    }
    let text = read(std::fs::File::open(path).map_err(open)?)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    import_text(store, &text, options, stem)
}

/// Imports data from a reader.
///
/// # Errors
/// When the data cannot be read or parsed, or the store cannot be written. Nothing is imported then.
pub fn import(store: &mut Store, reader: impl Read, options: &ImportOptions) -> Result<Imported, ImportError> {
    import_text(store, &read(reader)?, options, None)
}

fn import_text(
    store: &mut Store,
    text: &str,
    options: &ImportOptions,
    file_name: Option<String>,
) -> Result<Imported, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_lines(text)?;
    let draft = match options.format.map_or_else(|| detected(text), Ok)? {
        Format::JsonLines => jsonl::parse(text, &options.map)?,
        Format::Csv => csv::parse(text, &options.map, file_name)?,
        Format::Text => csv::parse_published(text, &options.map, file_name)?,
    };
    check_limits(&draft)?;
    let ImportDraft { mut whole, warnings } = draft;
    if let Some(name) = &options.name {
        whole.record.plan_name.clone_from(name);
    }
    whole.record.imported = true;
    let session = store.add_whole(&whole)?;
    Ok(Imported { session, trials: whole.trials.len(), cells: whole.cells.len(), warnings })
}

/// Most bytes to import; no table of trials is larger.
pub const IMPORT_MAX: u64 = 512 << 20;

fn read(reader: impl Read) -> Result<String, ImportError> {
    let mut text = String::new();
    let len = reader.take(IMPORT_MAX + 1).read_to_string(&mut text).map_err(ImportError::Read)?;
    if len as u64 > IMPORT_MAX { Err(ImportError::TooLarge { max: Bytes(IMPORT_MAX) }) } else { Ok(text) }
}

/// The format that the data have.
fn detected(text: &str) -> Result<Format, ImportError> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or(ImportError::Empty)?;
    if first.starts_with('{') {
        Ok(Format::JsonLines)
    } else if text.lines().any(csv::is_row) {
        Ok(Format::Text)
    } else if csv::delimiter(first).is_some() {
        Ok(Format::Csv)
    } else {
        Err(ImportError::Unrecognised)
    }
}

// Why data were not imported.

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
    fn map(ours: &str, theirs: &str, reason: impl Into<String>) -> ImportError {
        ImportError::Map { ours: ours.to_owned(), theirs: theirs.to_owned(), reason: reason.into() }
    }

    /// A mapping for a format without columns.
    fn map_without_columns(ours: &str, theirs: &str, format: &str) -> ImportError {
        let reason = format!("data in the format {format} have no columns to map: leave --map out");
        ImportError::map(ours, theirs, reason)
    }
}

// The limits of every import, whatever its format: checked where data come in, before and after they are parsed.

/// Longest text of a name, value or reason, bytes: a path (PATH_MAX).
const FIELD_MAX: usize = 4096;

/// Longest line of a table, bytes. A line of an export may be longer.
const LINE_MAX: usize = 64 << 10;

/// Most columns of a table.
const COLUMNS_MAX: usize = 1_000;

/// Most options of a session: a report of more takes minutes.
const OPTIONS_MAX: usize = 5_000;

/// Most rows of a table: each takes 1 to 3 KiB of memory.
const RESULTS_MAX: usize = 300_000;

/// Longest JSON of all settings of an option, bytes.
const SETTINGS_MAX: usize = 64 << 10;

/// Refuses text with a line that is too long.
fn check_lines(text: &str) -> Result<(), ImportError> {
    let is_json = text.trim_start().starts_with('{');
    match text.lines().enumerate().find(|(_, line)| !is_json && line.len() > LINE_MAX) {
        None => Ok(()),
        Some((at, line)) => {
            let reason = format!("it has {} bytes, where {LINE_MAX} are the most", line.len());
            Err(ImportError::Line { line: at as u64 + 1, reason })
        }
    }
}

/// Refuses a session with too many options, or with longer texts than any that a report shows.
fn check_limits(draft: &ImportDraft) -> Result<(), ImportError> {
    let ImportDraft { whole: SessionData { record, groups, cells, trials, .. }, warnings } = draft;
    check_within("options", cells.len(), OPTIONS_MAX)?;
    let field = |len: usize| check_within("bytes in a field", len, FIELD_MAX);
    field(record.plan_name.len())?;
    record.notes.iter().chain(warnings).try_for_each(|text| field(text.len()))?;
    for group in groups {
        field(group.group.id.0.len())?;
        settings(&group.group.factors)?;
    }
    for row in cells {
        field(row.cell.id.0.len())?;
        field(row.outcome.as_ref().and_then(Outcome::reason).map_or(0, str::len))?;
        settings(&row.cell.factors)?;
    }
    trials.iter().try_for_each(|trial| field(trial.outcome.reason().map_or(0, str::len)))
}

/// Refuses too many options or results of a table, as soon as they are found.
fn check_table(options: usize, results: usize) -> Result<(), ImportError> {
    check_within("options", options, OPTIONS_MAX)?;
    check_within("results", results, RESULTS_MAX)
}

/// Refuses a number above a limit.
fn check_within(what: &'static str, found: usize, most: usize) -> Result<(), ImportError> {
    if found > most { Err(ImportError::TooMany { what, most }) } else { Ok(()) }
}

/// Refuses settings of an option or a test with a long name or value, or with too many of them.
fn settings(factors: &impl serde::Serialize) -> Result<(), ImportError> {
    let settings = serde_json::to_value(factors).unwrap_or_default();
    for (name, value) in settings.as_object().into_iter().flatten() {
        check_within("bytes in a field", name.len().max(value.as_str().map_or(0, str::len)), FIELD_MAX)?;
    }
    check_within("bytes of settings", settings.to_string().len(), SETTINGS_MAX)
}
