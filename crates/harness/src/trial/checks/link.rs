//! Checks that an emulated link had its settings.
//!
//! It runs on the measured machine: if other load keeps it from running, packets arrive late or never reach it, and the
//! measured link is another one. Such a trial fails with the reason.

use bytegauge_model::{EmulatedLink, LinkUse, MachineUse, Nanos, Outcome};
use bytegauge_traffic::EndPool;

/// Largest mean excess of the round trip, as a share of the setting.
const LATE_SHARE: f64 = 0.1;

/// Or by this, nanoseconds: the wake-up latency of a process twice, and the delay of its work if both ends work as well.
const LATE_NS: u64 = 500_000;

/// Adds the link's counts to the machine's counts of a trial; returns the outcome if the link did not have its settings.
pub(in crate::trial) fn checked(
    pool: &mut EndPool,
    asked: Option<&EmulatedLink>,
    machine: Option<&mut MachineUse>,
) -> Option<Outcome> {
    let used = match pool.link_use() {
        Ok(used) => used?,
        Err(fault) => return Some(fault.outcome()),
    };
    if let Some(machine) = machine {
        machine.link = Some(Box::new(used));
    }
    broken(asked?, &used).map(Outcome::Failed)
}

/// Why the link did not have its settings, if so.
fn broken(asked: &EmulatedLink, used: &LinkUse) -> Option<String> {
    let missed = used.both().missed;
    if missed > 0 {
        return Some(format!(
            "{missed} packets never reached the emulated link, which had no CPU to read them: use a quieter machine or a \
             lower --link-rate"
        ));
    }
    let late_ns = used.late_ns();
    let most_ns = ((asked.delay_ns as f64 * LATE_SHARE) as u64).max(LATE_NS);
    (late_ns > most_ns).then(|| {
        format!(
            "the emulated link took {} longer for a round trip than the set {}, since it had no CPU in time: use a \
             quieter machine, a longer --link-delay or a lower --link-rate",
            Nanos(late_ns),
            Nanos(asked.delay_ns)
        )
    })
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{LinkRate, LossShare, WayUse};

    use super::*;

    fn check(delay_ns: u64, late_ns: u64, missed: u64, expected: Option<&str>) {
        let asked = EmulatedLink { delay_ns, loss: LossShare(0), rate: LinkRate(1_000_000_000) };
        // Half of it each way.
        let way = WayUse { passed: 10, late_ns: 5 * late_ns, missed, ..WayUse::default() };
        let reason = broken(&asked, &LinkUse { there: way, back: way, cpu_ns: 0 });
        assert_eq!(reason.is_some(), expected.is_some(), "{reason:?}");
        assert!(reason.unwrap_or_default().contains(expected.unwrap_or_default()));
    }

    #[test]
    fn a_link_with_other_settings_fails_its_trial() {
        check(20_000_000, 2_000_000, 0, None);
        check(20_000_000, 2_010_000, 0, Some("longer for a round trip than the set 20 ms"));
        // For a short link two wake-ups are no error.
        check(100_000, 500_000, 0, None);
        check(100_000, 501_000, 0, Some("a longer --link-delay"));
        check(20_000_000, 0, 3, Some("6 packets never reached"));
    }
}
