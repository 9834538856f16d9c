//! Lengths of messages over sockets that keep their bounds (`SOCK_SEQPACKET`, unix(7)): each has to fit the sender's buffer and
//! the reader's memory.

use std::os::fd::AsFd;

use bytegauge_sys::option::{self, Value};

use crate::end_error::EndError;
use crate::setup::Setup;

/// The kernel keeps this much of a send buffer for itself (`unix_dgram_sendmsg`, net/unix/af_unix.c), bytes.
const RESERVED: u64 = 32;

/// Whether reads of a stream take whole writes: a shorter one loses the rest of its message (recv(2), `MSG_TRUNC`).
///
/// # Errors
/// [`EndError::Missing`] with the lengths: such a cell is skipped, and others can be measured.
pub(super) fn fit_reads(setup: &Setup) -> Result<(), EndError> {
    let (read, write) = (setup.read_size(), setup.write_size().unwrap_or_default());
    if !setup.transport().keeps_bounds() || read >= write {
        return Ok(());
    }
    Err(EndError::Missing(format!(
        "over {} a read of {read} B loses the rest of a write of {write} B: use a --read-size of at least {write} B",
        setup.transport()
    )))
}

/// Whether requests and replies fit one read at either end.
///
/// # Errors
/// As for [`fit_reads`].
pub(crate) fn fit_messages(setup: &Setup) -> Result<(), EndError> {
    let (most, buffer) = (longest_message(setup), setup.read_size());
    if !setup.transport().keeps_bounds() || most <= buffer {
        return Ok(());
    }
    Err(EndError::Missing(format!(
        "over {} a read of {buffer} B loses the rest of a message of {most} B: use a --read-size of at least {most} B",
        setup.transport()
    )))
}

/// The longest message of a call.
pub(crate) fn longest_message(setup: &Setup) -> usize {
    setup.request().max(setup.response())
}

/// Whether a message fits the send buffer of a socket, whose options are set.
///
/// # Errors
/// As for [`fit_reads`]; the kernel would refuse each send with `EMSGSIZE`.
pub(crate) fn fit_socket(socket: impl AsFd, setup: &Setup, message: usize) -> Result<(), EndError> {
    let Ok(Value::Number(buffer)) = option::read(socket.as_fd(), option::SEND_BUFFER) else { return Ok(()) };
    let most = buffer.saturating_sub(RESERVED);
    if !setup.transport().keeps_bounds() || message as u64 <= most {
        return Ok(());
    }
    Err(EndError::Missing(format!(
        "over {} a message of {message} B exceeds the {most} B that a socket with SO_SNDBUF of {buffer} B takes: use a smaller \
         one, or a larger --sndbuf",
        setup.transport()
    )))
}
