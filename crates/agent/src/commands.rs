//! The commands of a caller to its end, and the end's replies: which are admitted, and what of them counts against the limits.
//!
//! Has no socket, no process and no thread, so that tests and the fuzzer step through it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::EndRole;
use bytegauge_wire::LineError;

use crate::limits::{Between, Limits, length_ns};
use crate::protocol::COMMANDS_MAX;
use crate::session_counts::AgentCounts;
use bytegauge_traffic::message::{Command, Reply};

/// The state of one end's commands.
#[derive(Debug, Default)]
pub(super) struct EndCommands {
    /// The longest time of its trial.
    trial: Duration,
    /// Commands since it was last opened.
    commands: usize,
}

impl EndCommands {
    /// The longest time of the end's trial; 0 before the first.
    pub(super) fn trial(&self) -> Duration {
        self.trial
    }

    /// Takes a command: the one to pass on, within the limits, or the reason of a refusal for the caller's user.
    ///
    /// # Errors
    /// [`LineError::Garbled`] if the caller breaks the protocol: its session ends.
    pub(super) fn take(
        &mut self,
        command: Command,
        (limits, between): (&Limits, Between),
        counted: &AgentCounts,
    ) -> Result<Result<Command, String>, LineError> {
        let is_open = matches!(command, Command::Open(..));
        // Its allowance was granted once; opening it again before its report would grant it twice.
        if is_open && counted.is_open() {
            return Err(LineError::Garbled("an end is opened before it has reported"));
        }
        // Fewer than the channel holds, so that sending never blocks.
        if !is_open && self.commands >= COMMANDS_MAX {
            return Err(LineError::Garbled("too many commands for a trial"));
        }
        let command = match limits.admitted(command, between, counted.spent()) {
            Ok(command) => command,
            Err(reason) => return Ok(Err(reason)),
        };
        self.commands = if is_open { 0 } else { self.commands + 1 };
        match &command {
            // A server and a relay serve before `Go`.
            Command::Open(role, setup, _) => {
                let serves = matches!(role, EndRole::Server | EndRole::Relay);
                setup.bound.iter().for_each(|bound| counted.opens(*bound, serves));
                self.trial = Duration::from_nanos(length_ns(setup));
                counted.trials.fetch_add(1, Ordering::Relaxed);
            }
            Command::Go => counted.goes(),
            Command::Stop | Command::Quit => {}
        }
        Ok(Ok(command))
    }
}

/// The reply to pass on after its bytes are counted; for an end at its limit, the reason.
pub(super) fn counted(reply: Reply, counted: &AgentCounts, limits: &Limits) -> Reply {
    match &reply {
        Reply::Done(report) | Reply::Failed(_, report) => {
            let calls = report.call.as_ref().map_or(0, |_| report.bytes);
            counted.settles(Some(report.total_bytes.max(calls)));
        }
        Reply::Skipped(_) => counted.settles(None),
        Reply::Hello(_) | Reply::Listening(_) | Reply::Ready | Reply::Waiting(_) | Reply::Closed => {}
    }
    let spent = counted.spent();
    match reply {
        Reply::Failed(..) if spent.bytes >= limits.bytes => Reply::Skipped(limits.used_up(spent)),
        reply => reply,
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Spec;

    use super::*;
    use bytegauge_traffic::setup::Setup;

    fn take(commands: &mut EndCommands, command: Command) -> Result<Result<Command, String>, LineError> {
        let between = Between { here: [192, 0, 2, 1].into(), peer: [192, 0, 2, 9].into(), port: 0 };
        commands.take(command, (&Limits::default(), between), &AgentCounts::default())
    }

    #[test]
    fn refused_trial_allows_no_more_commands() {
        let mut commands = EndCommands::default();
        let refused = || {
            let levels = [("transport", "unix".into()), ("read_size", 1.into()), ("write_size", 1.into())];
            Command::Open(EndRole::Sink, Box::new(Setup::of(&Spec::from(levels)).unwrap()), None)
        };
        for _ in 0..COMMANDS_MAX {
            assert!(matches!(take(&mut commands, refused()), Ok(Err(_))));
            assert_eq!(take(&mut commands, Command::Go).unwrap(), Ok(Command::Go));
        }
        assert!(matches!(take(&mut commands, refused()), Ok(Err(_))));
        assert!(take(&mut commands, Command::Go).is_err());
    }
}
