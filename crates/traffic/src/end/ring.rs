//! The end that runs a ring: one thread, and no other end.

use std::sync::Arc;

use bytegauge_model::EndRole;

use crate::end::peer::Peer;
use crate::end::plan::EndPlan;
use crate::end::runner::{self, EndResult};
use crate::end::thread_group::EndThread;
use crate::end_error::EndError;
use crate::ring;
use crate::setup::Setup;

/// Runs a trial. `Ok(None)` if it was called off.
pub(super) fn run(peer: &mut impl Peer, setup: &Arc<Setup>) -> Result<Option<EndResult>, EndError> {
    let Setup { warmup_ns, window_ns, grace_ns, .. } = **setup;
    let what = format!("a ring of {} ({})", setup.entries(), setup.implementation());
    let cpus = vec![setup.cpu(EndRole::Ring, 0)];
    let patience_ns = warmup_ns + window_ns + grace_ns;
    let plan = EndPlan { patience_ns, ..EndPlan::of(what, EndRole::Ring.name(), cpus, "rings") };
    let results = runner::run(peer, &plan, |_, _| {
        let setup = Arc::clone(setup);
        EndThread::new(Vec::new(), move |mut start| match start.begin() {
            Some(_) => ring::carry(&setup, &start.flags.abort),
            None => Default::default(),
        })
    })?;
    let Some(results) = results else { return Ok(None) };
    let (report, fault) = results.parts.into_iter().next().unwrap_or_default();
    Ok(Some(EndResult { report, fault: results.fault.or(fault), ..EndResult::default() }))
}
