//! Trials: one row and one more for each end, in one transaction. Interval series are stored separately and read on
//! demand.

use std::sync::LazyLock;

use bytegauge_model::end::END_ROLES;
use bytegauge_model::{Bin, ByRole, CellId, EndReports, EndRole, FlowReport, MachineUse, SessionId, Stage, Trial};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::Store;
use crate::column::{self, Json, UnsignedColumn, named, outcome};
use crate::detail::{self, SharedParts, StoredDetail};
use crate::error::StoreError;

/// The interval series of one flow of one end in one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The trial's cell.
    pub cell: CellId,
    /// The purpose of the trial.
    pub stage: Stage,
    /// The trial's block.
    pub block: u64,
    /// The trial's position in the block.
    pub position: u32,
    /// The end that counted.
    pub end: EndRole,
    /// The flow, from 0.
    pub flow: usize,
    /// Length of the trial's warm-up and window, nanoseconds. Later bins hold data that arrived while the ends were
    /// closing.
    pub measured_ns: u64,
    /// The bins, over warm-up and window.
    pub bins: Vec<Bin>,
}

impl Store {
    /// Stores one trial, with its series, in one transaction.
    ///
    /// # Errors
    /// When its cell was never added, or the store cannot be written.
    pub fn record_trial(&mut self, session: SessionId, trial: &Trial) -> Result<(), StoreError> {
        self.write(|c| {
            let sql = "SELECT EXISTS (SELECT 1 FROM cells WHERE session = ?1 AND id = ?2)";
            let known: bool = c.prepare_cached(sql)?.query_row(params![session.0, trial.cell.0], |row| row.get(0))?;
            if !known {
                return Err(StoreError::NoMember(session, format!("cell {}", trial.cell)));
            }
            insert(c, session, trial)
        })
    }

    /// Removes the trials of a block that is given up and measured again.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn remove_trials(&mut self, session: SessionId, block: u64) -> Result<(), StoreError> {
        self.write(|c| {
            let sql = "DELETE FROM trials WHERE session = ?1 AND block = ?2";
            c.prepare_cached(sql)?.execute(params![session.0, UnsignedColumn(block)])?;
            Ok(())
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
            let count = c.prepare_cached(sql)?.query_row([session.0], |row| row.get::<_, UnsignedColumn>(0))?;
            // Growing by doubling would copy most of a hundred megabytes twice.
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
        let sql = "SELECT cell, stage, block, position, role, flow, warmup_ns, wall_ns, bins
                   FROM trials JOIN series ON series.trial = trials.id
                   WHERE session = ?1 AND (?2 IS NULL OR cell = ?2) ORDER BY trials.id, role, flow";
        let values = params![session.0, cell.map(|cell| &cell.0)];
        self.read(|c| Ok(c.prepare_cached(sql)?.query_map(values, series_row)?.collect::<Result<_, _>>()?))
    }
}

/// The columns of a trial in the order in which they are written and read.
const COLUMNS: &str =
    "session cell stage block position started_unix_ns outcome reason workload bytes calls wall_ns warmup_ns machine";

/// The columns of an end, before its counters.
const END_COLUMNS: [&str; 3] = ["trial", "role", "cpu"];

static INSERT: LazyLock<String> = LazyLock::new(|| insertion("trials", COLUMNS.split(' ')));

static INSERT_END: LazyLock<String> =
    LazyLock::new(|| insertion("ends", END_COLUMNS.into_iter().chain(column::NAMES).chain(["detail"])));

fn insertion<'a>(table: &str, columns: impl Iterator<Item = &'a str>) -> String {
    let columns: Vec<&str> = columns.collect();
    format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), vec!["?"; columns.len()].join(", "))
}

/// Trials with a row for each of their ends, or one row without ends.
static SELECT: LazyLock<String> = LazyLock::new(|| {
    let of = |table: &str, names: &[&str]| format!("{table}.{}", names.join(&format!(", {table}.")));
    format!(
        "SELECT {}, trials.id, ends.role, ends.cpu, {}, ends.detail
         FROM trials LEFT JOIN ends ON ends.trial = trials.id WHERE session = ? ORDER BY trials.id, ends.role",
        of("trials", &COLUMNS.split(' ').collect::<Vec<_>>()),
        of("ends", &column::NAMES)
    )
});

/// The index of the trial's number in [`SELECT`]; its ends' columns follow.
const ID: usize = 14;

/// Writes a trial, its ends and their series.
pub(crate) fn insert(connection: &Connection, session: SessionId, trial: &Trial) -> Result<(), StoreError> {
    let machine = trial.machine.as_ref().map(serde_json::to_string).transpose()?;
    let values: [Value; ID] = [
        session.0.into(),
        trial.cell.0.to_string().into(),
        trial.stage.name().to_owned().into(),
        integer(trial.block),
        trial.position.into(),
        integer(trial.started_unix_ns),
        trial.outcome.tag().to_owned().into(),
        trial.outcome.reason().map(str::to_owned).into(),
        trial.workload.to_string().into(),
        integer(trial.bytes),
        integer(trial.calls),
        integer(trial.wall_ns),
        integer(trial.warmup_ns),
        machine.into(),
    ];
    connection.prepare_cached(&INSERT)?.execute(params_from_iter(values))?;
    let id = connection.last_insert_rowid();
    for role in END_ROLES {
        let (cpu, report) = (trial.cpus.get(role), trial.ends.get(role));
        if cpu.is_none() && report.is_none() {
            continue;
        }
        let mut values: Vec<Value> =
            vec![id.into(), role.name().to_owned().into(), cpu.map_or(Value::Null, |cpu| integer(*cpu as u64))];
        match report {
            Some(end) => {
                values.extend(column::of_end(end).map(integer));
                values.push(detail::text(end)?.into());
            }
            None => values.extend([const { Value::Null }; column::COUNT + 1]),
        }
        connection.prepare_cached(&INSERT_END)?.execute(params_from_iter(values))?;
        for (index, flow) in report.iter().flat_map(|report| &report.flows).enumerate() {
            insert_series(connection, id, role, index, flow)?;
        }
    }
    Ok(())
}

fn integer(count: u64) -> Value {
    // Like `UnsignedColumn`: the sign bit is a normal bit.
    Value::Integer(count.cast_signed())
}

fn insert_series(
    connection: &Connection,
    trial: i64,
    role: EndRole,
    index: usize,
    flow: &FlowReport,
) -> Result<(), StoreError> {
    if flow.series.is_empty() {
        return Ok(());
    }
    let pairs: Vec<(u64, u64)> = flow.series.iter().map(|bin| (bin.ns, bin.bytes)).collect();
    connection
        .prepare_cached("INSERT INTO series (trial, role, flow, bins) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![trial, role.name(), index as i64, Json(pairs)])?;
    Ok(())
}

/// Calls `each` for every trial of a session, in the order of measurement, with its row number.
pub(crate) fn visit(
    connection: &Connection,
    session: SessionId,
    mut each: impl FnMut(i64, Trial) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&SELECT)?;
    let mut rows = statement.query([session.0])?;
    let (mut gathered, mut shared): (Option<(i64, Trial)>, _) = (None, SharedParts::default());
    while let Some(row) = rows.next()? {
        let id = row.get(ID)?;
        if let Some((before, trial)) = gathered.take_if(|(before, _)| *before != id) {
            each(before, trial)?;
        }
        let (_, trial) = match &mut gathered {
            Some(gathered) => gathered,
            None => gathered.insert((id, trial(row, &mut shared)?)),
        };
        add_end(row, trial, &mut shared)?;
    }
    gathered.map_or(Ok(()), |(id, trial)| each(id, trial))
}

/// Adds the series to a trial, which its row does not hold.
pub(crate) fn fill_series(connection: &Connection, id: i64, trial: &mut Trial) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("SELECT role, flow, bins FROM series WHERE trial = ?1")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let end = trial.ends.get_mut(named(row, 0, EndRole::from_name)?);
        let index = row.get::<_, UnsignedColumn>(1)?.0 as usize;
        if let Some(flow) = end.and_then(|end| end.flows.get_mut(index)) {
            flow.series = bins(row, 2)?;
        }
    }
    Ok(())
}

/// A trial without its ends.
fn trial(row: &Row<'_>, shared: &mut SharedParts) -> rusqlite::Result<Trial> {
    let count = |index| row.get::<_, UnsignedColumn>(index).map(|count| count.0);
    Ok(Trial {
        cell: shared.cell(row.get_ref(1)?.as_str()?),
        stage: named(row, 2, Stage::from_name)?,
        block: count(3)?,
        position: row.get(4)?,
        started_unix_ns: count(5)?,
        outcome: outcome(row, 6)?,
        workload: named(row, 8, |name| name.parse().ok())?,
        bytes: count(9)?,
        calls: count(10)?,
        wall_ns: count(11)?,
        warmup_ns: count(12)?,
        machine: row.get::<_, Option<Json<MachineUse>>>(13)?.map(|machine| machine.0),
        cpus: ByRole::default(),
        ends: EndReports::default(),
    })
}

/// Adds the end in a row, if there is one.
fn add_end(row: &Row<'_>, trial: &mut Trial, shared: &mut SharedParts) -> rusqlite::Result<()> {
    const ROLE: usize = ID + 1;
    const CPU: usize = ID + 2;
    const COUNTERS: usize = ID + 3;
    if row.get_ref(ROLE)?.as_str_or_null()?.is_none() {
        return Ok(());
    }
    let role = named(row, ROLE, EndRole::from_name)?;
    if let Some(UnsignedColumn(cpu)) = row.get(CPU)? {
        trial.cpus.insert(role, cpu as usize);
    }
    if let Some(counters) = end_counters(row, COUNTERS)? {
        const DETAIL: usize = COUNTERS + column::COUNT;
        let stored = serde_json::from_str::<StoredDetail<'_>>(row.get_ref(DETAIL)?.as_str()?);
        let end = stored.and_then(|detail| detail.rebuild(counters, &trial.cell, shared));
        let damaged = |error: serde_json::Error| {
            rusqlite::Error::FromSqlConversionFailure(DETAIL, rusqlite::types::Type::Text, error.into())
        };
        trial.ends.insert(role, end.map_err(damaged)?);
    }
    Ok(())
}

/// The counters of one end; `None` if the end did not report.
fn end_counters(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<[u64; column::COUNT]>> {
    let Some(UnsignedColumn(bytes)) = row.get(first)? else { return Ok(None) };
    let mut counts = [bytes; column::COUNT];
    for (offset, count) in counts.iter_mut().enumerate().skip(1) {
        *count = row.get::<_, UnsignedColumn>(first + offset)?.0;
    }
    Ok(Some(counts))
}

fn series_row(row: &Row<'_>) -> rusqlite::Result<Series> {
    Ok(Series {
        cell: CellId(row.get(0)?),
        stage: named(row, 1, Stage::from_name)?,
        block: row.get::<_, UnsignedColumn>(2)?.0,
        position: row.get(3)?,
        end: named(row, 4, EndRole::from_name)?,
        flow: row.get::<_, UnsignedColumn>(5)?.0 as usize,
        measured_ns: row.get::<_, UnsignedColumn>(6)?.0.saturating_add(row.get::<_, UnsignedColumn>(7)?.0),
        bins: bins(row, 8)?,
    })
}

fn bins(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<Bin>> {
    let pairs = row.get::<_, Json<Vec<(u64, u64)>>>(index)?.0;
    Ok(pairs.into_iter().map(|(ns, bytes)| Bin { ns, bytes }).collect())
}
