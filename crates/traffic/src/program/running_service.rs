//! A trial of a running program: options are switched on its sockets, the kernel's counts are read at both ends of the trial, and
//! the options are set back.
//!
//! Nothing outlasts a trial, however it ends: by its time, an interrupt, the kill of the process that measures, or a refusal by
//! the kernel. A trial of the program as it is sets the present levels once more, so that switching costs both the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use bytegauge_model::option::Switching;
use bytegauge_model::{
    EndCounts, EndReport, Level, Metric, OptionChange, RunningService, ServiceCounts, SocketChanges, TaskReport,
};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::{children, process_tree};

use super::output::{AskedNumber, Events};
use crate::EndError;
use crate::setup::Setup;

use super::service_options::SwitchedSockets;
pub use super::service_options::{ServiceRecord, ServiceSocket, ServiceSockets};

/// The first part of a trial, which is not measured: this number of round trips, within these times.
const SETTLE_TRIPS: u32 = 10;
const SETTLE_MIN: Duration = Duration::from_millis(100);
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// The same is longer by this factor where an option has effects that last.
const SETTLE_MEMORY: u32 = 5;

/// The only session that changes a process, or its only trial: an abstract address that the kernel releases when its owner ends.
#[derive(Debug)]
pub struct ServiceLock {
    _held: UnixListener,
}

impl ServiceLock {
    /// Of a session.
    ///
    /// # Errors
    /// `AddrInUse` while another session changes the process.
    pub fn of_session(pid: u32) -> io::Result<ServiceLock> {
        ServiceLock::take(&format!("bytegauge-tune-{pid}"))
    }

    /// Of a trial, which may outlive its session by the time in which it sets options back.
    ///
    /// # Errors
    /// `AddrInUse` during another one.
    pub fn of_trial(pid: u32) -> io::Result<ServiceLock> {
        ServiceLock::take(&format!("bytegauge-tune-{pid}-trial"))
    }

    fn take(name: &str) -> io::Result<ServiceLock> {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?).map(|held| ServiceLock { _held: held })
    }
}

/// Runs a trial of the running program in `changes`.
pub(super) fn run(
    setup: &Setup,
    metric: &Metric,
    changes: &SocketChanges,
    stop_requested: BorrowedFd<'_>,
) -> Result<EndReport, EndError> {
    let Some(service) = &changes.service else { return Err(EndError::Impossible("no running program".into())) };
    let _lock =
        ServiceLock::of_trial(service.pid).map_err(EndError::io("changing a program that another trial changes"))?;
    let ended = |error: io::Error| lost(format!("{service} cannot be changed any more: it has ended ({error})"));
    let sockets = ServiceSockets::open(service).map_err(ended)?;
    let value = setup.spec.value().unwrap_or(Level::Absent);
    let switched = &changes.options_of(&value);
    let rows = changes.options().map(OptionChange::row);
    let trial = ServiceTrial { service, metric, stop_requested, settle: settle_factor(changes) };
    let mut sockets = SwitchedSockets::new(sockets, switched, rows);
    let measured = trial.measure(&mut sockets);
    match sockets.set_back() {
        0 => measured,
        failed => Err(lost(format!(
            "{failed} sockets of {service} could not be set back from {}: restart the program",
            switched.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// The same in all trials of a session, so that both sides are measured alike.
fn settle_factor(changes: &SocketChanges) -> u32 {
    let lasts = changes.options().any(|change| change.row().switching == Switching::Lasts);
    if lasts { SETTLE_MEMORY } else { 1 }
}

/// An error after which no other trial can be made.
fn lost(reason: String) -> EndError {
    EndError::Unserved(reason, Box::new(TaskReport { service_lost: true, ..TaskReport::default() }))
}

struct ServiceTrial<'a> {
    service: &'a RunningService,
    metric: &'a Metric,
    stop_requested: BorrowedFd<'a>,
    settle: u32,
}

impl ServiceTrial<'_> {
    fn measure(&self, switched: &mut SwitchedSockets) -> Result<EndReport, EndError> {
        switched.switch().map_err(EndError::Missing)?;
        let sockets = &mut switched.sockets;
        let trip = Duration::from_micros(Moment::read(self.service, sockets)?.rtt_us());
        let settle = (trip * SETTLE_TRIPS).clamp(SETTLE_MIN, SETTLE_MAX);
        self.wait(sockets, settle * self.settle)?;
        let events = Events::of(self.metric, NetworkTables::own())?;
        let asked = AskedNumber::before(self.metric, None, self.stop_requested)?;
        let (before, events_before) = (Moment::read(self.service, sockets)?, events.read()?);
        self.wait(sockets, Duration::from_nanos(self.service.trial_ns))?;
        let (after, events) = (Moment::read(self.service, sockets)?, events.since(events_before)?);
        let counts = after.since(&before, |inode| switched.has_changed(inode));
        self.check(&counts)?;
        let window_ns = after.at_ns - before.at_ns;
        let rate = match (self.metric, asked) {
            (_, Some(asked)) => asked.rate(None, self.stop_requested)?,
            (Metric::Counter(_), _) => 1e6 / (1.0 + events.unwrap_or(0) as f64 / counts.gib()),
            (Metric::Cpu, _) => counts.gib() * 1e9 / counts.cpu_ns.max(1) as f64,
            _ => counts.gib() * 1e9 / window_ns as f64,
        };
        let counted = self.metric.counted();
        let task = TaskReport { rate, counted, events, service: Some(Box::new(counts)), ..TaskReport::default() };
        let (bytes, cpu_ns) = (counts.bytes, counts.cpu_ns);
        let counts = EndCounts { bytes, total_bytes: bytes, calls: 1, window_ns, cpu_ns, ..EndCounts::default() };
        Ok(EndReport { counts, task: Some(Box::new(task)), ..EndReport::default() })
    }

    /// Waits, unless the session or the program ends.
    fn wait(&self, sockets: &ServiceSockets, time: Duration) -> Result<(), EndError> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let ready = children::wait_any(&[self.stop_requested, sockets.process()], left);
            match ready.map_err(EndError::io("waiting for the end of a trial"))?[..] {
                [true, _] => return Err(EndError::Program("it was stopped".into())),
                [_, true] => return Err(lost(format!("{} has ended", self.service))),
                _ => {}
            }
        }
    }

    /// Refuses a trial that shows nothing.
    fn check(&self, counts: &ServiceCounts) -> Result<(), EndError> {
        let service = self.service;
        let ServiceCounts { connections, new, ended, .. } = *counts;
        if counts.bytes == 0 {
            let open = connections + ended;
            return Err(EndError::Program(format!(
                "no byte was moved by the {open} connections of {service}: tune it while it has work to do"
            )));
        }
        let whole = connections - new;
        if ended.max(new) > whole {
            return Err(EndError::Program(format!(
                "{new} connections of {service} began in a trial, {ended} ended, and {whole} were open throughout, so most are not \
                 compared: tune a program with longer connections, or start it (bytegauge tune --start)"
            )));
        }
        Ok(())
    }
}

/// The counts of all connections at one moment.
struct Moment {
    at_ns: u64,
    cpu_ns: u64,
    /// Bytes and repeated segments, by connection.
    connections: BTreeMap<u64, [u64; 2]>,
    /// Round-trip times, in order.
    trips_us: Vec<u64>,
}

impl Moment {
    fn read(service: &RunningService, sockets: &mut ServiceSockets) -> Result<Moment, EndError> {
        let unread = EndError::io("reading the CPU time of a running program");
        let cpu_ns = process_tree::used_by(&BTreeSet::from([service.pid])).map_err(unread)?.cpu_ns;
        let mut moment = Moment { at_ns: monotonic_ns(), cpu_ns, connections: BTreeMap::new(), trips_us: Vec::new() };
        let mut look = |socket: &ServiceSocket<'_>| {
            let info = &socket.info;
            if !info.is_listening() {
                let bytes = info.bytes_acked.unwrap_or(0) + info.bytes_received.unwrap_or(0);
                moment.connections.insert(socket.inode, [bytes, info.total_retrans.unwrap_or(0).into()]);
                moment.trips_us.extend(info.rtt_us.map(u64::from));
            }
        };
        sockets.each(&mut look).map_err(EndError::io("reading the sockets of a running program"))?;
        moment.trips_us.sort_unstable();
        Ok(moment)
    }

    /// The median.
    fn rtt_us(&self) -> u64 {
        self.trips_us.get(self.trips_us.len() / 2).copied().unwrap_or(0)
    }

    /// The counts between two moments; a connection without the options of the trial is new.
    fn since(&self, before: &Moment, is_old: impl Fn(u64) -> bool) -> ServiceCounts {
        let mut counts = ServiceCounts {
            connections: self.connections.len() as u64,
            ended: before.connections.keys().filter(|inode| !self.connections.contains_key(inode)).count() as u64,
            rtt_us: self.rtt_us(),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            ..ServiceCounts::default()
        };
        for (inode, [bytes, repeated]) in &self.connections {
            let earlier = before.connections.get(inode);
            counts.new += u64::from(!is_old(*inode));
            let [bytes_before, repeated_before] = earlier.copied().unwrap_or_default();
            counts.bytes += bytes.saturating_sub(bytes_before);
            counts.retransmitted += repeated.saturating_sub(repeated_before);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(cpu_ns: u64, connections: &[(u64, [u64; 2])]) -> Moment {
        Moment { at_ns: 0, cpu_ns, connections: connections.iter().copied().collect(), trips_us: vec![1, 5, 9] }
    }

    #[test]
    fn counts_are_of_one_trial() {
        let before = moment(10, &[(1, [100, 1]), (2, [7, 0])]);
        let counts = moment(40, &[(1, [150, 3]), (3, [20, 0])]).since(&before, |inode| inode < 3);
        let expected =
            ServiceCounts { connections: 2, new: 1, ended: 1, bytes: 70, retransmitted: 2, rtt_us: 5, cpu_ns: 30 };
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_process_has_one_session_and_one_trial() {
        let pid = std::process::id();
        let held = (ServiceLock::of_session(pid).unwrap(), ServiceLock::of_trial(pid).unwrap());
        let taken = ServiceLock::of_session(pid).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(ServiceLock::of_trial(pid).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(held);
        assert!(ServiceLock::of_session(pid).is_ok());
    }
}
