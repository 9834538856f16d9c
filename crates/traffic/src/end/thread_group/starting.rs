//! The preparation of a thread of an end, before its job begins.

use std::os::fd::RawFd;
use std::sync::{Arc, mpsc};

use bytegauge_sys::interrupt::ThreadHandle;
use bytegauge_sys::{affinity, clock, descriptor_table};

use crate::end::gate::Gate;
use crate::end::thread_group::Preparing;
use crate::end_error::EndError;

/// The report that a thread is prepared, to be sent when it is.
pub(super) type ReadyReport = (mpsc::Sender<Preparing>, ThreadHandle);

/// The preparation of a thread, before its job begins.
pub(super) struct Starting {
    /// Descriptors to keep in a table of its own.
    pub(super) kept: Vec<RawFd>,
    pub(super) waits: bool,
    pub(super) cpu: Option<usize>,
    pub(super) tables: Arc<Gate>,
    pub(super) all_left: Arc<Gate>,
    pub(super) report: mpsc::Sender<Preparing>,
}

impl Starting {
    /// Prepares the calling thread. `None` if its job must not begin.
    pub(super) fn prepare(self, own_tables: bool) -> Option<ReadyReport> {
        if self.waits {
            // If a filter forbids it, waits are late by the default slack, which is visible in their recorded lateness.
            let _ = clock::wake_precisely();
        }
        let prepared = pin(self.cpu)
            .and_then(|()| ThreadHandle::current().map_err(EndError::io("preparing the watchdog")))
            .and_then(|handle| Ok((!own_tables || self.leaves_table()?).then_some(handle)));
        // The channel is closed if another thread could not begin.
        prepared
            .unwrap_or_else(|fault| {
                let _ = self.report.send(Preparing::Failed(fault));
                None
            })
            .map(|handle| (self.report, handle))
    }

    /// Leaves the shared descriptor table together with the other threads; `false` if the start was called off.
    fn leaves_table(&self) -> Result<bool, EndError> {
        let _ = self.report.send(Preparing::Started);
        if self.tables.wait().is_none() {
            return Ok(false);
        }
        own_table(&self.kept)?;
        let _ = self.report.send(Preparing::LeftTable);
        Ok(self.all_left.wait().is_some())
    }
}

/// Leaves the shared descriptor table.
fn own_table(kept: &[RawFd]) -> Result<(), EndError> {
    descriptor_table::leave_shared(kept).map_err(|error| {
        EndError::Missing(format!(
            "a thread cannot have a descriptor table of its own ({error}): use --fd-table shared"
        ))
    })
}

fn pin(cpu: Option<usize>) -> Result<(), EndError> {
    let Some(cpu) = cpu else { return Ok(()) };
    affinity::pin_thread(&[cpu]).map_err(|error| {
        EndError::Missing(format!("pinning to CPU {cpu} is not permitted ({error}): use --placement unpinned"))
    })
}
