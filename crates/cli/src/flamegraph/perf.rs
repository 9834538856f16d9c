//! perf(1), told to sample processes by the CPU's clock, which virtual machines have as well.
//!
//! perf begins a command only once it samples the processes that it was told, and ends with it: so a command that says that it
//! has begun, and waits for the end of its input, is how to know the first and to ask for the second.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::process::{die_with_parent, ended_unless};

const PERF: &str = "perf";

/// Samples a second of each CPU that is busy: beside the ticks of most kernels, not with them.
const FREQUENCY: &str = "997";

/// The command that perf runs.
const UNTIL_TOLD: &str = "echo sampling; exec cat > /dev/null";

/// How long perf may take for anything: many samples take a while to be named.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked whether it has ended.
const ASK: Duration = Duration::from_millis(5);

/// A perf that samples, until it is told to end or the user wants to stop.
pub struct Sampling<'a> {
    child: Child,
    stop: &'a AtomicBool,
    /// Where its errors go.
    errors: PathBuf,
}

/// Whether perf is here, and may sample.
///
/// # Errors
/// Why not, and what to do.
pub fn tried(folder: &Path) -> Result<(), String> {
    Sampling::of(&[std::process::id()], &folder.join("tried"), &AtomicBool::new(false))?.finish()
}

impl Sampling<'_> {
    /// Samples processes, and all that they start, from when this returns; what is seen goes to a file.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn of<'a>(pids: &[u32], data: &Path, stop: &'a AtomicBool) -> Result<Sampling<'a>, String> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let errors = data.with_extension("errors");
        let mut command = Command::new(PERF);
        command.args(["record", "-e", "cpu-clock", "-F", FREQUENCY, "-g", "-p", &pids.join(","), "-o"]).arg(data);
        command.args(["--", "sh", "-c", UNTIL_TOLD]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut sampling = Sampling { child: spawned(&mut command, &errors)?, stop, errors };
        let (tell, told) = mpsc::channel();
        let said = sampling.child.stdout.take();
        thread::spawn(move || {
            let lines = said.into_iter().flat_map(|said| BufReader::new(said).lines().map_while(Result::ok));
            // All are read, so that nobody finds the pipe closed.
            lines.for_each(|line| drop(tell.send(line)));
        });
        let until = Instant::now() + PATIENCE;
        loop {
            match told.recv_timeout(ASK) {
                Ok(_) => return Ok(sampling),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until && !stop.load(Ordering::Relaxed) => {}
                Err(_) => return Err(sampling.complaint()),
            }
        }
    }

    /// Ends it, and waits until all is written.
    ///
    /// # Errors
    /// What it says is wrong.
    pub fn finish(mut self) -> Result<(), String> {
        drop(self.child.stdin.take());
        match ended(&mut self.child, self.stop) {
            Some(status) if status.success() => Ok(()),
            _ => Err(self.complaint()),
        }
    }

    /// What it said of what went wrong.
    fn complaint(&mut self) -> String {
        // It has ended, or does not answer.
        let _ = self.child.kill();
        let _ = self.child.wait();
        complaint("record", &self.errors, self.stop)
    }
}

impl Drop for Sampling<'_> {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = ended(&mut self.child, self.stop);
    }
}

/// What perf prints of a file of samples: a stack for each.
///
/// # Errors
/// What it says is wrong.
pub fn script(data: &Path, stop: &AtomicBool) -> Result<Vec<u8>, String> {
    let (printed, errors) = (data.with_extension("script"), data.with_extension("errors"));
    let out = File::create(&printed).map_err(|error| format!("{}: {error}", printed.display()))?;
    let mut command = Command::new(PERF);
    // Lines of source would take minutes.
    command.args(["script", "--no-inline", "-i"]).arg(data).stdin(Stdio::null()).stdout(out);
    match ended(&mut spawned(&mut command, &errors)?, stop) {
        Some(status) if status.success() => {
            fs::read(&printed).map_err(|error| format!("{}: {error}", printed.display()))
        }
        _ => Err(complaint("script", &errors, stop)),
    }
}

fn spawned(command: &mut Command, errors: &Path) -> Result<Child, String> {
    let to = File::create(errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    die_with_parent(command.stderr(to)).spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "perf is not installed: install it (Debian: apt-get install linux-perf; Ubuntu: linux-tools-generic)".into()
        }
        _ => format!("perf cannot be started: {error}"),
    })
}

/// How it ended; `None` if it had to be killed.
fn ended(child: &mut Child, stop: &AtomicBool) -> Option<ExitStatus> {
    ended_unless(stop, child, PATIENCE, ASK)
}

/// What perf said last, and what usually helps.
fn complaint(what: &str, errors: &Path, stop: &AtomicBool) -> String {
    if stop.load(Ordering::Relaxed) {
        return "it was interrupted".into();
    }
    let text = fs::read_to_string(errors).unwrap_or_default();
    let lower = text.to_lowercase();
    if ["permission", "perf_event_paranoid", "not permitted"].iter().any(|word| lower.contains(word)) {
        return "perf may not sample here: run as root, or let users do so (sysctl -w kernel.perf_event_paranoid=1 \
                kernel.kptr_restrict=0)"
            .into();
    }
    let said = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
    format!("perf {what} did not work, it said “{said}”: try `perf {what}` by itself")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_may_not_do_is_said_with_what_helps() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expected: &[&str]| {
            let errors = folder.path().join("errors");
            fs::write(&errors, text).unwrap();
            let said = complaint("record", &errors, &AtomicBool::new(false));
            assert!(expected.iter().all(|part| said.contains(part)), "{said}");
        };
        let refused = "Error:\nAccess to performance monitoring and observability operations is limited.\n\
                       Consider adjusting /proc/sys/kernel/perf_event_paranoid setting …\n";
        check(refused, &["run as root", "kernel.perf_event_paranoid=1"]);
        check("No such thing\n\n", &["it said “No such thing”", "try `perf record`"]);
        check("", &["it said “nothing”"]);
    }
}
