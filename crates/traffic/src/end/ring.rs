//! The end that runs a ring: one thread, pinned, watched, waited for.

use std::sync::Arc;
use std::time::Duration;

use bytegauge_model::EndReport;

use crate::end::crew::{Crew, Flags};
use crate::end::gate::Gate;
use crate::end::serve::Peer;
use crate::fault::Fault;
use crate::message::{Command, Reply};
use crate::ring::{self, RingSetup};

/// Carries one trial. `Ok(None)` when it was called off.
pub(super) fn carry(peer: &mut impl Peer, setup: &Arc<RingSetup>) -> Result<Option<(EndReport, Option<Fault>)>, Fault> {
    let (gate, flags) = (Arc::new(Gate::new()), Flags::default());
    let crew = Crew::start(
        format!("a ring of {} ({})", setup.entries, setup.implementation),
        1,
        flags.clone(),
        |_| setup.cpu,
        |_| {
            let (setup, gate, flags) = (Arc::clone(setup), Arc::clone(&gate), flags.clone());
            move || if gate.wait().is_some() { ring::carry(&setup, &flags.abort) } else { Default::default() }
        },
    )?;
    if !(peer.reply(Reply::Ready) && peer.command() == Some(Command::Go)) {
        gate.call_off();
        let _ = crew.finish(Duration::ZERO);
        return Ok(None);
    }
    gate.open();
    let left = crew.finish(Duration::from_nanos(setup.warmup_ns + setup.window_ns + setup.grace_ns));
    let (report, fault) = left.parts.into_iter().next().unwrap_or_default();
    Ok(Some((report, left.fault.or(fault))))
}
