//! Rounds after the pattern: pairs that look slow are repeated, and hosts that look slow meet sound partners.
//!
//! A pattern measures most pairs once, so a slow test may be a disturbance of that moment. Pure: a function of the
//! result and the seed.

use bytegauge_stats::rng::seeded;

use crate::Rank;
use crate::result::{MeshResult, REPETITIONS_MIN};

/// The stream of random numbers that partners are drawn from.
const RANDOM_STREAM: u64 = 0x666f_6c6c;

/// The most pairs that are repeated: more are no exceptions but the normal state of this mesh.
pub const SUSPECTS_MAX: usize = 64;

/// Sound partners of each suspect host.
const PARTNERS: usize = 4;

/// One round: disjoint pairs of a hub and its client.
pub type FollowUpRound = Vec<(Rank, Rank)>;

/// The rounds that the suspects of a result need; empty if there are none.
pub fn follow_up(result: &MeshResult, seed: u64) -> Vec<FollowUpRound> {
    let mut random = seeded(seed, RANDOM_STREAM);
    let is_suspect =
        |rank: Rank| result.suspect_hosts.contains(&rank) || result.slow_hosts.iter().any(|host| host.rank == rank);
    let ranks: Vec<Rank> = result.fit.senders.keys().copied().collect();
    let mut pairs: Vec<(Rank, Rank)> = Vec::new();
    for pair in result.suspects.iter().take(SUSPECTS_MAX) {
        pairs.extend(std::iter::repeat_n(*pair, REPETITIONS_MIN));
    }
    for host in result.suspect_hosts.iter().take(SUSPECTS_MAX) {
        let mut partners: Vec<Rank> = ranks.iter().copied().filter(|rank| !is_suspect(*rank)).collect();
        random.shuffle(&mut partners);
        pairs.extend(partners.into_iter().take(PARTNERS).map(|partner| (*host, partner)));
    }
    rounds_of(pairs)
}

/// Puts pairs into as few rounds as a greedy choice finds, without a rank twice in a round.
fn rounds_of(pairs: Vec<(Rank, Rank)>) -> Vec<FollowUpRound> {
    let mut rounds: Vec<FollowUpRound> = Vec::new();
    for (one, other) in pairs {
        let is_free =
            |round: &FollowUpRound| round.iter().all(|(a, b)| ![*a, *b].iter().any(|rank| [one, other].contains(rank)));
        // Alternate the hub, so that both hosts are measured from both sides.
        let pair = if rounds.len().is_multiple_of(2) { (one, other) } else { (other, one) };
        match rounds.iter_mut().find(|round| is_free(round)) {
            Some(round) => round.push(pair),
            None => rounds.push(vec![pair]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_no_rank_twice() {
        let rounds = rounds_of(vec![(0, 1), (0, 1), (2, 3), (1, 2), (4, 5)]);
        for round in &rounds {
            let mut ranks: Vec<Rank> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), 2 * round.len(), "{rounds:?}");
        }
        assert_eq!(rounds.len(), 3);
    }

    #[test]
    fn suspects_are_repeated_often_enough() {
        let result = MeshResult { suspects: vec![(0, 1)], ..MeshResult::default() };
        assert_eq!(follow_up(&result, 1).concat().len(), REPETITIONS_MIN);
    }

    #[test]
    fn no_suspects_need_no_rounds() {
        assert_eq!(follow_up(&MeshResult::default(), 1), Vec::<FollowUpRound>::new());
    }
}
