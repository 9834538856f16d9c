//! What the methods of a relay are told, and what one is that takes and gives by hand.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::fault::Fault;
use crate::meter::Meter;
use crate::relay::shared::RelayShared;
use crate::setup::Setup;

/// What a relay's thread looks at.
#[derive(Clone, Copy, Debug)]
pub struct Cues<'a> {
    /// Set by the watchdog: leave at once.
    pub abort: &'a AtomicBool,
    /// Set when the relay is told that nobody needs it any more.
    pub told: &'a AtomicBool,
}

/// What a method is carried with.
pub(super) struct Carrying<'a, 'm> {
    pub(super) shared: &'a Arc<RelayShared>,
    pub(super) setup: &'a Setup,
    pub(super) cues: Cues<'a>,
    pub(super) meter: &'m mut Meter,
}

/// A method whose every step is a call of its own: it runs in calls that block as in calls that do not.
///
/// One direction of a connection has one. It takes only when it holds nothing, and gives until it does.
pub(super) trait CopyMethod: Sized + Send {
    /// Prepares what a direction needs.
    ///
    /// # Errors
    /// [`Fault::Missing`] if this machine lacks it.
    fn new(setup: &Setup) -> Result<Self, Fault>;

    /// Bytes asked for at most by one [`take`](CopyMethod::take): fewer are a short one.
    fn room(&self) -> usize;

    /// Takes bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// The kernel's.
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize>;

    /// Gives bytes that it holds, all or a part.
    ///
    /// # Errors
    /// The kernel's.
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize>;

    /// Bytes taken and not given yet.
    fn held(&self) -> usize;

    /// Whether the last take, of so many bytes, may have left some in the socket. A buffer that was not filled proves that it did
    /// not; a pipe counts fragments, and may be full with a few bytes.
    fn may_leave_some(&self, taken: usize) -> bool {
        taken == self.room()
    }

    /// Capacity of its pipe, if it has one.
    fn pipe_size(&self) -> Option<usize> {
        None
    }
}
