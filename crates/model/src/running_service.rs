//! A running program whose socket options are switched while it serves: its connections, the length of a trial, and which
//! options can be switched.
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

/// Whether a change of an option lasts for some time after it was set back.
pub fn has_memory(factor: &str) -> bool {
    matches!(factor, "congestion" | "rcvbuf" | "sndbuf")
}

/// Why an option cannot be switched on the open sockets of a program and set back; `None` if it can.
pub fn why_not_switched(factor: &str) -> Option<&'static str> {
    Some(match factor {
        "nodelay" | "notsent_lowat" | "congestion" | "sndbuf" | "rcvbuf" => return None,
        "busy_poll" | "prefer_busy_poll" | "busy_poll_budget" => return None,
        "rto_min" | "rto_max" | "delack_max" | "txrehash" => return None,
        "quickack" => "the kernel changes it by itself within a moment",
        "reuseport" | "incoming_cpu" | "defer_accept" | "fastopen" => {
            "it takes effect when a socket begins to listen or connects"
        }
        "pacing_rate" | "tx_delay" => "the kernel keeps pacing a connection after it is set back",
        "tos" => "it replaces SO_PRIORITY too, which could not be set back",
        "linger" | "cork" | "rcvlowat" => "it changes when the program gets or sends data, which can block it",
        _ => "the program has to use it in its own calls",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::{OPTIONS, of_factor};

    #[test]
    fn options_are_switched_or_refused() {
        for name in ["nodelay", "congestion", "rcvbuf"] {
            assert!(of_factor(name).is_some() && why_not_switched(name).is_none(), "{name}");
        }
        let switched = OPTIONS.iter().filter(|row| why_not_switched(row.factor).is_none());
        for row in switched {
            // What the kernel changes by itself, or has at a listener alone, cannot be compared or set back.
            assert!(!row.changes && !row.of_listener, "{}", row.factor);
        }
        assert!(why_not_switched("reuseport").is_some_and(|why| why.contains("begins to listen")));
    }

    #[test]
    fn a_service_is_named_by_its_sockets() {
        let service = RunningService {
            pid: 7,
            start_ticks: 1,
            name: "nginx".into(),
            port: Some(443),
            peer: "10.0.0.1".parse().ok(),
            connections: 2,
            trial_ns: 1,
            max_harm: 0.1,
        };
        assert_eq!(service.to_string(), "nginx (7) at port 443 with 10.0.0.1");
    }
}
