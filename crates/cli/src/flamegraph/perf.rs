//! perf(1), told to sample processes by the CPU's clock, which virtual machines have as well.
//!
//! perf begins a command only once it samples the processes that it was told, and ends with it: so a command that says that it
//! has begun, and waits for the end of its input, is how to know the first and to ask for the second.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::input;
use bytegauge_traffic::keeper::Kept;

const PERF: &str = "perf";

/// Samples a second of each CPU that is busy: beside the ticks of most kernels, not with them.
const FREQUENCY: &str = "997";

/// The command that perf runs.
const UNTIL_TOLD: &str = "echo sampling; exec cat > /dev/null";

/// How long perf may take for anything: many samples take a while to be named.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked whether it has ended.
const ASK: Duration = Duration::from_millis(5);

/// A perf that samples, until it is finished or the user wants to stop.
pub struct Sampling<'a> {
    /// Closing it ends the command that perf runs, and perf with it. It is dropped before perf is.
    input: Option<ChildStdin>,
    perf: Kept,
    stop: &'a AtomicBool,
    /// Where its errors go.
    errors: PathBuf,
}

/// Whether perf is here, and may sample. `program` is this program's own file.
///
/// # Errors
/// Why not, and what to do.
pub fn tried(program: &Path, folder: &Path) -> Result<(), String> {
    Sampling::of(program, &[std::process::id()], &folder.join("tried"), &AtomicBool::new(false))?.finish()
}

impl Sampling<'_> {
    /// Samples processes and everything that they start, from when this returns. The samples go to the file `data`.
    /// `program` is this program's own file.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn of<'a>(program: &Path, pids: &[u32], data: &Path, stop: &'a AtomicBool) -> Result<Sampling<'a>, String> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let errors = data.with_extension("errors");
        let mut words = words(&["record", "-e", "cpu-clock", "-F", FREQUENCY, "-g", "-p", &pids.join(","), "-o"]);
        words.push(data.into());
        words.extend(["--", "sh", "-c", UNTIL_TOLD].map(OsString::from));
        let mut perf = started(program, &words, (Stdio::piped(), Stdio::piped()), &errors)?;
        let (input, said) = (perf.stdin(), perf.stdout());
        let mut sampling = Sampling { perf, input, stop, errors };
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let lines = said.into_iter().flat_map(|said| BufReader::new(said).lines().map_while(Result::ok));
            // All are read, so that the writer never finds the pipe closed.
            lines.for_each(|line| drop(tell.send(line)));
        });
        let until = Instant::now() + PATIENCE;
        loop {
            match told.recv_timeout(ASK) {
                Ok(_) => return Ok(sampling),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until && !stop.load(Ordering::Relaxed) => {}
                Err(_) => {
                    sampling.input = None;
                    return Err(complaint("record", &sampling.errors, stop));
                }
            }
        }
    }

    /// Ends it, and waits until all is written.
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

/// What perf prints of a file of samples: a stack for each. `program` is this program's own file.
///
/// # Errors
/// The problem that perf reported.
pub fn script(program: &Path, data: &Path, stop: &AtomicBool) -> Result<Vec<u8>, String> {
    let (printed, errors) = (data.with_extension("script"), data.with_extension("errors"));
    let out = File::create(&printed).map_err(|error| format!("{}: {error}", printed.display()))?;
    // Lines of source would take minutes.
    let mut words = words(&["script", "--no-inline", "-i"]);
    words.push(data.into());
    match succeeded(started(program, &words, (Stdio::null(), out.into()), &errors)?, stop) {
        true => input::PERF_SCRIPT.read_bytes(&printed).map_err(|error| format!("{}: {error}", printed.display())),
        false => Err(complaint("script", &errors, stop)),
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    [PERF].iter().chain(words).map(OsString::from).collect()
}

fn started(program: &Path, words: &[OsString], (input, output): (Stdio, Stdio), errors: &Path) -> Result<Kept, String> {
    let to = File::create(errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    Kept::start(program, words, [input, output, to.into()]).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "perf is not installed: install it (Debian: apt-get install linux-perf; Ubuntu: linux-tools-generic)".into()
        }
        _ => format!("perf cannot be started: {error}"),
    })
}

/// Waits for perf to end by itself, and says whether it succeeded. It is ended when its time is over or `stop` is set.
fn succeeded(mut perf: Kept, stop: &AtomicBool) -> bool {
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

/// What perf said last, and what usually helps.
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
    let said = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
    format!("perf {what} did not work, it said “{said}”: try `perf {what}` by itself")
}

#[cfg(test)]
mod tests {
    use std::fs;

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
