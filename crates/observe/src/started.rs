//! A program that is started to be observed: it stands still until it is traced.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::descendants;
use bytegauge_traffic::keeper::Kept;

/// Stops itself before it becomes the program, which is observed from its first call on.
const STANDS_STILL: [&str; 4] = ["/bin/sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"];

/// A shell that does not stop within this time never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The program. Dropping it ends the program with everything that it started.
#[derive(Debug)]
pub struct Started(Kept);

impl Started {
    /// Starts a program in a session of its own, without input. It prints to standard error, since standard output is the
    /// report's. It stands still. `program` is this program's own file.
    ///
    /// # Errors
    /// When no process can be started, or the program does not stop.
    pub fn start(program: &Path, words: &[String]) -> io::Result<Started> {
        let words: Vec<OsString> =
            STANDS_STILL.into_iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
        let started = Started(Kept::start(program, &words, [Stdio::null(), io::stderr().into(), Stdio::inherit()])?);
        let until = Instant::now() + PATIENCE;
        while descendants::is_stopped(started.pid()) == Some(false) {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not come to stand still"));
            }
            thread::sleep(LOOK);
        }
        Ok(started)
    }

    /// The program's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }
}
