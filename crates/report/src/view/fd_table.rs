//! The cost of a shared descriptor table: cells that were measured with both kinds and differ in nothing else.
//!
//! CPU time of a read at the sink, or of a request at the server, trial by trial. The two kinds differ significantly if the
//! intervals of their medians do not overlap.

use std::collections::BTreeMap;

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellKind, EndRole, FdTable, Level, Outcome, Spec, Stage, Trial, Workload};
use bytegauge_stats::interval::sign_interval;

use crate::SessionData;

/// The level of the intervals.
const LEVEL: f64 = 0.95;

/// `a second thread in your process costs 49 ns of CPU time per read (4 of 4 cells measured with both kinds of --fd-table)`, the
/// median over the cells in which it is significant; `None` if no cell was measured with both kinds.
pub fn sentence(data: &SessionData) -> Option<String> {
    let mut pairs: BTreeMap<Spec, [Vec<f64>; 2]> = BTreeMap::new();
    let candidates = data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate);
    for row in candidates {
        let Some(table) = row.cell.factors.fd_table() else { continue };
        let mut alike = row.cell.factors.clone();
        alike.set("fd_table", Level::Absent);
        let counted = data.trials.iter().filter(|trial| trial.cell == row.cell.id).filter_map(cpu_ns_per_call);
        pairs.entry(alike).or_default()[usize::from(table == FdTable::Shared)].extend(counted);
    }
    let mut of = 0;
    let mut more: Vec<f64> = Vec::new();
    for [private, shared] in pairs.into_values().filter(|[private, shared]| !private.is_empty() && !shared.is_empty()) {
        of += 1;
        let [private, shared] = [private, shared].map(|values| sign_interval(&values, LEVEL));
        let ends = (private.upper.zip(shared.lower), private.median.zip(shared.median));
        if let (Some((upper, lower)), Some((least, most))) = ends
            && lower > upper
        {
            more.push(most - least);
        }
    }
    let ns = sign_interval(&more, LEVEL).median.unwrap_or(0.0);
    let each = if data.trials.first()?.workload == Workload::Call { "call" } else { "read" };
    let measured = format!("{} measured with both kinds of --fd-table", counted(of, "cell"));
    (of > 0).then(|| match more.len() {
        0 => format!("a shared descriptor table costs no significant CPU time per {each} ({measured})"),
        cells => format!(
            "a second thread in your process costs {} ns of CPU time per {each} here, since both use one descriptor table \
             (significant in {cells} of {measured})",
            significant(ns, 2)
        ),
    })
}

fn cpu_ns_per_call(trial: &Trial) -> Option<f64> {
    if trial.stage != Stage::Confirm || trial.outcome != Outcome::Measured {
        return None;
    }
    let end = trial.end(if trial.workload == Workload::Call { EndRole::Server } else { EndRole::Sink })?;
    (end.calls > 0 && end.cpu_time_ns() > 0).then(|| end.cpu_time_ns() as f64 / end.calls as f64)
}
