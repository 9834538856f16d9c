//! What the TCP connections of a running program wait for, from samples of `TCP_INFO`, and what that is consistent with.
//!
//! A wait shows a possible cause and proves none: an experiment does (`bytegauge tune`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::unit::Bytes;

/// Samples with a held message, fewer of which are chance.
const HELD_MIN: u64 = 3;

/// The least share of samples or of time that is reported.
const SHARE_MIN: f64 = 0.2;

/// Less time with data under way shows nothing, microseconds.
const BUSY_MIN_US: u64 = 10_000;

/// A fixed receive buffer of this size limits no path within a building, bytes.
const FIXED_MAX: u64 = 1 << 20;

/// Sums over the samples of a program's TCP connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketWaits {
    /// Samples of a connection with unacknowledged data.
    pub samples: u64,
    /// Of these, samples in which less than a segment waited, and nothing had been sent for 5 ms, with `TCP_NODELAY` off.
    pub held: u64,
    /// Time with unacknowledged data, microseconds.
    pub busy_us: u64,
    /// Of this, time in which the peer's receive window was the limit, microseconds.
    pub window_us: u64,
    /// Of this, time in which the own send buffer was the limit, microseconds.
    pub buffer_us: u64,
    /// The least receive buffer that the program has fixed, bytes as the kernel counts them.
    pub fixed_receive: Option<u64>,
    /// The congestion controls that its connections have.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub congestion: BTreeSet<String>,
    /// Whether a connection within this machine was seen.
    pub over_loopback: bool,
    /// Whether one with another machine was seen.
    pub over_network: bool,
}

/// A possible cause of waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The observation, and what it is consistent with.
    pub text: String,
    /// The change that tests it, as `--option` takes it; without one the other end has to be changed.
    pub option: Option<&'static str>,
}

impl SocketWaits {
    /// The sums of two programs.
    #[must_use]
    pub fn plus(self, other: &SocketWaits) -> SocketWaits {
        SocketWaits {
            samples: self.samples + other.samples,
            held: self.held + other.held,
            busy_us: self.busy_us + other.busy_us,
            window_us: self.window_us + other.window_us,
            buffer_us: self.buffer_us + other.buffer_us,
            fixed_receive: [self.fixed_receive, other.fixed_receive].into_iter().flatten().min(),
            congestion: &self.congestion | &other.congestion,
            over_loopback: self.over_loopback || other.over_loopback,
            over_network: self.over_network || other.over_network,
        }
    }

    /// The possible causes; none if nothing was noticeable.
    #[must_use]
    pub fn diagnoses(&self) -> Vec<Diagnosis> {
        let mut found = Vec::new();
        let held = self.held as f64 / self.samples.max(1) as f64;
        if self.held >= HELD_MIN && held >= SHARE_MIN {
            found.push(Diagnosis {
                text: format!(
                    "part of a message waits for an acknowledgement in {:.0} % of the samples: consistent with Nagle's algorithm \
                     and a delayed acknowledgement, about 40 ms a message",
                    held * 100.0
                ),
                option: Some("nodelay=on"),
            });
        }
        let share = |us: u64| us as f64 / self.busy_us.max(1) as f64;
        let is_limit = |us: u64| self.busy_us >= BUSY_MIN_US && share(us) >= SHARE_MIN;
        if is_limit(self.buffer_us) {
            found.push(Diagnosis {
                text: format!(
                    "the send buffer limits sending for {:.0} % of its time: consistent with a small SO_SNDBUF",
                    share(self.buffer_us) * 100.0
                ),
                option: Some("sndbuf=unset,4M"),
            });
        }
        if is_limit(self.window_us) {
            found.push(Diagnosis {
                text: format!(
                    "the peer's receive window limits sending for {:.0} % of its time: consistent with a small SO_RCVBUF of the \
                     peer, or a peer that reads slowly",
                    share(self.window_us) * 100.0
                ),
                option: None,
            });
        }
        if let Some(bytes) = self.fixed_receive.filter(|bytes| *bytes < FIXED_MAX) {
            found.push(Diagnosis {
                text: format!(
                    "it has fixed the receive buffer at {} (SO_RCVBUF), which turns autotuning off: consistent with a limit of \
                     about that per round trip",
                    Bytes(bytes)
                ),
                option: Some("rcvbuf=unset"),
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_lead_to_options() {
        let check = |waits: SocketWaits, expected: &[Option<&str>]| {
            assert_eq!(waits.diagnoses().iter().map(|one| one.option).collect::<Vec<_>>(), expected, "{waits:?}");
        };
        let waits = SocketWaits { samples: 10, busy_us: 100_000, ..SocketWaits::default() };
        check(waits.clone(), &[]);
        check(SocketWaits { held: 8, ..waits.clone() }, &[Some("nodelay=on")]);
        check(SocketWaits { held: 2, ..waits.clone() }, &[]);
        check(SocketWaits { buffer_us: 50_000, ..waits.clone() }, &[Some("sndbuf=unset,4M")]);
        check(SocketWaits { window_us: 50_000, ..waits.clone() }, &[None]);
        check(SocketWaits { window_us: 5_000, busy_us: 9_000, ..waits.clone() }, &[]);
        check(SocketWaits { fixed_receive: Some(8192), ..waits.clone() }, &[Some("rcvbuf=unset")]);
        check(SocketWaits { fixed_receive: Some(4 << 20), ..waits }, &[]);
    }
}
