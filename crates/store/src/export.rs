//! Raw trials for other programs: CSV for tables, JSON lines for everything.
//!
//! The JSON lines hold everything that the store has on a session, so that `import` can rebuild it. The CSV has one row
//! per trial in base units (bytes, nanoseconds) and a column for every factor. The kernel's reports on single flows are
//! only in the JSON lines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

use bytegauge_model::{
    CellId, EndReport, EndRole, Level, MachineUse, SessionId, Side, Trial, Workload, escape, factor,
};

use crate::cell::{CellRow, kind_name};
use crate::error::StoreError;
use crate::line::{self, ExchangeLine};
use crate::{Store, column, redact, trial};

/// The columns before the factors.
const IDENTITY: [&str; 12] = [
    "session",
    "group",
    "cell",
    "kind",
    "twin_of",
    "stage",
    "block",
    "position",
    "block_complete",
    "outcome",
    "reason",
    "started_unix_ns",
];

/// The columns after the factors, before the counters of both ends.
const RESULT: [&str; 6] = ["bytes", "wall_ns", "throughput_bytes_per_second", "warmup_ns", "source_cpu", "sink_cpu"];

/// The same for calls; their histograms are only in the JSON lines.
const RESULT_OF_CALLS: [&str; 9] = [
    "bytes",
    "completed_calls",
    "wall_ns",
    "calls_per_second",
    "failed_calls",
    "competing_calls",
    "warmup_ns",
    "source_cpu",
    "sink_cpu",
];

/// The same for rings.
const RESULT_OF_RINGS: [&str; 10] = [
    "completed_nops",
    "wall_ns",
    "nops_per_second",
    "submitted_nops",
    "system_calls",
    "checked_nops",
    "overflowed_after_rounds",
    "warmup_ns",
    "source_cpu",
    "sink_cpu",
];

/// The same for programs of the user. The rate uses the metric of the plan.
const RESULT_OF_CHECKS: [&str; 9] = [
    "wall_ns",
    "rate_per_second",
    "cpu_ns",
    "server_cpu_ns",
    "left_behind",
    "events",
    "warmup_ns",
    "source_cpu",
    "sink_cpu",
];

/// The columns at the end.
const MACHINE: [&str; 4] = ["machine_wall_ns", "machine_busy_ns", "machine_softirq_ns", "machine_steal_ns"];

impl Store {
    /// Writes the raw trials of a session as CSV, one row each, in the order of measurement. If `redact` is set, output
    /// of programs is left out.
    ///
    /// # Errors
    /// When there is no such session, the store cannot be read, or `out` not written.
    pub fn export_csv(&self, id: SessionId, redact: bool, out: impl Write) -> Result<(), StoreError> {
        // A workload that this version does not know has no columns.
        let workload: Workload = self.session(id)?.workload.parse().unwrap_or_default();
        let rows = self.cells(id)?;
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
                    redact::outcome(&mut trial.outcome);
                }
                let Some(row) = cells.get(&trial.cell) else {
                    // Foreign keys of the tables rule this out.
                    return Err(StoreError::NoCell { session: id, cell: trial.cell });
                };
                write(record(id, workload, row, &trial, complete.get(&trial.block).copied(), &extra))?;
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
        let mut write = |line: &ExchangeLine| -> Result<(), StoreError> {
            let text = serde_json::to_string(line)?;
            Ok(writeln!(out, "{}", escape::json(&text))?)
        };
        let mut session = self.session(id)?;
        if redact {
            redact::session(&mut session);
        }
        write(&ExchangeLine::Session { schema_version: line::VERSION, session })?;
        for row in self.groups(id)? {
            write(&ExchangeLine::Group { group: row.group, facts: row.facts })?;
        }
        for mut row in self.cells(id)? {
            if redact {
                row.outcome.iter_mut().for_each(redact::outcome);
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
                    redact::outcome(&mut trial.outcome);
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
    let ends = ["source", "sink"].into_iter().flat_map(|end| column::NAMES.map(|name| format!("{end}_{name}")));
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut header = owned(&IDENTITY);
    header.extend(factor::of(workload).map(|factor| factor.name.to_owned()));
    header.extend(extra.iter().map(|name| (*name).to_owned()));
    header.extend(match workload {
        Workload::Stream => owned(&RESULT),
        Workload::Call => owned(&RESULT_OF_CALLS),
        Workload::Ring => owned(&RESULT_OF_RINGS),
        Workload::Check => owned(&RESULT_OF_CHECKS),
    });
    header.extend(ends);
    header.extend(owned(&MACHINE));
    header
}

fn record(
    id: SessionId,
    workload: Workload,
    row: &CellRow,
    trial: &Trial,
    block_complete: Option<bool>,
    extra: &BTreeSet<&str>,
) -> Vec<String> {
    let cell = &row.cell;
    let mut record: Vec<String> = vec![
        id.to_string(),
        cell.group.to_string(),
        cell.id.to_string(),
        kind_name(cell.kind).into(),
        text(cell.twin_of.as_ref()),
        trial.stage.name().into(),
        trial.block.to_string(),
        trial.position.to_string(),
        text(block_complete),
        trial.outcome.tag().into(),
        text(trial.outcome.reason()),
        trial.started_unix_ns.to_string(),
    ];
    let factors = factor::of(workload).map(|factor| factor.name).chain(extra.iter().copied());
    record.extend(factors.map(|name| match cell.factors.get(name) {
        Level::Absent => String::new(),
        level => level.to_string(),
    }));
    record.extend(match workload {
        Workload::Stream => vec![trial.bytes.to_string(), trial.wall_ns.to_string(), text(trial.rate())],
        Workload::Call => vec![
            trial.bytes.to_string(),
            trial.calls.to_string(),
            trial.wall_ns.to_string(),
            text(trial.rate()),
            text(failed_calls(trial)),
            text(trial.end(EndRole::Competitor).and_then(|end| Some(end.call.as_ref()?.calls))),
        ],
        Workload::Check => vec![
            trial.wall_ns.to_string(),
            text(trial.rate()),
            text(trial.cpu_ns_per_run()),
            text(trial.task().and_then(|task| task.server_cpu_ns)),
            text(trial.task().map(|task| task.left_behind)),
            text(trial.task().and_then(|task| task.events)),
        ],
        Workload::Ring => vec![
            trial.calls.to_string(),
            trial.wall_ns.to_string(),
            text(trial.rate()),
            text(trial.ring().map(|ring| ring.submitted)),
            text(trial.ring().map(|ring| ring.enters)),
            text(trial.ring().map(|ring| ring.checked)),
            text(trial.ring().and_then(|ring| ring.overflowed_after_rounds)),
        ],
    });
    record.extend([trial.warmup_ns.to_string(), text(cpu(trial, Side::Source)), text(cpu(trial, Side::Sink))]);
    for end in [trial.source_side(), trial.sink_side()] {
        record.extend(end_counters(end));
    }
    record.extend(machine(trial.machine.as_ref()));
    record
}

/// The CPU of the end on one side; competing clients have no column.
fn cpu(trial: &Trial, side: Side) -> Option<usize> {
    trial.cpus.iter().find(|(role, _)| role.side() == side && *role != EndRole::Competitor).map(|(_, cpu)| *cpu)
}

fn failed_calls(trial: &Trial) -> Option<u64> {
    let report = trial.client()?;
    Some(report.errors.iter().map(|error| error.count).sum())
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn end_counters(end: Option<&EndReport>) -> [String; column::COUNT] {
    end.map(|end| column::of_end(end).map(|count| count.to_string())).unwrap_or_default()
}

fn machine(machine: Option<&MachineUse>) -> [String; MACHINE.len()] {
    machine.map(|m| [m.wall_ns, m.busy_ns, m.softirq_ns, m.steal_ns].map(|ns| ns.to_string())).unwrap_or_default()
}
