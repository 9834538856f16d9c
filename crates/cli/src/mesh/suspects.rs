//! Finds the pairs and hosts that are repeated after the pattern.

use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};

use bytegauge_mesh::follow_up::{FollowUpRound, follow_up};
use bytegauge_mesh::{MeshResult, MeshSettings, Rank, RateSample};

/// The repetition of suspects.
pub enum FollowUpState {
    /// After the pattern.
    Wanted,
    /// Suspects are being found.
    Finding(JoinHandle<Vec<FollowUpRound>>),
    /// It is over, or not wanted.
    Done,
}

impl FollowUpState {
    /// Finds suspects in a thread of its own: a million rates take seconds, in which ranks need signs of life. `samples` has the
    /// rates of each option.
    pub fn find(
        samples: Vec<Vec<RateSample>>,
        racks: &BTreeMap<Rank, String>,
        settings: &MeshSettings,
    ) -> FollowUpState {
        let (racks, margin, seed) = (rack_numbers(settings.ranks, racks), settings.margin, settings.seed);
        let find = move || {
            let mut rounds = Vec::new();
            for of_option in &samples {
                for round in follow_up(&MeshResult::of(of_option, &racks, margin), seed) {
                    if !rounds.contains(&round) || samples.len() == 1 {
                        rounds.push(round);
                    }
                }
            }
            rounds
        };
        let thread = thread::Builder::new().name("mesh-suspects".into()).spawn(find);
        thread.map_or(FollowUpState::Done, FollowUpState::Finding)
    }
}

/// A number for each rack, by rank; ranks without a rack share one.
fn rack_numbers(ranks: u32, racks: &BTreeMap<Rank, String>) -> Vec<u32> {
    let mut names: Vec<Option<&String>> = Vec::new();
    (0..ranks)
        .map(|rank| {
            let name = racks.get(&rank);
            names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }) as u32
        })
        .collect()
}
