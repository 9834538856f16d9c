//! One flow of datagrams at one end: prepared, started at the gate, ended, reported.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::{DatagramReport, EndCounts, FlowReport};
use bytegauge_sys::socket_memory::drops;

use crate::EndError;
use crate::datagram::{self, Packer, SinkReader, SourceLoop, handshake};
use crate::end::runner::{ThreadReport, meter};
use crate::end::stream::thread::{StreamThread, refused};
use crate::end::thread_group::{Flags, ThreadStart};
use crate::engine::Stop;
use crate::flow::ConnectionEnd;
use crate::meter::Meter;
use crate::path::Shown;
use crate::setup::Setup;
use crate::transport::options;

/// Prepares memory, waits at the gate, and writes the thread's flow.
pub(super) fn write(mut stream: StreamThread, mut start: ThreadStart<ThreadReport>) -> Result<ThreadReport, EndError> {
    let (index, number, fd) = flow(&mut stream)?;
    let (setup, fd) = (&*stream.setup, fd.as_fd());
    let (prepared, mut packer) = (datagram::sender(setup), Packer::new(setup, number));
    let flags = start.flags.clone();
    let run = run(fd, &flags);
    // The end that connected shows the ticket for another host.
    let shown = setup.shown_by(number).filter(|_| !setup.goes_back(number));
    let Some(began_ns) = begin(&mut start, fd, shown, prepared.is_ok()) else { return Ok(ThreadReport::default()) };
    let mut sender = prepared?;
    // The control connection has the begin and the end of a test with an iperf3 server.
    let (agrees, is_far) = (!setup.is_with_iperf3(), setup.far.is_some());
    let has_reader = !agrees || handshake::await_reader(run, shown.as_ref(), is_far);
    let mut meter = meter(setup, setup.flows_of_all_ways(), agrees, (began_ns, &flags));
    let mut sent = DatagramReport::default();
    let stopped = match has_reader {
        true => sender.run(&mut packer, run, setup.pace(), &mut meter, &mut sent),
        // Without a known reader nothing is sent, least of all to another host.
        false => Ok(Stop::Aborted),
    };
    sender.finish(run.abort);
    meter.close_early();
    if agrees && !matches!(stopped, Ok(Stop::Ended(_) | Stop::Aborted)) {
        // The sink must not wait for datagrams that cannot be sent.
        handshake::announce(fd, is_far, run.abort);
    }
    let sent = DatagramReport { total: packer.sent, ..sent };
    let row = row(fd, setup, (meter.total_bytes(), 0), sent, &meter);
    let fault = match stopped {
        Ok(Stop::Time | Stop::Aborted | Stop::Refused | Stop::Done) => None,
        Ok(Stop::Ended(_)) => Some(EndError::PeerGone("the sink's socket is closed".into())),
        Err(fault) => Some(fault),
    };
    Ok(ThreadReport { fault, ..ThreadReport::of(meter, vec![(index, row)], sender.engine()) })
}

/// The same for a flow that is read.
pub(super) fn read(mut stream: StreamThread, mut start: ThreadStart<ThreadReport>) -> Result<ThreadReport, EndError> {
    let (index, number, fd) = flow(&mut stream)?;
    let (setup, fd) = (&*stream.setup, fd.as_fd());
    let (prepared, mut reader) = (datagram::receiver(setup), SinkReader::new(setup, number));
    let flags = start.flags.clone();
    let run = run(fd, &flags);
    // If this end connected, it shows the ticket.
    let shown = setup.shown_by(number).filter(|_| setup.goes_back(number));
    let Some(began_ns) = begin(&mut start, fd, shown, prepared.is_ok()) else { return Ok(ThreadReport::default()) };
    let mut receiver = prepared?;
    let agrees = !setup.is_with_iperf3();
    match shown {
        _ if !agrees => {}
        Some(_) => handshake::begin_until_data(fd, run.abort),
        None => handshake::begin(fd, reader.shown.as_ref(), run.abort),
    }
    let mut meter = meter(setup, setup.flows_of_all_ways(), false, (began_ns, &flags));
    let stopped = receiver.run(&mut reader, run, &mut meter);
    meter.close_early();
    let fault = match stopped {
        Ok(Stop::Time) => {
            start.closed();
            if agrees {
                let drained = receiver.drain(&mut reader, run);
                handshake::answer(fd);
                drained.err()
            } else {
                None
            }
        }
        Ok(Stop::Aborted | Stop::Done | Stop::Ended(ConnectionEnd::Closed)) => None,
        Ok(Stop::Ended(ConnectionEnd::Eof)) => {
            handshake::answer(fd);
            Some(EndError::PeerGone(format!("{} ended before the window did", setup.transport())))
        }
        Ok(Stop::Ended(ConnectionEnd::Failed { errno, .. })) => {
            Some(EndError::io("receiving datagrams")(std::io::Error::from_raw_os_error(errno)))
        }
        Ok(Stop::Refused) => refused(reader.reader.planted_end, stream.body, &flags.abort),
        Err(fault) => Some(fault),
    };
    let fault = fault.or_else(|| reader.fault());
    let received = DatagramReport { socket_drops: drops(fd).ok(), ..reader.ledger.counts };
    let row = row(fd, setup, (reader.bytes, reader.verified_bytes), received, &meter);
    Ok(ThreadReport { fault, ..ThreadReport::of(meter, vec![(index, row)], receiver.engine()) })
}

/// The thread's flow by its number among those of its direction, and among all, with its socket.
fn flow(stream: &mut StreamThread) -> Result<(usize, usize, OwnedFd), EndError> {
    let Some((index, Some(fd))) = stream.flows.pop() else {
        return Err(EndError::Impossible("datagrams need a socket".into()));
    };
    Ok((index, if stream.back { stream.setup.flows() + index } else { index }, fd))
}

/// Waits at the gate. An end that connected to another host sends its ticket meanwhile, until it is admitted, which it learns only
/// when the stream begins.
fn begin(
    start: &mut ThreadStart<ThreadReport>,
    fd: BorrowedFd<'_>,
    shown: Option<Shown>,
    is_prepared: bool,
) -> Option<u64> {
    match shown.filter(|_| is_prepared) {
        Some(shown) => start.begin_doing(handshake::TICKET_INTERVAL, || handshake::send_ticket(fd, &shown)),
        None => start.begin(),
    }
}

fn run<'a>(fd: BorrowedFd<'a>, flags: &'a Flags) -> SourceLoop<'a> {
    SourceLoop { fd, abort: &flags.abort, stop_requested: &flags.stop_requested, limit: flags.limit.as_deref() }
}

/// The row of a flow: bytes of its whole life, and those that were compared; the counts of its window, and the kernel's facts about the
/// socket.
fn row(
    fd: BorrowedFd<'_>,
    setup: &Setup,
    (total_bytes, verified_bytes): (u64, u64),
    all: DatagramReport,
    meter: &Meter,
) -> FlowReport {
    let window = meter.window();
    let counts = EndCounts { total_bytes, verified_bytes, ..EndCounts::default() };
    let datagrams = DatagramReport { datagrams: window.datagrams, packets: window.packets, ..all };
    FlowReport { tcp: None, counts, datagrams: Some(Box::new(datagrams)), ..options::report(fd, setup) }
}
