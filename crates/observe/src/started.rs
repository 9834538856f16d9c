//! A program that is started to be observed: it is stopped until it is traced.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::descendants;
use bytegauge_traffic::keeper::KeptProgram;

/// Stops itself before it executes the program, so that the program is observed from its first call on.
const STOP_FIRST: [&str; 4] = ["/bin/sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"];

/// If a shell does not stop within this time, the start has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// The program. Dropping it ends the program and every process that it started.
#[derive(Debug)]
pub struct Started(KeptProgram);

impl Started {
    /// Starts a program in a session of its own, without input, and stops it. It prints to standard error, since the report
    /// uses standard output. `program` is this program's own file.
    ///
    /// # Errors
    /// When no process can be started, or the program does not stop.
    pub fn start(program: &Path, words: &[String]) -> io::Result<Started> {
        let words: Vec<OsString> =
            STOP_FIRST.into_iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
        let started =
            Started(KeptProgram::start(program, &words, [Stdio::null(), io::stderr().into(), Stdio::inherit()])?);
        let until = Instant::now() + PATIENCE;
        while descendants::is_stopped(started.pid()) == Some(false) {
            if Instant::now() > until {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the program did not stop before its start: try again, or observe it with --pid",
                ));
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
