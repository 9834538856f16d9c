//! A latency objective such as `p99=2ms`, and what a search for the highest rate that keeps it looked at.
//!
//! Pure: what a probe needs and what it saw. Who searches is the harness's business, and how is that of `stats`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::catalog::NameError;
use crate::unit::Nanos;

/// Measurements of which a search usually consists: a closed loop, six to eight halvings, and a second look at what ends
/// the search from above, which now and then opens it again. A plan is timed by it.
pub const PROBES_USUAL: u64 = 11;

/// A probe that would be longer is not made, nanoseconds.
pub const PROBE_MAX_NS: u64 = 10_000_000_000;

/// Calls that must lie beyond a percentile before it is said (docs/research/statistics.md).
const BEYOND_MIN: f64 = 10.0;

/// A probe is planned for so many times the calls that it needs: random arrivals may be fewer.
const AMPLE: f64 = 1.25;

/// A probe lasts so many times the limit. A queue that grows shows itself by its waits, and those need time to grow.
const LIMITS_A_PROBE: u64 = 10;

/// Limits shorter than a microsecond no clock keeps apart; longer ones than a second need probes of minutes.
const LIMIT_NS: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// The percentiles that an objective may name, as names and shares.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// What an objective looks like.
const EXPECTED: &str = "an objective: use a percentile (p50, p90, p99, p99.9, p99.99) and what it may be at most, 1us to \
                        1s, such as p99=2ms, or none";

/// A percentile of the time of calls, and what it may be at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// The percentile's name: `p99`.
    pub percentile: &'static str,
    /// The same as a share of the calls.
    pub share: f64,
    /// What it may be at most, nanoseconds.
    pub limit_ns: u64,
}

impl Slo {
    /// The fewest calls of which the percentile can be said.
    pub fn calls_min(&self) -> u64 {
        (BEYOND_MIN / (1.0 - self.share)).round() as u64
    }

    /// How long a probe of a rate must be, at least `window_ns`, nanoseconds.
    pub fn probe_ns(&self, window_ns: u64, per_second: f64) -> u64 {
        let calls_ns = self.calls_min() as f64 * AMPLE / per_second.max(f64::MIN_POSITIVE) * 1e9;
        // A float beyond 64 bits becomes the largest of them.
        window_ns.max(calls_ns as u64).max(self.limit_ns * LIMITS_A_PROBE)
    }
}

// The share is one of the table's.
impl Eq for Slo {}

impl Hash for Slo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.percentile, self.limit_ns).hash(state);
    }
}

impl FromStr for Slo {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Slo, NameError> {
        let malformed = || NameError::Malformed(text.into(), EXPECTED);
        let (name, limit) = text.split_once('=').ok_or_else(malformed)?;
        let known = PERCENTILES.iter().find(|(percentile, _)| *percentile == name.trim());
        let (percentile, share) = *known.ok_or_else(malformed)?;
        let Nanos(limit_ns) = limit.parse().map_err(|_| malformed())?;
        if LIMIT_NS.contains(&limit_ns) { Ok(Slo { percentile, share, limit_ns }) } else { Err(malformed()) }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}={}", self.percentile, Nanos(self.limit_ns).compact()))
    }
}

/// One measurement of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Calls per second that were offered; absent for the closed loop that showed how far a search can go at most.
    pub offered: Option<u64>,
    /// Length of its window, nanoseconds.
    pub window_ns: u64,
    /// Calls completed within the window.
    pub calls: u64,
    /// Calls that took longer than the limit, or failed.
    pub late: u64,
    /// The objective's percentile; absent where too few calls were completed to say it.
    pub percentile_ns: Option<u64>,
    /// Whether nearly all of the offered calls were completed and the percentile was within its limit.
    pub kept: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        let check = |text: &str, shown: &str, calls: u64| {
            let slo: Slo = text.parse().unwrap();
            assert_eq!((slo.to_string().as_str(), slo.calls_min()), (shown, calls));
            assert_eq!(slo.to_string().parse::<Slo>().unwrap(), slo);
        };
        check("p50=100us", "p50=100us", 20);
        check("p90=1s", "p90=1s", 100);
        check("p99=2ms", "p99=2ms", 1000);
        check("p99.9=1500us", "p99.9=1500us", 10_000);
        check("p99.99=10ms", "p99.99=10ms", 100_000);
    }

    #[test]
    fn what_is_no_objective_is_refused() {
        for bad in
            ["", "99=2ms", "p99", "p99=", "p95=1ms", "p100=1ms", "p99=0ns", "p99=10ns", "p99=2s", "p99=-1ms", "p99=2"]
        {
            let error = bad.parse::<Slo>().unwrap_err().to_string();
            assert!(error.contains("use a percentile (p50, "), "{bad}: {error}");
        }
    }

    #[test]
    fn a_probe_is_as_long_as_its_percentile_and_its_limit_need() {
        let check = |text: &str, per_second: f64, ns: u64| {
            assert_eq!(text.parse::<Slo>().unwrap().probe_ns(50_000_000, per_second), ns);
        };
        check("p99=2ms", 100_000.0, 50_000_000);
        check("p99=2ms", 10_000.0, 125_000_000);
        check("p99.9=2ms", 100_000.0, 125_000_000);
        check("p99=100ms", 100_000.0, 1_000_000_000);
        check("p99=2ms", 0.0, u64::MAX);
    }
}
