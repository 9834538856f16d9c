//! A started process: its output as it arrives, and its end.
//!
//! Also whether it may have reached its server.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::children::{self, WaitResult, signal_name};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::cpu_time::Usage;
use bytegauge_sys::io::set_nonblocking;
use bytegauge_sys::network::{self, HeldNetwork, NetworkTables};
use bytegauge_sys::snmp::Counter;

use super::filtered_sockets::FilteredSockets;
use super::output::{ProgramOutput, last_line, last_lines};
use crate::EndError;

/// A program that runs, or has run.
pub(crate) struct Program {
    /// Its name in messages: "the command".
    pub(crate) what: &'static str,
    /// Its process number, which is also that of its group and session.
    pub(crate) pid: u32,
    words: Vec<String>,
    ended: OwnedFd,
    /// How it ended, once it was waited for.
    pub(super) left: Option<(ExitStatus, Usage)>,
    /// Its output and error output; closed ones are removed.
    pipes: [Option<File>; 2],
    printed: [ProgramOutput; 2],
}

/// The first event.
pub(crate) enum ProgramEvent {
    /// The program of this number ended, at this time.
    Ended(usize, u64),
    /// The run is to be stopped.
    StopRequested,
    /// Output arrived, or the time is over.
    Nothing,
}

/// How a program that was waited for ended.
pub(crate) struct Waited {
    pub(super) status: ExitStatus,
    pub(super) used: Usage,
    pub(super) at_ns: u64,
}

/// Where and how a program is started.
#[derive(Default)]
pub(crate) struct StartedIn<'a> {
    /// Whether its output is read; otherwise the kernel discards it. Its error output is always read.
    pub(crate) looks: bool,
    /// Changes its sockets.
    pub(super) filter: Option<&'a FilteredSockets>,
    /// Its network; `None`: that of this process.
    pub(super) network: Option<HeldNetwork>,
}

impl StartedIn<'_> {
    /// As it is, with its output read.
    pub(crate) fn reading() -> Self {
        StartedIn { looks: true, ..StartedIn::default() }
    }
}

/// A program that is traced can be waited for when its tracer has seen its end (ptrace(2)), within this time.
const TRACER_LEAVES: Duration = Duration::from_secs(5);

/// Reads of one pipe at a time: more than it holds by default (64 KiB, pipe(7)).
const READS_MAX: usize = 16;

impl Program {
    /// Starts a program in a session of its own, without a terminal and without input.
    pub(crate) fn start(
        what: &'static str,
        words: &[String],
        cpus: &[usize],
        how: StartedIn<'_>,
    ) -> Result<Program, EndError> {
        let StartedIn { looks, filter, network } = how;
        let Some((first, rest)) = words.split_first() else {
            return Err(EndError::Impossible(format!("{what} has no words")));
        };
        let mut command = Command::new(first);
        let prints = if looks { Stdio::piped() } else { Stdio::null() };
        command.args(rest).stdin(Stdio::null()).stdout(prints).stderr(Stdio::piped());
        children::in_own_session(&mut command, cpus);
        if let Some(network) = network {
            network::run_in(&mut command, &Arc::new(network));
        }
        let pending = filter.map(|filter| filter.prepare(&mut command)).transpose();
        let pending = pending.map_err(EndError::io("preparing the filter of a program"))?;
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                EndError::Program(format!("{what} `{first}` was not found: check its name, or give its whole path"))
            }
            // No other step of the start fails so.
            ErrorKind::ResourceBusy if filter.is_some() => EndError::Missing(
                "this process already runs under a filter that reports calls, and the kernel allows one: start bytegauge outside of \
                 that container or sandbox".into(),
            ),
            _ => EndError::Io { doing: format!("starting {what} `{first}`"), source: error },
        })?;
        let pipe = |end: Option<OwnedFd>| -> Result<Option<File>, EndError> {
            let Some(end) = end else { return Ok(None) };
            set_nonblocking(end.as_fd(), true).map_err(EndError::io("reading a program's output"))?;
            Ok(Some(File::from(end)))
        };
        let pipes = [pipe(child.stdout.take().map(OwnedFd::from))?, pipe(child.stderr.take().map(OwnedFd::from))?];
        // The number stays the child's until it is waited for, so it cannot be another's here.
        let ended = children::watch(child.id()).map_err(EndError::io("watching a program (Linux 5.3)"))?;
        if let (Some(filter), Some(pending)) = (filter, pending) {
            filter.attend(child.id(), pending)?;
        }
        Ok(Program {
            what,
            pid: child.id(),
            words: words.to_vec(),
            ended,
            left: None,
            pipes,
            printed: Default::default(),
        })
    }

    /// Reads the available output, and removes closed channels. A program that prints without a pause does not keep others waiting: the
    /// rest is read at the next call.
    fn read(&mut self) {
        let mut buffer = [0; 65_536];
        for (pipe, output) in self.pipes.iter_mut().zip(&mut self.printed) {
            for _ in 0..READS_MAX {
                let Some(file) = pipe else { break };
                match file.read(&mut buffer) {
                    Ok(0) => *pipe = None,
                    Ok(bytes) => output.take(&buffer[..bytes]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => *pipe = None,
                }
            }
        }
    }

    /// Waits for a program that has ended, and reads the rest of its output. May be called again.
    pub(crate) fn leave(&mut self) -> Result<(ExitStatus, Usage), EndError> {
        self.read();
        if let Some(left) = self.left {
            return Ok(left);
        }
        let until = Instant::now() + TRACER_LEAVES;
        loop {
            match children::reap(Some(self.pid)).map_err(EndError::io("waiting for a program"))? {
                WaitResult::Ended(ended) => return Ok(*self.left.insert((ended.status, ended.used))),
                WaitResult::Alive if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
                WaitResult::Alive | WaitResult::NoChild => {
                    return Err(EndError::Impossible(format!("{} has not ended", self.what)));
                }
            }
        }
    }

    /// All output as text; of long output the last part.
    pub(crate) fn text(&self) -> String {
        self.printed.iter().map(ProgramOutput::text).collect::<Vec<_>>().join("\n")
    }

    /// Its output, without its error output; of long output the last part.
    pub(super) fn output(&self) -> String {
        self.printed[0].text()
    }

    /// ": it printed “…”", or nothing.
    pub(crate) fn last_words(&self) -> String {
        let [out, errors] = &self.printed;
        let words = last_line(&errors.text()).or_else(|| last_line(&out.text()));
        words.map_or_else(String::new, |line| format!(": it printed “{line}”"))
    }

    /// The last lines of its output and error output: ": it printed “…”, “…”", or that it printed nothing.
    pub(super) fn last_lines(&self, max: usize) -> String {
        let lines: Vec<String> = self.printed.iter().flat_map(|output| last_lines(&output.text(), max)).collect();
        let shown = &lines[lines.len().saturating_sub(max)..];
        match shown {
            [] => ": it printed nothing".into(),
            lines => format!(": it printed “{}”", lines.join("”, “")),
        }
    }

    /// The last line of its error output.
    pub(super) fn last_error(&self) -> Option<String> {
        last_line(&self.printed[1].text())
    }

    /// How it ended, as a predicate.
    pub(crate) fn how(&self, status: ExitStatus) -> String {
        let words = self.last_words();
        let asks = ["tty", "terminal"].iter().any(|word| words.to_lowercase().contains(word));
        let hint =
            if asks { " (programs have no terminal here: give it by arguments what it would ask for)" } else { "" };
        let how = match (status.code(), status.signal()) {
            (Some(127), _) if self.words.first().is_some_and(|shell| shell.ends_with("/sh")) => {
                "exited with 127, as a shell does if it does not find a command".into()
            }
            (Some(code), _) => format!("exited with {code}"),
            (_, Some(signal)) => format!("was ended by {}", signal_name(signal)),
            _ => status.to_string(),
        };
        format!("{how}{words}{hint}")
    }

    pub(super) fn must_have_succeeded(&self, waited: &Waited) -> Result<(), EndError> {
        match waited.status.success() {
            true => Ok(()),
            false => Err(EndError::Program(format!("{} {}", self.what, self.how(waited.status)))),
        }
    }
}

/// Waits until one of the programs has ended, the run is to be stopped, something was printed, or the time is over.
pub(crate) fn attend(
    programs: &mut [&mut Program],
    stop_requested: BorrowedFd<'_>,
    until: Instant,
) -> Result<ProgramEvent, EndError> {
    let mut fds: Vec<BorrowedFd<'_>> = vec![stop_requested];
    fds.extend(programs.iter().map(|program| program.ended.as_fd()));
    fds.extend(programs.iter().flat_map(|program| program.pipes.iter().flatten().map(File::as_fd)));
    let patience = until.saturating_duration_since(Instant::now());
    let found = children::wait_any(&fds, patience).map_err(EndError::io("waiting for a program"))?;
    let at_ns = monotonic_ns();
    drop(fds);
    let ended = programs.iter().enumerate().position(|(at, _)| found.get(1 + at) == Some(&true));
    let printed = found.iter().skip(1 + programs.len()).any(|found| *found);
    if printed {
        programs.iter_mut().for_each(|program| program.read());
    }
    Ok(match (found.first(), ended) {
        (_, Some(at)) => ProgramEvent::Ended(at, at_ns),
        (Some(true), None) => ProgramEvent::StopRequested,
        _ => ProgramEvent::Nothing,
    })
}

/// Waits until one of the programs has ended: its number, and when; `None` if the time is over before.
///
/// # Errors
/// If the run is to be stopped.
pub(crate) fn first_to_end(
    programs: &mut [&mut Program],
    stop_requested: BorrowedFd<'_>,
    until: Instant,
) -> Result<Option<(usize, u64)>, EndError> {
    loop {
        match attend(programs, stop_requested, until)? {
            ProgramEvent::Ended(at, at_ns) => return Ok(Some((at, at_ns))),
            ProgramEvent::StopRequested => return Err(EndError::Program("it was stopped".into())),
            ProgramEvent::Nothing if Instant::now() < until => {}
            ProgramEvent::Nothing => return Ok(None),
        }
    }
}

// Whether a command may have reached its server: by the kernel's counts of the network namespace, which see every connection of
// TCP, that of another program too.
//
// Other programs' traffic hides a command that reaches nothing. A command that reaches its server is not taken for one that
// does not: it opens a connection here, or one arrives here, or packets for it are forwarded here, or it uses datagrams. An attempt
// that is refused is counted as opened and as failed (RFC 4022, tcpActiveOpens and tcpAttemptFails).

/// Connections that were opened, attempts that failed, connections that were accepted, packets forwarded to other namespaces, and
/// datagrams.
const COUNTS: [&str; 5] =
    ["Tcp.ActiveOpens", "Tcp.AttemptFails", "Tcp.PassiveOpens", "Ip.ForwDatagrams", "Udp.InDatagrams"];

/// The counts before a command.
pub(super) struct NamespaceCounts(Vec<(Counter, u64)>);

impl NamespaceCounts {
    /// Reads the counts; `None` without one of them.
    pub(super) fn before(tables: NetworkTables) -> Option<NamespaceCounts> {
        let read = |name: &str| {
            let counter = Counter::open(tables, name).ok()?;
            let count = counter.read().ok()?;
            Some((counter, count))
        };
        let mut counts = COUNTS.into_iter().map(read).collect::<Option<Vec<_>>>()?;
        // Datagrams over IPv6 are not counted where the machine has none.
        counts.extend(read("Udp6.InDatagrams"));
        Some(NamespaceCounts(counts))
    }

    /// Counts since then; `None` where one cannot be read.
    fn since(&self) -> Option<Vec<u64>> {
        let since = |(counter, before): &(Counter, u64)| Some(counter.read().ok()?.wrapping_sub(*before));
        self.0.iter().map(since).collect()
    }

    /// Whether an attempt to connect has failed since.
    pub(super) fn has_failed_connection(&self) -> bool {
        matches!(self.since().as_deref(), Some([_, failed, ..]) if *failed > 0)
    }

    /// Whether nothing was counted since but attempts that failed.
    pub(super) fn is_unchanged(&self) -> bool {
        matches!(self.since().as_deref(), Some([opened, failed, others @ ..]) if opened <= failed && others.iter().all(|n| *n == 0))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let before = NamespaceCounts::before(NetworkTables::own()).expect("counts");
        let _client = TcpStream::connect(address).expect("a connection");
        assert!(!before.is_unchanged());
    }
}
