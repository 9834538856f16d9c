//! The TCP sockets of a running program, found in `/proc`, and options that are switched on all of them and set back.
//!
//! A duplicate of a descriptor is closed as soon as it was looked at, since a socket that is held does not send its FIN. Every
//! socket gets back what was read before. One that was accepted meanwhile has the option from its listener, and gets what most
//! connections of its port had: a program that sets an option after accept has it on connections and not on the listener. An
//! option that the program itself has set meanwhile is left alone. Connections that wait to be accepted cannot be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use bytegauge_model::option::{OptionRow, Setter};
use bytegauge_model::{Level, OptionChange, RunningService, Transport};
use bytegauge_sys::option::{self, RECEIVE_BUFFER_FORCE, SEND_BUFFER, SEND_BUFFER_FORCE, Value};
use bytegauge_sys::owner::start_ticks;
use bytegauge_sys::process_descriptor::{addresses, buffer_locks, get, set_buffer_locks, socket_kind};
use bytegauge_sys::tcp_info::{TcpInfo, tcp_info};
use bytegauge_sys::{children, descendants};

use crate::socket_waits::socket_links;
use crate::transport::options;

/// The pause before the next look for connections that were accepted while options were set back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The most of these looks.
const LOOKS_MAX: u32 = 50;

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
    /// `NotFound` if it has ended.
    pub fn open(service: &RunningService) -> io::Result<ServiceSockets> {
        let process = children::watch(service.pid)?;
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
        for pid in descendants::tree(self.service.pid)? {
            if let (false, Ok(process)) = (self.processes.contains_key(&pid), children::watch(pid)) {
                self.processes.insert(pid, process);
            }
        }
        let mut seen = BTreeSet::new();
        for (pid, process) in &self.processes {
            for (link, number) in socket_links(*pid, usize::MAX) {
                if !seen.insert(link) {
                    continue;
                }
                match get(process.as_fd(), number) {
                    Ok(socket) => {
                        let socket = File::from(socket);
                        let inode = socket.metadata()?.ino();
                        self.selected(inode, socket.as_fd()).iter().for_each(&mut *look);
                    }
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                    // It was closed meanwhile, or its process has ended.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The socket, if it is one of TCP that is to be changed.
    fn selected<'a>(&self, inode: u64, fd: BorrowedFd<'a>) -> Option<ServiceSocket<'a>> {
        let transport: Transport = socket_kind(fd).ok()?.transport()?.parse().ok()?;
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

/// An option that is switched.
#[derive(Debug)]
struct SwitchedOption {
    row: &'static OptionRow,
    /// The level to set; without one the present state is set once more.
    level: Option<Level>,
    /// What was read after it was set.
    in_force: Option<OptionState>,
}

impl SwitchedOption {
    /// The bit of `SO_BUF_LOCK` of a buffer (`SOCK_SNDBUF_LOCK`, `SOCK_RCVBUF_LOCK`, linux/socket.h).
    fn lock(&self) -> Option<i32> {
        self.row.doubled.then(|| if self.row.name == SEND_BUFFER.name { 1 } else { 2 })
    }

    fn state(&self, socket: &ServiceSocket<'_>) -> io::Result<OptionState> {
        let value = option::read(socket.fd, options::of_connection(self.row, &socket.transport))?;
        let is_fixed = self.lock().map(|lock| buffer_locks(socket.fd).map(|locks| locks & lock != 0));
        Ok(OptionState { value, is_fixed: is_fixed.transpose().map_err(|error| without_locks(&error))? })
    }

    fn set(&self, socket: &ServiceSocket<'_>, to: &OptionState) -> io::Result<()> {
        let Some((lock, is_fixed)) = self.lock().zip(to.is_fixed) else {
            let known = options::of_connection(self.row, &socket.transport);
            return option::set(socket.fd, &known.to(to.value.clone())).map_err(io::Error::from);
        };
        if self.state(socket)?.value != to.value
            && let Value::Number(bytes) = to.value
        {
            // The kernel doubles the request. A buffer that has grown by itself may exceed what may be requested without
            // privileges; it grows again.
            let force = if lock == 1 { SEND_BUFFER_FORCE } else { RECEIVE_BUFFER_FORCE };
            let known = options::of_connection(self.row, &socket.transport);
            option::set(socket.fd, &force.to(bytes / 2)).or_else(|_| option::set(socket.fd, &known.to(bytes / 2)))?;
        }
        let others = buffer_locks(socket.fd)? & !lock;
        set_buffer_locks(socket.fd, if is_fixed { others | lock } else { others })
    }
}

fn without_locks(error: &io::Error) -> io::Error {
    let reason =
        format!("{error}: a buffer that was set could not grow again: leave it out, or use Linux 5.14 or later");
    io::Error::new(error.kind(), reason)
}

/// The sockets of a running program with options that differ from those before, until they are set back.
#[derive(Debug)]
pub(super) struct SwitchedSockets {
    pub(super) sockets: ServiceSockets,
    options: Vec<SwitchedOption>,
    /// The states before, by socket, in the order of the options.
    before: BTreeMap<u64, Vec<OptionState>>,
    /// What most connections of a port had.
    usual: BTreeMap<u16, Vec<OptionState>>,
    is_switched: bool,
}

impl SwitchedSockets {
    /// Nothing is switched yet. `rows` without a change are set to what they are.
    pub(super) fn new(
        sockets: ServiceSockets,
        changes: &[OptionChange],
        rows: impl Iterator<Item = &'static OptionRow>,
    ) -> SwitchedSockets {
        let mut options: Vec<SwitchedOption> = Vec::new();
        for change in changes {
            options.push(SwitchedOption { row: change.row(), level: change.level.clone(), in_force: None });
        }
        for row in rows.filter(|_| changes.is_empty()) {
            if options.iter().all(|known| known.row.name != row.name) {
                options.push(SwitchedOption { row, level: None, in_force: None });
            }
        }
        let (before, usual) = (BTreeMap::new(), BTreeMap::new());
        SwitchedSockets { sockets, options, before, usual, is_switched: false }
    }

    /// Sets the options on every connection, and on the listeners of these. Returns the number of listeners.
    ///
    /// # Errors
    /// Why an option is not in force, and what to do; or why no socket can be reached.
    pub(super) fn switch(&mut self) -> Result<u64, String> {
        self.is_switched = true;
        let (options, before) = (&mut self.options, &mut self.before);
        let mut by_port: BTreeMap<u16, Vec<Vec<OptionState>>> = BTreeMap::new();
        let mut refused = None;
        let mut set = |socket: &ServiceSocket<'_>| {
            if refused.is_some() {
                return None;
            }
            // Kept before anything is set, so that a refused change of several is set back too.
            let states = options.iter().map(|option| option.state(socket)).collect::<io::Result<Vec<_>>>();
            let states = states.map_err(|error| refused = Some(error.to_string())).ok()?;
            before.insert(socket.inode, states.clone());
            refused = switched(options, socket, &states).err();
            refused.is_none().then_some(states)
        };
        let unreached = |error: io::Error| format!("the sockets of the program cannot be reached: {error}");
        let mut connection = |socket: &ServiceSocket<'_>| {
            if !socket.info.is_listening() {
                by_port.entry(socket.local.port()).or_default().extend(set(socket));
            }
        };
        self.sockets.each(&mut connection).map_err(unreached)?;
        let mut listeners = 0;
        // A listener without a connection shows nothing about what its connections have.
        let mut listener = |socket: &ServiceSocket<'_>| {
            if socket.info.is_listening() && by_port.contains_key(&socket.local.port()) {
                listeners += u64::from(set(socket).is_some());
            }
        };
        self.sockets.each(&mut listener).map_err(unreached)?;
        self.usual = by_port.into_iter().filter_map(|(port, states)| Some((port, usual(&states)?))).collect();
        refused.map_or(Ok(listeners), Err)
    }

    /// Sets everything back. Returns the number of sockets on which that failed.
    pub(super) fn set_back(&mut self) -> u64 {
        self.is_switched = false;
        if self.options.iter().all(|option| option.in_force.is_none()) {
            return 0;
        }
        // New connections get the earlier level from now on.
        self.pass(true);
        for _ in 0..LOOKS_MAX {
            match self.pass(false) {
                (0, failed) => return failed,
                // Others may have been accepted from the listener's queue meanwhile.
                _ => thread::sleep(ACCEPT_PAUSE),
            }
        }
        self.pass(false).1
    }

    /// Sets back what is still switched, on listeners alone or on all sockets: how many were, and how many could not be.
    fn pass(&mut self, of_listeners: bool) -> (u64, u64) {
        let (mut changed, mut failed) = (0, 0);
        let SwitchedSockets { sockets, options, before, usual, .. } = self;
        let mut look = |socket: &ServiceSocket<'_>| {
            let listens = socket.info.is_listening();
            let states = before.get(&socket.inode).or_else(|| usual.get(&socket.local.port()).filter(|_| !listens));
            let Some(states) = states.filter(|_| listens || !of_listeners) else { return };
            for (option, earlier) in options.iter().zip(states) {
                let Ok(present) = option.state(socket) else { continue };
                if option.in_force.as_ref() != Some(&present) || present == *earlier {
                    continue;
                }
                match option.set(socket, earlier) {
                    Ok(()) => changed += 1,
                    Err(_) => failed += 1,
                }
            }
        };
        match sockets.each(&mut look) {
            Ok(()) => (changed, failed),
            // It has ended, with its sockets; or they may not be reached any more.
            Err(error) => (0, failed + u64::from(error.kind() == io::ErrorKind::PermissionDenied)),
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

/// Sets the options on one socket, whose present states are given.
fn switched(options: &mut [SwitchedOption], socket: &ServiceSocket<'_>, states: &[OptionState]) -> Result<(), String> {
    let mut outcome = Ok(());
    for (option, state) in options.iter().zip(states) {
        let set = match &option.level {
            Some(level) => options::change(socket.fd, option.row, level, (Setter::Client, &socket.transport)),
            None => option.set(socket, state).map_err(|error| error.to_string()),
        };
        outcome = outcome.and(set);
    }
    for option in options.iter_mut().filter(|option| option.level.is_some()) {
        option.in_force = option.state(socket).ok();
    }
    outcome
}

/// The most frequent states: of buffers those that are fixed or not, since their sizes differ.
fn usual(of: &[Vec<OptionState>]) -> Option<Vec<OptionState>> {
    let options = 0..of.first()?.len();
    let same = |a: &OptionState, b: &OptionState| match a.is_fixed {
        Some(_) => a.is_fixed == b.is_fixed,
        None => a == b,
    };
    let most = |at: usize| {
        let count = |state: &&OptionState| of.iter().filter(|other| same(state, &other[at])).count();
        of.iter().map(|states| &states[at]).max_by_key(count).cloned()
    };
    options.map(most).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use bytegauge_model::socket_changes::parse;

    use super::*;

    fn states(all: &[(u64, Option<bool>)]) -> Vec<Vec<OptionState>> {
        all.iter().map(|(value, is_fixed)| vec![OptionState { value: (*value).into(), is_fixed: *is_fixed }]).collect()
    }

    #[test]
    fn new_connections_get_the_usual_state() {
        let of = |all: &[(u64, Option<bool>)]| usual(&states(all)).map(|found| found[0].clone());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(1, None), (0, None), (1, None)]), Some(states(&[(1, None)])[0][0].clone()));
        let buffers = [(1, Some(true)), (2, Some(false)), (3, Some(false))];
        assert_eq!(of(&buffers).and_then(|state| state.is_fixed), Some(false));
    }

    /// A service in this process: a listener, an accepted connection, and one that is accepted while options are switched.
    #[test]
    fn every_socket_gets_its_own_level_back() {
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
            listeners: 1,
            trial_ns: 1,
            max_harm: 0.1,
        };
        let nodelay = |socket: &dyn AsFd| option::read(socket.as_fd(), option::NO_DELAY).unwrap();
        let buffer = |socket: &dyn AsFd| option::read(socket.as_fd(), SEND_BUFFER).unwrap();
        let changes = [parse("nodelay=off").unwrap(), parse("sndbuf=16K").unwrap()].concat();
        let before = buffer(&listener);
        let mut switched = SwitchedSockets::new(ServiceSockets::open(&service).unwrap(), &changes, std::iter::empty());
        assert_eq!(switched.switch(), Ok(1));
        assert_eq!([nodelay(&first), buffer(&first)], [Value::Switch(false), Value::Number(32 << 10)]);
        let (_other, second) = accepted();
        assert_eq!(buffer(&second), Value::Number(32 << 10));
        drop(switched);
        assert_eq!([nodelay(&listener), nodelay(&first)], [Value::Switch(false), Value::Switch(true)]);
        assert_eq!(nodelay(&second), Value::Switch(true), "what the connections of the port had");
        assert_eq!(buffer(&listener), before);
        assert!([&first, &second].iter().all(|socket| buffer_locks(socket.as_fd()).unwrap() == 0));
    }
}
