//! The necessary length of a trial of calls, from their rate. Never reads the clock: a plan assumes a rate, and a session
//! measures it.

use bytegauge_model::{Spec, Transport, Workload};

/// Fewer completed calls per flow than this are mostly the first ones, and give no rate. With an offered load, this number of
/// calls in all is enough: the load sets how seldom a flow calls.
const CALLS_FEW: u64 = 10;

/// A trial becomes no longer than this, nanoseconds.
pub const LENGTHENED_MAX_NS: u64 = 1_000_000_000;

/// The warm-up of a lengthened trial is at least its window divided by this: in it every flow calls about twice.
const WARMUP_SHARE: u64 = 5;

/// A trial measures at least this many bursts, pauses of a writer, or urgent messages.
const BURSTS: u64 = 10;

/// A trial of clients that pause lasts this many pauses: in less than one a client makes one call or none, depending on when
/// it began.
const PAUSES: u64 = 3;

/// Pauses make a trial no longer than this, nanoseconds.
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
    let waits_ns = (conditions.think_time().unwrap_or(0) + trips * link_delay_ns) as f64;
    // Competing clients take their share of the server.
    let shared = alone * flows / (flows + competing);
    let offered = conditions.offered_rate().map_or(f64::INFINITY, |rate| rate as f64 / 2.0);
    let outstanding = flows * conditions.depth().unwrap_or(1).max(1) as f64;
    let waiting = if waits_ns > 0.0 { outstanding * 1e9 / waits_ns / 2.0 } else { f64::INFINITY };
    let carried = if bytes > 0 { bits / 8.0 / bytes as f64 } else { f64::INFINITY };
    shared.min(offered).min(waiting).min(carried)
}

/// Calls that a trial needs for a rate; `None` if it makes none, or if a search sets their number.
pub fn calls_enough(conditions: &Spec) -> Option<u64> {
    let is_call = conditions.workload() == Workload::Call && !conditions.searches_rate();
    let flows = conditions.flows().filter(|_| !conditions.offers_load()).unwrap_or(1).max(1);
    is_call.then_some(CALLS_FEW * flows)
}

/// Warm-up and window in which enough calls are completed at `per_second`, no shorter than those given.
pub fn lengths_ns(conditions: &Spec, (warmup_ns, window_ns): (u64, u64), per_second: f64) -> (u64, u64) {
    let explicit = conditions.duration().is_some();
    let calls = calls_enough(conditions).filter(|_| !explicit).unwrap_or(0);
    // A float beyond 64 bits becomes the largest of them.
    let needed_ns = (calls as f64 / per_second.max(f64::MIN_POSITIVE) * 1e9) as u64;
    let bursts_ns = pause_ns(conditions).filter(|_| !explicit).map_or(0, |ns| ns.saturating_mul(BURSTS));
    let pauses_ns = conditions.think_time().filter(|_| calls > 0).map_or(0, |ns| ns.saturating_mul(PAUSES));
    let needed_ns = needed_ns.max(bursts_ns).min(LENGTHENED_MAX_NS).max(pauses_ns.min(PAUSES_MAX_NS));
    lengthened_ns((warmup_ns, window_ns), needed_ns)
}

/// Time from one burst, one write of a writer that pauses, or one urgent message to the next, nanoseconds.
fn pause_ns(conditions: &Spec) -> Option<u64> {
    let of_writer = || conditions.think_time().filter(|_| conditions.workload() == Workload::Stream);
    conditions.burst().and(conditions.every()).or_else(of_writer).or(conditions.urgent())
}

/// Time of one trial with its warm-up, its window and its overhead, long enough for enough calls, nanoseconds.
pub fn trial_ns(conditions: &Spec, given_ns: (u64, u64), overhead_ns: u64, per_second: f64) -> u64 {
    let (warmup_ns, window_ns) = lengths_ns(conditions, given_ns, per_second);
    warmup_ns + window_ns + overhead_ns
}

/// A warm-up and a window, lengthened if shorter than needed.
pub fn lengthened_ns((warmup_ns, window_ns): (u64, u64), needed_ns: u64) -> (u64, u64) {
    match needed_ns > window_ns {
        true => (warmup_ns.max(needed_ns / WARMUP_SHARE), needed_ns),
        false => (warmup_ns, window_ns),
    }
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
            assert_eq!(lengths_ns(&conditions, (5, 20_000_000), per_second), expected, "{levels:?} {per_second}");
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
        let stream = Spec::of(Workload::Stream);
        assert_eq!(lengths_ns(&stream, (5, 20_000_000), 1.0), (5, 20_000_000));
        // A writer that pauses does so several times in a trial, and urgent messages are several.
        for name in ["think_time", "urgent"] {
            let mut stream = stream.clone();
            stream.set(name, Level::Number(10_000_000));
            assert_eq!(lengths_ns(&stream, (5, 6_000_000), 1.0), (20_000_000, 100_000_000), "{name}");
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
        check(&[number("flows", 20), number("call_rate", 100)], 50.0);
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
