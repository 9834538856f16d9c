//! A far host that is lost in the middle of a session: the run waits for it, within a limit.
//!
//! The loss is no property of the measured cell, so no trial is recorded for it. When the host is back, the block is
//! repeated; if it does not come back, or is lost too often, the session ends as interrupted and can be resumed. The agent
//! reports whether its host is lost; the text of a failure never decides it.
//!
//! Also whether a session may be continued on this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::unit::counted;
use bytegauge_model::{CellId, Nanos, Outcome};
use bytegauge_sys::clock::{monotonic_ns, unix_ns};
use bytegauge_traffic::{RemoteHost, Setup};
use serde_json::Value;

use crate::block::Attempt;
use crate::run::{Run, RunError, machine};
use crate::run_state::sleep_unless;
use crate::trial::TrialResult;

/// Default time that a run waits for a lost host, nanoseconds.
pub const HOST_WAIT_NS: u64 = 60_000_000_000;

/// Losses of hosts after which a session ends, whatever was measured in between.
const SESSION_MAX: u32 = 12;

/// How often a block is repeated. The next loss ends the session.
const REPEATS_MAX: u32 = 5;

/// Losses in trials of one cell that repeat the block. Its next ones count as failures: the host may be lost because of it.
const CELL_MAX: u32 = 2;

/// The first pause between two attempts to reach the host. Each is twice as long as the one before, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long an attempt may take, and the last one.
const ATTEMPT: Duration = Duration::from_secs(5);
const ATTEMPT_MIN: Duration = Duration::from_secs(1);

/// How often a pause checks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Counts lost hosts within limits. No measured trial resets a count, so that a host which is lost again and again ends the
/// session.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    session: u32,
    block: u32,
    cells: BTreeMap<CellId, u32>,
}

/// The consequence of a lost host that is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    Repeat,
    /// The trial counts as failed.
    Fail,
    /// The session ends: there were too many losses.
    End,
}

impl Losses {
    /// Another block begins, which is no repeated one.
    pub(crate) fn begin_block(&mut self) {
        self.block = 0;
    }

    fn add(&mut self, cell: &CellId) -> Consequence {
        let of_cell = self.cells.entry(cell.clone()).or_default();
        (*of_cell, self.session, self.block) = (*of_cell + 1, self.session + 1, self.block + 1);
        match *of_cell > CELL_MAX {
            _ if self.session >= SESSION_MAX || self.block > REPEATS_MAX => Consequence::End,
            true => Consequence::Fail,
            false => Consequence::Repeat,
        }
    }
}

/// A host that was lost and did not come back, or was lost too often.
#[derive(Clone, Debug)]
pub(crate) struct LostHost {
    /// The host and the reason, as text.
    pub reason: String,
    /// When it was lost, Unix time in nanoseconds.
    pub at_unix_ns: u64,
}

impl Run<'_> {
    /// Finds out whether a trial that was not measured lost a host, and waits for that host. `None`: the trial counts.
    pub(crate) fn loss(
        &mut self,
        cell: &CellId,
        setup: &Setup,
        trial: (u64, &TrialResult),
    ) -> Result<Option<Attempt<bool>>, RunError> {
        let (began_ns, measured) = trial;
        if measured.outcome == Outcome::Measured {
            return Ok(None);
        }
        let Some(link) = self.lost_link(setup) else { return Ok(None) };
        self.machine.pool = None;
        let consequence = self.losses.add(cell);
        if consequence == Consequence::End || self.is_beyond_overtime() {
            let (agent, losses) = (link.agent(), self.losses.session);
            let (why, times) = (link.lost(), counted(losses as usize, "time"));
            let reason = match consequence {
                Consequence::End => {
                    format!("the agent at {agent} was lost {times} ({why}): check it and the path to it")
                }
                _ => format!("the agent at {agent} was lost {times} ({why}), and the time of the session is over"),
            };
            self.give_up(reason, unix_ns())?;
            return Ok(Some(Attempt::Interrupted));
        }
        // The trial waited for the host from the moment at which it should have ended.
        let trial_ns = setup.warmup_ns.saturating_add(setup.window_ns);
        // Which probe of a search it was is not known.
        let trial_ns = if setup.spec.searches_rate() { u64::MAX } else { trial_ns };
        Ok(match self.await_host(&*link, began_ns.saturating_add(trial_ns).min(monotonic_ns()))? {
            false => Some(Attempt::Interrupted),
            true if consequence == Consequence::Fail => None,
            true => Some(Attempt::Repeat),
        })
    }

    /// Ends the session because of a host, and stores the reason.
    fn give_up(&mut self, reason: String, at_unix_ns: u64) -> Result<(), RunError> {
        self.record.store.add_note(self.record.session, &reason)?;
        self.lost = Some(LostHost { reason, at_unix_ns });
        Ok(())
    }

    /// The link of a trial whose agent does not answer.
    fn lost_link(&self, setup: &Setup) -> Option<Arc<dyn RemoteHost>> {
        let far = setup.far?;
        let takes_part =
            |link: &&Arc<dyn RemoteHost>| [far.end.map(|(agent, _)| agent), far.relay].contains(&Some(link.agent()));
        self.options.links.iter().filter(takes_part).find(|link| !link.answers()).cloned()
    }

    /// Waits until a host is back that did not answer from `began_ns` on. `false` if the wait is over or the user wants to stop.
    fn await_host(&mut self, link: &dyn RemoteHost, began_ns: u64) -> Result<bool, RunError> {
        let at_unix_ns = unix_ns() - (monotonic_ns() - began_ns);
        let agent = link.agent();
        let limit_ns = self.options.host_wait_ns.unwrap_or(HOST_WAIT_NS);
        let limit = Nanos(limit_ns);
        let why = link.lost();
        self.record.tell(format!("the agent at {agent} was lost ({why}): waiting up to {limit} for it"));
        let then = machine(&self.options.links);
        let mut pause = PAUSE_FIRST;
        let reason = loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let left = Duration::from_nanos(limit_ns.saturating_sub(monotonic_ns() - began_ns));
            match link.reopen(ATTEMPT.min(left).max(ATTEMPT_MIN)) {
                Ok(()) => match elsewhere(&then, &machine(&self.options.links)) {
                    Some(place) => break format!("the agent at {agent} was lost ({why}), and is back {place}"),
                    None => {
                        // The wait is no time of the session.
                        let waited_ns = monotonic_ns() - began_ns;
                        self.clock.leave_out(waited_ns);
                        let waited = Nanos(waited_ns);
                        self.record.tell(format!("the agent at {agent} is back after {waited}: repeating the block"));
                        return Ok(true);
                    }
                },
                Err(error) if monotonic_ns() - began_ns >= limit_ns => {
                    break format!(
                        "the agent at {agent} was lost ({why}), and did not come back within {limit} ({error})"
                    );
                }
                Err(_) => {
                    let pause = pause.min(Duration::from_nanos(limit_ns.saturating_sub(monotonic_ns() - began_ns)));
                    sleep_unless(|| self.stop.load(Ordering::Relaxed), pause, LOOK);
                }
            }
            pause = (pause * 2).min(PAUSE_MAX);
        };
        self.give_up(reason, at_unix_ns)?;
        Ok(false)
    }
}

// Whether a session may be resumed here: its machine is the one that this process runs on, in the same boot.
//
// A result holds for one machine in one boot: the next boot has another memory layout, and another kernel or CPU is
// another experiment. Compares recorded facts only; a fact that is unknown then or now decides
// nothing.

/// Facts that do not change until the next boot, and the text of a difference. The CPU may change within a boot:
/// where a virtual machine is moved to another host.
const KEPT: [(&str, &str); 3] = [
    ("/boot_id", "in another boot, or on another machine"),
    ("/kernel_release", "under another kernel"),
    ("/cpu/model", "on another CPU"),
];

/// Where the facts of other hosts are, among those of a machine: by the places of their agents.
pub(crate) const FAR_HOSTS: &str = "far_hosts";

/// The place where the session was measured, if it was not here in this boot.
pub(crate) fn elsewhere(recorded: &Value, now: &Value) -> Option<&'static str> {
    let known = |facts: &Value, name: &str| facts.pointer(name).filter(|fact| !fact.is_null()).cloned();
    let differs = |name: &str| known(recorded, name).zip(known(now, name)).is_some_and(|(then, now)| then != now);
    let near = KEPT.iter().find(|(name, _)| differs(name)).map(|(_, words)| *words);
    near.or_else(|| far_elsewhere(recorded, now))
}

/// Whether a far host is another one now, or was booted again.
fn far_elsewhere(recorded: &Value, now: &Value) -> Option<&'static str> {
    let then = recorded.get(FAR_HOSTS)?.as_object()?;
    let boot = |host: &Value| host.pointer("/machine/boot_id").filter(|id| !id.is_null()).cloned();
    let is_other = |(place, host): (&String, &Value)| {
        let now = now.get(FAR_HOSTS).and_then(|hosts| hosts.get(place));
        now.and_then(boot).zip(boot(host)).is_some_and(|(now, then)| now != then)
    };
    then.iter().any(is_other).then_some("with a far host in another boot, or with another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str) -> CellId {
        CellId(name.into())
    }

    #[test]
    fn option_that_loses_its_host_fails() {
        let mut losses = Losses::default();
        let consequences: Vec<Consequence> = (0..4).map(|_| losses.add(&cell("c1"))).collect();
        assert_eq!(consequences, [Consequence::Repeat, Consequence::Repeat, Consequence::Fail, Consequence::Fail]);
        assert_eq!(losses.add(&cell("c2")), Consequence::Repeat);
    }

    #[test]
    fn block_and_session_have_limits() {
        // Each loss in a trial of another cell.
        let mut block = Losses::default();
        let repeats = (0..).take_while(|number| block.add(&cell(&number.to_string())) == Consequence::Repeat).count();
        assert_eq!(repeats, REPEATS_MAX as usize);
        let mut session = Losses::default();
        let goes_on = |number: &u32| {
            session.begin_block();
            session.add(&cell(&number.to_string())) == Consequence::Repeat
        };
        assert_eq!((0..).take_while(goes_on).count(), SESSION_MAX as usize - 1);
    }
}

#[cfg(test)]
mod same_machine_tests {
    use super::*;
    use serde_json::json;

    fn check(recorded: &Value, expected: Option<&str>) {
        let now = json!({"boot_id": "b1", "kernel_release": "6.18.1", "cpu": {"model": "Example CPU"}, "load": 1});
        assert_eq!(elsewhere(recorded, &now), expected, "{recorded}");
    }

    #[test]
    fn what_stays_until_the_next_boot_is_compared() {
        let here = json!({"boot_id": "b1", "kernel_release": "6.18.1", "cpu": {"model": "Example CPU"}, "load": 3});
        check(&here, None);
        for (place, value, expected) in [
            ("/boot_id", "b2", "in another boot, or on another machine"),
            ("/kernel_release", "6.1.0", "under another kernel"),
            ("/cpu/model", "Other CPU", "on another CPU"),
        ] {
            let mut other = here.clone();
            *other.pointer_mut(place).expect("a fact") = json!(value);
            check(&other, Some(expected));
        }
    }

    #[test]
    fn a_far_host_is_compared_too() {
        let with = |boot: &str| json!({"boot_id": "b1", "far_hosts": {"192.0.2.7:1": {"machine": {"boot_id": boot}}}});
        assert_eq!(elsewhere(&with("b2"), &with("b2")), None);
        assert!(elsewhere(&with("b2"), &with("b3")).is_some_and(|words| words.contains("far host")));
        assert_eq!(elsewhere(&with("b2"), &json!({"boot_id": "b1"})), None);
    }

    #[test]
    fn what_is_unknown_decides_nothing() {
        check(&json!(null), None);
        check(&json!({"boot_id": null, "cpu": {"model": null}}), None);
    }
}
