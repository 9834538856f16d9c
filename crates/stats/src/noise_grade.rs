//! Grades how quiet the environment was, A to D, with reasons.
//!
//! D: the session lost much CPU time (steal above 5 %, cgroup throttling, a fifth of the CPUs used by other programs). C:
//! something disturbed it (steal above 1 %, load of other programs above 0.2 CPU). B: a possible disturbance could not be read. A: none of these.
//!
//! The grade is descriptive and decides nothing: the intervals already contain the noise. This module never changes or
//! reads the environment; the caller supplies the numbers.

use std::fmt;

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

/// The grade, best first, in the order of their letters.
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
    /// Something that could not be read.
    Unknown(&'static str),
}

impl GradeReason {
    /// The grade this reason alone leads to.
    pub fn grade(self) -> Grade {
        match self {
            Self::Steal(share) if share > STEAL_MUCH => Grade::D,
            Self::Throttled(_) | Self::OtherLoadMuch(..) => Grade::D,
            Self::Steal(_) | Self::OtherLoad(_) => Grade::C,
            Self::Unknown(_) => Grade::B,
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
            Self::Unknown(what) => write!(f, "{what} unknown"),
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
pub fn grade(environment: &DisturbanceReadings) -> Graded {
    let above = |value: Option<f64>, limit: f64, reason: fn(f64) -> GradeReason, what: &'static str| match value {
        None => Some(GradeReason::Unknown(what)),
        Some(value) => (value > limit).then(|| reason(value)),
    };
    let e = environment;
    let mut reasons: Vec<GradeReason> = [
        above(e.steal_share, STEAL_DISTURBED, GradeReason::Steal, "steal"),
        above(e.throttled_ns, 0.0, GradeReason::Throttled, "cgroup throttling"),
        match e.other_load_cpus.zip(e.cpus).filter(|(load, cpus)| *load >= OTHER_LOAD_MUCH * cpus) {
            Some((load, cpus)) => Some(GradeReason::OtherLoadMuch(load, cpus)),
            None => {
                above(e.other_load_cpus, OTHER_LOAD_DISTURBED_CPUS, GradeReason::OtherLoad, "load of other programs")
            }
        },
        (!e.governor_known).then_some(GradeReason::Unknown("governor")),
        (!e.turbo_known).then_some(GradeReason::Unknown("turbo")),
    ]
    .into_iter()
    .flatten()
    .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.grade()));
    Graded { grade: reasons.first().map_or(Grade::A, |reason| reason.grade()), reasons }
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
}
