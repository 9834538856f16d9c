//! The kernel's facts about some of an end's connections: options in force, window scales, memory, queues.
//!
//! A few represent all: thousands of connections have equal settings, and querying the kernel costs system calls in the trial.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytegauge_model::FlowReport;
use bytegauge_sys::socket_memory;

use crate::setup::Setup;
use crate::transport::kernel_report;

/// Connections to sample per thread.
const SAMPLES: usize = 4;

/// The sampled connections of one thread.
#[derive(Debug)]
pub struct Samples {
    setup: Arc<Setup>,
    found: Vec<FlowReport>,
    /// Whether none of them was opened with data, and one is wanted: the first connections request their cookies.
    wants_syn_data: bool,
}

impl Samples {
    /// No sample yet.
    pub fn new(setup: &Arc<Setup>) -> Samples {
        let wants_syn_data = setup.spec.fastopen().is_some();
        Samples { setup: Arc::clone(setup), found: Vec::with_capacity(SAMPLES), wants_syn_data }
    }

    /// Samples a connection, if more are needed.
    pub fn look(&mut self, fd: BorrowedFd<'_>) {
        if self.found.len() >= SAMPLES && !self.wants_syn_data {
            return;
        }
        let report = FlowReport {
            queued_bytes: socket_memory::queued_in(fd).ok().map(|bytes| bytes as u64).into(),
            ..kernel_report::report(fd, &self.setup)
        };
        let has_syn_data = report.tcp.as_ref().is_some_and(|tcp| tcp.syn_data == Some(true));
        if self.found.len() >= SAMPLES && has_syn_data {
            self.found.pop();
        }
        self.wants_syn_data &= !has_syn_data;
        if self.found.len() < SAMPLES {
            self.found.push(report);
        }
    }

    /// The samples.
    pub fn into_reports(self) -> Vec<FlowReport> {
        self.found
    }
}
