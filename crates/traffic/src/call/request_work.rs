//! The work of a server on its requests: `--work` on every byte, `--working-set` once per request.
//!
//! Each connection has its own, as each reader of a stream does, in any engine: no engine waits for the work of another
//! connection, and all engines touch the same memory. If requests have no connection, each thread has one. Never shared, so
//! it takes no lock.

use bytegauge_model::Work;

use crate::setup::Setup;
use crate::stream::{CopyOut, ReaderWork, SpinPerByte, Sum, Walk};

/// Memory and sums of the work for one connection.
#[derive(Debug)]
pub(super) struct RequestWork {
    bytes: ByteWork,
    walk: Option<Walk>,
    /// Bytes and requests worked on.
    done: WorkDone,
}

/// The amount of work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkDone {
    /// Bytes.
    pub(super) bytes: u64,
    /// Requests.
    pub(super) requests: u64,
}

#[derive(Debug)]
enum ByteWork {
    None,
    Sum(Sum),
    Copy(CopyOut),
    Spin(SpinPerByte),
    /// Waits until the work of another connection runs as well.
    #[cfg(test)]
    Meet(std::sync::Arc<std::sync::Barrier>),
}

impl RequestWork {
    /// Whether a path requires work.
    pub(super) fn is_asked_for(setup: &Setup) -> bool {
        setup.work() != Work::None || setup.working_set() > 0
    }

    /// Bytes of memory of a path's work.
    pub(super) fn memory(setup: &Setup) -> u64 {
        let copy = if setup.work() == Work::Copy { setup.read_size() as u64 } else { 0 };
        copy.saturating_add(setup.working_set() as u64)
    }

    /// A path's work, its memory touched; `None` if it requires none.
    pub(super) fn of(setup: &Setup) -> Option<RequestWork> {
        if !RequestWork::is_asked_for(setup) {
            return None;
        }
        let bytes = match setup.work() {
            Work::None => ByteWork::None,
            Work::Sum => ByteWork::Sum(Sum::default()),
            Work::Copy => ByteWork::Copy(CopyOut::new(setup.read_size())),
            Work::NsPerByte(ns) => ByteWork::Spin(SpinPerByte(ns)),
        };
        let walk = (setup.working_set() > 0).then(|| Walk::new(setup.working_set()));
        Some(RequestWork { bytes, walk, done: WorkDone::default() })
    }

    /// Work that ends only while the work of another connection runs.
    #[cfg(test)]
    pub(super) fn meeting(barrier: std::sync::Arc<std::sync::Barrier>) -> RequestWork {
        RequestWork { bytes: ByteWork::Meet(barrier), walk: None, done: WorkDone::default() }
    }

    /// Works on bytes of a request.
    #[inline]
    pub(super) fn on_bytes(&mut self, bytes: &[u8]) {
        self.done.bytes += bytes.len() as u64;
        match &mut self.bytes {
            ByteWork::None => {}
            ByteWork::Sum(sum) => sum.spend(bytes),
            ByteWork::Copy(copy) => copy.spend(bytes),
            ByteWork::Spin(spin) => spin.spend(bytes),
            #[cfg(test)]
            ByteWork::Meet(barrier) => drop(barrier.wait()),
        }
    }

    /// Works on a request that is complete.
    #[inline]
    pub(super) fn on_request(&mut self) {
        self.done.requests += 1;
        if let Some(walk) = &mut self.walk {
            walk.walk();
        }
    }

    /// The work done since the last call.
    pub(super) fn take_done(&mut self) -> WorkDone {
        std::mem::take(&mut self.done)
    }
}
