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
//!
//! Also a control group, which accounts for all processes of a program.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::process::{
    Signal, getpid, parent_process_death_signal, set_child_subreaper, set_parent_process_death_signal,
};

use crate::children::{self, WaitResult};
use crate::cpu_time::Usage;
use crate::environment::own_group;
use crate::new_file;
use crate::owner::{self, OwnerProcess, user};
use crate::process_tree::{self, TreeUse};

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
/// A program that changed its environment is not recognised; its control group is ([`remove_abandoned_groups`]).
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

// A control group below that of the calling process. It accounts for all processes in it, including those that started
// and ended meanwhile.
//
// Uses cgroup v2, where every group counts CPU time even without the CPU controller
// (Documentation/admin-guide/cgroup-v2.rst, `cpu.stat`). No group is created where that controller would make it
// compete with its parent: measuring a program must not change how it runs.
//
// Never limits resources.

/// The prefix of every name, followed by the [`OwnerProcess`].
const NAME: &str = "bytegauge-";

/// How long ended processes may stay in the group, in steps.
const LEAVE_STEPS: u32 = 20;
const LEAVE_STEP: Duration = Duration::from_millis(5);

/// A group, removed on drop.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    above: PathBuf,
}

impl ControlGroup {
    /// Creates the group of the calling process, which has at most one.
    ///
    /// # Errors
    ///
    /// `NotFound` without cgroup v2, `Unsupported` where the group would get its own share of CPU time,
    /// `PermissionDenied` or `ReadOnlyFilesystem` without permission.
    pub fn make() -> io::Result<ControlGroup> {
        let above = own_group().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let controllers = fs::read_to_string(above.join("cgroup.subtree_control"))?;
        if controllers.split_whitespace().any(|controller| controller == "cpu") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let folder = above.join(format!("{NAME}{}", OwnerProcess::this()));
        // Processes of a previous group may have ended late.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder)?;
        Ok(ControlGroup { folder, above })
    }

    /// Runs `start` with the calling process in the group, so that programs it starts are in it. Returns whether
    /// entering and leaving both worked.
    pub fn within<T>(&self, start: impl FnOnce() -> T) -> (T, bool) {
        let is_there = enter(&self.folder).is_ok();
        let started = start();
        let is_back = !is_there || enter(&self.above).is_ok();
        (started, is_there && is_back)
    }

    /// Resources used by its processes, and the number of live ones. The kernel updates a running thread's time at
    /// every timer tick and when it stops (`update_curr`, kernel/sched/fair.c), so each running thread may be one tick
    /// behind.
    ///
    /// # Errors
    ///
    /// When the files of the group cannot be read.
    pub fn used(&self) -> io::Result<TreeUse> {
        let text = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let processes = fs::read_to_string(self.folder.join("cgroup.procs"))?.lines().count() as u64;
        parse(&text).map(|used| TreeUse { processes, ..used }).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // If leaving failed, or the closure panicked, try again: otherwise the next group would be created below this
        // one.
        if own_group().is_some_and(|group| group == self.folder) {
            let _ = enter(&self.above);
        }
        remove(&self.folder);
    }
}

/// Removes a group. It is busy while a process is exiting; the next start removes remaining ones.
fn remove(folder: &Path) -> bool {
    for _ in 0..LEAVE_STEPS {
        if fs::remove_dir(folder).is_ok() {
            return true;
        }
        thread::sleep(LEAVE_STEP);
    }
    false
}

/// Moves the calling process (cgroups(7): 0 means the writer).
fn enter(group: &Path) -> io::Result<()> {
    new_file::set(group.join("cgroup.procs"), "0")
}

/// Kills everything in groups whose owners are dead, and removes these groups. Returns the number of groups removed.
pub fn remove_abandoned_groups() -> u64 {
    let Some(above) = own_group() else { return 0 };
    let end = |folder: &PathBuf| {
        // Linux 5.14 (Documentation/admin-guide/cgroup-v2.rst, `cgroup.kill`). Before, a group with processes stays.
        let _ = new_file::set(folder.join("cgroup.kill"), "1");
        remove(folder)
    };
    owner::abandoned(&above, NAME).iter().filter(|folder| end(folder)).count() as u64
}

fn parse(stat: &str) -> Option<TreeUse> {
    let ns = |name: &str| {
        let us: u64 = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()?;
        Some(us * 1000)
    };
    Some(TreeUse { processes: 0, cpu_ns: ns("usage_usec")?, user_ns: ns("user_usec")?, system_ns: ns("system_usec")? })
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

#[cfg(test)]
mod control_group_tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn times_are_microseconds() {
        let stat = "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 0\n";
        let used = TreeUse { processes: 0, cpu_ns: 5_000_000, user_ns: 3_000_000, system_ns: 2_000_000 };
        assert_eq!(parse(stat), Some(used));
        assert_eq!(parse("user_usec 3\n"), None);
    }

    // In a separate process, since the whole process moves and other tests start programs meanwhile.
    #[test]
    #[ignore = "run by the next test"]
    fn group_in_its_own_process() {
        let group = ControlGroup::make().unwrap();
        let before = own_group();
        // It works, its parent does not wait for it, and both end.
        let script = "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & exec true";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        let (child, worked) = group.within(|| command.spawn());
        assert!(worked && own_group() == before);
        child.unwrap().wait().unwrap();
        while group.used().unwrap().processes > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let used = group.used().unwrap();
        assert!(used.cpu_ns > 0, "{used:?}");
        let folder = group.folder.clone();
        // A group is removed even if the process did not leave it.
        enter(&folder).unwrap();
        assert!(own_group() != before);
        drop(group);
        assert!(own_group() == before && !folder.exists());
    }

    #[test]
    fn group_of_a_dead_owner_is_ended() {
        if let Err(error) = ControlGroup::make() {
            eprintln!("SKIPPED: no control group can be made here: {error}");
            return;
        }
        let folder = own_group().unwrap().join(format!("{NAME}{}-1", std::process::id()));
        let mut orphan = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        // Another program on this machine may remove the group before the orphan is in it.
        while fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join("cgroup.procs"), orphan.id().to_string()))
            .is_err()
        {
            let _ = fs::remove_dir(&folder);
        }
        let can_kill = folder.join("cgroup.kill").exists();
        if !can_kill {
            orphan.kill().unwrap();
        }
        // A killed process stays in its group until it is waited for.
        let waits = thread::spawn(move || orphan.wait());
        while folder.exists() {
            remove_abandoned_groups();
        }
        assert!(!waits.join().unwrap().unwrap().success());
    }

    #[test]
    fn ended_processes_are_accounted_for() {
        if let Err(error) = ControlGroup::make() {
            eprintln!("no control group can be made here: {error}");
            return;
        }
        let own = std::env::current_exe().unwrap();
        let name = "supervisor::control_group_tests::group_in_its_own_process";
        let output = Command::new(own).args(["--exact", name, "--ignored"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
