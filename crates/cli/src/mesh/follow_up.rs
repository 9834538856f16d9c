//! Finds the pairs and hosts that are repeated after the pattern.

use std::collections::BTreeMap;
use std::thread::JoinHandle;

use bytegauge_mesh::follow_up::{FollowUpRound, follow_up};
use bytegauge_mesh::rate_model::rack_numbers;
use bytegauge_mesh::{MeshResult, MeshSettings, Rank, RateSample};

use super::member::spawn;

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
        let (racks, _) = rack_numbers(settings.ranks, |rank| racks.get(&rank).map(String::as_str));
        let (margin, seed) = (settings.margin, settings.seed);
        let find = move || {
            let mut rounds: Vec<FollowUpRound> = Vec::new();
            for of_option in &samples {
                // A round that an option before has asked for is made once; those of one option are repetitions.
                let earlier = rounds.clone();
                let own = follow_up(&MeshResult::of(of_option, &racks, margin), seed);
                rounds.extend(own.into_iter().filter(|round| !earlier.contains(round)));
            }
            rounds
        };
        spawn("mesh-suspects", find).map_or(FollowUpState::Done, FollowUpState::Finding)
    }
}
