//! The objective of a search for the highest rate, a latency such as `p99=2ms` or a share of lost datagrams, and its probes.
//!
//! Pure: the needs and results of a probe. The harness runs the search, and `stats` decides its steps.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::emulated::LossShare;
use crate::name_tables::Arrivals;
use crate::unit::{Nanos, TextError};

/// Usual number of measurements of a search: a closed loop, six to eight halvings, and a second probe at the upper end,
/// which sometimes extends the search again. A plan is timed by it.
pub const PROBES_USUAL: u64 = 11;

/// Longest probe, nanoseconds.
pub const PROBE_MAX_NS: u64 = 10_000_000_000;

/// Standard deviations by which the count of random arrivals may be below its mean.
const CHANCE: f64 = 3.0;

/// Calls that must be beyond a percentile before it is reported (docs/research/statistics.md).
const BEYOND_MIN: f64 = 10.0;

/// A probe is planned for this multiple of the calls that it needs: random arrivals may be fewer.
const AMPLE: f64 = 1.25;

/// A probe lasts this multiple of the limit. A queue that grows shows itself by its waits, and those need time to grow.
const LIMITS_A_PROBE: u64 = 10;

/// Shortest probe of a loss, nanoseconds: a receive buffer of some MiB fills up for so long before a rate that is a little too high
/// loses anything.
const LOSS_PROBE_MIN_NS: u64 = 250_000_000;

/// Limits shorter than a microsecond are below the clock's resolution; limits above a second need probes of minutes.
const LIMIT_NS: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// The percentiles that an objective may name, as names and shares.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The expected form of an objective.
const EXPECTED: &str = "an objective: use a percentile (p50, p90, p99, p99.9, p99.99) and what it may be at most, 1us to \
                        1s, such as p99=2ms, or none";

/// A percentile of the time of calls, and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// The percentile's name: `p99`.
    pub percentile: &'static str,
    /// The same as a share of the calls.
    pub share: f64,
    /// Its limit, nanoseconds.
    pub limit_ns: u64,
}

impl Slo {
    /// The fewest calls from which the percentile can be reported.
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

impl LossShare {
    /// How long a probe must be that may lose this share of the datagrams, at least `window_ns`, nanoseconds: the share must be
    /// several datagrams.
    pub fn probe_ns(self, window_ns: u64, per_second: f64) -> u64 {
        let datagrams = if self.0 > 0 { BEYOND_MIN * 1e6 / f64::from(self.0) } else { 0.0 };
        // A float beyond 64 bits becomes the largest of them.
        let datagrams_ns = (datagrams / per_second.max(f64::MIN_POSITIVE) * 1e9) as u64;
        window_ns.max(datagrams_ns).max(LOSS_PROBE_MIN_NS)
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
    type Err = TextError;

    fn from_str(text: &str) -> Result<Slo, TextError> {
        let malformed = || TextError::malformed(text, EXPECTED);
        let (name, limit) = text.split_once(['=', '<']).ok_or_else(malformed)?;
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
    /// Offered calls per second; absent for the closed loop that gave the upper end of the search.
    pub offered: Option<u64>,
    /// Length of its window, nanoseconds.
    pub window_ns: u64,
    /// Calls completed within the window.
    pub calls: u64,
    /// Calls that took longer than the limit, or failed.
    pub late: u64,
    /// The objective's percentile; absent if too few calls were completed for it.
    pub percentile_ns: Option<u64>,
    /// Whether nearly all of the offered calls were completed and the percentile was within its limit.
    pub kept: bool,
}

impl Probe {
    /// Calls completed per second.
    pub fn completed_per_second(&self) -> f64 {
        self.calls as f64 * 1e9 / self.window_ns as f64
    }

    /// Calls that were due within the window, at least: random arrivals may well be fewer than their mean.
    pub fn due_min(&self, arrivals: Arrivals) -> f64 {
        let due = self.offered.unwrap_or(0) as f64 * self.window_ns as f64 / 1e9;
        due - if arrivals == Arrivals::Poisson { CHANCE * due.sqrt() } else { 1.0 }
    }

    /// Calls due within the window that were not completed in it, except those that may still be completed in time.
    pub fn unanswered(&self, arrivals: Arrivals, limit_ns: u64) -> f64 {
        let on_its_way = self.offered.unwrap_or(0) as f64 * limit_ns as f64 / 1e9;
        (self.due_min(arrivals) - on_its_way - self.calls as f64).max(0.0)
    }
}

/// The probes that decide a search.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The closed loop that gave its upper end.
    pub closed: &'a Probe,
    /// The highest rate that kept the objective.
    pub knee: &'a Probe,
    /// The lowest failed rate above that one, if any.
    pub beyond: Option<&'a Probe>,
}

impl<'a> Search<'a> {
    /// Finds them among all probes; `None` where no rate kept the objective.
    pub fn of(probes: &'a [Probe]) -> Option<Search<'a>> {
        let closed = probes.iter().find(|probe| probe.offered.is_none())?;
        let knee = probes.iter().filter(|probe| probe.kept).max_by_key(|probe| probe.offered)?;
        let above = probes.iter().filter(|probe| !probe.kept && probe.offered > knee.offered);
        Some(Search { closed, knee, beyond: above.min_by_key(|probe| probe.offered) })
    }
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
        check("p99<2ms", "p99=2ms", 1000);
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
    fn probes_are_long_enough_for_percentile_and_limit() {
        let check = |text: &str, per_second: f64, ns: u64| {
            assert_eq!(text.parse::<Slo>().unwrap().probe_ns(50_000_000, per_second), ns);
        };
        check("p99=2ms", 100_000.0, 50_000_000);
        check("p99=2ms", 10_000.0, 125_000_000);
        check("p99.9=2ms", 100_000.0, 125_000_000);
        check("p99=100ms", 100_000.0, 1_000_000_000);
        check("p99=2ms", 0.0, u64::MAX);
        assert_eq!(LossShare(1000).probe_ns(50_000_000, 1e6), 250_000_000);
        assert_eq!(LossShare(1000).probe_ns(300_000_000, 1e6), 300_000_000);
        assert_eq!(LossShare(1000).probe_ns(50_000_000, 10_000.0), 1_000_000_000);
        assert_eq!(LossShare(0).probe_ns(50_000_000, 0.0), 250_000_000);
    }
}
