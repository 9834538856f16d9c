//! Raw data of a client's calls and of the engine that carried them, as in [`crate::trial`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::slo::Probe;
use crate::sums::sums;

/// A histogram of times in nanoseconds, in the V2 encoding of HdrHistogram, base64: mergeable, and readable
/// by every HdrHistogram library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EncodedHistogram(pub String);

/// Counts of one group of clients within its window.
///
/// Times of a closed loop are service times: from the moment the client was ready to send. With an offered
/// rate they begin at the moment the call was intended, so that a stalled server is felt by every call it
/// held up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallReport {
    /// Calls whose reply was complete within the window.
    pub calls: u64,
    /// Calls begun in the client's whole life.
    pub begun: u64,
    /// Calls completed in the client's whole life.
    pub completed: u64,
    /// Calls that were in flight when the client was made to leave before its time.
    pub unfinished: u64,
    /// Calls that were due by the offered rate within the window but had not begun at its end.
    pub overdue: u64,
    /// Mean length of the clients' windows, nanoseconds.
    pub window_ns: u64,
    /// From connect(2) to the established connection; absent where connections persist.
    pub connect: Option<EncodedHistogram>,
    /// From the beginning of a request to its last byte taken by the kernel.
    pub write: Option<EncodedHistogram>,
    /// From the beginning of a call to the first byte of its reply.
    pub first_byte: Option<EncodedHistogram>,
    /// From the beginning of a call to the last byte of its reply.
    pub total: Option<EncodedHistogram>,
    /// From the arrival of one part of a reply to that of the next, where replies have parts.
    pub gap: Option<EncodedHistogram>,
    /// How old calls were when the window closed that had begun and were not over. Absent in sessions that were stored
    /// without.
    pub left: Option<EncodedHistogram>,
    /// How old calls were when the window opened that had begun and were not over.
    pub entered: Option<EncodedHistogram>,
    /// How late the client began calls that were completed within the window: from the moment at which a call was due and its
    /// flow free to begin it. Absent where calls have no intended moments, and in sessions that were stored without.
    pub late: Option<EncodedHistogram>,
    /// Errors, by class, over the client's whole life.
    pub errors: Vec<CallError>,
    /// Every probe of the search that ended with this report, in the order in which they were made; empty without
    /// a search.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<Probe>,
    /// Counts of datagrams, where calls are carried by them.
    pub datagrams: Option<CallDatagrams>,
    /// Connections over TCP for which the queues of the listeners had no room, by the listeners' own counts: only servers have it.
    pub listen_drops: Option<u64>,
}

/// Counts of datagrams at one end of calls, over its whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallDatagrams {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that it refused; at a server, replies to clients that had ended or had no room.
    pub unsent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// The ones among them that were longer than the buffer, so that their ends are lost (`MSG_TRUNC`).
    pub truncated: u64,
    /// Datagrams that the kernel dropped because a socket of this end had no room (`SK_MEMINFO_DROPS`).
    pub dropped: u64,
    /// Replies to calls that had been given up.
    pub late: u64,
    /// Replies to calls that had been answered.
    pub duplicated: u64,
    /// Replies that a reply to a later call had overtaken.
    pub overtaken: u64,
    /// Datagrams that match no call.
    pub strange: u64,
}

sums!(CallDatagrams { sent, unsent, received, truncated, dropped, late, duplicated, overtaken, strange });

/// Calls that failed in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// The error.
    pub class: ErrorClass,
    /// The client's state.
    pub phase: ErrorPhase,
    /// How often.
    pub count: u64,
    /// Bytes of requests that were taken by the kernel and of whose reply not all arrived.
    pub request_bytes_lost: u64,
    /// Bytes of replies that were due and did not arrive.
    pub reply_bytes_missing: u64,
}

impl CallError {
    /// Adds calls with the same error. Counts may come from another host: no sum overflows.
    pub fn add(&mut self, more: &CallError) {
        self.count = self.count.saturating_add(more.count);
        self.request_bytes_lost = self.request_bytes_lost.saturating_add(more.request_bytes_lost);
        self.reply_bytes_missing = self.reply_bytes_missing.saturating_add(more.reply_bytes_missing);
    }
}

/// The error of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// The peer reset the connection (`ECONNRESET`, `EPIPE`).
    Reset,
    /// No listener (`ECONNREFUSED`), or the name of a Unix socket does not exist (`ENOENT`).
    Refused,
    /// The backlog of a Unix socket is full (`EAGAIN` of connect(2)); TCP keeps silent then.
    BacklogFull,
    /// No answer in time.
    TimedOut,
    /// The peer closed before the reply was complete.
    ShortReply,
    /// More bytes arrived than the reply has.
    LongReply,
    /// The reply holds other bytes than were expected.
    Corrupt,
    /// No local port is free (`EADDRNOTAVAIL`).
    NoPort,
    /// No descriptor is free (`EMFILE`, `ENFILE`).
    NoDescriptor,
    /// The host or network cannot be reached.
    Unreachable,
    /// Anything else.
    Other(
        /// The kernel's error number (errno(3)).
        i32,
    ),
}

/// Where in its life a call was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorPhase {
    /// Opening the connection.
    Connect,
    /// Sending the request.
    Write,
    /// Waiting for the first byte of the reply.
    FirstByte,
    /// In the middle of the reply.
    Reply,
    /// Between two calls.
    Idle,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ErrorClass::Other(errno) => write!(out, "errno {errno}"),
            named => named.serialize(out),
        }
    }
}

impl fmt::Display for ErrorPhase {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.serialize(out)
    }
}

/// Counts of an engine over its whole life: the evidence that the requested mode did run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineReport {
    /// System calls that the engine itself made.
    pub system_calls: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Most connections accepted at one wake-up.
    pub accepted_at_once: u64,
    /// Most datagrams of one receive (recvmmsg(2)).
    pub received_at_once: u64,
    /// Most datagrams of one send (sendmmsg(2)).
    pub sent_at_once: u64,
    /// Completions taken from a ring.
    pub completions: u64,
    /// Completions of multishot requests (`IORING_CQE_F_MORE`), receives only.
    pub multishot: u64,
    /// Times a multishot request ended without a free buffer (`ENOBUFS`).
    pub out_of_buffers: u64,
    /// Completions that took more than one buffer.
    pub bundled: u64,
    /// Sends that asked for zero copy.
    pub zero_copy: u64,
    /// Part of them that the kernel reports as copied after all (`IORING_NOTIF_USAGE_ZC_COPIED`).
    pub zero_copy_copied: u64,
    /// Bytes that the engine copied from one place of the program's memory to another, since it could not send or hand
    /// over from where they were. 0 where messages fit a read.
    pub copied_bytes: u64,
    /// Bytes of memory that data was sent from or received into, of all connections; 0 where the engine does not count
    /// it.
    pub buffer_bytes: u64,
    /// Receives that brought the number of bytes still queued (`TCP_INQ`, `SO_INQ`).
    pub queued_counts: u64,
    /// CPU time of helper threads that the kernel runs for the engine (SQPOLL, io-wq), nanoseconds; absent
    /// where it is unknown.
    pub kernel_threads_ns: Option<u64>,
}

sums!(EngineReport {
    system_calls, accepted, completions, multishot, out_of_buffers, bundled, zero_copy,
    zero_copy_copied, copied_bytes, buffer_bytes, queued_counts, kernel_threads_ns,
} max { accepted_at_once, received_at_once, sent_at_once });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names() {
        assert_eq!(
            [ErrorClass::TimedOut, ErrorClass::Other(71)].map(|class| class.to_string()),
            ["timed-out", "errno 71"]
        );
        assert_eq!(ErrorPhase::FirstByte.to_string(), "first-byte");
    }
}
