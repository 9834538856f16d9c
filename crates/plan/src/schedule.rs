//! The time that a trial, a block and all stages of a plan take: by assumption before anything is measured, then as measured. Never
//! reads the clock.
//!
//! Also the order of a block, and the length of trials.

use std::collections::HashSet;

use bytegauge_model::slo::{PROBE_MAX_NS, PROBES_USUAL};
use bytegauge_model::unit::audit_after_ns;
use bytegauge_model::{Cost, GroupId, Level, Spec, Transport, Workload};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

use crate::design::{AUDIT_CELLS_MIN, StageTimes};
use crate::missing_features::connections;
use crate::plan::{GroupFacts, Index, Plan};
use crate::spec::PlanSpec;

/// Assumed time until each byte of a flow's request has memory at both ends, nanoseconds: 1,000 flows of 32 KiB took 0.2 s.
const FLOW_BYTE_NS: u64 = 6;

impl Plan {
    /// Calls per second in a group: as measured, else as assumed for its conditions.
    pub fn pace(&self, group: &GroupId, conditions: &Spec) -> f64 {
        self.seen.paces.get(group).copied().unwrap_or_else(|| assumed(conditions))
    }

    /// What a trial takes in addition to its warm-up and its window: as measured, else as assumed for its conditions,
    /// nanoseconds.
    pub fn overhead_ns(&self, conditions: &Spec, measured_ns: Option<u64>) -> u64 {
        let flow_ns = self.design.flow_overhead_ns + conditions.request().unwrap_or(0) * FLOW_BYTE_NS;
        measured_ns.unwrap_or_else(|| self.design.overhead_ns + connections(conditions) * flow_ns)
    }

    /// A trial of the harness's own loop, which has one flow regardless of the cells, nanoseconds; 0 for a program, since the
    /// harness costs nothing while one runs.
    pub fn floor_trial_ns(&self, measured_ns: Option<u64>) -> u64 {
        let measured_ns = measured_ns.filter(|_| self.workload != Workload::Call);
        match self.workload {
            Workload::Check => 0,
            _ => self.design.floor_ns + measured_ns.unwrap_or(self.design.overhead_ns),
        }
    }

    /// A block whose trials take this time, with their rests and its own overhead, nanoseconds.
    pub fn block_ns(&self, trials_ns: u64, overhead_ns: u64) -> u64 {
        self.stretch() * trials_ns + overhead_ns
    }

    /// The time of each stage, with the warm-ups that the design assumes.
    pub fn schedule(&self) -> StageTimes {
        self.schedule_of(&Index::of(self))
    }

    /// The same by an index of this plan's groups, which stays valid while lengths, counts and families change.
    pub(crate) fn schedule_of(&self, index: &Index) -> StageTimes {
        let (design, asked) = (&self.design, self.objective);
        let mut schedule = StageTimes::default();
        let measured_ns = |group: &GroupId| self.seen.overheads_ns.get(group).copied();
        let mut shortest_audit_ns: Option<u64> = None;
        for family in &self.families {
            let live: Vec<&GroupId> = family.groups.iter().filter(|group| index.is_live(group)).collect();
            let conditions = || live.iter().map(|group| index.conditions(self, group));
            let of = |group: &GroupId| {
                let conditions = index.conditions(self, group);
                (conditions, self.overhead_ns(conditions, measured_ns(group)), self.pace(group, conditions))
            };
            let placements: HashSet<_> = conditions().map(Spec::placement).collect();
            if conditions().any(|levels| design.calibrates(levels)) {
                let trial_ns = |group: &&GroupId| {
                    let (conditions, overhead_ns, pace) = of(group);
                    let lengths = (design.fresh.warmup_ns, design.calibration_ns);
                    trial_ns(conditions, asked, lengths, overhead_ns, pace)
                };
                let trial_ns = live.iter().map(trial_ns).max().unwrap_or(0);
                let trials = placements.len() as u64 * self.calibration_trials(family);
                schedule.calibrate_ns += self.block_ns(trials * trial_ns, 0);
            }
            if family.is_screened() {
                let cells = family.choices as u64;
                let narrowed = cells.min(design.narrow_cells as u64);
                for group in &family.screened {
                    let (conditions, overhead_ns, pace) = of(group);
                    let lengths = design.screening_ns(conditions, None);
                    let trial_ns = search_trial_ns(conditions, asked, lengths, overhead_ns, pace);
                    schedule.screen_ns += design.screen_blocks * self.block_ns(cells * trial_ns, 0);
                    schedule.narrow_ns += design.narrow_blocks * self.block_ns(narrowed * trial_ns, 0);
                }
            }
            let aside: HashSet<&GroupId> = family.aside.iter().collect();
            for group in live {
                let GroupFacts { duration_ns: explicit, artefacts, .. } = index.get(group);
                let (conditions, overhead_ns, pace) = of(group);
                let window_ns = explicit.unwrap_or(family.trial_ns);
                let warmup_ns = design.confirm_warmup_ns(conditions, None);
                let trial_ns = search_trial_ns(conditions, asked, (warmup_ns, window_ns), overhead_ns, pace);
                let needed_ns =
                    explicit.unwrap_or_else(|| lengths_ns(conditions, asked, (warmup_ns, window_ns), pace).1);
                if family.confirmed() > 1 && design.audits(conditions, needed_ns) {
                    let block_ns = self.block_ns(AUDIT_CELLS_MIN * (design.audit_ns + warmup_ns + overhead_ns), 0);
                    shortest_audit_ns = Some(shortest_audit_ns.map_or(block_ns, |ns| ns.min(block_ns)));
                }
                let trials = family.fewest_confirmed() as u64 + u64::from(family.confirmed() > 1) + artefacts;
                let round_ns = self.block_ns(trials * trial_ns + self.floor_trial_ns(measured_ns(group)), 0);
                if aside.contains(group) {
                    schedule.aside_round_ns += round_ns;
                } else {
                    schedule.confirm_round_ns += round_ns;
                }
            }
        }
        if let Some(calibrated_ns) = self.seen.calibrated_ns {
            schedule.calibrate_ns = calibrated_ns;
        }
        self.share_time(&mut schedule, shortest_audit_ns);
        schedule
    }

    /// Divides the time that calibration and screening leave between confirmation and the long-trial check, which gets none if it
    /// would be shorter than a block.
    fn share_time(&self, schedule: &mut StageTimes, shortest_audit_ns: Option<u64>) {
        let design = &self.design;
        let fixed_ns = schedule.calibrate_ns + schedule.screen_ns + schedule.narrow_ns;
        let left_ns = self.budget_ns as f64 * (1.0 - design.reserve) - fixed_ns as f64;
        let rounds = (schedule.confirm_round_ns as f64, schedule.aside_round_ns as f64);
        let confirm = |schedule: &mut StageTimes, left_ns: f64| {
            schedule.blocks = self.blocks.unwrap_or_else(|| design.fitting_blocks(left_ns, rounds.0, rounds.1));
            schedule.aside_blocks = design.aside_blocks(schedule.blocks);
        };
        // The long-trial check gets at most the time that is left after the minimum number of blocks.
        let (fewest, aside) = (design.blocks_min, design.aside_blocks(design.blocks_min));
        let fewest_ns = rounds.0 * fewest as f64 + rounds.1 * aside as f64;
        let share_ns = (self.budget_ns as f64 * self.audit).min(left_ns - fewest_ns).max(0.0);
        confirm(schedule, left_ns - share_ns);
        let done_ns = schedule.total_ns();
        schedule.audit_ns = match self.blocks {
            // In proportion to the requested blocks; else in proportion to the budget, of which less may be needed.
            Some(_) => audit_after_ns(self.audit, done_ns),
            None => audit_after_ns(self.audit, done_ns).min(share_ns as u64),
        };
        if shortest_audit_ns.is_none_or(|block_ns| schedule.audit_ns < block_ns) {
            schedule.audit_ns = 0;
            confirm(schedule, left_ns);
        }
    }
}

// The order of a block: a seeded random permutation. Never reads the clock.
//
// The generator is a fixed algorithm of a fixed version (PCG XSL RR 128/64), so that a seed gives the
// same order on every machine and for ever.

/// The order in which a block visits `count` cells: a permutation of `0..count`.
pub fn order(count: usize, seed: u64, block: u64) -> Vec<usize> {
    let mut random = Pcg64::seed_from_u64(seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(&mut random, last as u64 + 1) as usize);
    }
    order
}

/// A fair coin for this block: which of two CPUs is the source's.
pub fn coin(seed: u64, block: u64) -> bool {
    let mut random = Pcg64::seed_from_u64(!seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.next_u64() >> 63 == 1
}

/// A number below `bound`, every one equally likely (rejection of the uneven tail).
fn below(random: &mut Pcg64, bound: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % bound;
    loop {
        let value = random.next_u64();
        if value < fair {
            return value % bound;
        }
    }
}

// The necessary length of a trial of calls, from their rate. Never reads the clock: a plan assumes a rate, and a session
// measures it.
//
// Also the time of a search for a knee.

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
    let parts = conditions.response().zip(conditions.response_chunk()).map(|(bytes, part)| bytes.div_ceil(part.max(1)));
    parts.unwrap_or(1).saturating_sub(1)
}

/// Calls that a trial needs for what options are compared by, if the user `asked` for that: a rate, or a p99. `None` if it makes none, or
/// if a search sets their number.
pub fn calls_enough(conditions: &Spec, asked: Option<Cost>) -> Option<u64> {
    let is_call = conditions.workload() == Workload::Call && !conditions.searches_rate();
    let flows = conditions.flows().filter(|_| !conditions.offers_load()).unwrap_or(1).max(1);
    let calls = match conditions.cost(asked) {
        Cost::P99 => (CALLS_FEW * flows).max(P99_VALUES),
        // The window cuts one call of each flow.
        Cost::GapP99 => P99_VALUES.div_ceil(gaps(conditions).max(1)) + flows,
        Cost::Time | Cost::Cpu | Cost::Urgent => CALLS_FEW * flows,
    };
    is_call.then_some(calls)
}

/// A trial becomes no longer than this for the sake of its calls, nanoseconds.
pub fn longest_ns(conditions: &Spec, asked: Option<Cost>) -> u64 {
    match conditions.cost(asked) {
        Cost::P99 | Cost::GapP99 => PAUSES_MAX_NS,
        Cost::Time | Cost::Cpu | Cost::Urgent => LENGTHENED_MAX_NS,
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
    let calls = calls_enough(conditions, asked).filter(|_| !explicit).unwrap_or(0);
    // A float beyond 64 bits becomes the largest of them. At a fixed rate a trial has hardly more calls than its share.
    let spare = if conditions.cost(asked) == Cost::P99 { SPARE_OF_P99 } else { 1.0 };
    let needed_ns = (spare * calls as f64 / per_second.max(f64::MIN_POSITIVE) * 1e9) as u64;
    let bursts_ns = pause_ns(conditions).filter(|_| !explicit).map_or(0, |ns| ns.saturating_mul(BURSTS));
    let pauses_ns = conditions.think_time().filter(|_| calls > 0).map_or(0, |ns| ns.saturating_mul(PAUSES));
    let most_ns = longest_ns(conditions, asked);
    let needed_ns = needed_ns.max(bursts_ns).min(most_ns).max(pauses_ns.min(PAUSES_MAX_NS));
    lengthened_ns((warmup_ns, window_ns), needed_ns)
}

/// Time from one burst, one write of a writer that pauses, or one urgent message to the next, nanoseconds.
fn pause_ns(conditions: &Spec) -> Option<u64> {
    let of_writer = || conditions.think_time().filter(|_| conditions.workload() == Workload::Stream);
    conditions.burst().and(conditions.every()).or_else(of_writer).or(conditions.urgent())
}

/// Time of one trial with its warm-up, its window and its overhead, long enough for enough calls, nanoseconds.
pub fn trial_ns(
    conditions: &Spec,
    asked: Option<Cost>,
    given_ns: (u64, u64),
    overhead_ns: u64,
    per_second: f64,
) -> u64 {
    let (warmup_ns, window_ns) = lengths_ns(conditions, asked, given_ns, per_second);
    warmup_ns + window_ns + overhead_ns
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
        (None, None) => return trial_ns(conditions, asked, (warmup_ns, window_ns), overhead_ns, per_second),
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
    use super::*;
    use crate::file::parse;
    use crate::missing_features::Catalog;
    use crate::resolve::resolve;
    use crate::spec::PlanSpec;

    fn schedule(text: &str) -> StageTimes {
        let unix = if text.contains("transport") { "" } else { "transport = \"unix\"\nwrite-size = \"64K\"\n" };
        let text = format!("{unix}read-size = \"4K,64K\"\n{text}");
        resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1).unwrap().schedule()
    }

    #[test]
    fn a_check_leaves_time_for_the_fewest_blocks() {
        let check = |text: &str, audited: bool| {
            let with = schedule(text);
            let without = schedule(&format!("{text}\nlong-trials = false"));
            assert_eq!((with.audit_ns > 0, without.audit_ns), (audited, 0), "{text}: {with:?}");
            let others_ns = with.total_ns() - with.audit_ns;
            assert!(with.audit_ns <= others_ns / 9 + 1, "{text}: {with:?}");
            assert!(with.blocks >= 6 && with.blocks <= without.blocks, "{text}: {with:?} {without:?}");
        };
        check("time = \"60s\"", true);
        check("blocks = 100", true);
        check("blocks = 6", false);
        check("time = \"5s\"", false);
        check("time = \"60s\"\ntrial-time = \"300ms\"", false);
        check("time = \"60s\"\ntransport = \"/dev/zero\"", false);
    }

    #[test]
    fn rests_are_a_part_of_the_plan() {
        let check = |text: &str| {
            let text = format!("transport = \"unix\"\nwrite-size = \"64K\"\nread-size = \"4K,64K\"\n{text}");
            let spec = parse("t", &text).unwrap();
            let steady = resolve(&spec, &Catalog::default(), 1).unwrap().schedule();
            let gentle = resolve(&PlanSpec { gentle: true, ..spec }, &Catalog::default(), 1).unwrap();
            let budget_ns = gentle.budget_ns;
            let gentle = gentle.schedule();
            assert_eq!(gentle.confirm_round_ns, 2 * steady.confirm_round_ns, "{text}");
            assert!(gentle.blocks < steady.blocks && gentle.blocks >= 6, "{text}: {gentle:?} {steady:?}");
            assert!(gentle.total_ns() <= budget_ns, "{text}: {gentle:?}");
        };
        check("time = \"20s\"");
        check("time = \"60s\"");
        check("time = \"60s\"\nlong-trials = false");
    }
}

#[cfg(test)]
mod block_order_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_a_permutation(count in 0usize..100, seed: u64, block: u64) {
            let mut sorted = order(count, seed, block);
            prop_assert_eq!(&sorted, &order(count, seed, block));
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_seed_gives_this_order_for_ever() {
        assert_eq!(order(8, 1, 0), [3, 6, 2, 0, 1, 4, 5, 7]);
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut first = [0u32; 5];
        for block in 0..10_000 {
            first[order(5, 42, block)[0]] += 1;
        }
        assert!(first.iter().all(|n| (1_850..2_150).contains(n)), "{first:?}");
    }
}

#[cfg(test)]
mod trial_length_tests {
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
