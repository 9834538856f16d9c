//! Interrupts a thread that is blocked in a system call.
//!
//! A trial whose peer has died would block forever in read(2) or write(2). The watchdog sets a flag and sends the
//! thread a signal whose handler does nothing. The call then returns `EINTR`, or a short count if it had already moved
//! bytes (signal(7), "Interruption of system calls"), and the thread checks the flag.
//!
//! One signal is not enough: if it arrives between the check of the flag and the call, nothing is interrupted. So **set
//! the flag first, then call [`interrupt`] every few milliseconds until the thread has reacted**.
//!
//! The signal is a real-time one, since programs and libraries use the others. The handler is installed without
//! `SA_RESTART`; otherwise the kernel would resume the call. Never ends a thread.

use std::io;
use std::sync::OnceLock;

use rustix::process::getpid;
use rustix::thread::gettid;

use crate::errno;

/// Reserves a free real-time signal and installs a handler that does nothing. Later calls have no effect.
/// [`ThreadHandle::current`] does the same.
///
/// # Errors
///
/// `ResourceBusy` if every real-time signal of this process already has a handler.
pub fn install() -> io::Result<()> {
    signal().map(drop)
}

/// A thread that [`interrupt`] may wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadHandle {
    process: libc::pid_t,
    thread: libc::pid_t,
    signal: libc::c_int,
}

impl ThreadHandle {
    /// The calling thread. Also unblocks the signal in it, in case it inherited a mask.
    ///
    /// # Errors
    ///
    /// As [`install`].
    pub fn current() -> io::Result<Self> {
        let signal = signal()?;
        unblock(signal)?;
        let (process, thread) = (getpid().as_raw_pid(), gettid().as_raw_pid());
        Ok(Self { process, thread, signal })
    }

    /// The kernel's thread id, as in `/proc/self/task`.
    pub fn thread_id(&self) -> i32 {
        self.thread
    }
}

/// Makes a system call in which the thread is blocked return early. Returns `false` if the thread has ended. A single
/// call is not enough, see the module's header.
///
/// If the thread has ended and a newer thread of this process got its id, the newer one sees an `EINTR`. So stop
/// calling once the thread is joined.
///
/// # Errors
///
/// `EAGAIN` if `RLIMIT_SIGPENDING` is exhausted (tgkill(2)).
pub fn interrupt(handle: &ThreadHandle) -> io::Result<bool> {
    // SAFETY: passes three integers. The handle exists only after `install` succeeded, so the
    // signal has a handler and cannot take its default action of ending the process.
    let returned = unsafe { libc::syscall(libc::SYS_tgkill, handle.process, handle.thread, handle.signal) };
    match errno::of(returned as libc::c_int) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The signal in use, installed on the first call.
fn signal() -> io::Result<libc::c_int> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    SIGNAL.get_or_init(claim_signal).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::ResourceBusy,
            "all real-time signals have handlers already: \
             start the measurement before other libraries that claim signals",
        )
    })
}

fn claim_signal() -> Option<libc::c_int> {
    // SIGRTMIN() leaves out the signals that the C library keeps for its threads (signal(7)).
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).find(|signal| is_free(*signal) && handle(*signal).is_ok())
}

fn is_free(signal: libc::c_int) -> bool {
    let mut present = empty_action();
    // SAFETY: a null new action only queries; `present` is a valid place for the result.
    let returned = unsafe { libc::sigaction(signal, std::ptr::null(), &mut present) };
    returned == 0 && present.sa_sigaction == libc::SIG_DFL
}

fn handle(signal: libc::c_int) -> io::Result<()> {
    extern "C" fn ignore(_signal: libc::c_int) {}
    let mut action = empty_action();
    // sa_flags must stay without SA_RESTART.
    action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `action` is valid and lives through the call; its handler has the signature that
    // flags without SA_SIGINFO demand, is async-signal-safe and leaves errno alone.
    errno::of(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }).map(drop)
}

fn empty_action() -> libc::sigaction {
    // SAFETY: sigaction is integers, an optional pointer and a bit set: all-zero bytes are valid
    // and mean the default action, no flags and an empty mask.
    unsafe { std::mem::zeroed() }
}

fn unblock(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: sigset_t is a bit set, for which zero bytes are a valid, empty set; it lives
    // through the calls, and a null old mask is allowed.
    let error = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut())
    };
    // The call returns its error instead of setting errno.
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::{clock, io as calls, pipe};

    /// Runs `blocked` in a thread, interrupts it until it returns, and returns its result.
    fn check<T: Send + 'static>(blocked: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = mpsc::channel();
        let worker = thread::spawn(move || {
            send.send(ThreadHandle::current().unwrap()).unwrap();
            blocked()
        });
        let handle = receive.recv().unwrap();
        while !worker.is_finished() {
            interrupt(&handle).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        worker.join().unwrap()
    }

    #[test]
    fn a_blocked_read_ends() {
        let (reader, _writer) = pipe::anonymous().unwrap();
        let result = check(move || calls::read(reader.as_fd(), &mut [0u8; 1]));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_blocked_write_ends() {
        let (_reader, writer) = pipe::anonymous().unwrap();
        // The first write fills the pipe and ends with a short count, the second moves nothing.
        let result = check(move || {
            let bytes = vec![0u8; 4 << 20];
            loop {
                if let Err(error) = calls::write(writer.as_fd(), &bytes) {
                    break error;
                }
            }
        });
        assert_eq!(result.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_sleep_ends() {
        // One hour: the test hangs if interrupting does not work.
        let deadline_ns = clock::monotonic_ns() + 3_600_000_000_000;
        assert!(check(move || clock::sleep_until_ns(deadline_ns)));
    }

    #[test]
    fn an_ended_thread_is_reported() {
        let handle = thread::spawn(|| ThreadHandle::current().unwrap()).join().unwrap();
        // The kernel thread may outlive the join briefly, so repeat until it has ended.
        while interrupt(&handle).unwrap() {
            // Signals to a thread that ends are queued, and a limited number can be.
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_thread_id_is_the_kernels() {
        let handle = ThreadHandle::current().unwrap();
        let task = format!("/proc/self/task/{}", handle.thread_id());
        assert!(std::path::Path::new(&task).exists());
    }
}
