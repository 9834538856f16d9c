//! The end that runs a ring: one thread, and no other end.

use std::sync::Arc;

use bytegauge_model::{EndReport, EndRole};

use crate::end::crew::{Flags, LARGE_STACK, Left, Post, Roster};
use crate::end::duty::{Duty, EndResult, Hand, Lasting};
use crate::fault::Fault;
use crate::ring;
use crate::setup::Setup;

/// A ring's end, and its only thread.
#[derive(Clone)]
pub(super) struct RingEnd(pub(super) Arc<Setup>);

impl Duty for RingEnd {
    type Hand = RingEnd;

    fn roster(&self) -> Roster {
        Roster {
            what: format!("a ring of {} ({})", self.0.entries(), self.0.implementation()),
            name: EndRole::Ring.name(),
            cpus: vec![self.0.cpu(EndRole::Ring, 0)],
            fewer: "rings",
            stack: LARGE_STACK,
            own_tables: false,
            waits: false,
        }
    }

    fn hand(&mut self, _thread: usize, _flags: &Flags) -> RingEnd {
        self.clone()
    }

    fn lasting(&self) -> Lasting {
        let Setup { warmup_ns, window_ns, grace_ns, .. } = *self.0;
        Lasting { until_stopped: false, patience_ns: warmup_ns + window_ns + grace_ns, windowed: None }
    }

    fn report(self, left: Left<(EndReport, Option<Fault>)>) -> EndResult {
        let (report, fault) = left.parts.into_iter().next().unwrap_or_default();
        EndResult { report, fault: left.fault.or(fault), ..EndResult::default() }
    }
}

impl Hand for RingEnd {
    type Part = (EndReport, Option<Fault>);

    fn carry(self, mut post: Post<Self::Part>) -> Self::Part {
        match post.begin() {
            Some(_) => ring::carry(&self.0, &post.flags.abort),
            None => Default::default(),
        }
    }
}
