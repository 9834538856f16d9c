//! Signals: the first SIGINT, SIGTERM or SIGHUP ends the session in order, the second one at once; SIGXFSZ ends
//! nothing.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::process::spawn_error_hint;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::exit_code::{Failure, INTERRUPTED};

/// Signals within this time of the first one count as the same: `timeout` sends each twice, once to the process and once to its
/// group.
const ONE_WISH: Duration = Duration::from_millis(200);

/// A flag that a first signal sets, so that its readers end in order; a second one ends the program at once.
///
/// # Errors
/// If no signal handler can be installed.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    STOP.get().map_or_else(listen, |stop| Ok(Arc::clone(stop)))
}

/// The flag of this process: a signal before a session counts in it, too.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn listen() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |error| Failure::failed(format!("cannot listen for interrupts: {error}{}", spawn_error_hint(&error)));
    let stop = Arc::new(AtomicBool::new(false));
    let mut wanted = vec![SIGINT, SIGTERM];
    // nohup(1) ignores it for us: a handler would undo that.
    if !is_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted).map_err(failed)?;
    let wish = Arc::clone(&stop);
    // It sleeps until a signal comes: nothing ticks while a trial is measured.
    let listen = move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            match first {
                None => {
                    first = Some(Instant::now());
                    wish.store(true, Ordering::Relaxed);
                }
                Some(at) if at.elapsed() > ONE_WISH => low_level::exit(i32::from(INTERRUPTED)),
                Some(_) => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map_err(failed)?;
    Ok(Arc::clone(STOP.get_or_init(|| stop)))
}

/// A flag that Ctrl-Z sets, for commands that must not stop at any moment; it stays unset where the signal was ignored for us.
pub fn suspend_by_flag() -> Arc<AtomicBool> {
    let suspend = Arc::new(AtomicBool::new(false));
    if !is_ignored(SIGTSTP) {
        // Without a handler it stops at once, as other programs do.
        let _ = signal_hook::flag::register(SIGTSTP, Arc::clone(&suspend));
    }
    suspend
}

/// An end that has changed a running program sets it back first when a signal comes to all processes of a session: it leaves when
/// its input ends.
pub fn leave_at_the_end_of_input() {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // Without a handler it ends at once, as other programs do.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// A write beyond the limit on file sizes (`ulimit -f`) fails with `EFBIG`, which has a reason and a next step,
/// instead of ending the program (setrlimit(2)).
pub fn survive_file_limits() {
    // Where no handler can be had the signal ends us as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Whether a signal was ignored when the program was started (`SigIgn` in proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
