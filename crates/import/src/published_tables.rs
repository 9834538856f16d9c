//! Reads the text tables that the published buffer-size benchmark prints, in the document around them:
//!
//! ```text
//! ## Unix sockets
//! buf_size=4096; duration=1.7s; num_syscalls=3286452; 7444.7 MiB/s; 1910355.1 syscalls/s; short_reads=21315
//! ```
//!
//! The heading above a table names the transport. A heading with more words ("TCP Remote") becomes the
//! condition `machine` of its rows, so that they are never compared with local ones.

use bytegauge_model::Level;

use super::arrange::arrange;
use super::csv::Mapping;
use super::observation::{self, Fields, Shelf};
use super::{Format, ImportDraft, ImportError, limits, target};

/// Whether a line is a row of such a table.
pub(super) fn is_row(line: &str) -> bool {
    line.trim_start().starts_with("buf_size=")
}

/// Parses all tables of a document.
pub(super) fn parse(text: &str, map: &[(String, String)], name: Option<String>) -> Result<ImportDraft, ImportError> {
    let mapping = Mapping::new(map)?;
    if let Some(pair) = mapping.columns.first() {
        return Err(ImportError::map_without_columns(pair.ours, pair.theirs, Format::Text));
    }
    let constants = mapping.constants()?;
    let names_transport = mapping.levels.iter().any(|pair| pair.target.key() == "transport");
    let mut heading = None;
    let (mut rows, mut shelf) = (Vec::new(), Shelf::default());
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') {
            heading = Some(line.trim_start_matches('#').trim());
        } else if is_row(line) {
            let at_line = |reason| ImportError::Line { line: number, reason };
            let mut fields = constants.clone();
            if !names_transport {
                let (name, text) = transport(heading).map_err(at_line)?;
                fields.set(name, text).map_err(at_line)?;
            }
            read(line, &mut fields).map_err(at_line)?;
            rows.push(fields.finish(number, &mut shelf).map_err(at_line)?);
            limits::options(shelf.cells.len())?;
            limits::results(rows.len())?;
        }
    }
    let machine_note = "times, seed and machine are not known: the tables have none";
    let mut draft = arrange(rows, shelf, name, Vec::new())?;
    draft.whole.record.notes.push(machine_note.into());
    Ok(draft)
}

/// The heading as a level of the transport.
fn transport(heading: Option<&str>) -> Result<(target::ColumnTarget, &str), String> {
    const ADVICE: &str = "give all rows one with --map transport==unix (or tcp, /dev/zero, …)";
    let heading = heading.ok_or_else(|| format!("no heading above it names its transport; {ADVICE}"))?;
    if observation::transport(heading).is_none() {
        return Err(format!("the heading above it, `{heading}`, names no transport; {ADVICE}"));
    }
    Ok((target::ours("transport")?, heading))
}

/// Reads one row. The benchmark reads in a plain loop and discards the bytes.
fn read(line: &str, fields: &mut Fields) -> Result<(), String> {
    for part in line.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = match part.split_once('=') {
            // `short_reads=21315 (0.6%)`: the share follows from the rest.
            Some((name, value)) => (name, value.split_whitespace().next().unwrap_or_default()),
            None => match part.split_once(' ') {
                Some((value, "syscalls/s")) => {
                    // Calls / duration, both of which are given.
                    value.parse::<f64>().map_err(|_| format!("`{part}` is no rate"))?;
                    continue;
                }
                Some((value, unit)) => (unit, value),
                None => return Err(format!("`{part}` is neither name=value nor a number with a unit")),
            },
        };
        // A duration has a unit here, unlike in the column of a table.
        let name = if name == "duration" { "duration_sec" } else { name };
        let target = target::recognise(name).ok_or_else(|| format!("`{part}` is not a known name"))?;
        fields.set(target, value).map_err(|reason| format!("{part}: {reason}"))?;
    }
    fields.fill("flows", Level::Number(1));
    for (name, level) in [("engine", "blocking"), ("work", "none"), ("writer_work", "none"), ("profile", "drain")] {
        fields.fill(name, Level::Name(level.into()));
    }
    fields.fill("working_set", Level::Number(0));
    Ok(())
}
