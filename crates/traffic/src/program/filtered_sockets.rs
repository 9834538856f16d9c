//! Sets options on the sockets of a program from outside, at the moment when it connects or listens.
//!
//! A filter in the program (`sys::seccomp`) reports these calls; a thread of this process sets the options, reads them back,
//! and lets the calls be carried out. Before connect(2) and listen(2) is early enough for everything that the handshake
//! settles, and accepted TCP connections inherit from their listening socket. The program's own setsockopt(2) of a changed
//! option succeeds and does nothing.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use bytegauge_model::option::{OPTIONS, OptionRow, ValueForm};
use bytegauge_model::sockets_seen::{OpenedSocket, Opening, OwnOption};
use bytegauge_model::{EndRole, Level, OptionChange, SocketsSeen, Transport};
use bytegauge_sys::option::KernelOption;
use bytegauge_sys::process_descriptor::transport_of;
use bytegauge_sys::process_tree;
use bytegauge_sys::seccomp::{FilterListener, PendingListener, ReportedCall, SocketCall, SocketFilter};

use crate::transport::options;
use crate::wait_sampler::{WaitSampler, each_connection};
use crate::{EndError, lock};

/// The options that replace others in the kernel: the program's own call of either is removed.
const FORCED: [(&str, KernelOption); 2] =
    [("sndbuf", bytegauge_sys::option::SEND_BUFFER_FORCE), ("rcvbuf", bytegauge_sys::option::RECEIVE_BUFFER_FORCE)];

/// How often connections are sampled: several times in a delayed acknowledgement, 40 ms.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// The pause after a sample, as a multiple of the time that it took: many connections take milliseconds.
const SAMPLE_REST: u32 = 4;

/// The most connections of a process that are sampled.
const CONNECTIONS: usize = 32;

/// The sockets of one program and of all that it starts.
pub(super) struct FilteredSockets {
    changes: Vec<OptionChange>,
    watches: bool,
    seen: Arc<Mutex<SocketsSeen>>,
}

impl FilteredSockets {
    /// With these changes; `watches` reports the options that the program sets itself.
    pub(super) fn new(changes: Vec<OptionChange>, watches: bool) -> FilteredSockets {
        FilteredSockets { changes, watches, seen: Arc::default() }
    }

    /// Lets the program that `command` will start run under the filter.
    pub(super) fn prepare(&self, command: &mut Command) -> io::Result<PendingListener> {
        let setters = |change: &OptionChange| {
            let row = change.row();
            let forced = FORCED.iter().filter(|(factor, _)| *factor == row.factor).map(|(_, option)| *option);
            options::variants(row).into_iter().chain(forced).collect::<Vec<_>>()
        };
        let ignored = self.changes.iter().flat_map(setters).collect();
        SocketFilter { ignored, reports_options: self.watches }.install_in(command)
    }

    /// Answers the calls of a program that was started, until it and all that it started have ended.
    pub(super) fn attend(&self, pid: u32, pending: PendingListener) -> Result<(), EndError> {
        let listener = pending.receive().map_err(EndError::io("receiving the filter of a program"))?;
        let (changes, seen) = (self.changes.clone(), Arc::clone(&self.seen));
        let ended = Arc::new(AtomicBool::new(false));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let started = thread::Builder::new().name(name.into()).spawn(work);
            started.map(drop).map_err(EndError::io("starting a thread that watches sockets"))
        };
        if self.watches {
            let (seen, ended) = (Arc::clone(&self.seen), Arc::clone(&ended));
            spawn("waits", Box::new(move || sample_waits(pid, &seen, &ended)))?;
        }
        let answer = move || {
            // An error means that the filter is gone, and no call waits.
            while let Ok(Some(call)) = listener.next() {
                record(&listener, &call, &changes, &mut lock(&seen));
                listener.carry_out(&call);
            }
            ended.store(true, Ordering::Relaxed);
        };
        spawn("sockets", Box::new(answer))
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> SocketsSeen {
        lock(&self.seen).clone()
    }

    /// Refuses a run whose options did not take effect.
    pub(super) fn check(&self) -> Result<(), EndError> {
        let seen = self.seen();
        if let Some(why) = seen.ineffective {
            return Err(EndError::Missing(why));
        }
        let sets = self.changes.iter().any(|change| change.level.is_some());
        if !sets || seen.changed > 0 {
            return Ok(());
        }
        let unchanged = || format!("the options reached no socket of the program: {}", seen.why_unchanged());
        Err(EndError::Missing(seen.not_inherited.clone().unwrap_or_else(unchanged)))
    }
}

/// The level of an option that a new TCP socket has; `None` if the kernel does not report it.
pub fn default_level(row: &OptionRow) -> Option<Level> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    options::present(socket.as_fd(), row, &Transport::Tcp).filter(|_| !row.changes)
}

/// Samples what the connections of a program and its descendants wait for, until all have ended.
fn sample_waits(pid: u32, seen: &Mutex<SocketsSeen>, ended: &AtomicBool) {
    let mut sampler = WaitSampler::default();
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        for pid in process_tree::tree(pid).unwrap_or_default() {
            each_connection(pid, CONNECTIONS, &mut |link, socket, info| sampler.add(link, socket, info));
        }
        lock(seen).waits = sampler.waits.clone();
        thread::sleep(SAMPLE_INTERVAL.max(began.elapsed() * SAMPLE_REST));
    }
}

/// Counts a call, and sets the options of the socket that it is about.
fn record(listener: &FilterListener, call: &ReportedCall, changes: &[OptionChange], seen: &mut SocketsSeen) {
    match call.call {
        SocketCall::OtherArchitecture => seen.other_architecture += 1,
        SocketCall::Ring => seen.rings += 1,
        SocketCall::SetOption(level, number) => {
            let value = listener.value(call).unwrap_or_default();
            let Some((name, own)) = own_option(level, number, &value) else { return };
            let calls = seen.own.get(name).map_or(0, |known| known.calls);
            seen.own.insert(name.to_owned(), OwnOption { calls: calls + 1, ..own });
        }
        SocketCall::Connect | SocketCall::Bind | SocketCall::Listen => {
            // A program that closed it meanwhile gets the error from its own call.
            let Ok(socket) = listener.socket(call) else { return };
            let Some(Ok(transport)) = transport_of(socket.as_fd()).map(str::parse::<Transport>) else { return };
            if call.call == SocketCall::Bind && !transport.is_datagram() {
                return;
            }
            let by = match call.call {
                SocketCall::Listen => Opening::Listen,
                SocketCall::Bind => Opening::Bind,
                _ => Opening::Connect,
            };
            let opened = OpenedSocket { transport, call: by };
            match change(socket.as_fd(), &opened, changes, &mut seen.not_inherited) {
                Ok(true) => seen.changed += 1,
                Ok(false) => {}
                Err(why) => seen.ineffective = seen.ineffective.take().or(Some(why)),
            }
            *seen.opened.entry(opened).or_default() += 1;
            let executable = fs::read_link(format!("/proc/{}/exe", call.thread)).unwrap_or_default();
            seen.executable = executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
    }
}

/// Sets the options that a socket has, and reads each one back. Returns whether there was one.
fn change(
    socket: BorrowedFd<'_>,
    opened: &OpenedSocket,
    changes: &[OptionChange],
    not_inherited: &mut Option<String>,
) -> Result<bool, String> {
    let (transport, listens) = (&opened.transport, opened.call == Opening::Listen);
    let mut any = false;
    for change in changes {
        let (row, Some(level)) = (change.row(), &change.level) else { continue };
        if !(row.fits)(transport)
            || (row.of_listener && !listens && (row.variant)(EndRole::Client, transport).is_none())
        {
            continue;
        }
        if listens && !transport.is_tcp() {
            let name = row.name;
            *not_inherited = Some(format!(
                "connections that a {transport} socket accepts do not inherit {name}: change the other end (--on client), or set it \
                 in the program"
            ));
            continue;
        }
        options::change(socket, row, level, (opened.setter(), transport))?;
        any = true;
    }
    Ok(any)
}

/// An option as a program sets it: its name and its value; `None` for one that cannot be tried.
fn own_option(level: i32, number: i32, value: &[u8]) -> Option<(&'static str, OwnOption)> {
    let is_it = |known: KernelOption| known.place == (level, number);
    let of_row = |row: &&OptionRow| options::variants(row).into_iter().any(is_it);
    let forced = FORCED.iter().find(|(_, option)| is_it(*option));
    let row = OPTIONS.iter().find(of_row);
    let name = row.map(|row| row.name).or(forced.map(|(_, option)| option.name))?;
    let factor = row.map(|row| row.factor).or(forced.map(|(factor, _)| *factor))?;
    let (ints, _) = value.as_chunks::<4>();
    let ints: Vec<i32> = ints.iter().map(|int| i32::from_ne_bytes(*int)).collect();
    let text = match (row.map_or(ValueForm::Int, |row| row.form), ints.as_slice()) {
        (ValueForm::Text, _) => {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            format!("\"{}\"", String::from_utf8_lossy(name))
        }
        (ValueForm::Linger, [is_on, seconds]) => format!("{{{is_on}, {seconds}}}"),
        (ValueForm::Long, [_, _]) => u64::from_ne_bytes(*value.first_chunk()?).to_string(),
        (_, [int, ..]) => int.to_string(),
        (_, []) => "?".into(),
    };
    Some((name, OwnOption { option: Some(factor.to_owned()), value: text, calls: 0 }))
}
