//! The kernel's facts about some of an end's connections: options in force, window scales, memory, queues.
//!
//! A few represent all: thousands of connections have equal settings, and querying the kernel costs system calls in the trial.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytegauge_model::FlowReport;
use bytegauge_sys::socket_memory;

use crate::setup::Setup;
use crate::transport::kernel;

/// Connections to sample per thread.
const SAMPLES: usize = 4;

/// The sampled connections of one thread.
#[derive(Debug)]
pub struct Samples {
    setup: Arc<Setup>,
    found: Vec<FlowReport>,
}

impl Samples {
    /// No sample yet.
    pub fn new(setup: &Arc<Setup>) -> Samples {
        Samples { setup: Arc::clone(setup), found: Vec::with_capacity(SAMPLES) }
    }

    /// Samples a connection, if more are needed.
    pub fn look(&mut self, fd: BorrowedFd<'_>) {
        if self.found.len() >= SAMPLES {
            return;
        }
        self.found.push(FlowReport {
            queued_bytes: socket_memory::queued_in(fd).ok().map(|bytes| bytes as u64),
            ..kernel::report(fd, &self.setup)
        });
    }

    /// The samples.
    pub fn into_reports(self) -> Vec<FlowReport> {
        self.found
    }
}
