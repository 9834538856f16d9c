//! Steps meshes through time: sound ranks, and ranks that are dead, slow, silent or misreporting.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bytegauge_stats::rng::{RandomStream, seeded};
use proptest::prelude::*;

use super::*;
use crate::schedule::MeshPattern;

const SECOND: u64 = 1_000_000_000;

const LIMITS: CoordinatorLimits = CoordinatorLimits {
    join_ns: 60 * SECOND,
    silence_ns: 15 * SECOND,
    slot_ns: 30 * SECOND,
    cancel_ns: 10 * SECOND,
    concurrent: usize::MAX,
};

/// How a simulated rank behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Sound,
    /// Never joins.
    Absent,
    /// Disconnects at this time.
    Dies(u64),
    /// Stays connected but does nothing from this time on.
    Freezes(u64),
    /// Each test takes this number of times longer.
    Slow(u64),
    /// Reports a slot that it does not measure at its first start.
    Misreports,
    /// Fails each test.
    Fails,
    /// Ignores cancellations, and never ends a test.
    Stuck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Join(Rank),
    Report(Rank, SlotId),
    Disconnect(Rank),
    Second,
}

/// A mesh in simulated time, which checks that no rank is in two slots at once.
struct Simulation {
    coordinator: Coordinator,
    natures: Vec<Nature>,
    /// The slot that each rank is in, as client or hub.
    engaged: Vec<Option<SlotId>>,
    clients: BTreeMap<SlotId, Vec<Rank>>,
    connected: Vec<bool>,
    events: BinaryHeap<Reverse<(u64, Happening)>>,
    random: RandomStream,
    measured: BTreeMap<(SlotId, Rank), u32>,
    now_ns: u64,
}

impl Simulation {
    fn new(schedule: MeshSchedule, natures: Vec<Nature>, limits: CoordinatorLimits, seed: u64) -> Simulation {
        let mut random = seeded(seed, 1);
        let mut events = BinaryHeap::from([Reverse((SECOND, Happening::Second))]);
        for (rank, nature) in natures.iter().enumerate() {
            let rank = rank as Rank;
            match nature {
                Nature::Absent => {}
                Nature::Dies(at_ns) => {
                    events.push(Reverse((random.below(1_000_000) as u64, Happening::Join(rank))));
                    events.push(Reverse((*at_ns, Happening::Disconnect(rank))));
                }
                _ => events.push(Reverse((random.below(SECOND as usize) as u64, Happening::Join(rank)))),
            }
        }
        Simulation {
            coordinator: Coordinator::new(schedule, limits),
            engaged: vec![None; natures.len()],
            clients: BTreeMap::new(),
            connected: vec![false; natures.len()],
            natures,
            events,
            random,
            measured: BTreeMap::new(),
            now_ns: 0,
        }
    }

    /// Runs to the end: how long it took, nanoseconds.
    fn run(&mut self) -> u64 {
        while !self.coordinator.is_over() {
            let Reverse((now_ns, happening)) = self.events.pop().expect("the mesh waits for ever");
            assert!(now_ns < 1_000_000 * SECOND, "the mesh waits for ever");
            self.now_ns = now_ns;
            match happening {
                Happening::Join(rank) => self.connected[rank as usize] = self.coordinator.join(rank, &[], now_ns),
                Happening::Disconnect(rank) => {
                    self.leave(rank);
                    self.coordinator.lose(rank, LostRank::Disconnected, now_ns);
                }
                Happening::Report(rank, slot) => self.report(rank, slot),
                Happening::Second => self.second(),
            }
            for action in self.coordinator.take_actions() {
                self.carry_out(&action);
            }
        }
        self.now_ns
    }

    fn second(&mut self) {
        for rank in 0..self.natures.len() {
            let is_frozen = matches!(self.natures[rank], Nature::Freezes(at_ns) if self.now_ns >= at_ns);
            if self.connected[rank] && !is_frozen {
                self.coordinator.heard(rank as Rank, self.now_ns);
            }
        }
        self.coordinator.tick(self.now_ns);
        self.events.push(Reverse((self.now_ns + SECOND, Happening::Second)));
    }

    fn report(&mut self, rank: Rank, slot: SlotId) {
        let is_frozen = matches!(self.natures[rank as usize], Nature::Freezes(at_ns) if self.now_ns >= at_ns);
        if !self.connected[rank as usize] || is_frozen || self.engaged[rank as usize] != Some(slot) {
            return;
        }
        self.disengage(rank, slot);
        let end = match self.natures[rank as usize] {
            Nature::Fails => Outcome::Failed("planted".into()),
            _ => Outcome::Measured,
        };
        if end == Outcome::Measured {
            *self.measured.entry((slot, rank)).or_default() += 1;
        }
        self.coordinator.report(rank, slot, end, self.now_ns);
    }

    fn carry_out(&mut self, action: &Action) {
        match *action {
            Action::Start(rank, slot) => self.start(rank, slot),
            Action::Cancel(rank, slot) => {
                if self.natures[rank as usize] != Nature::Stuck {
                    self.events.push(Reverse((self.now_ns + SECOND / 10, Happening::Report(rank, slot))));
                }
            }
            Action::Drop(rank, _) => self.leave(rank),
        }
    }

    fn start(&mut self, rank: Rank, slot: SlotId) {
        let hub = self.coordinator.schedule().slot(slot).hub;
        assert_eq!(self.engaged[rank as usize], None, "client {rank} is in another slot than {slot}");
        assert!(self.engaged[hub as usize].is_none_or(|other| other == slot), "hub {hub} is in two slots");
        assert!(self.connected[rank as usize], "rank {rank} is started but not connected");
        (self.engaged[rank as usize], self.engaged[hub as usize]) = (Some(slot), Some(slot));
        self.clients.entry(slot).or_default().push(rank);
        let length_ns = SECOND + self.random.below(SECOND as usize / 10) as u64;
        let slowest = [rank, hub].map(|rank| match self.natures[rank as usize] {
            Nature::Slow(times) => times,
            _ => 1,
        });
        match self.natures[rank as usize] {
            Nature::Stuck => {}
            Nature::Misreports => {
                let other = (slot + 1) % self.coordinator.schedule().len() as SlotId;
                self.coordinator.report(rank, other, Outcome::Measured, self.now_ns);
                for action in self.coordinator.take_actions() {
                    self.carry_out(&action);
                }
            }
            _ => {
                let length_ns = length_ns * slowest[0].max(slowest[1]);
                self.events.push(Reverse((self.now_ns + length_ns, Happening::Report(rank, slot))));
            }
        }
    }

    fn disengage(&mut self, rank: Rank, slot: SlotId) {
        self.engaged[rank as usize] = None;
        let clients = self.clients.get_mut(&slot).expect("a started slot");
        clients.retain(|client| *client != rank);
        if clients.is_empty() {
            let hub = self.coordinator.schedule().slot(slot).hub;
            if self.engaged[hub as usize] == Some(slot) {
                self.engaged[hub as usize] = None;
            }
        }
    }

    fn leave(&mut self, rank: Rank) {
        self.connected[rank as usize] = false;
        if let Some(slot) = self.engaged[rank as usize]
            && self.coordinator.schedule().slot(slot).hub != rank
        {
            self.disengage(rank, slot);
        }
    }

    /// Checks that each part of each slot is measured once, or missing once with a reason.
    fn check_parts(&self) {
        let mut missing: BTreeMap<(SlotId, Rank), u32> = BTreeMap::new();
        for part in self.coordinator.missing() {
            *missing.entry((part.slot, part.client)).or_default() += 1;
        }
        for (id, slot) in self.coordinator.schedule().slots() {
            for client in slot.clients {
                let key = (id, *client);
                let measured = self.measured.get(&key).copied().unwrap_or(0);
                let missing = missing.get(&key).copied().unwrap_or(0);
                // A report that crosses a cancellation is measured at the client and missing here.
                assert!(measured + missing >= 1, "part {key:?} has no end");
                assert!(measured <= 1 && missing <= 1, "part {key:?}: measured {measured}, missing {missing}");
            }
        }
    }
}

#[test]
fn sound_ranks_measure_everything() {
    for pattern in [MeshPattern::Pairs, MeshPattern::Incast(3), MeshPattern::OneToAll, MeshPattern::Bisection] {
        let schedule = MeshSchedule::new(9, pattern, 2, 3);
        let mut simulation = Simulation::new(schedule, vec![Nature::Sound; 9], LIMITS, 1);
        simulation.run();
        simulation.check_parts();
        assert_eq!(simulation.coordinator.missing(), []);
        assert_eq!(simulation.coordinator.lost().count(), 0);
    }
}

#[test]
fn a_thousand_ranks_with_faults_end() {
    let natures = |rank: u32| match rank {
        13 | 700 => Nature::Absent,
        77 => Nature::Dies(100 * SECOND + 1),
        401 => Nature::Freezes(200 * SECOND + 1),
        500 | 501 => Nature::Slow(3),
        600 => Nature::Misreports,
        650 => Nature::Fails,
        800 => Nature::Stuck,
        _ => Nature::Sound,
    };
    let schedule = MeshSchedule::new(1_000, MeshPattern::Pairs, 1, 11);
    let mut simulation = Simulation::new(schedule, (0..1_000).map(natures).collect(), LIMITS, 2);
    let took_ns = simulation.run();
    simulation.check_parts();
    let lost: Vec<_> = simulation.coordinator.lost().collect();
    let expected = [
        (13, LostRank::Absent),
        (77, LostRank::Disconnected),
        (401, LostRank::Silent),
        (600, LostRank::Misreported),
        (700, LostRank::Absent),
        (800, LostRank::Stuck),
    ];
    assert_eq!(lost, expected);
    let faulty = |rank: Rank| natures(rank) != Nature::Sound && !matches!(natures(rank), Nature::Slow(_));
    for part in simulation.coordinator.missing() {
        let slot = simulation.coordinator.schedule().slot(part.slot);
        assert!(slot.members().any(faulty), "sound ranks miss a slot: {part:?}");
    }
    // 999 tests of at most 3.3 s at the slow ranks, and the waits for the faulty ones.
    assert!(took_ns < 4_000 * SECOND, "took {} s", took_ns / SECOND);
}

#[test]
fn incast_goes_on_without_a_lost_client() {
    let schedule = MeshSchedule::new(5, MeshPattern::OneToAll, 1, 3);
    let natures = (0..5).map(|rank| if rank == 2 { Nature::Absent } else { Nature::Sound }).collect();
    let mut simulation = Simulation::new(schedule, natures, LIMITS, 1);
    simulation.run();
    simulation.check_parts();
    // Four hubs measure three of their four clients; the absent hub measures none of its four.
    assert_eq!(simulation.measured.len(), 12);
    assert_eq!(simulation.coordinator.missing().len(), 8);
}

#[test]
fn slots_at_a_time_are_limited() {
    let schedule = MeshSchedule::new(8, MeshPattern::Pairs, 1, 3);
    let limits = CoordinatorLimits { concurrent: 1, ..LIMITS };
    let mut simulation = Simulation::new(schedule, vec![Nature::Sound; 8], limits, 1);
    // 28 tests one after another take at least a second each.
    assert!(simulation.run() >= 28 * SECOND);
}

#[test]
fn measured_slots_are_not_repeated() {
    let schedule = MeshSchedule::new(4, MeshPattern::Pairs, 1, 3);
    let mut coordinator = Coordinator::new(schedule, LIMITS);
    for rank in 0..4 {
        assert!(coordinator.join(rank, &[0, 1, 2, 3, 4, 99], 0));
    }
    let client = coordinator.schedule().slot(5).clients[0];
    assert_eq!(coordinator.take_actions(), [Action::Start(client, 5)]);
    coordinator.report(client, 5, Outcome::Measured, 1);
    assert!(coordinator.is_over());
}

#[test]
fn a_rank_joins_once() {
    let mut coordinator = Coordinator::new(MeshSchedule::new(2, MeshPattern::Pairs, 1, 3), LIMITS);
    assert!(coordinator.join(1, &[], 0));
    assert!(!coordinator.join(1, &[], 0));
    assert!(!coordinator.join(2, &[], 0));
}

#[test]
fn added_rounds_are_measured_by_those_left() {
    let schedule = MeshSchedule::new(3, MeshPattern::Pairs, 1, 3);
    let mut simulation = Simulation::new(schedule, vec![Nature::Sound, Nature::Sound, Nature::Absent], LIMITS, 1);
    simulation.run();
    let missing = simulation.coordinator.missing().len();
    simulation.coordinator.push_round(1, &[(0, vec![1])], simulation.now_ns);
    simulation.coordinator.push_round(1, &[(2, vec![1])], simulation.now_ns);
    for action in simulation.coordinator.take_actions() {
        simulation.carry_out(&action);
    }
    simulation.run();
    simulation.check_parts();
    assert_eq!(simulation.coordinator.missing().len(), missing + 1);
}

proptest! {
    #[test]
    fn every_part_ends(ranks in 2_u32..12, seed: u64, concurrent in 1_usize..8, pattern in 0_usize..5) {
        let pattern =
            [MeshPattern::Pairs, MeshPattern::Matchings(2), MeshPattern::Incast(3), MeshPattern::OneToAll, MeshPattern::Bisection][pattern];
        let mut random = seeded(seed, 9);
        let natures = (0..ranks).map(|_| match random.below(14) {
            0 => Nature::Absent,
            1 => Nature::Dies(random.below(20) as u64 * SECOND + 2_000_000),
            2 => Nature::Freezes(random.below(20) as u64 * SECOND),
            3 => Nature::Slow(40),
            4 => Nature::Misreports,
            5 => Nature::Fails,
            6 => Nature::Stuck,
            _ => Nature::Sound,
        });
        let natures = natures.collect();
        let schedule = MeshSchedule::new(ranks, pattern, 2, seed);
        let limits = CoordinatorLimits { concurrent, ..LIMITS };
        let mut simulation = Simulation::new(schedule, natures, limits, seed);
        simulation.run();
        simulation.check_parts();
    }
}

/// Three ranks, of which the first two measure slot 0.
fn started() -> (Coordinator, SlotId, Rank, Rank) {
    let schedule = MeshSchedule::new(3, MeshPattern::Pairs, 1, 1);
    let mut coordinator = Coordinator::new(schedule, LIMITS);
    for rank in 0..3 {
        assert!(coordinator.join(rank, &[], 0));
    }
    let started = coordinator.take_actions().into_iter().find_map(|action| match action {
        Action::Start(client, slot) => Some((client, slot)),
        _ => None,
    });
    let (client, slot) = started.unwrap();
    let hub = coordinator.schedule().slot(slot).hub;
    (coordinator, slot, client, hub)
}

#[test]
fn a_part_is_reported_once() {
    let (mut coordinator, slot, client, hub) = started();
    assert!(!coordinator.report(hub, slot, Outcome::Measured, 1), "a hub does not report");
    assert!(coordinator.lost().eq([(hub, LostRank::Misreported)]));
    let mut coordinator = started().0;
    assert!(!coordinator.report(9, slot, Outcome::Measured, 1));
    assert!(coordinator.report(client, slot, Outcome::Measured, 1));
    assert!(!coordinator.report(client, slot, Outcome::Measured, 1));
    assert!(!coordinator.report(client, u32::MAX, Outcome::Measured, 1));
}

#[test]
fn rates_of_other_pairs_are_dropped() {
    let (coordinator, slot, client, hub) = started();
    let other = (0..3).find(|rank| ![client, hub].contains(rank)).unwrap();
    let rate = |sender, receiver, ln_rate| (0, RateSample { sender, receiver, ln_rate });
    let own = [rate(client, hub, 20.0), rate(hub, client, 21.0)];
    let sent = [
        rate(client, other, 20.0),
        rate(client, client, 20.0),
        rate(u32::MAX, hub, 20.0),
        rate(client, hub, 1e300),
        rate(client, hub, f64::NAN),
        (1, own[0].1),
        own[0],
        own[1],
        rate(client, hub, 1.0),
    ];
    assert_eq!(coordinator.own_rates(client, slot, &sent, 1), own);
    assert_eq!(coordinator.own_rates(client, u32::MAX, &sent, 1), []);
}

#[test]
fn a_caller_that_was_away_loses_no_rank() {
    let silent = |is_informed: bool| {
        let mut coordinator = Coordinator::new(MeshSchedule::new(4, MeshPattern::Pairs, 1, 3), LIMITS);
        (0..4).for_each(|rank| assert!(coordinator.join(rank, &[], 0)));
        let now_ns = LIMITS.silence_ns + SECOND;
        if is_informed {
            coordinator.was_away(now_ns);
        }
        coordinator.tick(now_ns);
        coordinator.lost().count()
    };
    assert_eq!((silent(true), silent(false)), (0, 4));
}

#[test]
fn long_reasons_are_cut() {
    let (mut coordinator, slot, client, _) = started();
    let reason = "ä".repeat(1 << 20);
    assert!(coordinator.report(client, slot, Outcome::Failed(reason.clone()), 1));
    let Outcome::Failed(kept) = &coordinator.missing()[0].outcome else { panic!() };
    assert!(kept.len() <= 2048 && reason.starts_with(kept.as_str()) && !kept.is_empty());
}
