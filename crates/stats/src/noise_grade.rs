//! Grades how quiet the environment was, A to D, with reasons.
//!
//! D: the session lost much CPU time (steal above 5 %, cgroup throttling, a fifth of the CPUs used by other programs). C:
//! something disturbed it (steal above 1 %, load of other programs above 0.2 CPU). B: a possible disturbance could not be read. A: none of these.
//!
//! The grade is descriptive and decides nothing: the intervals already contain the noise. This module never changes or
//! reads the environment; the caller supplies the numbers.

use std::fmt;

use crate::rng::seeded;

/// Steal above this share of the time: grade D.
pub const STEAL_MUCH: f64 = 0.05;
/// Steal above this share: grade C.
pub const STEAL_DISTURBED: f64 = 0.01;
/// Load of other programs from this share of the CPUs on: grade D.
pub const OTHER_LOAD_MUCH: f64 = 0.2;
/// Load of other programs above this many CPUs: grade C.
pub const OTHER_LOAD_DISTURBED_CPUS: f64 = 0.2;

/// Readings of the environment over a session. `None` = could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DisturbanceReadings {
    /// Time stolen by the hypervisor, as a share of the CPU time of the machine.
    pub steal_share: Option<f64>,
    /// Time the cgroup was throttled, in ns. Without a limit: 0.
    pub throttled_ns: Option<f64>,
    /// CPU time of other programs over wall time, in CPUs.
    pub other_load_cpus: Option<f64>,
    /// The number of CPUs that the session was allowed to use.
    pub cpus: Option<f64>,
    /// Whether the frequency governor could be read.
    pub governor_known: bool,
    /// Whether the state of turbo could be read.
    pub turbo_known: bool,
}

/// The grade, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// No disturbance is known.
    A,
    /// A possible disturbance could not be read.
    B,
    /// Something disturbed the session.
    C,
    /// The session lost much CPU time.
    D,
}

/// One thing that lowers the grade.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GradeReason {
    /// Steal, as a share.
    Steal(f64),
    /// cgroup throttling, in ns.
    Throttled(f64),
    /// Load of other programs, in CPUs.
    OtherLoad(f64),
    /// Load of other programs that is much of the machine, in CPUs, and their number.
    OtherLoadMuch(f64, f64),
    /// Steal could not be read.
    StealUnknown,
    /// Throttling could not be read.
    ThrottlingUnknown,
    /// Load of other programs could not be read.
    OtherLoadUnknown,
    /// The frequency governor could not be read.
    GovernorUnknown,
    /// The state of turbo could not be read.
    TurboUnknown,
}

impl GradeReason {
    /// The grade this reason alone leads to.
    #[must_use]
    pub fn grade(self) -> Grade {
        match self {
            Self::Steal(share) if share > STEAL_MUCH => Grade::D,
            Self::Throttled(_) | Self::OtherLoadMuch(..) => Grade::D,
            Self::Steal(_) | Self::OtherLoad(_) => Grade::C,
            _ => Grade::B,
        }
    }
}

impl fmt::Display for GradeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steal(share) => write!(f, "steal {:.1} %", share * 100.0),
            Self::Throttled(ns) => write!(f, "cgroup throttled for {:.0} ms", ns / 1e6),
            Self::OtherLoad(cpus) => write!(f, "other programs used {cpus:.2} CPUs"),
            Self::OtherLoadMuch(cpus, of) => write!(f, "other programs used {cpus:.2} of {of:.0} CPUs"),
            Self::StealUnknown => write!(f, "steal unknown"),
            Self::ThrottlingUnknown => write!(f, "cgroup throttling unknown"),
            Self::OtherLoadUnknown => write!(f, "load of other programs unknown"),
            Self::GovernorUnknown => write!(f, "governor unknown"),
            Self::TurboUnknown => write!(f, "turbo unknown"),
        }
    }
}

/// A grade with its reasons, worst first.
#[derive(Clone, Debug, PartialEq)]
pub struct Graded {
    /// The worst grade of the reasons; A without any.
    pub grade: Grade,
    /// The reasons, worst first.
    pub reasons: Vec<GradeReason>,
}

/// Grades an environment.
#[must_use]
pub fn grade(environment: &DisturbanceReadings) -> Graded {
    let above = |value: Option<f64>, limit: f64, reason: fn(f64) -> GradeReason, unknown: GradeReason| match value {
        None => Some(unknown),
        Some(value) if value > limit => Some(reason(value)),
        Some(_) => None,
    };
    let e = environment;
    let mut reasons: Vec<GradeReason> = [
        above(e.steal_share, STEAL_DISTURBED, GradeReason::Steal, GradeReason::StealUnknown),
        above(e.throttled_ns, 0.0, GradeReason::Throttled, GradeReason::ThrottlingUnknown),
        match e.other_load_cpus.zip(e.cpus).filter(|(load, cpus)| *load >= OTHER_LOAD_MUCH * cpus) {
            Some((load, cpus)) => Some(GradeReason::OtherLoadMuch(load, cpus)),
            None => above(
                e.other_load_cpus,
                OTHER_LOAD_DISTURBED_CPUS,
                GradeReason::OtherLoad,
                GradeReason::OtherLoadUnknown,
            ),
        },
        (!e.governor_known).then_some(GradeReason::GovernorUnknown),
        (!e.turbo_known).then_some(GradeReason::TurboUnknown),
    ]
    .into_iter()
    .flatten()
    .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.grade()));
    Graded { grade: reasons.first().map_or(Grade::A, |reason| reason.grade()), reasons }
}

// Tests whether the hypervisor stole CPU time from some cells more than from others.
//
// If steal hits the cells of a block equally, it is noise. If a cell causes it (it wakes an idle CPU, or works in
// longer bursts), it is part of what the cell costs here, and explains a difference of two cells. Under the hypothesis
// that no cell causes it, hits may be exchanged within a block. The statistic is the sum of the squared numbers of
// hits of the cells (Cochran's Q up to constants; Cochran 1950), compared with that of random exchanges.
//
// Never removes a trial: the result is descriptive.

/// Random exchanges.
const EXCHANGES: usize = 1999;

/// How unevenly steal hit the cells of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uneven {
    /// The cell that was hit most often.
    pub most: usize,
    /// Share of its trials that were hit.
    pub most_share: f64,
    /// The cell that was hit least often.
    pub least: usize,
    /// Share of its trials that were hit.
    pub least_share: f64,
    /// p-value of "steal hits all cells equally".
    pub p_value: f64,
    /// Number of blocks.
    pub blocks: usize,
}

/// Tests which trials were hit: one row per block, one column per cell. `None` for fewer than two cells, or if every
/// block was hit in all of its trials or in none: then there is no evidence about the cells.
///
/// # Panics
/// If the rows differ in length.
#[must_use]
pub fn uneven(hits: &[Vec<bool>], seed: u64) -> Option<Uneven> {
    let cells = hits.first()?.len();
    assert!(hits.iter().all(|row| row.len() == cells), "blocks differ in their number of cells");
    let sums: Vec<usize> = (0..cells).map(|cell| hits.iter().filter(|row| row[cell]).count()).collect();
    let each: Vec<usize> = hits.iter().map(|row| row.iter().filter(|hit| **hit).count()).collect();
    let informative: Vec<usize> = each.iter().copied().filter(|&count| count > 0 && count < cells).collect();
    if cells < 2 || informative.is_empty() {
        return None;
    }
    // Blocks in which every trial was hit add the same number to each cell, for any exchange.
    let full = each.iter().filter(|&&count| count == cells).count();
    let seen = square(&sums);
    let mut random = seeded(seed, 0x57ea1);
    let mut order: Vec<usize> = (0..cells).collect();
    let mut drawn = vec![0; cells];
    let mut reached = 1;
    for _ in 0..EXCHANGES {
        drawn.fill(full);
        for &count in &informative {
            for place in 0..count {
                order.swap(place, place + random.below(cells - place));
                drawn[order[place]] += 1;
            }
        }
        reached += usize::from(square(&drawn) >= seen);
    }
    let most = (0..cells).rev().max_by_key(|&cell| sums[cell])?;
    let least = (0..cells).min_by_key(|&cell| sums[cell])?;
    let share = |cell: usize| sums[cell] as f64 / hits.len() as f64;
    Some(Uneven {
        most,
        most_share: share(most),
        least,
        least_share: share(least),
        p_value: reached as f64 / (EXCHANGES + 1) as f64,
        blocks: hits.len(),
    })
}

fn square(sums: &[usize]) -> usize {
    sums.iter().map(|sum| sum * sum).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut DisturbanceReadings), grade_expected: Grade, first: Option<&str>) {
        let mut environment = DisturbanceReadings {
            steal_share: Some(0.0),
            throttled_ns: Some(0.0),
            other_load_cpus: Some(0.05),
            cpus: Some(2.0),
            governor_known: true,
            turbo_known: true,
        };
        change(&mut environment);
        let got = grade(&environment);
        assert_eq!(got.grade, grade_expected, "{got:?}");
        assert_eq!(got.reasons.first().map(ToString::to_string).as_deref(), first);
    }

    #[test]
    fn every_rule() {
        check(|_| {}, Grade::A, None);
        check(|e| e.governor_known = false, Grade::B, Some("governor unknown"));
        check(|e| e.turbo_known = false, Grade::B, Some("turbo unknown"));
        check(|e| e.steal_share = None, Grade::B, Some("steal unknown"));
        check(|e| e.steal_share = Some(0.01), Grade::A, None);
        check(|e| e.steal_share = Some(0.02), Grade::C, Some("steal 2.0 %"));
        check(|e| e.other_load_cpus = Some(0.3), Grade::C, Some("other programs used 0.30 CPUs"));
        check(|e| e.other_load_cpus = Some(1.9), Grade::D, Some("other programs used 1.90 of 2 CPUs"));
        check(|e| (e.other_load_cpus, e.cpus) = (Some(1.9), None), Grade::C, Some("other programs used 1.90 CPUs"));
        check(|e| e.steal_share = Some(0.06), Grade::D, Some("steal 6.0 %"));
        check(|e| e.throttled_ns = Some(2e6), Grade::D, Some("cgroup throttled for 2 ms"));
    }

    #[test]
    fn the_worst_reason_comes_first() {
        check(
            |e| (e.turbo_known, e.steal_share, e.throttled_ns) = (false, Some(0.02), Some(1e6)),
            Grade::D,
            Some("cgroup throttled for 1 ms"),
        );
    }

    fn world(shares: &[f64], blocks: usize, seed: u64) -> Vec<Vec<bool>> {
        let mut random = seeded(seed, 0);
        (0..blocks).map(|_| shares.iter().map(|share| random.uniform() < *share).collect()).collect()
    }

    #[test]
    fn a_cell_that_causes_steal_is_found() {
        // A measured case: 27 of 58 trials of one cell, 13 of 58 of its rival.
        let hits: Vec<Vec<bool>> = (0..58).map(|block| vec![(27..40).contains(&block), block < 27]).collect();
        let got = uneven(&hits, 1).unwrap();
        assert_eq!((got.most, got.least, got.blocks), (1, 0, 58));
        // Agrees with the sign test: 13 or fewer of 40, two-sided.
        assert!((got.p_value - 0.0385).abs() < 0.015, "{got:?}");
        assert!((got.most_share - 27.0 / 58.0).abs() < 1e-12 && (got.least_share - 13.0 / 58.0).abs() < 1e-12);
    }

    #[test]
    fn blocks_hit_equally_give_no_result() {
        assert_eq!(uneven(&[], 1), None);
        assert_eq!(uneven(&[vec![true], vec![false]], 1), None);
        assert_eq!(uneven(&[vec![true; 3], vec![false; 3]], 1), None);
    }

    #[test]
    fn completely_hit_blocks_change_nothing() {
        let few = world(&[0.2, 0.4, 0.2], 40, 2);
        let mut more = few.clone();
        more.extend(vec![vec![true; 3]; 40]);
        assert_eq!(uneven(&few, 1).unwrap().p_value, uneven(&more, 1).unwrap().p_value);
    }
}
