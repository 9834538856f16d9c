//! A running program whose socket options are switched while it serves: its connections, and the length of a trial.
//!
//! Only the definition. Nothing is opened here.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A running program, and those of its TCP sockets that are changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningService {
    /// Its process; the descendants belong to it.
    pub pid: u32,
    /// When that process started, in clock ticks since boot: numbers are reused.
    pub start_ticks: u64,
    /// Its name.
    pub name: String,
    /// The local port of the sockets; any without one.
    pub port: Option<u16>,
    /// The address of the other end; any without one.
    pub peer: Option<IpAddr>,
    /// Open connections when the session began.
    pub connections: usize,
    /// Whether all of them were within this machine.
    #[serde(default)]
    pub is_local: bool,
    /// Length of a trial, nanoseconds.
    pub trial_ns: u64,
    /// The session ends if a change makes the program worse by more than this share twice in a row.
    pub max_harm: f64,
}

impl fmt::Display for RunningService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.pid)?;
        self.port.map_or(Ok(()), |port| write!(f, " at port {port}"))?;
        self.peer.map_or(Ok(()), |peer| write!(f, " with {peer}"))
    }
}

/// What the connections of a running program did in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCounts {
    /// Connections at the end of the trial.
    pub connections: u64,
    /// Those of them that were accepted or opened within the trial.
    pub new: u64,
    /// Connections that ended within the trial, whose last bytes are not counted.
    pub ended: u64,
    /// Bytes acknowledged by the other ends, and bytes received.
    pub bytes: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Median of the smoothed round-trip times, microseconds.
    pub rtt_us: u64,
    /// CPU time of the process and its descendants, nanoseconds.
    pub cpu_ns: u64,
}

impl ServiceCounts {
    /// Units of 2³⁰ bytes that were moved.
    pub fn gib(&self) -> f64 {
        self.bytes as f64 / (1_u64 << 30) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_its_sockets() {
        let service = RunningService {
            pid: 7,
            start_ticks: 1,
            name: "nginx".into(),
            port: Some(443),
            peer: "10.0.0.1".parse().ok(),
            connections: 2,
            is_local: false,
            trial_ns: 1,
            max_harm: 0.1,
        };
        assert_eq!(service.to_string(), "nginx (7) at port 443 with 10.0.0.1");
    }
}
