//! Reads tables with a header line. `--map` or its heading gives the meaning of a column.
//!
//! Also the parser of published tables without a header line.

use bytegauge_model::Level;

use super::arrange::arrange;
use super::observation::{self, ColumnTarget, Fields, Shelf};
use super::{COLUMNS_MAX, ImportDraft, ImportError};

/// The separator of a header line, if it has one.
pub(super) fn delimiter(header: &str) -> Option<u8> {
    let count = |delimiter: u8| header.bytes().filter(|byte| *byte == delimiter).count();
    [b',', b';', b'\t'].into_iter().filter(|delimiter| count(*delimiter) > 0).max_by_key(|delimiter| count(*delimiter))
}

/// Parses a table.
pub(super) fn parse(text: &str, map: &[(String, String)], name: Option<String>) -> Result<ImportDraft, ImportError> {
    let first = text.lines().find(|line| !line.trim().is_empty()).ok_or(ImportError::Empty)?;
    let mut reader = ::csv::ReaderBuilder::new()
        .delimiter(delimiter(first).unwrap_or(b','))
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().map_err(|e| wrong(&e))?.iter().map(str::to_owned).collect();
    super::check_within("columns", header.len(), COLUMNS_MAX)?;
    let columns = Columns::new(&header, map)?;
    let (mut rows, mut shelf) = (Vec::new(), Shelf::default());
    for record in reader.records() {
        let record = record.map_err(|e| wrong(&e))?;
        let line = record.position().map_or(0, ::csv::Position::line);
        let at_line = |reason| ImportError::Line { line, reason };
        let mut fields = columns.constants.clone();
        for (index, target) in &columns.targets {
            let text = record.get(*index).unwrap_or_default();
            fields.set(*target, text).map_err(|reason| at_line(format!("column {}: {reason}", header[*index])))?;
        }
        rows.push(fields.finish(line, &mut shelf).map_err(at_line)?);
        super::check_table(shelf.cells.len(), rows.len())?;
    }
    arrange(rows, shelf, name, columns.warnings)
}

fn wrong(error: &::csv::Error) -> ImportError {
    let line = error.position().map_or(1, ::csv::Position::line);
    let reason = match error.kind() {
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} fields where the header has {expected_len}")
        }
        _ => error.to_string(),
    };
    ImportError::Line { line, reason }
}

/// The meaning of the columns.
struct Columns {
    /// Column index and target.
    targets: Vec<(usize, ColumnTarget)>,
    /// Values that are equal in all rows.
    constants: Fields,
    warnings: Vec<String>,
}

impl Columns {
    fn new(header: &[String], map: &[(String, String)]) -> Result<Columns, ImportError> {
        let found = || header.join(", ");
        // Its floor and its A/A controls would be options.
        if ["twin_of", "block_complete"].iter().all(|ours| header.iter().any(|name| name == ours)) {
            return Err(ImportError::OwnTable);
        }
        let mapping = Mapping::new(map)?;
        let mut targets: Vec<(usize, ColumnTarget)> = Vec::new();
        for pair in &mapping.columns {
            let Some(index) = header.iter().position(|heading| heading == pair.theirs) else {
                let reason = format!(
                    "there is no such column; the columns are {:.500} (for one level in every row write --map {}=={})",
                    found(),
                    pair.ours,
                    pair.theirs
                );
                return Err(ImportError::map(pair.ours, pair.theirs, reason));
            };
            targets.push((index, pair.target));
        }
        let mut warnings = Vec::new();
        for (index, heading) in header.iter().enumerate() {
            if targets.iter().any(|(mapped, _)| *mapped == index) {
                continue;
            }
            let Some(target) = observation::recognise(heading) else {
                warnings.push(format!("column {heading} ignored: map it with --map factor={heading}"));
                continue;
            };
            let rival = targets.iter().find(|(_, other)| other.key() == target.key()).map(|(other, _)| *other);
            match rival {
                _ if mapping.levels.iter().any(|pair| pair.target.key() == target.key()) => {}
                Some(rival) => {
                    warnings.push(format!("column {heading} ignored: column {} has the same meaning", header[rival]));
                }
                None => targets.push((index, target)),
            }
        }
        let mut constants = mapping.constants()?;
        let has = |is: &dyn Fn(&ColumnTarget) -> bool| {
            targets.iter().any(|(_, target)| is(target)) || mapping.levels.iter().any(|pair| is(&pair.target))
        };
        let has_factor =
            |name: &str| has(&|target| matches!(target, ColumnTarget::Factor(factor) if factor.name == name));
        let has_calls = has(&|target| matches!(target, ColumnTarget::Completed | ColumnTarget::CallRate));
        let has_bytes = has(&|target| matches!(target, ColumnTarget::Bytes | ColumnTarget::Rate(_)));
        let has_rate = has(&|target| matches!(target, ColumnTarget::Rate(_) | ColumnTarget::CallRate));
        let has_wall = has(&|target| matches!(target, ColumnTarget::Wall(_)));
        // Every trial needs these: what it is, a name that provides it, and whether there is one.
        let needs = if !has_factor("read_size") && (has_factor("request") || has_calls) {
            [
                ("the size of a request", "request", has_factor("request")),
                ("calls or their rate", "calls_per_second", has_calls),
            ]
        } else {
            [
                ("the size of a read", "read_size", has_factor("read_size")),
                ("bytes or throughput", "throughput_mib_s", has_bytes),
            ]
        };
        let transport = ("the transport", "transport", has_factor("transport"));
        let length = ("the length of a trial", "duration_sec", has_wall || has_rate);
        for (what, name, is_there) in [transport].into_iter().chain(needs).chain([length]) {
            if !is_there {
                return Err(ImportError::MissingColumn { what, name, found: found() });
            }
        }
        if !has_wall {
            warnings.push("the table has no durations: only its rates are used".to_owned());
        }
        if !has_factor("flows") {
            constants.fill("flows", Level::Number(1));
        }
        Ok(Columns { targets, constants, warnings })
    }
}

// Parses `--map`: `read_size=buf` names a column, `transport==unix` gives every row one level.

/// The user's mappings.
struct Mapping<'a> {
    /// Values that come from a column.
    columns: Vec<MapEntry<'a>>,
    /// Values that are equal in all rows.
    levels: Vec<MapEntry<'a>>,
}

/// One mapping.
struct MapEntry<'a> {
    /// The name in bytegauge.
    ours: &'a str,
    /// The heading in the data, or the level.
    theirs: &'a str,
    /// The target of the name.
    target: ColumnTarget,
}

impl<'a> Mapping<'a> {
    /// Looks up every name.
    fn new(map: &'a [(String, String)]) -> Result<Mapping<'a>, ImportError> {
        let mut mapping = Mapping { columns: Vec::new(), levels: Vec::new() };
        for (ours, theirs) in map {
            let wrong = |reason: String| ImportError::map(ours, theirs, reason);
            let target = observation::ours(ours).map_err(|hint| wrong(format!("nothing is called `{ours}`{hint}")))?;
            if mapping.columns.iter().chain(&mapping.levels).any(|pair| pair.target.key() == target.key()) {
                return Err(wrong(format!("{ours} is mapped twice: leave one of the two out")));
            }
            match theirs.strip_prefix('=') {
                Some(level) => mapping.levels.push(MapEntry { ours, theirs: level, target }),
                None => mapping.columns.push(MapEntry { ours, theirs, target }),
            }
        }
        Ok(mapping)
    }

    /// The values that are equal in all rows.
    fn constants(&self) -> Result<Fields, ImportError> {
        let mut constants = Fields::default();
        for MapEntry { ours, theirs, target } in &self.levels {
            let wrong = |reason| ImportError::map(ours, &format!("={theirs}"), reason);
            constants.set(*target, theirs).map_err(wrong)?;
        }
        Ok(constants)
    }
}

// Reads the text tables that the published buffer-size benchmark prints, in the document around them:
//
// ```text
// ## Unix sockets
// buf_size=4096; duration=1.7s; num_syscalls=3286452; 7444.7 MiB/s; 1910355.1 syscalls/s; short_reads=21315
// ```
//
// The heading above a table names the transport. A heading with more words ("TCP Remote") becomes the
// condition `machine` of its rows, so that they are never compared with local ones.

/// Whether a line is a row of such a table.
pub(super) fn is_row(line: &str) -> bool {
    line.trim_start().starts_with("buf_size=")
}

/// Parses all tables of a document.
pub(super) fn parse_published(
    text: &str,
    map: &[(String, String)],
    name: Option<String>,
) -> Result<ImportDraft, ImportError> {
    let mapping = Mapping::new(map)?;
    if let Some(pair) = mapping.columns.first() {
        return Err(ImportError::map_without_columns(pair.ours, pair.theirs, "text"));
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
            super::check_table(shelf.cells.len(), rows.len())?;
        }
    }
    let machine_note = "times, seed and machine are not known: the tables have none";
    let mut draft = arrange(rows, shelf, name, Vec::new())?;
    draft.whole.record.notes.push(machine_note.into());
    Ok(draft)
}

/// The heading as a level of the transport.
fn transport(heading: Option<&str>) -> Result<(ColumnTarget, &str), String> {
    const ADVICE: &str = "give all rows one with --map transport==unix (or tcp, /dev/zero, …)";
    let heading = heading.ok_or_else(|| format!("no heading above it names its transport; {ADVICE}"))?;
    if observation::transport(heading).is_none() {
        return Err(format!("the heading above it, `{heading}`, names no transport; {ADVICE}"));
    }
    Ok((observation::ours("transport")?, heading))
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
        let target = observation::recognise(name).ok_or_else(|| format!("`{part}` is not a known name"))?;
        fields.set(target, value).map_err(|reason| format!("{part}: {reason}"))?;
    }
    fields.fill("flows", Level::Number(1));
    for (name, level) in [("engine", "blocking"), ("work", "none"), ("writer_work", "none"), ("profile", "drain")] {
        fields.fill(name, Level::Name(level.into()));
    }
    fields.fill("working_set", Level::Number(0));
    Ok(())
}
