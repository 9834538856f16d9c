//! When a flow's next call is due.
//!
//! A closed loop begins the next call when the last one is over, or a pause later. An offered load has intended times that do
//! not wait for the server: a late call is timed from its intended time; otherwise a server that stalls would hide the calls
//! that it delays. Flows are staggered, so that they do not all call at once. Never reads the clock.

use bytegauge_model::Arrivals;

/// One flow's schedule.
#[derive(Clone, Debug)]
pub struct Arrival {
    kind: ArrivalKind,
    due_ns: u64,
    /// The part of a nanosecond that `due_ns` leaves out.
    rest: f64,
}

#[derive(Clone, Debug)]
enum ArrivalKind {
    Closed { think_ns: u64 },
    Open { gap_ns: f64, random: Option<Random> },
}

/// A load offered to several flows.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Calls per second of all flows.
    pub rate: u64,
    /// How they are spaced.
    pub arrivals: Arrivals,
    /// Flows that share the load.
    pub flows: usize,
}

impl Arrival {
    /// A closed loop from `start_ns` on with a pause between calls.
    pub fn closed(start_ns: u64, think_ns: u64) -> Arrival {
        Arrival { kind: ArrivalKind::Closed { think_ns }, due_ns: start_ns, rest: 0.0 }
    }

    /// The share of flow number `flow` of an offered load.
    pub fn open(start_ns: u64, offered: Offered, flow: usize, seed: u64) -> Arrival {
        let gap_ns = offered.flows as f64 * 1e9 / offered.rate.max(1) as f64;
        let random = match offered.arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some(Random(seed ^ (flow as u64).wrapping_mul(0xd134_2543_de82_ef95))),
        };
        let mut arrival = Arrival { kind: ArrivalKind::Open { gap_ns, random }, due_ns: start_ns, rest: 0.0 };
        match offered.arrivals {
            Arrivals::Constant => arrival.later(gap_ns * (flow % offered.flows) as f64 / offered.flows as f64),
            // The first gap of a Poisson process has the same distribution as all others.
            Arrivals::Poisson => arrival.begun(),
        }
        arrival
    }

    /// Whether a load is offered.
    pub fn is_open(&self) -> bool {
        matches!(self.kind, ArrivalKind::Open { .. })
    }

    /// Whether calls have intended times, for which a flow waits.
    pub fn waits(&self) -> bool {
        !matches!(self.kind, ArrivalKind::Closed { think_ns: 0 })
    }

    /// When the next call is due, nanoseconds.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The call that was due has begun.
    pub fn begun(&mut self) {
        if let ArrivalKind::Open { gap_ns, random } = &mut self.kind {
            let gap_ns = *gap_ns * random.as_mut().map_or(1.0, Random::exponential);
            self.later(gap_ns);
        }
    }

    /// A call has ended, with or without success.
    pub fn over(&mut self, now_ns: u64) {
        if let ArrivalKind::Closed { think_ns } = self.kind {
            self.due_ns = now_ns + think_ns;
        }
    }

    /// Calls that were due from `open_ns` to `close_ns` and have not begun; for random arrivals their expectation.
    pub fn overdue(&self, open_ns: u64, close_ns: u64) -> u64 {
        let ArrivalKind::Open { gap_ns, .. } = self.kind else { return 0 };
        if self.due_ns >= close_ns {
            return 0;
        }
        let first = self.due_ns.max(open_ns);
        (close_ns.saturating_sub(first) as f64 / gap_ns).ceil() as u64
    }

    fn later(&mut self, ns: f64) {
        let ns = ns + self.rest;
        self.due_ns = self.due_ns.saturating_add(ns as u64);
        self.rest = ns.fract();
    }
}

/// SplitMix64, as used by the pattern of verify mode.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    /// A gap of mean 1, by inverting the distribution function.
    fn exponential(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 53 bits, from (0, 1]: the logarithm of 0 is no gap.
        -(((z >> 11) + 1) as f64 / (1u64 << 53) as f64).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn count_until(arrival: &mut Arrival, end_ns: u64) -> u64 {
        let mut calls = 0;
        while arrival.due_ns() < end_ns {
            arrival.begun();
            calls += 1;
        }
        calls
    }

    proptest! {
        #[test]
        fn a_constant_rate_is_kept_to_the_call(rate in 1u64..50_000, flows in 1usize..20, start in 0u64..1 << 50) {
            let offered = Offered { rate, arrivals: Arrivals::Constant, flows };
            let mut all: Vec<Arrival> = (0..flows).map(|flow| Arrival::open(start, offered, flow, 1)).collect();
            prop_assert!(all.iter().all(|arrival| arrival.overdue(start, start + SECOND_NS) > 0) || rate < flows as u64);
            let calls: u64 = all.iter_mut().map(|arrival| count_until(arrival, start + SECOND_NS)).sum();
            prop_assert!(calls.abs_diff(rate) <= 1 + flows as u64 / 10, "{} of {}", calls, rate);
        }

        #[test]
        fn poisson_arrivals_have_their_mean_and_variance(seed in any::<u64>()) {
            let offered = Offered { rate: 10_000, arrivals: Arrivals::Poisson, flows: 1 };
            let mut arrival = Arrival::open(0, offered, 0, seed);
            let counts: Vec<f64> =
                (1..=100).map(|bin| count_until(&mut arrival, bin * SECOND_NS / 100) as f64).collect();
            let mean = counts.iter().sum::<f64>() / 100.0;
            let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 99.0;
            // A count of 100 a bin: the mean of 100 bins has a standard deviation of 1, and a Poisson count's
            // variance is its mean.
            prop_assert!((mean - 100.0).abs() < 6.0, "{}", mean);
            prop_assert!((0.3..3.0).contains(&(variance / mean)), "{}", variance / mean);
        }
    }

    #[test]
    fn flows_are_staggered() {
        let offered = Offered { rate: 1000, arrivals: Arrivals::Constant, flows: 4 };
        let due: Vec<u64> = (0..4).map(|flow| Arrival::open(0, offered, flow, 1).due_ns()).collect();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn a_closed_loop_waits_for_its_call() {
        let mut arrival = Arrival::closed(5, 10);
        assert_eq!(arrival.due_ns(), 5);
        arrival.begun();
        arrival.over(100);
        assert_eq!((arrival.due_ns(), arrival.overdue(0, 1000)), (110, 0));
    }

    #[test]
    fn what_never_began_is_counted() {
        let offered = Offered { rate: 1000, arrivals: Arrivals::Constant, flows: 1 };
        let arrival = Arrival::open(0, offered, 0, 1);
        assert_eq!(arrival.overdue(0, SECOND_NS), 1000);
        assert_eq!(arrival.overdue(SECOND_NS / 2, SECOND_NS), 500);
    }
}
