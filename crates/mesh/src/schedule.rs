//! The schedule of a mesh: which ranks measure each other, in which rounds. A pure function of its arguments.
//!
//! Every process computes the same schedule from the same arguments, so it is never sent. Rounds use the circle method:
//! one rank keeps its place, the others move by one place per round, and opposite places meet. Each replicate relabels
//! the ranks and shuffles its rounds, so that no host is always measured first or always next to the same pairs.
//!
//! Never reads a clock, never does I/O.
//!
//! Also the patterns, as the user names them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use bytegauge_stats::rng::{RandomStream, seeded};

use crate::Rank;

/// The stream of random numbers that schedules use.
const RANDOM_STREAM: u64 = 0x6d65_7368;

/// The most slots that a schedule may have: 4,000 ranks in all pairs. Rank 0 holds about 40 bytes per slot of a pair.
pub const SLOTS_MAX: u64 = 1 << 23;

/// The position of a slot in its schedule.
pub type SlotId = u32;

/// One test between ranks that take part in no other test at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshSlot<'a> {
    /// The replicate, from 0.
    pub replicate: u32,
    /// The round within all replicates, from 0. Slots of a round have no rank in common.
    pub round: u32,
    /// The rank whose agent serves the others, or the number after the last rank: an external server.
    pub hub: Rank,
    /// The ranks that measure with the hub; one in a pair.
    pub clients: &'a [Rank],
}

impl MeshSlot<'_> {
    /// All ranks that take part: the hub, then the clients.
    pub fn members(&self) -> impl Iterator<Item = Rank> {
        std::iter::once(self.hub).chain(self.clients.iter().copied())
    }
}

/// The slots of a mesh in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshSchedule {
    ranks: u32,
    /// Whether an external server is the hub of every slot.
    has_server: bool,
    rounds: u32,
    slots: Vec<SlotRow>,
    /// Members of all slots, one slot after the other, the hub first.
    members: Vec<Rank>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotRow {
    replicate: u32,
    round: u32,
    start: u32,
}

impl MeshSchedule {
    /// The schedule of a pattern, repeated `replicates` times.
    ///
    /// Fewer than two ranks have no slot. Counts beyond the number of ranks are reduced to it.
    pub fn new(ranks: u32, pattern: MeshPattern, replicates: u32, seed: u64) -> MeshSchedule {
        let mut schedule = MeshSchedule::empty(ranks);
        if ranks < 2 {
            return schedule;
        }
        for replicate in 0..replicates {
            let mut random = seeded(seed, RANDOM_STREAM + u64::from(replicate));
            let mut labels: Vec<Rank> = (0..ranks).collect();
            random.shuffle(&mut labels);
            schedule.add_replicate(replicate, pattern, &labels, &mut random);
        }
        schedule
    }

    /// The schedule of clients of an external server, whose number is `ranks`: `clients` ranks at the same time, until each rank was
    /// a client. Earlier ranks complete the last slot of a replicate, so that all slots have the same load.
    pub fn of_server(ranks: u32, clients: u32, replicates: u32, seed: u64) -> MeshSchedule {
        let mut schedule = MeshSchedule { has_server: true, ..MeshSchedule::empty(ranks) };
        let clients = clients.min(ranks) as usize;
        for replicate in 0..replicates {
            let mut labels: Vec<Rank> = (0..ranks).collect();
            seeded(seed, RANDOM_STREAM + u64::from(replicate)).shuffle(&mut labels);
            for first in (0..labels.len()).step_by(clients.max(1)) {
                let of_slot = labels.iter().cycle().skip(first).take(clients).copied().collect();
                schedule.push_round(replicate, &[(ranks, of_slot)]);
            }
        }
        schedule
    }

    /// A schedule without slots, to which [`MeshSchedule::push_round`] adds.
    pub fn empty(ranks: u32) -> MeshSchedule {
        MeshSchedule { ranks, has_server: false, rounds: 0, slots: Vec::new(), members: Vec::new() }
    }

    /// The number of slots of a schedule, without computing it.
    pub fn slot_count(ranks: u32, pattern: MeshPattern, replicates: u32) -> u64 {
        let n = u64::from(ranks);
        if n < 2 {
            return 0;
        }
        let rounds = n - 1 + n % 2;
        let per_replicate = match pattern {
            MeshPattern::Pairs => rounds * (n / 2),
            MeshPattern::Matchings(count) => rounds.min(u64::from(count)) * (n / 2),
            MeshPattern::Incast(_) | MeshPattern::OneToAll => n,
            MeshPattern::Bisection => n / 2,
        };
        per_replicate * u64::from(replicates)
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The numbers that take part: those of the ranks, and the next one of an external server.
    pub fn parties(&self) -> u32 {
        self.ranks + u32::from(self.has_server)
    }

    /// The number of rounds in all replicates.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is nothing to measure.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A slot.
    ///
    /// # Panics
    /// If the schedule has no such slot.
    pub fn slot(&self, id: SlotId) -> MeshSlot<'_> {
        let row = self.slots[id as usize];
        let (hub, clients) = self.members[self.range(id)].split_first().expect("a slot has members");
        MeshSlot { replicate: row.replicate, round: row.round, hub: *hub, clients }
    }

    /// All slots in order.
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, MeshSlot<'_>)> {
        (0..self.slots.len() as u32).map(|id| (id, self.slot(id)))
    }

    /// Adds a round at the end: for each slot the hub and its clients. Slots without clients are left out.
    ///
    /// # Panics
    /// If a rank occurs twice in the round or is not a rank of the schedule: that would measure two tests at once.
    pub fn push_round(&mut self, replicate: u32, slots: &[(Rank, Vec<Rank>)]) {
        let mut seen = vec![false; self.parties() as usize];
        for (hub, clients) in slots.iter().filter(|(_, clients)| !clients.is_empty()) {
            let start = self.members.len() as u32;
            self.members.push(*hub);
            self.members.extend_from_slice(clients);
            for rank in &self.members[start as usize..] {
                let taken = std::mem::replace(&mut seen[*rank as usize], true);
                assert!(!taken, "rank {rank} is in two slots of a round");
            }
            self.slots.push(SlotRow { replicate, round: self.rounds, start });
        }
        self.rounds += 1;
    }

    fn range(&self, id: SlotId) -> Range<usize> {
        let end = self.slots.get(id as usize + 1).map_or(self.members.len(), |next| next.start as usize);
        self.slots[id as usize].start as usize..end
    }

    fn add_replicate(&mut self, replicate: u32, pattern: MeshPattern, labels: &[Rank], random: &mut RandomStream) {
        let n = labels.len();
        match pattern {
            MeshPattern::Pairs => self.add_circle(replicate, labels, usize::MAX, random),
            MeshPattern::Matchings(count) => self.add_circle(replicate, labels, count as usize, random),
            MeshPattern::Incast(count) => {
                let clients = (count as usize).min(n - 1);
                self.add_hubs(replicate, labels, clients);
            }
            MeshPattern::OneToAll => self.add_hubs(replicate, labels, n - 1),
            MeshPattern::Bisection => {
                let half = n / 2;
                let pairs: Vec<_> = (0..half).map(|at| (labels[at], vec![labels[half + at]])).collect();
                self.push_round(replicate, &pairs);
            }
        }
    }

    /// Adds up to `most` rounds of the circle method in random order.
    fn add_circle(&mut self, replicate: u32, labels: &[Rank], most: usize, random: &mut RandomStream) {
        let n = labels.len();
        // With an odd number of ranks a place stays empty, and the rank opposite rests.
        let places = n + n % 2;
        let mut turns: Vec<usize> = (0..places - 1).collect();
        random.shuffle(&mut turns);
        for turn in turns.into_iter().take(most) {
            let mut pairs: Vec<(Rank, Vec<Rank>)> = Vec::with_capacity(n / 2);
            for (one, other) in circle(places, turn) {
                let (Some(one), Some(other)) = (labels.get(one), labels.get(other)) else { continue };
                let swapped = random.below(2) == 1;
                let (hub, client) = if swapped { (*other, *one) } else { (*one, *other) };
                pairs.push((hub, vec![client]));
            }
            random.shuffle(&mut pairs);
            self.push_round(replicate, &pairs);
        }
    }

    /// Adds a round for each rank as the hub, with the next `clients` ranks of a circle.
    fn add_hubs(&mut self, replicate: u32, labels: &[Rank], clients: usize) {
        let n = labels.len();
        for hub in 0..n {
            let others = (1..=clients).map(|step| labels[(hub + step) % n]).collect();
            self.push_round(replicate, &[(labels[hub], others)]);
        }
    }
}

/// The pairs of places that meet in one turn of the circle method, for an even number of places.
fn circle(places: usize, turn: usize) -> impl Iterator<Item = (usize, usize)> {
    let moving = places - 1;
    let fixed = std::iter::once((moving, turn % moving));
    fixed.chain((1..places / 2).map(move |step| ((turn + step) % moving, (turn + moving - step) % moving)))
}

// Patterns of a mesh: which ranks measure each other, as the user names them.

/// Which ranks measure each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshPattern {
    /// Every pair once: N − 1 rounds (N rounds if N is odd) of ⌊N/2⌋ disjoint pairs.
    Pairs,
    /// This number of random rounds of disjoint pairs. No pair occurs twice within a replicate.
    Matchings(u32),
    /// This number of clients send to one server at the same time; every rank is the server once.
    Incast(u32),
    /// One rank sends to all others at the same time; every rank is the sender once.
    OneToAll,
    /// Half of the ranks are paired with the other half, all at the same time.
    Bisection,
}

impl MeshPattern {
    /// Whether a slot has one server and several clients, instead of two ranks: clients of an incast only send, and a sender to
    /// all only sends, so that one direction is measured.
    pub fn has_hub(self) -> bool {
        matches!(self, MeshPattern::Incast(_) | MeshPattern::OneToAll)
    }

    /// The clients of a slot in a mesh of this many ranks.
    pub fn clients(self, ranks: u32) -> u32 {
        match self {
            MeshPattern::Incast(clients) => clients,
            MeshPattern::OneToAll => ranks.saturating_sub(1),
            MeshPattern::Pairs | MeshPattern::Matchings(_) | MeshPattern::Bisection => 1,
        }
    }
}

impl FromStr for MeshPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<MeshPattern, String> {
        let (name, count) = match text.split_once(':') {
            Some((name, count)) => (name, Some(count.parse::<u32>().ok().filter(|count| *count > 0))),
            None => (text, None),
        };
        match (name, count) {
            ("pairs", None) => Ok(MeshPattern::Pairs),
            ("matchings", Some(Some(count))) => Ok(MeshPattern::Matchings(count)),
            ("incast", Some(Some(count))) => Ok(MeshPattern::Incast(count)),
            ("one-to-all", None) => Ok(MeshPattern::OneToAll),
            ("bisection", None) => Ok(MeshPattern::Bisection),
            _ => Err(format!(
                "{text:?} is not a pattern: use pairs, matchings:K, incast:K, one-to-all or bisection, with K from 1"
            )),
        }
    }
}

impl fmt::Display for MeshPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshPattern::Pairs => f.write_str("pairs"),
            MeshPattern::Matchings(count) => write!(f, "matchings:{count}"),
            MeshPattern::Incast(count) => write!(f, "incast:{count}"),
            MeshPattern::OneToAll => f.write_str("one-to-all"),
            MeshPattern::Bisection => f.write_str("bisection"),
        }
    }
}

bytegauge_model::text_serde!(MeshPattern);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// How often each unordered pair of hub and client occurs.
    fn pairs(schedule: &MeshSchedule) -> BTreeMap<(Rank, Rank), u32> {
        let mut counts = BTreeMap::new();
        for (_, slot) in schedule.slots() {
            for client in slot.clients {
                *counts.entry((slot.hub.min(*client), slot.hub.max(*client))).or_default() += 1;
            }
        }
        counts
    }

    proptest! {
        #[test]
        fn pairs_meet_once_per_replicate(ranks in 2_u32..40, replicates in 1_u32..4, seed: u64) {
            let schedule = MeshSchedule::new(ranks, MeshPattern::Pairs, replicates, seed);
            let counts = pairs(&schedule);
            prop_assert_eq!(counts.len() as u32, ranks * (ranks - 1) / 2);
            prop_assert!(counts.values().all(|count| *count == replicates));
            prop_assert_eq!(schedule.rounds(), (ranks - 1 + ranks % 2) * replicates);
        }

        #[test]
        fn matchings_repeat_no_pair(ranks in 2_u32..40, count in 1_u32..50, seed: u64) {
            let schedule = MeshSchedule::new(ranks, MeshPattern::Matchings(count), 1, seed);
            prop_assert!(pairs(&schedule).values().all(|count| *count == 1));
            prop_assert_eq!(schedule.rounds(), count.min(ranks - 1 + ranks % 2));
        }

        #[test]
        fn every_rank_is_hub_once(ranks in 2_u32..20, count in 1_u32..30, seed: u64) {
            for pattern in [MeshPattern::Incast(count), MeshPattern::OneToAll] {
                let schedule = MeshSchedule::new(ranks, pattern, 1, seed);
                let mut hubs: Vec<Rank> = schedule.slots().map(|(_, slot)| slot.hub).collect();
                hubs.sort_unstable();
                prop_assert_eq!(hubs, (0..ranks).collect::<Vec<_>>());
                let clients = if pattern == MeshPattern::OneToAll { ranks - 1 } else { count.min(ranks - 1) };
                prop_assert!(schedule.slots().all(|(_, slot)| slot.clients.len() == clients as usize));
            }
        }

        #[test]
        fn slots_are_counted_beforehand(ranks in 0_u32..30, replicates in 0_u32..3, seed: u64) {
            let patterns =
                [MeshPattern::Pairs, MeshPattern::Matchings(3), MeshPattern::Incast(4), MeshPattern::OneToAll, MeshPattern::Bisection];
            for pattern in patterns {
                let schedule = MeshSchedule::new(ranks, pattern, replicates, seed);
                prop_assert_eq!(schedule.len() as u64, MeshSchedule::slot_count(ranks, pattern, replicates));
                prop_assert_eq!(&schedule, &MeshSchedule::new(ranks, pattern, replicates, seed));
            }
        }
    }

    #[test]
    fn every_rank_calls_an_external_server() {
        for (ranks, clients, slots) in [(7, 3, 3), (6, 3, 2), (2, 9, 1), (3, 1, 3)] {
            let schedule = MeshSchedule::of_server(ranks, clients, 2, 5);
            assert_eq!(schedule.len(), 2 * slots, "{ranks} ranks, {clients} clients");
            let mut callers = [0; 7];
            for (_, slot) in schedule.slots() {
                assert_eq!((slot.hub, slot.clients.len() as u32), (ranks, clients.min(ranks)));
                slot.clients.iter().for_each(|rank| callers[*rank as usize] += 1);
            }
            assert!(callers[..ranks as usize].iter().all(|calls| (2..=4).contains(calls)), "{callers:?}");
        }
    }

    #[test]
    fn replicates_relabel_the_ranks() {
        let schedule = MeshSchedule::new(16, MeshPattern::Pairs, 2, 1);
        let of = |replicate| {
            let slots = schedule.slots().filter(move |(_, slot)| slot.replicate == replicate);
            slots.map(|(_, slot)| (slot.hub, slot.clients.to_vec())).collect::<Vec<_>>()
        };
        assert_ne!(of(0), of(1));
    }

    #[test]
    fn a_thousand_ranks_meet_in_999_rounds() {
        let schedule = MeshSchedule::new(1_000, MeshPattern::Pairs, 1, 7);
        assert_eq!((schedule.len(), schedule.rounds()), (499_500, 999));
    }

    #[test]
    #[should_panic(expected = "rank 1 is in two slots")]
    fn a_round_with_a_rank_twice_panics() {
        MeshSchedule::empty(3).push_round(0, &[(0, vec![1]), (1, vec![2])]);
    }
}

#[cfg(test)]
mod pattern_tests {
    use super::*;

    #[test]
    fn patterns_are_read_back_as_written() {
        for text in ["pairs", "matchings:3", "incast:32", "one-to-all", "bisection"] {
            assert_eq!(text.parse::<MeshPattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_patterns_are_refused() {
        for text in ["", "pair", "pairs:2", "matchings", "matchings:0", "incast:", "incast:-1", "bisection:2"] {
            assert!(text.parse::<MeshPattern>().is_err(), "{text}");
        }
    }
}
