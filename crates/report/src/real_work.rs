//! Rates of io_uring engines with real work, as a comparison for the ceiling of a ring: from the last session of this machine
//! in the same store that measured it, or else the command that would.
//!
//! Measures nothing and compares nothing: the two were not measured in the same blocks, so only their order of magnitude is
//! reported.

use std::collections::BTreeMap;

use bytegauge_model::unit::{call_rate, nop_rate};
use bytegauge_model::{CellKind, Engine, Outcome, SessionId, SessionRecord, Stage, Transport, Workload};
use bytegauge_stats::quantile::median;
use bytegauge_store::{Store, StoreError};

use crate::outward::percent;
use crate::phrase;
use crate::view::View;

/// Sessions that are searched, the newest first: older ones were measured under other conditions.
const SESSIONS_MAX: usize = 50;

/// A kind of real work, its transports, and the command that measures it.
struct RealWork {
    name: &'static str,
    transports: &'static [&'static str],
    command: &'static str,
}

const WORK: &[RealWork] = &[
    RealWork {
        name: "echo over stream sockets",
        transports: &["tcp", "tcp6", "unix"],
        command: "bytegauge run tcp-echo",
    },
    RealWork {
        name: "echo of datagrams",
        transports: &["udp", "udp6", "unix-dgram"],
        command: "bytegauge call --transport udp --server-engine uring",
    },
];

/// The meaning of the ceiling, its limits, and the rates of real work; nothing for other workloads.
///
/// # Errors
/// When the store cannot be read.
pub fn notes(store: &Store, view: &View) -> Result<Vec<String>, StoreError> {
    if view.plan.workload != Workload::Ring.to_string() {
        return Ok(Vec::new());
    }
    let mut notes = vec![MEANING.to_owned()];
    let record = store.session(view.session)?;
    let known = |name: &&str| name.parse::<Transport>().is_ok();
    for work in WORK.iter().filter(|work| work.transports.iter().any(known)) {
        notes.push(match latest(store, &record, work)? {
            Some(found) => found.text(work, ceiling(view)),
            None => format!(
                "{} on an io_uring engine was not measured on this machine yet: `{}` does",
                phrase::capital(work.name),
                work.command
            ),
        });
    }
    Ok(notes)
}

const MEANING: &str = "a NOP shows the time that it takes to submit an operation and to take its completion, on one thread: an \
                       upper bound for every io_uring program here. It holds no socket, no copy and no wake-up, so it \
                       does not show how fast real operations are, nor whether io_uring is faster than something else";

/// The highest rate of the session, NOPs per second.
fn ceiling(view: &View) -> Option<f64> {
    let compared = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    compared.filter_map(|cell| cell.estimate.median).reduce(f64::max)
}

/// The fastest cell of a session that did real work.
struct FastestCell {
    session: SessionId,
    engine: String,
    conditions: String,
    calls_per_second: f64,
}

impl FastestCell {
    fn text(&self, work: &RealWork, ceiling: Option<f64>) -> String {
        let rate = call_rate(self.calls_per_second);
        let share = ceiling.map(|nops| {
            format!(
                ", {} of the {} that the fastest NOPs of this session reached; a call is a receive and a send at least",
                percent(self.calls_per_second / nops),
                nop_rate(nops)
            )
        });
        format!(
            "{} by {} reached {rate} on this machine (session {}, {}){}",
            work.name,
            self.engine,
            self.session,
            self.conditions,
            share.unwrap_or_default()
        )
    }
}

fn latest(store: &Store, record: &SessionRecord, work: &RealWork) -> Result<Option<FastestCell>, StoreError> {
    let mut ids: Vec<SessionId> = store.sessions()?.into_iter().map(|summary| summary.id).collect();
    ids.sort_unstable_by_key(|id| std::cmp::Reverse(id.0));
    for id in ids.into_iter().take(SESSIONS_MAX) {
        let other = store.session(id)?;
        if other.workload == Workload::Call.to_string()
            && is_same_machine(record, &other)
            && let Some(found) = fastest(store, id, work)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether processor and kernel are the same, so that the rates are about the same system.
pub fn is_same_machine(one: &SessionRecord, other: &SessionRecord) -> bool {
    ["/cpu/model", "/kernel_release"].iter().all(|fact| {
        let known = one.machine.pointer(fact);
        known.is_some() && known == other.machine.pointer(fact)
    })
}

fn fastest(store: &Store, session: SessionId, work: &RealWork) -> Result<Option<FastestCell>, StoreError> {
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in store.trials(session)? {
        if let (Stage::Confirm, Outcome::Measured, Some(rate)) = (trial.stage, &trial.outcome, trial.rate()) {
            rates.entry(trial.cell.0).or_default().push(rate);
        }
    }
    let found = store.cells(session)?.into_iter().filter_map(|row| {
        let levels = &row.cell.factors;
        let engine = levels.server_engine().filter(|engine| matches!(engine, Engine::Uring(_)))?;
        let carried = levels.transport().is_some_and(|of| work.transports.contains(&of.to_string().as_str()));
        let compared = carried && row.cell.kind == CellKind::Candidate;
        let calls_per_second = median(rates.get(&row.cell.id.0).filter(|_| compared)?)?;
        let conditions = phrase::group_label(&levels.of_role(bytegauge_model::Role::Condition));
        Some(FastestCell { session, engine: engine.to_string(), conditions, calls_per_second })
    });
    Ok(found.max_by(|a, b| a.calls_per_second.total_cmp(&b.calls_per_second)))
}
