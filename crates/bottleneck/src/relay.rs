//! The limit of a path with a relay: its thread, a CPU that it uses while an end waits for it, or three programs sharing the
//! CPUs of two.

use bytegauge_model::unit::significant;

use super::{BUSY, Evidence, QUEUED, percent};

/// The input of the rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelaySigns {
    /// CPU time of the relay's process over its window, in CPUs.
    pub cpus: f64,
    /// CPUs that its threads could keep busy: one if a thread works for all connections.
    pub capacity: f64,
    /// CPU time of both ends, in CPUs.
    pub ends_cpus: f64,
    /// CPUs that the session might use.
    pub machine_cpus: Option<u64>,
}

/// The limit of a relay whose threads are busy all the time.
pub const RELAY: &str = "relay CPU";
/// The limit of an end that waits while the relay uses its CPU.
pub const SHARED: &str = "CPU shared with the relay";
/// The limit of three programs on too few CPUs.
pub const ALL: &str = "all CPUs";

pub(super) fn relay_cpu(signs: Option<&RelaySigns>) -> Option<Evidence> {
    let RelaySigns { cpus, capacity, .. } = *signs?;
    let busy = (capacity > 0.0).then(|| cpus / capacity)?;
    (busy >= BUSY).then(|| Evidence {
        sentence: format!(
            "the relay's threads run {} of the time ({} CPUs)",
            percent(busy.min(1.0)),
            significant(cpus, 2)
        ),
        evidence: vec![("relay_busy", busy), ("relay_cpus", cpus)],
    })
}

pub(super) fn all_cpus(signs: Option<&RelaySigns>) -> Option<Evidence> {
    let RelaySigns { cpus, ends_cpus, machine_cpus, .. } = *signs?;
    let all = machine_cpus? as f64;
    (cpus + ends_cpus >= BUSY * all).then(|| Evidence {
        sentence: format!(
            "relay and ends together keep {} of {} CPUs busy (the relay {})",
            significant(cpus + ends_cpus, 2),
            all,
            significant(cpus, 2)
        ),
        evidence: vec![("relay_cpus", cpus), ("ends_cpus", ends_cpus)],
    })
}

/// The part of the time that an end waited for a CPU which the relay cannot explain: only its CPU time is known, not where it
/// ran.
pub(super) fn taken_by_others(queued: f64, signs: Option<&RelaySigns>) -> f64 {
    (queued - signs.map_or(0.0, |signs| signs.cpus)).max(0.0)
}

/// An end that waits, and a relay that ran for as long.
pub(super) fn shared_cpu(queued: Option<f64>, signs: Option<&RelaySigns>) -> Option<Evidence> {
    let (queued, RelaySigns { cpus, .. }) = (queued?, signs?);
    (queued >= QUEUED && taken_by_others(queued, signs) < QUEUED).then(|| Evidence {
        sentence: format!(
            "an end could run but waits {} of the time for a CPU, and the relay uses {} CPUs",
            percent(queued),
            significant(*cpus, 2)
        ),
        evidence: vec![("queued_share", queued), ("relay_cpus", *cpus)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(cpus: f64, ends_cpus: f64) -> RelaySigns {
        RelaySigns { cpus, capacity: 1.0, ends_cpus, machine_cpus: Some(2) }
    }

    #[test]
    fn full_thread_differs_from_full_machine() {
        let check = |signs: RelaySigns, relay: bool, all: bool| {
            assert_eq!(
                (relay_cpu(Some(&signs)).is_some(), all_cpus(Some(&signs)).is_some()),
                (relay, all),
                "{signs:?}"
            );
        };
        check(signs(0.95, 0.5), true, false);
        check(signs(0.7, 1.2), false, true);
        check(signs(0.7, 0.9), false, false);
        check(RelaySigns { capacity: 2.0, machine_cpus: Some(8), ..signs(0.95, 0.5) }, false, false);
        assert!(relay_cpu(None).is_none() && all_cpus(None).is_none());
    }
    #[test]
    fn time_of_the_relay_is_no_other_program() {
        let shared = |queued, cpus| shared_cpu(Some(queued), Some(&signs(cpus, 1.0))).is_some();
        assert!(shared(0.3, 0.6) && shared(0.5, 0.4) && !shared(0.5, 0.2) && !shared(0.1, 0.6));
        assert!(shared_cpu(Some(0.5), None).is_none() && shared_cpu(None, Some(&signs(0.6, 1.0))).is_none());
        assert_eq!((taken_by_others(0.5, None), taken_by_others(0.5, Some(&signs(0.6, 1.0)))), (0.5, 0.0));
    }
}
