//! Imports trials that other programs measured, so that published data can be analysed with our statistics.
//!
//! Our own JSON lines rebuild a session as it was. Tables (CSV, and the text tables of the published buffer-size benchmark) become a
//! session of status `imported`: a row is a trial, rows that agree in every condition are a group, the nth row of each of its
//! cells is its nth block. Values that are not in a table stay absent. A file is parsed whole, then written in one transaction.
#![forbid(unsafe_code)]

mod arrange;
mod csv;
mod error;
mod jsonl;
mod limits;
mod mapping;
mod number;
mod observation;
mod published_tables;
mod target;

use std::io::Read;
use std::path::Path;

use bytegauge_model::catalog::Row;
use bytegauge_model::{Bytes, SessionId};
use bytegauge_store::default_path::special;
use bytegauge_store::{SessionData, Store};

pub use error::ImportError;
pub use number::units as rate_units;

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

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(FORMATS.iter().find(|row| row.value == *self).map_or("?", |row| row.name))
    }
}

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
    limits::check_lines(text)?;
    let draft = match options.format.map_or_else(|| detected(text), Ok)? {
        Format::JsonLines => jsonl::parse(text, &options.map)?,
        Format::Csv => csv::parse(text, &options.map, file_name)?,
        Format::Text => published_tables::parse(text, &options.map, file_name)?,
    };
    limits::check(&draft)?;
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
    } else if text.lines().any(published_tables::is_row) {
        Ok(Format::Text)
    } else if csv::delimiter(first).is_some() {
        Ok(Format::Csv)
    } else {
        Err(ImportError::Unrecognised)
    }
}
