//! Supervision of programs: everything that a program starts ends with the process that started the program.
//!
//! Three layers, since any process may be killed at any moment:
//!
//! 1. A process that runs programs is a [`Supervisor`]. Orphans below it become its children (prctl(2),
//!    `PR_SET_CHILD_SUBREAPER`), so no process escapes by forking twice or by starting a session. The supervisor notices
//!    that its parent ended, by the end of its input, and then ends every child.
//! 2. If the supervisor itself is killed, the kernel kills the programs that it started directly (`PR_SET_PDEATHSIG`).
//! 3. Programs carry their supervisor's name in their environment. The next start ends what dead supervisors left
//!    ([`end_abandoned_programs`]).
//!
//! A program that asks another service to start a process (systemd-run, docker, at) is not covered: that process is no
//! descendant.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{
    Signal, getpid, parent_process_death_signal, set_child_subreaper, set_parent_process_death_signal,
};

use crate::children::{self, WaitResult};
use crate::cpu_time::Usage;
use crate::owner::{OwnerProcess, user};
use crate::process_tree;

/// The environment variable that names a program's supervisor.
const SUPERVISOR: &str = "BYTEGAUGE_SUPERVISOR";

/// Pause between two looks at children that are to end.
const STEP: Duration = Duration::from_millis(1);

/// Time that killed processes may take to end.
const KILL_TIME: Duration = Duration::from_secs(10);

/// The calling process as one that runs programs. Dropping it ends every child that is left.
///
/// The process must have no other children, since all of them are waited for.
#[derive(Debug)]
pub struct Supervisor {
    /// The signal that the process was to receive when its parent ends.
    death_signal: Option<Signal>,
}

/// Processes that programs left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes that had to be killed.
    pub processes: u64,
    /// Resources used by all that were waited for.
    pub used: Usage,
}

impl Supervisor {
    /// Adopts orphans from now on. The kernel no longer kills the process when its parent ends: the caller watches its
    /// input instead, and drops this value when the input ends.
    ///
    /// # Errors
    ///
    /// The error of prctl(2); in practice only that of a seccomp filter.
    pub fn begin() -> io::Result<Supervisor> {
        // Any number but zero switches it on.
        set_child_subreaper(Some(getpid()))?;
        let death_signal = parent_process_death_signal()?;
        set_parent_process_death_signal(None)?;
        Ok(Supervisor { death_signal })
    }

    /// Waits up to `grace` until all children have ended by themselves, then kills those that are left.
    ///
    /// # Errors
    ///
    /// `TimedOut` if a process cannot be killed: it belongs to another user, or hangs in the kernel.
    pub fn sweep(&self, grace: Duration) -> io::Result<Swept> {
        let mut swept = Swept::default();
        let mut killed = BTreeSet::new();
        let until = Instant::now() + grace;
        // Each round kills the present children; their own children are adopted then, and are killed in the next round.
        loop {
            match children::reap(None)? {
                WaitResult::NoChild => break,
                WaitResult::Ended(ended) => swept.used += ended.used,
                WaitResult::Alive => {
                    let now = Instant::now();
                    if now >= until + KILL_TIME {
                        return Err(not_ended(&children::children()?));
                    }
                    if now >= until {
                        let left = children::children()?;
                        left.iter().for_each(|pid| children::kill(*pid));
                        killed.extend(left);
                    }
                    thread::sleep(STEP);
                }
            }
        }
        swept.processes = killed.len() as u64;
        Ok(swept)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Processes that cannot be ended were reported by an earlier sweep, or the next start tries again.
        let _ = self.sweep(Duration::ZERO);
        let _ = set_parent_process_death_signal(self.death_signal);
    }
}

fn not_ended(pids: &[u32]) -> io::Error {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let message =
        format!("processes that a program left behind cannot be killed: end them by hand (pid {})", pids.join(", "));
    io::Error::new(io::ErrorKind::TimedOut, message)
}

/// Puts the caller's name into the environment of the program that `command` will start.
pub(crate) fn mark(command: &mut Command) {
    command.env(SUPERVISOR, OwnerProcess::this().to_string());
}

/// Kills programs of this user whose supervisors are dead. Returns the number of processes that were killed.
///
/// A program that changed its environment is not recognised.
pub fn end_abandoned_programs() -> u64 {
    let mut killed = BTreeSet::new();
    let until = Instant::now() + KILL_TIME;
    loop {
        let found = abandoned_programs();
        if found.is_empty() || Instant::now() >= until {
            return killed.len() as u64;
        }
        // A process may fork between two looks: so until none is left.
        found.iter().for_each(|pid| children::kill(*pid));
        killed.extend(found);
        thread::sleep(STEP);
    }
}

fn abandoned_programs() -> Vec<u32> {
    let namespace = pid_namespace("self");
    let user = user();
    let is_abandoned = |pid: u32, stat: &process_tree::Stat| {
        let folder = format!("/proc/{pid}");
        stat.lives()
            && fs::metadata(&folder).is_ok_and(|found| found.uid() == user)
            && fs::read(format!("{folder}/environ")).is_ok_and(|all| supervisor(&all).is_some_and(|it| !it.is_alive()))
            // The supervisor's number is valid within its namespace only.
            && namespace.is_some() && pid_namespace(&pid.to_string()) == namespace
    };
    let all = process_tree::processes().unwrap_or_default();
    all.iter().filter(|(pid, stat)| is_abandoned(**pid, stat)).map(|(pid, _)| *pid).collect()
}

fn pid_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// The supervisor named in an environment.
fn supervisor(environment: &[u8]) -> Option<OwnerProcess> {
    let variables = environment.split(|byte| *byte == 0);
    let values = variables.filter_map(|variable| variable.strip_prefix(SUPERVISOR.as_bytes())?.strip_prefix(b"="));
    // A program may have added a second one: the first is in force.
    OwnerProcess::parse(std::str::from_utf8(values.into_iter().next()?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn supervisor_is_found_in_an_environment() {
        let this = OwnerProcess::this();
        let check = |text: &str, expected| assert_eq!(supervisor(text.as_bytes()), expected, "{text}");
        check(&format!("A=1\0{SUPERVISOR}={this}\0B=2\0"), Some(this));
        check(&format!("X{SUPERVISOR}={this}\0"), None);
        check(&format!("{SUPERVISOR}=x\0"), None);
        check("", None);
    }

    // In a process of its own, since it waits for any child.
    #[test]
    #[ignore = "run by the next test"]
    #[expect(clippy::zombie_processes, reason = "the supervisor waits for all children")]
    fn supervisor_ends_every_descendant() {
        set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
        let supervisor = Supervisor::begin().unwrap();
        assert_eq!(parent_process_death_signal().unwrap(), None);
        // Forks twice, leads a session, and refuses to leave.
        let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 3600 & sleep 3600 & wait' & exit 0";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        children::in_own_session(&mut command, &[]);
        let child = command.spawn().unwrap();
        let ended = format!("/proc/{}/stat", child.id());
        crate::tests::eventually("the first shell's end", || fs::read_to_string(&ended).unwrap().contains(") Z "));
        crate::tests::eventually("three orphans", || process_tree::used().unwrap().processes == 3);
        let swept = supervisor.sweep(Duration::ZERO).unwrap();
        assert!(swept.processes >= 3, "{swept:?} of {child:?}");
        assert_eq!(process_tree::used().unwrap().processes, 0);
        drop(supervisor);
        assert_eq!(parent_process_death_signal().unwrap(), Some(Signal::KILL));
    }

    #[test]
    fn descendants_end_with_their_supervisor() {
        let name = "supervisor::tests::supervisor_ends_every_descendant";
        let own = std::env::current_exe().unwrap();
        let output = Command::new(own).args(["--exact", name, "--ignored"]).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
    }

    #[test]
    fn programs_of_dead_supervisors_are_ended() {
        let program = |supervisor: String| {
            let mut command = Command::new("sleep");
            command.arg("3600").stdin(Stdio::null()).env(SUPERVISOR, supervisor);
            command.spawn().unwrap()
        };
        let mut orphan = program(format!("{}-1", std::process::id()));
        let mut live = program(OwnerProcess::this().to_string());
        // Another program on this machine may be the one that ends it.
        end_abandoned_programs();
        // The test hangs if the orphan was not killed.
        assert!(!orphan.wait().unwrap().success());
        assert!(live.try_wait().unwrap().is_none());
        live.kill().unwrap();
        live.wait().unwrap();
    }
}
