//! A program that is started to be looked at: it stands still until it is traced, and is ended with all that it started.

use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::children::{self, Reaped};
use bytegauge_sys::descendants;

/// Stops itself before it becomes the program: from its first call on it is looked at.
const STANDS_STILL: &str = "kill -STOP $$; exec \"$@\"";

/// A shell that does not stop within this time never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Time to leave after it was asked to.
const LEAVING: Duration = Duration::from_secs(3);

/// The program, for as long as this lives.
#[derive(Debug)]
pub struct Started {
    /// Its process.
    pub pid: u32,
}

impl Started {
    /// Starts a program in a session of its own, without input; what it prints goes to standard error, since standard
    /// output is the report's. It stands still.
    ///
    /// # Errors
    /// When no process can be made, or it does not come to stand still.
    pub fn start(words: &[String]) -> io::Result<Started> {
        children::adopt_orphans()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", STANDS_STILL, "sh"]).args(words);
        command.stdin(Stdio::null()).stdout(io::stderr());
        children::in_own_session(&mut command, &[]);
        let started = Started { pid: command.spawn()?.id() };
        let until = Instant::now() + PATIENCE;
        while descendants::is_stopped(started.pid) == Some(false) {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not come to stand still"));
            }
            thread::sleep(LOOK);
        }
        Ok(started)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let left = || children::children().unwrap_or_default();
        if left().contains(&self.pid) {
            children::signal_group(self.pid, children::TERM);
        }
        let until = Instant::now() + LEAVING;
        loop {
            while matches!(children::reap(None), Ok(Reaped::Ended(_))) {}
            let left = left();
            if left.is_empty() {
                return;
            }
            // What it left behind came to us.
            if Instant::now() > until || !left.contains(&self.pid) {
                left.iter().for_each(|pid| children::kill(*pid));
            }
            thread::sleep(LOOK);
        }
    }
}
