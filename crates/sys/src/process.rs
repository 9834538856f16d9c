//! Child processes of a trial, and the CPU time of processes.
//!
//! The kernel kills the children when this process ends. External programs may have children: see `supervisor`.
//!
//! Waits for a child only in [`ended_within`].

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, getpriority_process, set_parent_process_death_signal};

use crate::{clock, errno};

/// Advice about a thread or a process that could not be created, to append to the error. At its limits the system
/// returns `EAGAIN` (pthread_create(3), fork(2)). Empty for other errors.
pub fn spawn_error_hint(error: &io::Error) -> &'static str {
    let is_limit = error.kind() == io::ErrorKind::WouldBlock;
    if is_limit { ": raise the limit on processes and threads (ulimit -u, TasksMax=)" } else { "" }
}

/// Makes the child that `command` will start be killed when its parent ends.
///
/// The kernel watches the *thread* that spawns: start such children from a thread that lives as long as they must,
/// never from a short-lived worker (prctl(2), `PR_SET_PDEATHSIG`, caveats). The setting survives exec, except of a
/// set-user-ID program or one with file capabilities.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes
    // two bare system calls and, on failure, builds an io::Error from a number: no allocation and
    // no lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the parent ended before the call above, no signal comes.
            if Pid::as_raw(getppid()) as u32 == parent { Ok(()) } else { Err(Errno::SRCH.into()) }
        })
    }
}

/// Stops this process, with all its threads, until it is continued, as Ctrl-Z does without a handler: not where no shell could
/// continue it (an orphaned process group, setpgid(2)).
pub fn stop_self() {
    // SAFETY: all bytes zero are a valid `sigaction`: the default action (`SIG_DFL`), no flags and an empty mask.
    let (mut own, default): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: both structures live through the calls, and the handler that is put back is the one that was there.
    unsafe {
        if libc::sigaction(libc::SIGTSTP, &raw const default, &raw mut own) == 0 {
            libc::raise(libc::SIGTSTP);
            libc::sigaction(libc::SIGTSTP, &raw const own, std::ptr::null_mut());
        }
    }
}

/// Waits for a child to end, polling at intervals of `every`; `None` if it had to be killed, or cannot be waited for.
pub fn ended_within(child: &mut Child, patience: Duration, every: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(every),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// The time slice of a thread that runs often and briefly, nanoseconds: the shortest that the kernel accepts
/// (sched(7)).
const SHORT_TURN_NS: u64 = 100_000;

/// Makes the calling thread run as soon as possible, ahead of long-running threads. It requests a short time slice,
/// which needs no privilege (and has no effect before Linux 6.12), and the best nice value where allowed
/// (`CAP_SYS_NICE`). The nice value applies to the whole session (setsid(2)), so use it in a process that leads its own
/// session.
///
/// # Errors
///
/// Any error of sched_setattr(2); in practice only that of a seccomp filter.
pub fn run_with_priority() -> io::Result<()> {
    const BEST_NICE: libc::c_int = -20;
    let nice = getpriority_process(None)?;
    // With autogroup, a nice value counts only within a session (sched(7)).
    let _ = crate::new_file::set("/proc/self/autogroup", BEST_NICE.to_string());
    set_nice(BEST_NICE).or_else(|_| set_nice(nice))
}

fn set_nice(nice: libc::c_int) -> io::Result<()> {
    // SAFETY: a struct of integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_nice = nice;
    attributes.sched_runtime = SHORT_TURN_NS;
    let (calling_thread, flags): (libc::pid_t, libc::c_uint) = (0, 0);
    // SAFETY: the kernel reads and writes `attributes`, which lives through the call, and keeps no pointer.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setattr, calling_thread, &raw mut attributes, flags) };
    errno::of(returned as libc::c_int).map(drop)
}

/// CPU time of all threads of a process, ended ones included, in ns; for example of an external relay. Exact, unlike
/// `/proc/<pid>/stat`, which counts ticks.
///
/// # Errors
///
/// `EINVAL` if there is no such process (clock_gettime(2)).
pub fn cpu_time_ns(process_id: u32) -> io::Result<u64> {
    clock::try_clock_ns(clock::cpu_clock(process_id as i32, false))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn priority_is_no_lower_than_before() {
        // In a separate thread: without privilege the policy cannot be restored (RLIMIT_NICE).
        let nice = || getpriority_process(None).unwrap();
        let seen = thread::spawn(move || {
            let before = nice();
            set_nice(-20).or_else(|_| set_nice(before)).unwrap();
            (before, nice())
        });
        let (before, after) = seen.join().unwrap();
        assert!(after == -20 || after == before, "{before} {after}");
    }

    #[test]
    fn a_child_ends_by_itself_or_is_ended() {
        let often = Duration::from_millis(1);
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        assert_eq!(ended_within(&mut child, Duration::from_secs(60), often).and_then(|status| status.code()), Some(3));
        let mut child = sleeper().spawn().unwrap();
        assert_eq!(ended_within(&mut child, Duration::ZERO, often), None);
        // The child has been waited for.
        assert!(child.try_wait().unwrap().is_some());
    }

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("3600").stdin(Stdio::null());
        command
    }

    #[test]
    fn a_child_dies_with_its_spawning_thread() {
        let spawn = || die_with_parent(&mut sleeper()).spawn().unwrap();
        let mut child = thread::spawn(spawn).join().unwrap();
        // The test hangs if the signal does not arrive.
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn own_cpu_time_agrees_with_the_other_source() {
        let before_ns = crate::cpu_time::process_usage().total_ns;
        let own_ns = cpu_time_ns(std::process::id()).unwrap();
        assert!(own_ns >= before_ns);
        assert!(crate::cpu_time::process_usage().total_ns >= own_ns);
    }

    #[test]
    fn an_ended_process_has_no_cpu_time() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(cpu_time_ns(child.id()).is_err());
    }
}
