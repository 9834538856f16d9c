//! The inputs of relay methods, and the trait of methods that read and write by system calls.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::end_error::EndError;
use crate::meter::Meter;
use crate::relay::state::RelayShared;
use crate::setup::Setup;

/// The flags that a relay's thread checks.
#[derive(Clone, Copy, Debug)]
pub struct Cues<'a> {
    /// Set by the watchdog: leave at once.
    pub abort: &'a AtomicBool,
    /// Set when the relay is to stop.
    pub stop_requested: &'a AtomicBool,
}

/// The parameters of a method.
pub(super) struct Carrying<'a, 'm> {
    pub(super) shared: &'a Arc<RelayShared>,
    pub(super) setup: &'a Setup,
    pub(super) cues: Cues<'a>,
    pub(super) meter: &'m mut Meter,
}

/// A method of which every step is a system call: it works with blocking and non-blocking calls.
///
/// One direction of a connection has one. It takes bytes only when it holds none, and gives until it holds none.
pub(super) trait CopyMethod: Sized + Send {
    /// Whether it has calls of its own, rather than an engine's.
    const CALLS: bool = true;

    /// Prepares what a direction needs.
    ///
    /// # Errors
    /// [`EndError::Missing`] if this machine lacks it.
    fn new(setup: &Setup) -> Result<Self, EndError>;

    /// Most bytes requested by one [`take`](CopyMethod::take): a short read returns fewer.
    fn room(&self) -> usize;

    /// Takes bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// The kernel's.
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize>;

    /// Gives bytes that it holds: all or some of them.
    ///
    /// # Errors
    /// The kernel's.
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize>;

    /// Bytes taken and not given yet.
    fn held(&self) -> usize;

    /// Whether the last take, of `taken` bytes, may have left some in the socket. A buffer that was not filled proves that none
    /// are left; a pipe counts fragments, and may be full with a few bytes.
    fn may_leave_some(&self, taken: usize) -> bool {
        taken == self.room()
    }

    /// Capacity of its pipe, if it has one.
    fn pipe_size(&self) -> Option<usize> {
        None
    }
}
