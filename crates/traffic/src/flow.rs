//! A workload's view of one connection.
//!
//! A flow says what it wants next and is told what happened. It does no I/O and reads no clock, so that
//! every engine can carry every workload: W workloads + E engines, not W × E.

/// What a flow wants to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Send what [`Flow::outgoing`] holds.
    Send,
    /// Receive into the engine's buffer.
    Receive,
}

/// Why a flow's connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent everything it had to send and closed.
    Eof,
    /// The peer takes no more data.
    Closed,
}

/// A workload's state for one connection.
pub trait Flow {
    /// What to do next. Called before every call.
    fn want(&self) -> Want;

    /// The bytes to send next. Never empty while the flow wants to send.
    fn outgoing(&mut self) -> &[u8];

    /// `n` bytes of what was outgoing were taken.
    fn sent(&mut self, n: usize);

    /// These bytes arrived. `false` ends the flow: something is wrong with them.
    fn received(&mut self, bytes: &mut [u8]) -> bool;
}
