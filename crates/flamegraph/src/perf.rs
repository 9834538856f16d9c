//! perf(1), which samples processes by the CPU clock; virtual machines have that clock as well.
//!
//! perf starts a command after it began to sample the given processes, and ends with it. So the command reports its start,
//! and waits for the end of its input, which ends the sampling.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::new_file::create_fresh;
use bytegauge_sys::process::spawn_error_hint;
use bytegauge_sys::{input, program_file};
use bytegauge_traffic::keeper::KeptProgram;

const PERF: &str = "perf";

/// Samples per second of each busy CPU: no multiple of most kernels' tick rate.
const FREQUENCY: &str = "997";

/// The command that perf runs.
const UNTIL_END: &str = "echo sampling; exec cat > /dev/null";

/// Limit of perf's time for any step: resolving the symbols of many samples takes a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often its end is checked.
const ASK: Duration = Duration::from_millis(5);

/// A perf that samples, until it is finished or the user wants to stop.
pub struct Sampling<'a> {
    /// Closing it ends the command that perf runs, and perf with it. It is dropped before perf.
    input: Option<ChildStdin>,
    perf: KeptProgram,
    stop: &'a AtomicBool,
    /// The file of its errors.
    errors: PathBuf,
}

/// Checks that perf is installed, and may sample. `program` is this program's own file.
///
/// # Errors
/// Why not, and what to do.
pub fn tried(program: &Path, folder: &Path) -> Result<(), String> {
    Sampling::of(program, &[std::process::id()], &folder.join("tried"), &AtomicBool::new(false))?.finish()
}

impl Sampling<'_> {
    /// Samples processes and all that they start, from the return of this function on. The samples go to the file `data`.
    /// `program` is this program's own file.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn of<'a>(program: &Path, pids: &[u32], data: &Path, stop: &'a AtomicBool) -> Result<Sampling<'a>, String> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let errors = data.with_extension("errors");
        let mut words = words(&["record", "-e", "cpu-clock", "-F", FREQUENCY, "-g", "-p", &pids.join(","), "-o"]);
        words.push(data.into());
        words.extend(["--", "/bin/sh", "-c", UNTIL_END].map(OsString::from));
        let mut perf = started(program, &words, (Stdio::piped(), Stdio::piped()), &errors)?;
        let (input, output) = (perf.stdin(), perf.stdout());
        let mut sampling = Sampling { perf, input, stop, errors };
        let (sender, receiver) = mpsc::channel();
        let forward = move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines().map_while(Result::ok));
            // All are read, so that the writer never finds the pipe closed.
            lines.for_each(|line| drop(sender.send(line)));
        };
        thread::Builder::new()
            .spawn(forward)
            .map_err(|error| format!("cannot start a thread: {error}{}", spawn_error_hint(&error)))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match receiver.recv_timeout(ASK) {
                Ok(_) => return Ok(sampling),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until && !stop.load(Ordering::Relaxed) => {}
                Err(_) => {
                    sampling.input = None;
                    return Err(complaint("record", &sampling.errors, stop));
                }
            }
        }
    }

    /// Ends it, and waits until everything is written.
    ///
    /// # Errors
    /// The problem that perf reported.
    pub fn finish(self) -> Result<(), String> {
        let Sampling { perf, input, stop, errors } = self;
        drop(input);
        match succeeded(perf, stop) {
            true => Ok(()),
            false => Err(complaint("record", &errors, stop)),
        }
    }
}

/// perf's output for a file of samples: a stack for each. `program` is this program's own file.
///
/// # Errors
/// The problem that perf reported.
pub fn script(program: &Path, data: &Path, stop: &AtomicBool) -> Result<Vec<u8>, String> {
    let (printed, errors) = (data.with_extension("script"), data.with_extension("errors"));
    let out = File::create_new(&printed).map_err(|error| format!("{}: {error}", printed.display()))?;
    // Resolving source lines would take minutes.
    let mut words = words(&["script", "--no-inline", "-i"]);
    words.push(data.into());
    match succeeded(started(program, &words, (Stdio::null(), out.into()), &errors)?, stop) {
        true => input::PERF_SCRIPT.read_bytes(&printed).map_err(|error| format!("{}: {error}", printed.display())),
        false => Err(complaint("script", &errors, stop)),
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    // Without it, a file that does not exist: its name alone would be searched in relative folders too.
    let perf = program_file::find_program(PERF).unwrap_or_else(|| Path::new("/").join(PERF));
    [perf.into_os_string()].into_iter().chain(words.iter().map(OsString::from)).collect()
}

fn started(
    program: &Path,
    words: &[OsString],
    (input, output): (Stdio, Stdio),
    errors: &Path,
) -> Result<KeptProgram, String> {
    let to = create_fresh(errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    KeptProgram::start(program, words, [input, output, to.into()]).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "perf is not installed: install it (Debian: apt-get install linux-perf; Ubuntu: linux-tools-generic)".into()
        }
        _ => format!("perf cannot be started: {error}"),
    })
}

/// Waits for perf to end by itself, and returns whether it succeeded. It is ended when its time is over or `stop` is set.
fn succeeded(mut perf: KeptProgram, stop: &AtomicBool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
        match perf.ends_within(ASK) {
            Ok(true) => return perf.finish().is_ok_and(|status| status.success()),
            Ok(false) => {}
            Err(_) => return false,
        }
    }
    false
}

/// perf's last error, and the usual fix.
fn complaint(what: &str, errors: &Path, stop: &AtomicBool) -> String {
    if stop.load(Ordering::Relaxed) {
        return "it was interrupted".into();
    }
    let text = input::PERF_ERRORS.read(errors).unwrap_or_default();
    let lower = text.to_lowercase();
    if ["permission", "perf_event_paranoid", "not permitted"].iter().any(|word| lower.contains(word)) {
        return "perf may not sample here: run as root, or let users do so (sysctl -w kernel.perf_event_paranoid=1 \
                kernel.kptr_restrict=0)"
            .into();
    }
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
    format!("`perf {what}` failed with “{last}”: run it by itself to see why")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn refusals_of_perf_name_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expected: &[&str]| {
            let errors = folder.path().join("errors");
            fs::write(&errors, text).unwrap();
            let text = complaint("record", &errors, &AtomicBool::new(false));
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        };
        let refused = "Error:\nAccess to performance monitoring and observability operations is limited.\n\
                       Consider adjusting /proc/sys/kernel/perf_event_paranoid setting …\n";
        check(refused, &["run as root", "kernel.perf_event_paranoid=1"]);
        check("No such thing\n\n", &["`perf record` failed with “No such thing”"]);
        check("", &["failed with “nothing”"]);
    }
}
