//! Raw trials for other programs: CSV for tables, JSON lines for everything.
//!
//! The JSON lines hold everything that the store has on a session, so that `import` can rebuild it. The CSV has one row
//! per trial in base units (bytes, nanoseconds) and a column for every factor. The kernel's reports on single flows are
//! only in the JSON lines.
//!
//! Also the lines of an export. `redact.rs` removes what is private.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

use bytegauge_model::{
    BlockRecord, Cell, CellId, EndReport, EndRole, Group, Level, Outcome, SessionId, SessionRecord, Side, Trial,
    Workload, escape, factor,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cell::CellRow;
use crate::error::StoreError;
use crate::redact::{RelayCommands, redact_outcome, redact_session};
use crate::{Store, column, trial};

/// A trial with everything of which it has a column.
struct CsvRow<'a> {
    session: SessionId,
    row: &'a CellRow,
    trial: &'a Trial,
    /// Whether its block is complete, if it has one.
    block_complete: Option<bool>,
}

/// The heading of a column, and its text in a row.
type CsvColumn = (&'static str, fn(&CsvRow<'_>) -> String);

/// The columns before the factors.
const IDENTITY: &[CsvColumn] = &[
    ("session", |row| row.session.to_string()),
    ("group", |row| row.row.cell.group.to_string()),
    ("cell", |row| row.row.cell.id.to_string()),
    ("kind", |row| row.row.cell.kind.name().into()),
    ("twin_of", |row| text(row.row.cell.twin_of.as_ref())),
    ("stage", |row| row.trial.stage.name().into()),
    ("block", |row| row.trial.block.to_string()),
    ("position", |row| row.trial.position.to_string()),
    ("block_complete", |row| text(row.block_complete)),
    ("outcome", |row| row.trial.outcome.tag().into()),
    ("reason", |row| text(row.trial.outcome.reason())),
    ("started_unix_ns", |row| row.trial.started_unix_ns.to_string()),
];

/// The columns after the factors.
const RESULT: &[CsvColumn] = &[
    ("bytes", |row| row.trial.bytes.to_string()),
    ("wall_ns", |row| row.trial.wall_ns.to_string()),
    ("throughput_bytes_per_second", |row| text(row.trial.rate())),
];

/// The same for calls; their histograms are only in the JSON lines.
const RESULT_OF_CALLS: &[CsvColumn] = &[
    ("bytes", |row| row.trial.bytes.to_string()),
    ("completed_calls", |row| row.trial.calls.to_string()),
    ("wall_ns", |row| row.trial.wall_ns.to_string()),
    ("calls_per_second", |row| text(row.trial.rate())),
    ("failed_calls", |row| text(row.trial.client().map(|client| client.errors.iter().map(|e| e.count).sum::<u64>()))),
    ("competing_calls", |row| text(row.trial.end(EndRole::Competitor).and_then(|end| Some(end.call.as_ref()?.calls)))),
];

/// The same for rings.
const RESULT_OF_RINGS: &[CsvColumn] = &[
    ("completed_nops", |row| row.trial.calls.to_string()),
    ("wall_ns", |row| row.trial.wall_ns.to_string()),
    ("nops_per_second", |row| text(row.trial.rate())),
    ("submitted_nops", |row| text(row.trial.ring().map(|ring| ring.submitted))),
    ("system_calls", |row| text(row.trial.ring().map(|ring| ring.enters))),
    ("checked_nops", |row| text(row.trial.ring().map(|ring| ring.checked))),
    ("overflowed_after_rounds", |row| text(row.trial.ring().and_then(|ring| ring.overflowed_after_rounds))),
];

/// The same for programs of the user. The rate uses the metric of the plan.
const RESULT_OF_RUNS: &[CsvColumn] = &[
    ("wall_ns", |row| row.trial.wall_ns.to_string()),
    ("rate_per_second", |row| text(row.trial.rate())),
    ("cpu_ns", |row| text(row.trial.cpu_ns_per_run())),
    ("server_cpu_ns", |row| text(row.trial.task().and_then(|task| task.server_cpu_ns))),
    ("left_behind", |row| text(row.trial.task().map(|task| task.left_behind))),
    ("events", |row| text(row.trial.task().and_then(|task| task.events))),
];

/// The columns after those of the result, before the counters of both ends.
const SET_UP: &[CsvColumn] = &[
    ("warmup_ns", |row| row.trial.warmup_ns.to_string()),
    ("source_cpu", |row| text(cpu(row.trial, Side::Source))),
    ("sink_cpu", |row| text(cpu(row.trial, Side::Sink))),
];

/// The columns at the end.
const MACHINE: &[CsvColumn] = &[
    ("machine_wall_ns", |row| text(row.trial.machine.as_ref().map(|machine| machine.wall_ns))),
    ("machine_busy_ns", |row| text(row.trial.machine.as_ref().map(|machine| machine.busy_ns))),
    ("machine_softirq_ns", |row| text(row.trial.machine.as_ref().map(|machine| machine.softirq_ns))),
    ("machine_steal_ns", |row| text(row.trial.machine.as_ref().map(|machine| machine.steal_ns))),
];

/// The columns of the results of a workload.
fn results(workload: Workload) -> &'static [CsvColumn] {
    match workload {
        Workload::Stream => RESULT,
        Workload::Call => RESULT_OF_CALLS,
        Workload::Ring => RESULT_OF_RINGS,
        Workload::Tune => RESULT_OF_RUNS,
    }
}

impl Store {
    /// Writes the raw trials of a session as CSV, one row each, in the order of measurement. If `redact` is set, output
    /// of programs and commands of relays are left out.
    ///
    /// # Errors
    /// When there is no such session, the store cannot be read, or `out` not written.
    pub fn export_csv(&self, id: SessionId, redact: bool, out: impl Write) -> Result<(), StoreError> {
        // A workload that this version does not know has no columns.
        let workload: Workload = self.session(id)?.workload.parse().unwrap_or_default();
        let mut rows = self.cells(id)?;
        let mut commands = RelayCommands::default();
        for row in rows.iter_mut().filter(|_| redact) {
            if let Level::Name(relay) = row.cell.factors.get("relay") {
                row.cell.factors.set("relay", Level::Name(commands.without(&relay)));
            }
        }
        let extra = factors_beyond_the_table(&rows);
        let cells: HashMap<&CellId, &CellRow> = rows.iter().map(|row| (&row.cell.id, row)).collect();
        let complete: BTreeMap<u64, bool> = self.blocks(id)?.into_iter().map(|b| (b.index, b.complete)).collect();

        let mut csv = csv::Writer::from_writer(out);
        let mut write =
            |fields: Vec<String>| csv.write_record(fields.iter().map(|field| escape::csv_field(field).into_owned()));
        write(header(workload, &extra))?;
        self.read(|connection| {
            trial::visit(connection, id, |_, mut trial| {
                if redact {
                    redact_outcome(&mut trial.outcome);
                }
                let Some(row) = cells.get(&trial.cell) else {
                    // Foreign keys of the tables rule this out.
                    return Err(StoreError::NoMember(id, format!("cell {}", trial.cell)));
                };
                let block_complete = complete.get(&trial.block).copied();
                write(record(workload, &extra, &CsvRow { session: id, row, trial: &trial, block_complete }))?;
                Ok(())
            })
        })?;
        csv.flush()?;
        Ok(())
    }

    /// Writes everything about a session as JSON lines. If `redact` is set, the commands of programs and their output
    /// are left out.
    ///
    /// # Errors
    /// When there is no such session, the store cannot be read, or `out` not written.
    pub fn export_jsonl(&self, id: SessionId, redact: bool, mut out: impl Write) -> Result<(), StoreError> {
        let mut commands = RelayCommands::default();
        let mut write = |line: &ExchangeLine| -> Result<(), StoreError> {
            let text = if redact {
                let mut line = serde_json::to_value(line)?;
                commands.redact(&mut line, false);
                line.to_string()
            } else {
                serde_json::to_string(line)?
            };
            Ok(writeln!(out, "{}", escape::json(&text))?)
        };
        let mut session = self.session(id)?;
        if redact {
            redact_session(&mut session);
        }
        write(&ExchangeLine::Session { schema_version: VERSION, session })?;
        for row in self.groups(id)? {
            write(&ExchangeLine::Group { group: row.group, facts: row.facts })?;
        }
        for mut row in self.cells(id)? {
            if redact {
                row.outcome.iter_mut().for_each(redact_outcome);
            }
            write(&ExchangeLine::Cell { cell: row.cell, outcome: row.outcome })?;
        }
        for block in self.blocks(id)? {
            write(&ExchangeLine::Block { block })?;
        }
        self.read(|connection| {
            trial::visit(connection, id, |row, mut trial| {
                trial::fill_series(connection, row, &mut trial)?;
                if redact {
                    redact_outcome(&mut trial.outcome);
                }
                write(&ExchangeLine::Trial { trial: Box::new(trial) })
            })
        })?;
        Ok(out.flush()?)
    }
}

/// Factors that an import added under names of its own, such as `machine`.
fn factors_beyond_the_table(rows: &[CellRow]) -> BTreeSet<&str> {
    let names = rows.iter().flat_map(|row| row.cell.factors.iter().map(|(name, _)| name));
    names.filter(|name| factor::find(name).is_none()).collect()
}

fn header(workload: Workload, extra: &BTreeSet<&str>) -> Vec<String> {
    let names = |columns: &'static [CsvColumn]| columns.iter().map(|(name, _)| (*name).to_owned());
    let factors = factors(workload, extra).map(str::to_owned);
    let ends = ["source", "sink"].into_iter().flat_map(|end| column::NAMES.map(|name| format!("{end}_{name}")));
    let results = names(results(workload)).chain(names(SET_UP));
    names(IDENTITY).chain(factors).chain(results).chain(ends).chain(names(MACHINE)).collect()
}

fn record(workload: Workload, extra: &BTreeSet<&str>, row: &CsvRow<'_>) -> Vec<String> {
    let texts = |columns: &'static [CsvColumn]| columns.iter().map(|(_, text)| text(row));
    let factors = factors(workload, extra).map(|name| match row.row.cell.factors.get(name) {
        Level::Absent => String::new(),
        level => level.to_string(),
    });
    let ends = [row.trial.source_side(), row.trial.sink_side()].into_iter().flat_map(end_counters);
    let results = texts(results(workload)).chain(texts(SET_UP));
    texts(IDENTITY).chain(factors).chain(results).chain(ends).chain(texts(MACHINE)).collect()
}

/// Names of the factors of a workload, and of those that an import added.
fn factors<'a>(workload: Workload, extra: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    factor::of(workload).map(|factor| factor.name).chain(extra.iter().copied())
}

/// The CPU of the end on one side; competing clients have no column.
fn cpu(trial: &Trial, side: Side) -> Option<usize> {
    trial.cpus.iter().find(|(role, _)| role.side() == side && *role != EndRole::Competitor).map(|(_, cpu)| *cpu)
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn end_counters(end: Option<&EndReport>) -> [String; column::COUNT] {
    end.map(|end| column::of_end(end).map(|count| count.to_string())).unwrap_or_default()
}

// The lines of a JSON-lines export: written by `export`, read by `import`, defined here.
//
// In this order: one `session`, then `group`, `cell`, `block`, and `trial` with its interval series.

/// The version of these lines, independent of the schema version: that of the first release.
pub const VERSION: u64 = 3;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExchangeLine {
    /// The first line.
    Session {
        /// The version of the lines.
        schema_version: u64,
        /// The session, with its number in the original store.
        session: SessionRecord,
    },
    /// A group and its facts.
    Group {
        /// The group.
        group: Group,
        /// The facts found about it.
        #[serde(default)]
        facts: Map<String, Value>,
    },
    /// A cell and its final outcome.
    Cell {
        /// The cell.
        cell: Cell,
        /// Its outcome, if it was skipped or failed.
        #[serde(default)]
        outcome: Option<Outcome>,
    },
    /// A block.
    Block {
        /// The block.
        block: BlockRecord,
    },
    /// A trial.
    Trial {
        /// The trial.
        trial: Box<Trial>,
    },
}
