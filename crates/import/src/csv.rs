//! Reads tables with a header line. `--map` or its heading gives the meaning of a column.

use bytegauge_model::Level;

use super::arrange::arrange;
use super::limits::{self, COLUMNS_MAX};
use super::observation::{Fields, Shelf};
use super::target::{self, ColumnTarget};
use super::{ImportDraft, ImportError};

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
    limits::within("columns", header.len(), COLUMNS_MAX)?;
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
        limits::options(shelf.cells.len())?;
        limits::results(rows.len())?;
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
            let Some(target) = target::recognise(heading) else {
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
pub(super) struct Mapping<'a> {
    /// Values that come from a column.
    pub(super) columns: Vec<MapEntry<'a>>,
    /// Values that are equal in all rows.
    pub(super) levels: Vec<MapEntry<'a>>,
}

/// One mapping.
pub(super) struct MapEntry<'a> {
    /// The name in bytegauge.
    pub(super) ours: &'a str,
    /// The heading in the data, or the level.
    pub(super) theirs: &'a str,
    /// The target of the name.
    pub(super) target: ColumnTarget,
}

impl<'a> Mapping<'a> {
    /// Looks up every name.
    pub(super) fn new(map: &'a [(String, String)]) -> Result<Mapping<'a>, ImportError> {
        let mut mapping = Mapping { columns: Vec::new(), levels: Vec::new() };
        for (ours, theirs) in map {
            let wrong = |reason: String| ImportError::map(ours, theirs, reason);
            let target = target::ours(ours).map_err(|hint| wrong(format!("nothing is called `{ours}`{hint}")))?;
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
    pub(super) fn constants(&self) -> Result<Fields, ImportError> {
        let mut constants = Fields::default();
        for MapEntry { ours, theirs, target } in &self.levels {
            let wrong = |reason| ImportError::map(ours, &format!("={theirs}"), reason);
            constants.set(*target, theirs).map_err(wrong)?;
        }
        Ok(constants)
    }
}
