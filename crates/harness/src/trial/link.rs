//! What an emulated link must have done to be the one that was asked for.
//!
//! It runs on the machine that is measured: where others keep it from running, packets arrive late or never reach it, and what is
//! measured is another link. Such a trial fails with the reason.

use bytegauge_model::{EmulatedLink, LinkUse, MachineUse, Nanos, Outcome};
use bytegauge_traffic::Cast;

/// A round trip may take longer than asked by this share of it, on average.
const LATE_SHARE: f64 = 0.1;

/// Or by this, nanoseconds: what a process is woken late by twice, and is late by at its work, where both ends work as well.
const LATE_NS: u64 = 500_000;

/// Notes with the machine's counts what the link of a trial did; the outcome where that is not what was asked of it.
pub(super) fn told(cast: &mut Cast, asked: Option<&EmulatedLink>, machine: Option<&mut MachineUse>) -> Option<Outcome> {
    let used = match cast.link_use() {
        Ok(used) => used?,
        Err(fault) => return Some(fault.outcome()),
    };
    if let Some(machine) = machine {
        machine.link = Some(used);
    }
    broken(asked?, &used).map(Outcome::Failed)
}

/// Why it was another link than the one that was asked for, if it was.
fn broken(asked: &EmulatedLink, used: &LinkUse) -> Option<String> {
    let missed = used.both().missed;
    if missed > 0 {
        return Some(format!(
            "{missed} packets never reached the emulated link, which got no CPU to take them: use a quieter machine or a \
             lower --link-rate"
        ));
    }
    let late_ns = used.late_ns();
    let most_ns = ((asked.delay_ns as f64 * LATE_SHARE) as u64).max(LATE_NS);
    (late_ns > most_ns).then(|| {
        format!(
            "the emulated link took {} longer for a round trip than the {} that were asked for, as it got no CPU in time: use a \
             quieter machine, a longer --link-delay or a lower --link-rate",
            Nanos(late_ns),
            Nanos(asked.delay_ns)
        )
    })
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{LinkLoss, LinkRate, WayUse};

    use super::*;

    fn check(delay_ns: u64, late_ns: u64, missed: u64, expected: Option<&str>) {
        let asked = EmulatedLink { delay_ns, loss: LinkLoss(0), rate: LinkRate(1_000_000_000) };
        // Half of it each way.
        let way = WayUse { passed: 10, late_ns: 5 * late_ns, missed, ..WayUse::default() };
        let reason = broken(&asked, &LinkUse { there: way, back: way, cpu_ns: 0 });
        assert_eq!(reason.is_some(), expected.is_some(), "{reason:?}");
        assert!(reason.unwrap_or_default().contains(expected.unwrap_or_default()));
    }

    #[test]
    fn a_link_that_was_another_one_than_asked_for_fails_its_trial() {
        check(20_000_000, 2_000_000, 0, None);
        check(20_000_000, 2_010_000, 0, Some("longer for a round trip than the 20 ms"));
        // Of a short one two wake-ups are no fault.
        check(100_000, 500_000, 0, None);
        check(100_000, 501_000, 0, Some("a longer --link-delay"));
        check(20_000_000, 0, 3, Some("6 packets never reached"));
    }
}
