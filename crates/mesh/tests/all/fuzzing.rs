//! Targets of the fuzzer (`fuzz/`), which includes this file: messages, files and ranks that follow no rule.

use bytegauge_mesh::Rank;
use bytegauge_mesh::coordinator::{Action, Coordinator, CoordinatorLimits, LostRank};
use bytegauge_mesh::files::FileHeader;
use bytegauge_mesh::message::{ToRank, ToRankZero};
use bytegauge_mesh::rate_model::RateSample;
use bytegauge_mesh::result::MeshResult;
use bytegauge_mesh::result::follow_up;
use bytegauge_mesh::row::MeshRow;
use bytegauge_mesh::schedule::MeshPattern;
use bytegauge_mesh::schedule::{MeshSchedule, SlotId};
use bytegauge_model::Outcome;

/// Ranks of the mesh that is stepped: few, so that inputs reach every state.
const RANKS: u32 = 4;

const LIMITS: CoordinatorLimits =
    CoordinatorLimits { join_ns: 60, silence_ns: 15, slot_ns: 30, cancel_ns: 10, concurrent: 2 };

/// Decodes a message or a line of a file, and checks what passes.
///
/// # Panics
/// If settings pass that describe a schedule of unbounded size.
pub fn words(input: &[u8]) {
    let _ = serde_json::from_slice::<ToRankZero>(input);
    let _ = serde_json::from_slice::<MeshRow>(input);
    let settings = match (serde_json::from_slice::<ToRank>(input), serde_json::from_slice::<FileHeader>(input)) {
        (Ok(ToRank::Welcome { settings, .. }), _) => *settings,
        (_, Ok(header)) => header.settings,
        _ => return,
    };
    let _ = settings.slot_ns();
    if settings.check().is_ok() {
        let slots = MeshSchedule::slot_count(settings.ranks, settings.pattern, settings.replicates);
        assert!(slots <= 1 << 24 && settings.cells.iter().all(|cell| (cell.option as usize) < settings.options.len()));
    }
}

/// Steps rank 0 through messages of ranks that follow no rule. A step has four bytes: the kind of event, the rank, the slot or
/// the other rank, and a rate or the time that passes. 255 stands for the largest number. Afterwards all ranks are lost.
///
/// # Panics
/// If a state is impossible: a rank is started twice at once, a rate of other ranks counts, or the mesh does not end.
pub fn coordinator(input: &[u8]) {
    let schedule = MeshSchedule::new(RANKS, MeshPattern::Pairs, 1, 1);
    let mut stepped = Stepped {
        coordinator: Coordinator::new(schedule, LIMITS),
        now_ns: 0,
        started: [None; RANKS as usize],
        samples: Vec::new(),
        has_followed: false,
    };
    for step in input.chunks_exact(4).take(200) {
        stepped.step([step[0], step[1], step[2], step[3]]);
        stepped.carry_out();
    }
    for rank in 0..RANKS {
        stepped.coordinator.lose(rank, LostRank::Disconnected, stepped.now_ns);
    }
    assert!(stepped.coordinator.is_over(), "a mesh without ranks is over");
    assert!(stepped.coordinator.missing().len() <= stepped.coordinator.schedule().len());
}

struct Stepped {
    coordinator: Coordinator,
    now_ns: u64,
    /// The slot that each rank was started for.
    started: [Option<SlotId>; RANKS as usize],
    samples: Vec<RateSample>,
    has_followed: bool,
}

impl Stepped {
    fn step(&mut self, [what, rank, other, value]: [u8; 4]) {
        let number = |byte: u8| if byte == u8::MAX { u32::MAX } else { byte.into() };
        let (rank, slot, now_ns) = (number(rank), number(other), self.now_ns);
        match what % 8 {
            0 => {
                self.coordinator.join(rank, &[slot], now_ns);
            }
            1 => {
                self.coordinator.join(rank, &[], now_ns);
            }
            2 => self.coordinator.heard(rank, now_ns),
            3 => self.report(rank, slot, value),
            // As a sound rank would.
            4 => {
                let slot = self.started.get(rank as usize).copied().flatten();
                slot.into_iter().for_each(|slot| self.report(rank, slot, value));
            }
            5 => self.coordinator.lose(rank, LostRank::Disconnected, now_ns),
            6 => self.now_ns = now_ns.saturating_add(value.into()),
            _ => self.follow_up(),
        }
        self.coordinator.tick(self.now_ns);
    }

    fn report(&mut self, rank: Rank, slot: SlotId, value: u8) {
        let ln_rate = if value == u8::MAX { f64::MAX } else { f64::from(value) / 4.0 };
        let pairs = [(rank, slot), (slot, rank), (0, 1), (1, 0), (2, 3), (rank, rank), (u32::MAX, 0)];
        let rates: Vec<(u32, RateSample)> = pairs
            .iter()
            .map(|(sender, receiver)| (0, RateSample { sender: *sender, receiver: *receiver, ln_rate }))
            .collect();
        let own = self.coordinator.own_rates(rank, slot, &rates, 1);
        if self.coordinator.report(rank, slot, Outcome::Measured, self.now_ns) {
            assert_eq!(self.started[rank as usize].take(), Some(slot), "a part that was awaited was started");
            let of = self.coordinator.schedule().slot(slot);
            let is_own = |sample: &RateSample| of.members().any(|member| member == sample.sender);
            assert!(own.len() <= 2 && own.iter().all(|(_, sample)| is_own(sample)));
            self.samples.extend(own.iter().map(|(_, sample)| *sample));
        }
    }

    fn follow_up(&mut self) {
        if std::mem::replace(&mut self.has_followed, true) {
            return;
        }
        for round in follow_up(&MeshResult::of(&self.samples, &[], 0.1), 1) {
            let slots: Vec<(Rank, Vec<Rank>)> = round.iter().map(|(hub, client)| (*hub, vec![*client])).collect();
            self.coordinator.push_round(1, &slots, self.now_ns);
        }
    }

    fn carry_out(&mut self) {
        for action in self.coordinator.take_actions() {
            match action {
                Action::Start(rank, slot) => {
                    self.started[rank as usize] = Some(slot);
                }
                Action::Cancel(..) | Action::Drop(..) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_steps_pass_the_fuzz_target(input in prop::collection::vec(0..6u8, 0..400)) {
            coordinator(&input);
        }
    }

    #[test]
    fn kept_inputs_pass_the_fuzz_targets() {
        let mut inputs = 0;
        for (folder, target) in [("mesh", words as fn(&[u8])), ("coordinator", coordinator)] {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(folder);
            for file in std::fs::read_dir(folder).unwrap() {
                let input = std::fs::read(file.unwrap().path()).unwrap();
                (0..=input.len()).for_each(|end| target(&input[..end]));
                inputs += 1;
            }
        }
        assert!(inputs > 0);
    }
}
