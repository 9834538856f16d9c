//! A far host that is lost in the middle of a session: the run waits for it, within a limit.
//!
//! The loss is no property of the measured cell, so no trial is recorded for it. When the host is back, the block is
//! repeated; if it does not come back, the session ends as interrupted and can be resumed. The agent reports whether its
//! host is lost; the text of a failure never decides it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use bytegauge_model::{Nanos, Outcome};
use bytegauge_sys::clock::{monotonic_ns, unix_ns};
use bytegauge_traffic::{RemoteHost, Setup};

use crate::event::Event;
use crate::run::{Run, machine};
use crate::run_error::RunError;
use crate::same_machine;
use crate::trial::TrialResult;

/// Default time that a run waits for a lost host, nanoseconds.
pub const HOST_WAIT_NS: u64 = 60_000_000_000;

/// Losses without a measured trial in between, after which the trial counts as failed: the host may be lost because of it.
const LOSSES_MAX: u32 = 3;

/// The first pause between two attempts to reach the host. Each is twice as long as the one before, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);

/// How often a pause checks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(20);

/// A host that was lost and did not come back.
#[derive(Clone, Debug)]
pub(crate) struct LostHost {
    /// The host and the reason, as text.
    pub reason: String,
    /// When it was lost, Unix time in nanoseconds.
    pub at_unix_ns: u64,
}

/// The consequence of a lost host.
pub(crate) enum Loss {
    /// No host was lost: the trial counts.
    None,
    /// The host is back: the block is repeated.
    Back,
    /// It is not, or the user wants to stop.
    Over,
}

impl Run<'_> {
    /// Finds out whether a trial that was not measured lost a host, and waits for that host.
    pub(crate) fn loss(&mut self, setup: &Setup, measured: &TrialResult) -> Result<Loss, RunError> {
        if measured.outcome == Outcome::Measured {
            self.losses = 0;
            return Ok(Loss::None);
        }
        let Some(link) = self.lost_link(setup) else { return Ok(Loss::None) };
        self.pool = None;
        self.losses += 1;
        Ok(match self.await_host(&*link)? {
            false => Loss::Over,
            true if self.losses > LOSSES_MAX => Loss::None,
            true => Loss::Back,
        })
    }

    /// The link of a trial whose agent does not answer.
    fn lost_link(&self, setup: &Setup) -> Option<Arc<dyn RemoteHost>> {
        let far = setup.far?;
        let takes_part =
            |link: &&Arc<dyn RemoteHost>| [far.end.map(|(agent, _)| agent), far.relay].contains(&Some(link.agent()));
        self.options.links.iter().filter(takes_part).find(|link| !link.answers()).cloned()
    }

    /// Waits until a host is back. `false` if the wait is over or the user wants to stop.
    fn await_host(&mut self, link: &dyn RemoteHost) -> Result<bool, RunError> {
        let (began_ns, at_unix_ns) = (monotonic_ns(), unix_ns());
        let agent = link.agent();
        let limit_ns = self.options.host_wait_ns.unwrap_or(HOST_WAIT_NS);
        let limit = Nanos(limit_ns);
        let why = link.lost();
        self.observer
            .hear(&Event::Note(format!("the agent at {agent} was lost ({why}): waiting up to {limit} for it")));
        let then = machine(&self.options.links);
        let mut pause = PAUSE_FIRST;
        let reason = loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match link.reopen(ATTEMPT) {
                Ok(()) => match same_machine::elsewhere(&then, &machine(&self.options.links)) {
                    Some(place) => break format!("the agent at {agent} was lost ({why}), and is back {place}"),
                    None => {
                        self.came_back(link, monotonic_ns() - began_ns);
                        return Ok(true);
                    }
                },
                Err(error) if monotonic_ns() - began_ns >= limit_ns => {
                    break format!(
                        "the agent at {agent} was lost ({why}), and did not come back within {limit} ({error})"
                    );
                }
                Err(_) => {
                    self.pause(pause.min(Duration::from_nanos(limit_ns.saturating_sub(monotonic_ns() - began_ns))));
                }
            }
            pause = (pause * 2).min(PAUSE_MAX);
        };
        self.store.add_note(self.session, &reason)?;
        self.lost = Some(LostHost { reason, at_unix_ns });
        Ok(false)
    }

    /// Removes the wait from the session's time.
    fn came_back(&mut self, link: &dyn RemoteHost, waited_ns: u64) {
        self.began_ns += waited_ns;
        if self.confirm_began_ns > 0 {
            self.confirm_began_ns += waited_ns;
        }
        let text = format!("the agent at {} is back after {}: repeating the block", link.agent(), Nanos(waited_ns));
        self.observer.hear(&Event::Note(text));
    }

    fn pause(&self, time: Duration) {
        let until_ns = monotonic_ns() + time.as_nanos() as u64;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(left_ns) = until_ns.checked_sub(monotonic_ns()) else { return };
            thread::sleep(LOOK.min(Duration::from_nanos(left_ns)));
        }
    }
}
