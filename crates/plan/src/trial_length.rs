//! The necessary length of a trial, from the rate of its calls; and the time of a search for a knee. Never reads the clock: a plan
//! assumes a rate, and a session measures it.

use bytegauge_model::slo::{PROBE_MAX_NS, PROBES_USUAL};
use bytegauge_model::{Cost, Level, Spec, Transport, Workload};

use crate::spec::PlanSpec;

/// Fewer completed calls per flow than this are mostly the first ones, and give no rate. With an offered load, this number of
/// calls in all is enough: the load sets how seldom a flow calls.
const CALLS_FEW: u64 = 10;

/// A p99 of one trial takes this number of values.
const P99_VALUES: u64 = 100;

/// The number of calls, as a multiple of it, that a trial is planned for.
const SPARE_OF_P99: f64 = 1.2;

/// A trial becomes no longer than this, nanoseconds.
const LENGTHENED_MAX_NS: u64 = 1_000_000_000;

/// The warm-up of a lengthened trial is at least its window divided by this: in it every flow calls about twice.
const WARMUP_SHARE: u64 = 5;

/// A trial measures at least this many bursts, pauses of a writer, or urgent messages.
const BURSTS: u64 = 10;

/// A trial of clients that pause lasts this many pauses: in less than one a client makes one call or none, depending on when
/// it began.
const PAUSES: u64 = 3;

/// Pauses, and values for a p99, make a trial no longer than this, nanoseconds.
const PAUSES_MAX_NS: u64 = 10_000_000_000;

/// Bytes that a new connection sends before the first acknowledgement: ten segments (RFC 6928).
const INITIAL_WINDOW: u64 = 14_600;

/// Assumed calls per second on lasting connections: about half of the rate of busy ones on loopback.
const ASSUMED: f64 = 30_000.0;

/// The same if every call has a connection of its own, which is opened and closed at both ends.
const ASSUMED_CONNECTING: f64 = 5_000.0;

/// Assumed time for each byte of a request, nanoseconds: about twice that of busy connections on loopback.
const BYTE_NS: f64 = 1.0;

/// The same over datagrams, of which a large one is sent in pieces that are put together again.
const DATAGRAM_BYTE_NS: f64 = 4.0;

/// Conservative calls per second of a plan before any were measured.
pub fn assumed(conditions: &Spec) -> f64 {
    let small = if conditions.connect_per_call() == Some(true) { ASSUMED_CONNECTING } else { ASSUMED };
    let is_datagram = conditions.transport().is_some_and(Transport::is_datagram);
    let byte_ns = if is_datagram { DATAGRAM_BYTE_NS } else { BYTE_NS };
    let alone = small / (1.0 + small / 1e9 * byte_ns * conditions.request().unwrap_or(0) as f64);
    let flows = conditions.flows().unwrap_or(1).max(1) as f64;
    let competing = conditions.competing_flows().unwrap_or(0) as f64;
    let (link_delay_ns, bits) =
        conditions.emulated_link().map_or((0, f64::INFINITY), |link| (link.delay_ns, link.rate.0 as f64));
    let bytes = conditions.request().unwrap_or(0) + conditions.response().unwrap_or(0);
    // A window that begins small needs another round trip for a long message.
    let trips = if bytes > INITIAL_WINDOW { 2 } else { 1 };
    // The pauses within a reply are most of its time; a think time or a round trip is not.
    let pauses_ns = gaps(conditions).saturating_mul(conditions.response_gap().unwrap_or(0));
    let waits_ns = 2 * (conditions.think_time().unwrap_or(0) + trips * link_delay_ns) + pauses_ns / 8 * 9;
    // Competing clients take their share of the server.
    let shared = alone * flows / (flows + competing);
    let offered = conditions.offered_rate().map_or(f64::INFINITY, |rate| rate as f64);
    let outstanding = flows * conditions.depth().unwrap_or(1).max(1) as f64;
    let waiting = if waits_ns > 0 { outstanding * 1e9 / waits_ns as f64 } else { f64::INFINITY };
    let carried = if bytes > 0 { bits / 8.0 / bytes as f64 } else { f64::INFINITY };
    shared.min(offered).min(waiting).min(carried)
}

/// Gaps between the parts of a reply.
fn gaps(conditions: &Spec) -> u64 {
    let parts = conditions.response().zip(conditions.response_parts());
    parts.map_or(0, |(bytes, parts)| parts.count(bytes as usize).saturating_sub(1) as u64)
}

/// The calls that a trial needs for what options are compared by.
#[derive(Clone, Copy, Debug)]
pub struct CallsNeeded {
    /// With fewer there is no result; 0 if it makes none, or if a search sets their number.
    pub enough: u64,
    /// A trial is planned for this many times as many. At a fixed rate it has hardly more calls than its share.
    spare: f64,
    /// It becomes no longer for them, nanoseconds.
    pub longest_ns: u64,
}

impl CallsNeeded {
    /// Under these conditions, where the user `asked` to compare by a cost.
    pub fn of(conditions: &Spec, asked: Option<Cost>) -> CallsNeeded {
        let flows = conditions.flows().filter(|_| !conditions.offers_load()).unwrap_or(1).max(1);
        let few = CALLS_FEW * flows;
        let (calls, spare, longest_ns) = match conditions.cost(asked) {
            Cost::P99 => (few.max(P99_VALUES), SPARE_OF_P99, PAUSES_MAX_NS),
            // The window cuts one call of each flow.
            Cost::GapP99 => (P99_VALUES.div_ceil(gaps(conditions).max(1)) + flows, 1.0, PAUSES_MAX_NS),
            Cost::Time | Cost::Cpu | Cost::Latency | Cost::Urgent => (few, 1.0, LENGTHENED_MAX_NS),
        };
        let is_call = conditions.workload() == Workload::Call && !conditions.searches_rate();
        CallsNeeded { enough: if is_call { calls } else { 0 }, spare, longest_ns }
    }
}

/// Warm-up and window in which enough calls are completed at `per_second`, no shorter than those given. `asked` is what options are to be
/// compared by.
pub fn lengths_ns(
    conditions: &Spec,
    asked: Option<Cost>,
    (warmup_ns, window_ns): (u64, u64),
    per_second: f64,
) -> (u64, u64) {
    let explicit = conditions.duration().is_some();
    let CallsNeeded { enough, spare, longest_ns } = CallsNeeded::of(conditions, asked);
    let calls = if explicit { 0 } else { enough };
    // A float beyond 64 bits becomes the largest of them.
    let needed_ns = (spare * calls as f64 / per_second.max(f64::MIN_POSITIVE) * 1e9) as u64;
    let bursts_ns = pause_ns(conditions).filter(|_| !explicit).map_or(0, |ns| ns.saturating_mul(BURSTS));
    let pauses_ns = conditions.think_time().filter(|_| calls > 0).map_or(0, |ns| ns.saturating_mul(PAUSES));
    let needed_ns = needed_ns.max(bursts_ns).min(longest_ns).max(pauses_ns.min(PAUSES_MAX_NS));
    lengthened_ns((warmup_ns, window_ns), needed_ns)
}

/// Time from one burst, one write of a writer that pauses, or one urgent message to the next, nanoseconds.
fn pause_ns(conditions: &Spec) -> Option<u64> {
    let of_writer = || conditions.think_time().filter(|_| conditions.workload() == Workload::Stream);
    conditions.burst().and(conditions.every()).or_else(of_writer).or(conditions.urgent())
}

/// A warm-up and a window, lengthened if shorter than needed.
pub fn lengthened_ns((warmup_ns, window_ns): (u64, u64), needed_ns: u64) -> (u64, u64) {
    match needed_ns > window_ns {
        true => (warmup_ns.max(needed_ns / WARMUP_SHARE), needed_ns),
        false => (warmup_ns, window_ns),
    }
}

// The time of a search for a knee: a trial of about ten measurements instead of one.

/// Datagrams that a sender usually sends, by which a plan is timed.
const DATAGRAMS_PER_SECOND: f64 = 100_000.0;

/// Time of a trial under these conditions, nanoseconds: a warm-up, a window and the overhead, long enough for the
/// necessary calls; for a search, the usual number of probes, each as long as its percentile needs.
/// Calls come at `per_second`.
pub fn search_trial_ns(
    conditions: &Spec,
    asked: Option<Cost>,
    (warmup_ns, window_ns): (u64, u64),
    overhead_ns: u64,
    per_second: f64,
) -> u64 {
    let probe_ns = match (conditions.slo(), conditions.max_loss()) {
        (Some(slo), _) => slo.probe_ns(window_ns, per_second),
        (None, Some(share)) => share.probe_ns(window_ns, DATAGRAMS_PER_SECOND),
        (None, None) => {
            let (warmup_ns, window_ns) = lengths_ns(conditions, asked, (warmup_ns, window_ns), per_second);
            return warmup_ns + window_ns + overhead_ns;
        }
    };
    PROBES_USUAL * (probe_ns.min(PROBE_MAX_NS.max(window_ns)) + warmup_ns + overhead_ns)
}

/// Whether some part of a spec searches.
pub(crate) fn searches_knee(spec: &PlanSpec) -> bool {
    let of = |name| spec.parts.iter().filter_map(move |part| part.levels.get(name)).flatten();
    let mut named = ["slo", "max_loss"].into_iter().flat_map(of);
    named.any(|level| level.name() != Some("none") && *level != Level::Absent)
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Level;

    use super::*;

    fn conditions(levels: &[(&'static str, Level)]) -> Spec {
        let mut conditions = Spec::of(Workload::Call);
        levels.iter().for_each(|(name, level)| conditions.set(name, level.clone()));
        conditions
    }

    #[test]
    fn trials_are_long_enough_for_every_flow() {
        let check = |levels: &[(&'static str, Level)], per_second, expected| {
            let conditions = conditions(levels);
            assert_eq!(lengths_ns(&conditions, None, (5, 20_000_000), per_second), expected, "{levels:?} {per_second}");
        };
        let flows = |flows| ("flows", Level::Number(flows));
        check(&[flows(1)], 30_000.0, (5, 20_000_000));
        check(&[flows(1000)], 50_000.0, (40_000_000, 200_000_000));
        check(&[flows(1000)], 1.0, (200_000_000, LENGTHENED_MAX_NS));
        check(&[flows(1000)], 0.0, (200_000_000, LENGTHENED_MAX_NS));
        // A given length, an offered load, and a search follow other rules.
        check(&[flows(1000), ("duration", Level::Number(20_000_000))], 1.0, (5, 20_000_000));
        check(&[flows(1000), ("call_rate", Level::Number(1000))], 1000.0, (5, 20_000_000));
        check(&[flows(1000), ("slo", Level::Name("p99=2ms".into()))], 1.0, (5, 20_000_000));
        // Clients that pause do so several times, however seldom they call.
        let pause = |ns| ("think_time", Level::Number(ns));
        check(&[flows(1), pause(1_000_000)], 500.0, (5, 20_000_000));
        check(&[flows(1), pause(1_000_000_000)], 0.5, (600_000_000, 3_000_000_000));
        check(&[flows(1), pause(60_000_000_000)], 0.5, (2_000_000_000, PAUSES_MAX_NS));
        // A p99 takes a hundred values, however few clients there are.
        let lengths =
            |levels: &[(&'static str, Level)], asked| lengths_ns(&conditions(levels), asked, (5, 20_000_000), 50.0);
        assert_eq!(lengths(&[flows(1)], None), (40_000_000, 200_000_000));
        assert_eq!(lengths(&[flows(1)], Some(Cost::P99)), (480_000_000, 2_400_000_000));
        assert_eq!(lengths(&[flows(20)], Some(Cost::P99)), (960_000_000, 4_800_000_000));
        let parts = [("response", 2_000), ("response_chunk", 100), ("response_gap", 15_000_000)];
        let parts = parts.map(|(name, number)| (name, Level::Number(number)));
        assert_eq!(assumed(&conditions(&parts)).round(), 3.0);
        // Six calls of 19 gaps, and one that the window cuts.
        assert_eq!(lengths(&parts, None), (28_000_000, 140_000_000));
        assert_eq!(lengths(&parts, Some(Cost::Time)), (40_000_000, 200_000_000));
        let stream = Spec::of(Workload::Stream);
        assert_eq!(lengths_ns(&stream, None, (5, 20_000_000), 1.0), (5, 20_000_000));
        // A writer that pauses does so several times in a trial, and urgent messages are several.
        for name in ["think_time", "urgent"] {
            let mut stream = stream.clone();
            stream.set(name, Level::Number(10_000_000));
            assert_eq!(lengths_ns(&stream, None, (5, 6_000_000), 1.0), (20_000_000, 100_000_000), "{name}");
        }
    }

    #[test]
    fn the_assumed_rate_depends_on_the_calls() {
        let check = |levels: &[(&'static str, Level)], expected| {
            assert_eq!(assumed(&conditions(levels)), expected, "{levels:?}");
        };
        let number = |name, number| (name, Level::Number(number));
        let connecting = ("connect_per_call", Level::Switch(true));
        check(&[], 30_000.0);
        check(&[number("flows", 20), connecting.clone()], 5_000.0);
        check(&[number("flows", 20), connecting, number("competing_flows", 20)], 2_500.0);
        check(&[number("flows", 20), number("call_rate", 100)], 100.0);
        check(&[number("flows", 2), number("think_time", 10_000_000)], 100.0);
        // Over a link a call takes round trips, and its bytes their time.
        let link = |delay_ms: u64, rate: &str| {
            let link = [("link_loss", "0%"), ("link_rate", rate)].map(|(name, text)| (name, Level::Name(text.into())));
            [vec![number("link_delay", delay_ms * 1_000_000)], link.to_vec()].concat()
        };
        check(&[link(50, "1Gbit"), vec![number("flows", 2)]].concat(), 20.0);
        check(&[link(50, "1Gbit"), vec![number("flows", 2), number("request", 20_000)]].concat(), 10.0);
        check(&[link(50, "8Mbit"), vec![number("flows", 50), number("request", 100_000)]].concat(), 10.0);
        // A large datagram takes four times as long as the same bytes of a stream, in addition to the call.
        let large = |transport: &str| {
            assumed(&conditions(&[number("request", 1 << 20), ("transport", Level::Name(transport.into()))]))
        };
        assert!((900.0..1000.0).contains(&large("tcp")) && (230.0..240.0).contains(&large("udp")));
    }
}

#[cfg(test)]
mod search_tests {
    use super::*;

    fn check(slo: &str, per_second: f64, expected_ns: u64) {
        let conditions = Spec::from([("slo", slo.into())]);
        assert_eq!(search_trial_ns(&conditions, None, (4_000_000, 50_000_000), 6_000_000, per_second), expected_ns);
    }

    #[test]
    fn a_search_takes_as_long_as_its_probes() {
        check("none", 1000.0, 60_000_000);
        check("p99=2ms", 100_000.0, PROBES_USUAL * 60_000_000);
        check("p99.9=2ms", 10_000.0, PROBES_USUAL * 1_260_000_000);
        check("p99.9=2ms", 0.0, PROBES_USUAL * 10_010_000_000);
        let conditions = Spec::from([("max_loss", "0.1%".into())]);
        assert_eq!(
            search_trial_ns(&conditions, None, (4_000_000, 50_000_000), 6_000_000, 0.0),
            PROBES_USUAL * 260_000_000
        );
    }
}
