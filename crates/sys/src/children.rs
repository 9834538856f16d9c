//! Starts, waits for and signals external programs.
//!
//! The process that runs them is a [`Supervisor`](crate::supervisor::Supervisor), which adopts orphans. So "all children of
//! this process" means "everything that was started", and no process is looked up by name.
//!
//! Never decides how long to wait.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::PidfdFlags;

use crate::clock::timespec;
use crate::cpu_time::Usage;
use crate::process::die_with_parent;
use crate::{affinity, errno, process_descriptor, process_tree, supervisor};

/// A child that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedChild {
    /// Its process number.
    pub pid: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// Resources that it has used, with its own children.
    pub used: Usage,
}

/// The result of a wait.
#[derive(Clone, Copy, Debug)]
pub enum WaitResult {
    /// A child has ended.
    Ended(EndedChild),
    /// There are children, but none has ended.
    Alive,
    /// No child is left.
    NoChild,
}

/// Makes the child that `command` will start the leader of a new session (setsid(2)). It then has a process group that
/// can be signalled, and no controlling terminal.
///
/// The scheduler shares a CPU between sessions before it shares it between threads (sched(7), "The autogroup feature").
/// So compared processes must all run in sessions of their own: 50 clients through a relay made 1.2 to 1.4 times the
/// calls when it shared the session of its clients.
pub fn lead_session(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and this is a bare system call.
    unsafe { command.pre_exec(|| errno::of(libc::setsid()).map(drop)) }
}

/// Makes the child that `command` will start [the leader of a session of its own](lead_session). The kernel kills it when the
/// calling *thread* ends. It runs on the given CPUs, or on any if none are given. Its environment names its supervisor.
pub fn in_own_session(command: &mut Command, cpus: &[usize]) {
    let mask = (!cpus.is_empty()).then(|| affinity::mask(cpus));
    lead_session(command);
    supervisor::mark(command);
    die_with_parent(command);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes bare system calls on
    // memory that was prepared before and, on failure, builds an io::Error from a number: no allocation and no lock.
    unsafe {
        command.pre_exec(move || match &mask {
            None => Ok(()),
            Some(mask) => {
                let bytes = size_of_val(mask.as_slice());
                errno::of(libc::sched_setaffinity(0, bytes, mask.as_ptr().cast())).map(drop)
            }
        });
    }
}

/// Lets the child that `command` will start keep a descriptor, under the returned number. The child passes the number
/// to [`passed`].
pub fn pass(command: &mut Command, descriptor: OwnedFd) -> RawFd {
    let number = descriptor.as_raw_fd();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and this is a bare system call on a descriptor
    // that the closure keeps open.
    unsafe { command.pre_exec(move || errno::of(libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0)).map(drop)) };
    number
}

/// Takes over a descriptor that the parent [passed](pass). Programs that this process starts do not inherit it. Call it
/// once.
///
/// # Errors
///
/// `EBADF` if it is not open.
pub fn passed(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: passes integers and no memory.
    errno::of(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open and above the standard descriptors: the parent passed it for the caller alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Connects standard input, output and error of the calling process to `/dev/null`.
///
/// # Errors
///
/// If `/dev/null` cannot be opened.
pub fn close_standard_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for number in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: passes integers and no memory. The standard streams stay open, as another file.
        errno::of(unsafe { libc::dup2(null.as_raw_fd(), number) })?;
    }
    Ok(())
}

/// A descriptor that is readable once a child of the caller has ended (pidfd_open(2), Linux 5.3).
///
/// # Errors
///
/// `ENOSYS` on an older kernel, `ESRCH` if there is no such process.
pub fn watch(pid: u32) -> io::Result<OwnedFd> {
    process_descriptor::open(pid, PidfdFlags::empty())
}

/// Waits until one of the descriptors is readable or closed at its other end, at most for `patience`. Returns which of
/// them are; all `false` after the timeout.
///
/// # Errors
///
/// Any error of ppoll(2); an interrupted call returns no descriptor.
pub fn wait_any(fds: &[BorrowedFd<'_>], patience: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match event::poll(&mut polled, Some(&timespec(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)))) {
        Err(Errno::INTR) => Ok(vec![false; fds.len()]),
        polls => polls.map(|_| polled.iter().map(|fd| !fd.revents().is_empty()).collect()).map_err(io::Error::from),
    }
}

/// Reaps a child that has ended, a certain one or any, without waiting (wait4(2)).
///
/// # Errors
///
/// None is expected.
pub fn reap(pid: Option<u32>) -> io::Result<WaitResult> {
    let wanted = pid.map_or(-1, |pid| pid as libc::pid_t);
    let mut status = 0;
    // SAFETY: a rusage of zeros is a valid value of numbers alone.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places are valid for one value each, and live through the call.
    match errno::of(unsafe { libc::wait4(wanted, &mut status, libc::WNOHANG, &mut usage) }) {
        Ok(0) => Ok(WaitResult::Alive),
        Ok(pid) => Ok(WaitResult::Ended(EndedChild {
            pid: pid as u32,
            status: ExitStatus::from_raw(status),
            used: Usage::of_ended(&usage),
        })),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(WaitResult::NoChild),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(WaitResult::Alive),
        Err(error) => Err(error),
    }
}

/// Signals the group that a child leads, or the child alone if it leads none. A missing process is not an error.
pub fn signal_group(leader: u32, signal: i32) {
    // SAFETY: passes two integers and no memory. The child was not reaped yet, so its number is not reused.
    unsafe {
        if libc::kill(-(leader as libc::pid_t), signal) != 0 {
            libc::kill(leader as libc::pid_t, signal);
        }
    }
}

/// Sends a signal to one process; returns `false` if it does not exist or may not be signalled.
pub fn signal(pid: u32, signal: i32) -> bool {
    // SAFETY: passes two integers and no memory.
    unsafe { libc::kill(pid as libc::pid_t, signal) == 0 }
}

/// Kills a process.
pub fn kill(pid: u32) {
    signal(pid, KILL);
}

/// The children of the calling process that have not ended, adopted ones included, from `/proc`.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn children() -> io::Result<Vec<u32>> {
    let own = std::process::id();
    let all = process_tree::processes()?;
    Ok(all.into_iter().filter(|(_, stat)| stat.parent == own && stat.lives()).map(|(pid, _)| pid).collect())
}

/// Signals to programs (signal(7)).
pub use libc::{SIGCONT as CONT, SIGKILL as KILL, SIGSTOP as STOP, SIGTERM as TERM};

/// Signals by their names, as `kill -l` prints them.
const SIGNALS: [(&str, i32); 9] = [
    ("TERM", libc::SIGTERM),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("HUP", libc::SIGHUP),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
];

/// The number of a signal: `TERM`, `SIGTERM` or `15`.
pub fn signal_number(name: &str) -> Option<i32> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let numbered = || bare.parse().ok().filter(|number| (1..=64).contains(number));
    SIGNALS.iter().find(|(known, _)| *known == bare).map(|(_, number)| *number).or_else(numbered)
}

/// The name of a signal, or its number.
pub fn signal_name(number: i32) -> String {
    let known = [("SEGV", libc::SIGSEGV), ("BUS", libc::SIGBUS), ("FPE", libc::SIGFPE), ("PIPE", libc::SIGPIPE)];
    let named = SIGNALS.iter().chain(&known).find(|(_, known)| *known == number);
    named.map_or_else(|| format!("signal {number}"), |(name, _)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn an_ended_child_is_reported_with_its_usage() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3"]).stdin(Stdio::null());
        in_own_session(&mut command, &[]);
        let mut child = command.spawn().unwrap();
        let watched = watch(child.id()).unwrap();
        while !wait_any(&[watched.as_fd()], Duration::from_secs(10)).unwrap()[0] {}
        let WaitResult::Ended(ended) = reap(Some(child.id())).unwrap() else { panic!("it has ended") };
        assert_eq!((ended.pid, ended.status.code()), (child.id(), Some(3)));
        assert!(ended.used.user_ns + ended.used.system_ns > 0);
        assert!(matches!(reap(Some(child.id())).unwrap(), WaitResult::NoChild));
        assert!(child.wait().is_err(), "the child was already reaped");
    }

    #[test]
    fn a_session_has_a_group_and_its_cpus() {
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 3600 & wait"]).stdin(Stdio::null());
        in_own_session(&mut command, &[cpu]);
        let mut child = command.spawn().unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{status}");
        assert!(children().unwrap().contains(&child.id()));
        // SAFETY: passes a number and no memory.
        let session = unsafe { libc::getsid(child.id() as libc::pid_t) };
        assert_eq!(session, child.id() as libc::pid_t);
        signal_group(child.id(), libc::SIGKILL);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(!children().unwrap().contains(&child.id()));
    }

    #[test]
    fn waiting_ends_after_the_timeout() {
        let (reader, writer) = io::pipe().unwrap();
        assert_eq!(wait_any(&[reader.as_fd()], Duration::from_millis(1)).unwrap(), [false]);
        drop(writer);
        assert_eq!(wait_any(&[reader.as_fd()], Duration::from_secs(10)).unwrap(), [true]);
    }

    #[test]
    fn signals_have_names() {
        for (name, number) in SIGNALS {
            assert_eq!(signal_number(name), Some(number));
            assert_eq!(signal_number(&signal_name(number)), Some(number));
        }
        assert_eq!((signal_number("sigterm"), signal_number("15")), (Some(15), Some(15)));
        assert_eq!((signal_number("TREM"), signal_number("99")), (None, None));
        assert_eq!(signal_name(libc::SIGSEGV), "SIGSEGV");
    }
}
