//! The TCP connections of a running program, found in `/proc`, and options that are switched on all of them and set back.
//!
//! A duplicate of a descriptor is closed as soon as it was looked at, since a socket that is held does not send its FIN. Every
//! connection gets back what was read before. Listeners are never changed: a connection that waits to be accepted has its
//! listener's options and cannot be reached, so it would keep them. An option that the program itself has set meanwhile is left
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{fs, io};

use bytegauge_model::option::OptionRow;
use bytegauge_model::{EndRole, Level, OptionChange, RunningService, SocketChanges, Transport};
use bytegauge_sys::option::{self, RECEIVE_BUFFER_FORCE, SEND_BUFFER, SEND_BUFFER_FORCE, Value};
use bytegauge_sys::owner::start_ticks;
use bytegauge_sys::process_descriptor::{addresses, buffer_locks, get, set_buffer_locks, transport_of};
use bytegauge_sys::tcp_info::{TcpInfo, tcp_info};
use bytegauge_sys::{children, listening, process_tree};

use crate::transport::options;
use crate::wait_sampler::socket_links;

/// The sockets of a process and its descendants.
#[derive(Debug)]
pub struct ServiceSockets {
    service: RunningService,
    /// Every process that was seen: one that leaves the tree is still reached.
    processes: BTreeMap<u32, OwnedFd>,
}

/// A socket at the moment when it is looked at.
#[derive(Debug)]
pub struct ServiceSocket<'a> {
    /// Its number in the kernel.
    pub inode: u64,
    /// `tcp` or `tcp6`.
    pub transport: Transport,
    /// Its own address.
    pub local: SocketAddr,
    /// The address of the other end of a connection.
    pub peer: Option<SocketAddr>,
    /// The kernel's counts.
    pub info: TcpInfo,
    fd: BorrowedFd<'a>,
}

impl ServiceSocket<'_> {
    /// The level in force; `None` if the kernel does not report it.
    pub fn level(&self, row: &OptionRow) -> Option<Level> {
        options::present(self.fd, row, &self.transport)
    }
}

impl ServiceSockets {
    /// Finds the process.
    ///
    /// # Errors
    /// `NotFound` if it has ended, `PermissionDenied` if this user may not see its descriptors.
    pub fn open(service: &RunningService) -> io::Result<ServiceSockets> {
        let process = children::watch(service.pid)?;
        fs::read_dir(format!("/proc/{}/fd", service.pid))?;
        if start_ticks(service.pid) != Some(service.start_ticks) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(ServiceSockets { service: service.clone(), processes: BTreeMap::from([(service.pid, process)]) })
    }

    /// The first process; it is readable when that has ended.
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.processes[&self.service.pid].as_fd()
    }

    /// Looks at each selected socket once.
    ///
    /// # Errors
    /// `PermissionDenied` if the descriptors of a process may not be duplicated.
    pub fn each(&mut self, look: &mut dyn FnMut(&ServiceSocket<'_>)) -> io::Result<()> {
        self.add(process_tree::tree(self.service.pid)?)?;
        let mut known = BTreeSet::new();
        for (pid, process) in &self.processes {
            for (link, number) in socket_links(*pid, usize::MAX) {
                let Some(inode) = inode(&link).filter(|inode| known.insert(*inode)) else { continue };
                match get(process.as_fd(), number) {
                    Ok(socket) => self.selected(inode, socket.as_fd()).iter().for_each(&mut *look),
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                    // It was closed meanwhile, or its process has ended.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Reaches processes from now on, and forgets those that have ended.
    fn add(&mut self, pids: impl IntoIterator<Item = u32>) -> io::Result<()> {
        let watched: Vec<BorrowedFd<'_>> = self.processes.values().map(AsFd::as_fd).collect();
        let mut has_ended = children::wait_any(&watched, Duration::ZERO)?.into_iter();
        let first = self.service.pid;
        self.processes.retain(|pid, _| !has_ended.next().unwrap_or(false) || *pid == first);
        for pid in pids {
            if let (false, Ok(process)) = (self.processes.contains_key(&pid), children::watch(pid)) {
                self.processes.insert(pid, process);
            }
        }
        Ok(())
    }

    /// The socket, if it is one of TCP that is to be changed.
    fn selected<'a>(&self, inode: u64, fd: BorrowedFd<'a>) -> Option<ServiceSocket<'a>> {
        let transport: Transport = transport_of(fd)?.parse().ok()?;
        let info = tcp_info(fd).ok().filter(|info| transport.is_tcp() && !info.is_closed())?;
        let (local, peer) = addresses(fd);
        let local = local.filter(|local| self.service.port.is_none_or(|port| local.port() == port))?;
        let is_with_peer = |wanted| peer.is_some_and(|peer| peer.ip().to_canonical() == wanted);
        self.service.peer.is_none_or(is_with_peer).then_some(ServiceSocket { inode, transport, local, peer, info, fd })
    }
}

/// An option as it is on a socket.
#[derive(Clone, Debug, PartialEq)]
struct OptionState {
    value: Value,
    /// Whether a buffer has been fixed, and does not grow by itself.
    is_fixed: Option<bool>,
}

impl OptionState {
    /// The same: a buffer that grows by itself has no size of its own.
    fn is_as(&self, other: &OptionState) -> bool {
        self.is_fixed == other.is_fixed && (self.is_fixed == Some(false) || self.value == other.value)
    }
}

/// An option that is switched.
#[derive(Debug)]
struct SwitchedOption {
    row: &'static OptionRow,
    /// The level to set; without one the present state is set once more.
    level: Option<Level>,
}

/// An option of one socket in a trial.
#[derive(Debug)]
struct SwitchedState {
    /// Before the trial.
    before: OptionState,
    /// What was read after it was set to a level.
    in_force: Option<OptionState>,
}

impl SwitchedOption {
    /// The bit of `SO_BUF_LOCK` of a buffer (`SOCK_SNDBUF_LOCK`, `SOCK_RCVBUF_LOCK`, linux/socket.h).
    fn lock(&self) -> Option<i32> {
        self.row.doubled.then(|| if self.row.name == SEND_BUFFER.name { 1 } else { 2 })
    }

    fn state(&self, socket: &ServiceSocket<'_>) -> io::Result<OptionState> {
        let value = option::read(socket.fd, options::known(self.row, EndRole::Client, &socket.transport))?;
        let is_fixed = self.lock().map(|lock| buffer_locks(socket.fd).map(|locks| locks & lock != 0));
        Ok(OptionState { value, is_fixed: is_fixed.transpose()? })
    }

    fn set(&self, socket: &ServiceSocket<'_>, to: &OptionState) -> io::Result<()> {
        let Some((lock, is_fixed)) = self.lock().zip(to.is_fixed) else {
            let known = options::known(self.row, EndRole::Client, &socket.transport);
            return option::set(socket.fd, &known.to(to.value.clone())).map_err(io::Error::from);
        };
        if self.state(socket)?.value != to.value
            && let Value::Number(bytes) = to.value
        {
            // The kernel doubles the request. A buffer that has grown by itself may exceed what may be requested without
            // privileges; it grows again.
            let force = if lock == 1 { SEND_BUFFER_FORCE } else { RECEIVE_BUFFER_FORCE };
            let known = options::known(self.row, EndRole::Client, &socket.transport);
            option::set(socket.fd, &force.to(bytes / 2)).or_else(|_| option::set(socket.fd, &known.to(bytes / 2)))?;
        }
        let others = buffer_locks(socket.fd)? & !lock;
        set_buffer_locks(socket.fd, if is_fixed { others | lock } else { others })
    }
}

/// The connections of a running program with options that differ from those before, until they are set back.
#[derive(Debug)]
pub(super) struct SwitchedSockets {
    pub(super) sockets: ServiceSockets,
    options: Vec<SwitchedOption>,
    /// The states by socket, in the order of the options.
    states: BTreeMap<u64, Vec<SwitchedState>>,
    is_switched: bool,
}

impl SwitchedSockets {
    /// Nothing is switched yet. `rows` without a change are set to what they are.
    pub(super) fn new(
        sockets: ServiceSockets,
        changes: &[OptionChange],
        rows: impl Iterator<Item = &'static OptionRow>,
    ) -> SwitchedSockets {
        let switched = |change: &OptionChange| SwitchedOption { row: change.row(), level: change.level.clone() };
        let mut options: Vec<SwitchedOption> = changes.iter().map(switched).collect();
        for row in rows.filter(|_| changes.is_empty()) {
            if options.iter().all(|known| known.row.name != row.name) {
                options.push(SwitchedOption { row, level: None });
            }
        }
        SwitchedSockets { sockets, options, states: BTreeMap::new(), is_switched: false }
    }

    /// Sets the options on every connection.
    ///
    /// # Errors
    /// Why an option is not in force, and what to do; or why no socket can be reached.
    pub(super) fn switch(&mut self) -> Result<(), String> {
        self.is_switched = true;
        let (options, known) = (&self.options, &mut self.states);
        let mut outcome = Ok(());
        let mut set = |socket: &ServiceSocket<'_>| {
            if socket.info.is_listening() || outcome.is_err() {
                return;
            }
            // Kept before anything is set, so that a refused change of several is set back too.
            outcome = states(options, socket).map_err(|error| error.to_string()).and_then(|mut states| {
                let set = switched(options, socket, &mut states);
                known.insert(socket.inode, states);
                set
            });
        };
        let reached = self.sockets.each(&mut set);
        reached.map_err(|error| format!("the sockets of the program cannot be reached: {error}"))?;
        outcome
    }

    /// Whether a socket was switched.
    pub(super) fn has_changed(&self, inode: u64) -> bool {
        self.states.contains_key(&inode)
    }

    /// Sets everything back that is as it was switched. Returns the number of sockets on which that failed.
    pub(super) fn set_back(&mut self) -> u64 {
        self.is_switched = false;
        match self.states.values().flatten().all(|state| state.in_force.is_none()) {
            true => 0,
            false => self.restore(|state, present| state.in_force.as_ref() == Some(present)),
        }
    }

    /// Sets back what differs from the states before, where `is_ours` holds for the present state: on how many sockets that failed.
    fn restore(&mut self, is_ours: impl Fn(&SwitchedState, &OptionState) -> bool) -> u64 {
        let mut left: BTreeSet<u64> = self.states.keys().copied().collect();
        let failed = self.restore_found(&is_ours, &mut left);
        if left.is_empty() {
            return failed;
        }
        // They were closed, or are held by a process that has left the tree.
        let links = left.iter().map(|inode| format!("socket:[{inode}]")).collect();
        match self.sockets.add(listening::of(&links).into_values().flatten()) {
            Ok(()) => failed + self.restore_found(&is_ours, &mut left),
            Err(_) => failed + 1,
        }
    }

    /// Does it on the connections in `left` that are found, and removes them from it.
    fn restore_found(
        &mut self,
        is_ours: &impl Fn(&SwitchedState, &OptionState) -> bool,
        left: &mut BTreeSet<u64>,
    ) -> u64 {
        let SwitchedSockets { sockets, options, states, .. } = self;
        let mut failed = 0;
        let mut look = |socket: &ServiceSocket<'_>| {
            let Some(states) = states.get(&socket.inode).filter(|_| left.remove(&socket.inode)) else { return };
            for (option, state) in options.iter().zip(states) {
                let Ok(present) = option.state(socket) else { continue };
                if is_ours(state, &present) && !present.is_as(&state.before) {
                    failed += u64::from(option.set(socket, &state.before).is_err());
                }
            }
        };
        match sockets.each(&mut look) {
            Ok(()) => failed,
            // It has ended, with its sockets; or they may not be reached any more.
            Err(error) => failed + u64::from(error.kind() == io::ErrorKind::PermissionDenied),
        }
    }
}

impl Drop for SwitchedSockets {
    fn drop(&mut self) {
        if self.is_switched {
            self.set_back();
        }
    }
}

/// The connections of a running program as they were before a trial, for a trial that is killed before it sets them back.
#[derive(Debug)]
pub struct ServiceRecord(SwitchedSockets);

impl ServiceRecord {
    /// Of the options that a session changes. Nothing is read yet.
    ///
    /// # Errors
    /// `NotFound` if the program has ended.
    pub fn new(service: &RunningService, changes: &SocketChanges) -> io::Result<ServiceRecord> {
        let sockets = ServiceSockets::open(service)?;
        let rows = changes.options().map(OptionChange::row);
        Ok(ServiceRecord(SwitchedSockets::new(sockets, &[], rows)))
    }

    /// Keeps the present states.
    ///
    /// # Errors
    /// `PermissionDenied` if the descriptors of a process may not be duplicated.
    pub fn update(&mut self) -> io::Result<()> {
        let SwitchedSockets { sockets, options, states: known, .. } = &mut self.0;
        known.clear();
        sockets.each(&mut |socket| {
            if let (false, Ok(states)) = (socket.info.is_listening(), states(options, socket)) {
                known.insert(socket.inode, states);
            }
        })
    }

    /// Sets back whatever differs. Returns the number of sockets on which that failed, or which may have been changed and are
    /// newer than the record.
    pub fn restore(&mut self) -> u64 {
        let mut left = self.0.restore(|_, _| true);
        let SwitchedSockets { sockets, states, .. } = &mut self.0;
        let looked = sockets.each(&mut |socket| {
            left += u64::from(!socket.info.is_listening() && !states.contains_key(&socket.inode));
        });
        // A program that has ended has none.
        left + u64::from(looked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied))
    }
}

/// The number of a socket, from its name in `/proc/PID/fd`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The present states of a socket.
fn states(options: &[SwitchedOption], socket: &ServiceSocket<'_>) -> io::Result<Vec<SwitchedState>> {
    let state = |option: &SwitchedOption| Ok(SwitchedState { before: option.state(socket)?, in_force: None });
    options.iter().map(state).collect()
}

/// Sets the options on one socket, whose present states are given, and adds those in force.
fn switched(
    options: &[SwitchedOption],
    socket: &ServiceSocket<'_>,
    states: &mut [SwitchedState],
) -> Result<(), String> {
    let mut outcome = Ok(());
    for (option, state) in options.iter().zip(states.iter()) {
        let set = match &option.level {
            Some(level) => options::change(socket.fd, option.row, level, (EndRole::Client, &socket.transport)),
            None => option.set(socket, &state.before).map_err(|error| error.to_string()),
        };
        outcome = outcome.and(set);
    }
    for (option, state) in options.iter().zip(states).filter(|(option, _)| option.level.is_some()) {
        state.in_force = option.state(socket).ok();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use bytegauge_model::socket_changes::parse;

    use super::*;

    /// This process as a service: a listener, an accepted connection, and one that waits to be accepted.
    #[test]
    fn every_connection_gets_its_own_level_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = || (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
        let (_client, first) = accepted();
        // As a program that sets it after accept.
        first.set_nodelay(true).unwrap();
        let pid = std::process::id();
        let service = RunningService {
            pid,
            start_ticks: start_ticks(pid).unwrap(),
            name: "test".into(),
            port: Some(address.port()),
            peer: None,
            connections: 1,
            is_local: true,
            trial_ns: 1,
            max_harm: 0.1,
        };
        let nodelay = |socket: &dyn AsFd| option::read(socket.as_fd(), option::NO_DELAY).unwrap();
        let buffer = |socket: &dyn AsFd| option::read(socket.as_fd(), SEND_BUFFER).unwrap();
        let changes = [parse("nodelay=off").unwrap(), parse("sndbuf=16K").unwrap()].concat();
        let switched = || {
            let sockets = ServiceSockets::open(&service).unwrap();
            let mut switched = SwitchedSockets::new(sockets, &changes, std::iter::empty());
            assert_eq!(switched.switch(), Ok(()));
            assert_eq!([nodelay(&first), buffer(&first)], [Value::Switch(false), Value::Number(32 << 10)]);
            switched
        };
        let set = SocketChanges {
            by_value: [("a".to_owned(), changes.iter().cloned().map(Into::into).collect())].into(),
            ..SocketChanges::default()
        };
        let mut record = ServiceRecord::new(&service, &set).unwrap();
        record.update().unwrap();
        let is_back = || {
            assert_eq!(nodelay(&first), Value::Switch(true));
            assert_eq!(buffer_locks(first.as_fd()).unwrap(), 0);
        };
        let trial = switched();
        let waiting = TcpStream::connect(address).unwrap();
        drop(trial);
        is_back();
        let second = listener.accept().unwrap().0;
        assert_eq!((nodelay(&second), buffer_locks(second.as_fd()).unwrap()), (Value::Switch(false), 0));
        drop(waiting);
        // A trial that is killed sets nothing back.
        std::mem::forget(switched());
        assert_eq!(record.restore(), 1, "the second connection is newer than the record");
        is_back();
    }
}
