//! Trials: one row and one transaction each; their interval series stand apart and are read on demand.

use std::sync::LazyLock;

use bytegauge_model::trial::Bin;
use bytegauge_model::{CellId, FlowReport, SessionId, Stage, Trial};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::Store;
use crate::cell;
use crate::column::{Count, Json, named, unknown};
use crate::counters;
use crate::detail::Detail;
use crate::error::StoreError;

/// One end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndName {
    /// The writing end.
    Source,
    /// The reading end.
    Sink,
}

/// The interval series of one flow of one end in one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The trial's cell.
    pub cell: CellId,
    /// What the trial was for.
    pub stage: Stage,
    /// The trial's block.
    pub block: u64,
    /// The trial's place in the block's order.
    pub position: u32,
    /// The end that counted.
    pub end: EndName,
    /// The flow, from 0.
    pub flow: usize,
    /// The bins, over warm-up and window.
    pub bins: Vec<Bin>,
}

impl Store {
    /// Keeps one trial, with its series, in one transaction.
    ///
    /// # Errors
    /// When its cell was never added, or the store cannot be written.
    pub fn record_trial(&mut self, session: SessionId, trial: &Trial) -> Result<(), StoreError> {
        self.write(|c| {
            let sql = "SELECT EXISTS (SELECT 1 FROM cells WHERE session = ?1 AND id = ?2)";
            let known: bool = c.prepare_cached(sql)?.query_row(params![session.0, trial.cell.0], |row| row.get(0))?;
            if !known {
                return Err(StoreError::NoCell { session, cell: trial.cell.clone() });
            }
            insert(c, session, trial)
        })
    }

    /// The trials of a session in the order of measurement, without their series.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn trials(&self, session: SessionId) -> Result<Vec<Trial>, StoreError> {
        let mut trials = Vec::new();
        self.read(|c| {
            let sql = "SELECT count(*) FROM trials WHERE session = ?1";
            let count = c.prepare_cached(sql)?.query_row([session.0], |row| row.get::<_, Count>(0))?;
            // Growing by doubling would touch most of a hundred megabytes twice.
            trials.reserve_exact(count.0 as usize);
            visit(c, session, |_, trial| {
                trials.push(trial);
                Ok(())
            })
        })?;
        Ok(trials)
    }

    /// The interval series of a session, of one cell or of all, in the order of measurement.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn series(&self, session: SessionId, cell: Option<&CellId>) -> Result<Vec<Series>, StoreError> {
        let sql = "SELECT cell, stage, block, position, sink, flow, bins
                   FROM trials JOIN series ON series.trial = trials.id
                   WHERE session = ?1 AND (?2 IS NULL OR cell = ?2) ORDER BY trials.id, sink, flow";
        let values = params![session.0, cell.map(|cell| &cell.0)];
        self.read(|c| Ok(c.prepare_cached(sql)?.query_map(values, series_row)?.collect::<Result<_, _>>()?))
    }
}

/// The columns of a trial in the order in which they are written and read: those before the counters, the
/// counters of both ends, the detail.
static COLUMNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    const FIRST: [&str; FIRST_COUNTER] = [
        "session",
        "cell",
        "stage",
        "block",
        "position",
        "started_unix_ns",
        "outcome",
        "reason",
        "bytes",
        "wall_ns",
        "warmup_ns",
        "source_cpu",
        "sink_cpu",
        "calls",
    ];
    let ends = ["source", "sink"].into_iter().flat_map(|end| counters::NAMES.map(|name| format!("{end}_{name}")));
    FIRST.map(str::to_owned).into_iter().chain(ends).chain(["detail".to_owned()]).collect()
});

/// Where the counters begin in [`COLUMNS`].
const FIRST_COUNTER: usize = 14;

static INSERT: LazyLock<String> = LazyLock::new(|| {
    let places = vec!["?"; COLUMNS.len()].join(", ");
    format!("INSERT INTO trials ({}) VALUES ({places})", COLUMNS.join(", "))
});

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}, id FROM trials WHERE session = ? ORDER BY id", COLUMNS.join(", ")));

/// Writes a trial and its series.
pub(crate) fn insert(connection: &Connection, session: SessionId, trial: &Trial) -> Result<(), StoreError> {
    let mut values: Vec<Value> = vec![
        session.0.into(),
        trial.cell.0.clone().into(),
        trial.stage.name().to_owned().into(),
        integer(trial.block),
        trial.position.into(),
        integer(trial.started_unix_ns),
        trial.outcome.name().to_owned().into(),
        trial.outcome.reason().map(str::to_owned).into(),
        integer(trial.bytes),
        integer(trial.wall_ns),
        integer(trial.warmup_ns),
        trial.cpus.map(|(source, _)| integer(source as u64)).unwrap_or(Value::Null),
        trial.cpus.map(|(_, sink)| integer(sink as u64)).unwrap_or(Value::Null),
        integer(trial.calls),
    ];
    for end in [&trial.source, &trial.sink] {
        match end {
            Some(end) => values.extend(counters::of_end(end).map(integer)),
            None => values.extend([const { Value::Null }; counters::COUNT]),
        }
    }
    values.push(Detail::of(trial).text()?.into());
    connection.prepare_cached(&INSERT)?.execute(params_from_iter(values))?;
    let id = connection.last_insert_rowid();
    for (end, report) in [(EndName::Source, &trial.source), (EndName::Sink, &trial.sink)] {
        for (index, flow) in report.iter().flat_map(|report| &report.flows).enumerate() {
            insert_series(connection, id, end, index, flow)?;
        }
    }
    Ok(())
}

fn integer(count: u64) -> Value {
    // As `Count` does: the sign bit is one more bit.
    Value::Integer(count.cast_signed())
}

fn insert_series(
    connection: &Connection,
    trial: i64,
    end: EndName,
    index: usize,
    flow: &FlowReport,
) -> Result<(), StoreError> {
    if flow.series.is_empty() {
        return Ok(());
    }
    let pairs: Vec<(u64, u64)> = flow.series.iter().map(|bin| (bin.ns, bin.bytes)).collect();
    connection
        .prepare_cached("INSERT INTO series (trial, sink, flow, bins) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![trial, end == EndName::Sink, index as i64, Json(pairs)])?;
    Ok(())
}

/// Hands every trial of a session to `each`, in the order of measurement, with its row number.
pub(crate) fn visit(
    connection: &Connection,
    session: SessionId,
    mut each: impl FnMut(i64, Trial) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&SELECT)?;
    let mut rows = statement.query([session.0])?;
    while let Some(row) = rows.next()? {
        each(row.get(COLUMNS.len())?, trial(row)?)?;
    }
    Ok(())
}

/// Gives a trial back the series that its row does not hold.
pub(crate) fn fill_series(connection: &Connection, id: i64, trial: &mut Trial) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("SELECT sink, flow, bins FROM series WHERE trial = ?1")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let end = if row.get(0)? { &mut trial.sink } else { &mut trial.source };
        let index = row.get::<_, Count>(1)?.0 as usize;
        if let Some(flow) = end.as_mut().and_then(|end| end.flows.get_mut(index)) {
            flow.series = bins(row, 2)?;
        }
    }
    Ok(())
}

fn trial(row: &Row<'_>) -> rusqlite::Result<Trial> {
    let mut detail = row.get::<_, Json<Detail>>(FIRST_COUNTER + 2 * counters::COUNT)?.0;
    let competing = detail.competing.take();
    let cpu = |index| row.get::<_, Option<Count>>(index).map(|cpu| cpu.map(|n| n.0 as usize));
    let (source, sink, machine) =
        detail.ends(end_counters(row, FIRST_COUNTER)?, end_counters(row, FIRST_COUNTER + counters::COUNT)?);
    let outcome_name = row.get_ref(6)?.as_str()?;
    Ok(Trial {
        cell: CellId(row.get(1)?),
        stage: named(row, 2, Stage::from_name)?,
        block: row.get::<_, Count>(3)?.0,
        position: row.get(4)?,
        started_unix_ns: row.get::<_, Count>(5)?.0,
        outcome: cell::outcome(outcome_name, row.get(7)?).ok_or_else(|| unknown(6, outcome_name))?,
        bytes: row.get::<_, Count>(8)?.0,
        wall_ns: row.get::<_, Count>(9)?.0,
        warmup_ns: row.get::<_, Count>(10)?.0,
        cpus: cpu(11)?.zip(cpu(12)?),
        calls: row.get::<_, Count>(13)?.0,
        source,
        sink,
        competing,
        machine,
    })
}

/// The counters of one end; `None` where the end did not report.
fn end_counters(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<[u64; counters::COUNT]>> {
    let Some(Count(bytes)) = row.get(first)? else { return Ok(None) };
    let mut counts = [bytes; counters::COUNT];
    for (offset, count) in counts.iter_mut().enumerate().skip(1) {
        *count = row.get::<_, Count>(first + offset)?.0;
    }
    Ok(Some(counts))
}

fn series_row(row: &Row<'_>) -> rusqlite::Result<Series> {
    Ok(Series {
        cell: CellId(row.get(0)?),
        stage: named(row, 1, Stage::from_name)?,
        block: row.get::<_, Count>(2)?.0,
        position: row.get(3)?,
        end: if row.get(4)? { EndName::Sink } else { EndName::Source },
        flow: row.get::<_, Count>(5)?.0 as usize,
        bins: bins(row, 6)?,
    })
}

fn bins(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<Bin>> {
    let pairs = row.get::<_, Json<Vec<(u64, u64)>>>(index)?.0;
    Ok(pairs.into_iter().map(|(ns, bytes)| Bin { ns, bytes }).collect())
}
