//! How long a trial of calls must be, by how fast calls are. Never reads the clock: a plan assumes a pace, and a session
//! says which one it saw.

use bytegauge_model::{Spec, Workload};

/// Fewer completed calls a flow than this are mostly its first ones, and tell no rate. Where load is offered, so many calls in
/// all are enough: how seldom a flow calls is what was asked for.
const CALLS_FEW: u64 = 10;

/// A trial is lengthened to no more than this, nanoseconds.
pub const LENGTHENED_MAX_NS: u64 = 1_000_000_000;

/// The warm-up of a lengthened trial is at least its window divided by this: in it every flow calls about twice.
const WARMUP_SHARE: u64 = 5;

/// Calls per second on connections that stay, while none were seen: about half of what busy ones reach on loopback.
const ASSUMED: f64 = 30_000.0;

/// The same where every call has a connection of its own, which is opened and closed at both ends.
const ASSUMED_CONNECTING: f64 = 5_000.0;

/// Calls per second of which a plan is sure enough while none were seen.
pub fn assumed(conditions: &Spec) -> f64 {
    let alone = if conditions.connect_per_call() == Some(true) { ASSUMED_CONNECTING } else { ASSUMED };
    let flows = conditions.flows().unwrap_or(1).max(1) as f64;
    let competing = conditions.competing_flows().unwrap_or(0) as f64;
    let think_ns = conditions.think_time().unwrap_or(0) as f64;
    // Others that load the same server have their share of it.
    let shared = alone * flows / (flows + competing);
    let offered = conditions.offered_rate().map_or(f64::INFINITY, |rate| rate as f64 / 2.0);
    let thinking = if think_ns > 0.0 { flows * 1e9 / think_ns / 2.0 } else { f64::INFINITY };
    shared.min(offered).min(thinking)
}

/// Calls without which a trial tells no rate; `None` where none are made, or a search settles how many.
pub fn calls_enough(conditions: &Spec) -> Option<u64> {
    let is_call = conditions.workload() == Workload::Call && conditions.slo().is_none();
    let flows = conditions.flows().filter(|_| !conditions.offers_load()).unwrap_or(1).max(1);
    is_call.then_some(CALLS_FEW * flows)
}

/// Warm-up and window in which enough calls are completed at so many per second, no shorter than those given.
pub fn lengths_ns(conditions: &Spec, (warmup_ns, window_ns): (u64, u64), per_second: f64) -> (u64, u64) {
    let explicit = conditions.duration().is_some();
    let calls = calls_enough(conditions).filter(|_| !explicit).unwrap_or(0);
    // A float beyond 64 bits becomes the largest of them.
    let needed_ns = (calls as f64 / per_second.max(f64::MIN_POSITIVE) * 1e9) as u64;
    lengthened_ns((warmup_ns, window_ns), needed_ns.min(LENGTHENED_MAX_NS))
}

/// How long one trial takes with its warm-up, its window and what is beside them, long enough for enough calls, nanoseconds.
pub fn trial_ns(conditions: &Spec, given_ns: (u64, u64), overhead_ns: u64, per_second: f64) -> u64 {
    let (warmup_ns, window_ns) = lengths_ns(conditions, given_ns, per_second);
    warmup_ns + window_ns + overhead_ns
}

/// A warm-up and a window that is lengthened where it is shorter than what is needed.
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
    fn a_trial_has_room_for_enough_calls_of_every_flow() {
        let check = |levels: &[(&'static str, Level)], per_second, expected| {
            let conditions = conditions(levels);
            assert_eq!(lengths_ns(&conditions, (5, 20_000_000), per_second), expected, "{levels:?} {per_second}");
        };
        let flows = |flows| ("flows", Level::Number(flows));
        check(&[flows(1)], 30_000.0, (5, 20_000_000));
        check(&[flows(1000)], 50_000.0, (40_000_000, 200_000_000));
        check(&[flows(1000)], 1.0, (200_000_000, LENGTHENED_MAX_NS));
        check(&[flows(1000)], 0.0, (200_000_000, LENGTHENED_MAX_NS));
        // The user's word, a load that is offered, and a search go by other rules.
        check(&[flows(1000), ("duration", Level::Number(20_000_000))], 1.0, (5, 20_000_000));
        check(&[flows(1000), ("call_rate", Level::Number(1000))], 1000.0, (5, 20_000_000));
        check(&[flows(1000), ("slo", Level::Name("p99=2ms".into()))], 1.0, (5, 20_000_000));
        let stream = Spec::of(Workload::Stream);
        assert_eq!(lengths_ns(&stream, (5, 20_000_000), 1.0), (5, 20_000_000));
    }

    #[test]
    fn what_is_assumed_goes_by_what_calls_have_to_do() {
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
    }
}
