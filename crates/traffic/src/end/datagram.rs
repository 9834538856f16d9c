//! One flow of datagrams at one end: prepared, started at the gate, ended, reported.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::{EndCounts, FlowReport};

use crate::EndError;
use crate::datagram::{DatagramSource, Sink, SourceLoop, TICKET_INTERVAL, send_ticket};
use crate::end::runner::{ThreadReport, meter};
use crate::end::stream::thread::{StreamThread, refused};
use crate::end::thread_group::{Flags, ThreadStart};
use crate::engine::Stop;
use crate::flow::ConnectionEnd;
use crate::path::Shown;
use crate::setup::Setup;
use crate::stream::ReaderWork;
use crate::transport::options;

/// Prepares memory, waits at the gate, and writes the thread's flow.
pub(super) fn write(mut stream: StreamThread, mut start: ThreadStart<ThreadReport>) -> Result<ThreadReport, EndError> {
    let (index, number, fd) = flow(&mut stream)?;
    let (setup, fd) = (&*stream.setup, fd.as_fd());
    let prepared = DatagramSource::prepare(setup, number);
    let flags = start.flags.clone();
    let run = run(fd, &flags);
    let shown = prepared.as_ref().ok().and_then(|source| source.shown);
    let Some(began_ns) = begin(&mut start, fd, shown) else { return Ok(ThreadReport::default()) };
    let mut source = prepared?;
    // The control connection has the begin and the end of a test with an iperf3 server.
    let agrees = !setup.is_with_iperf3();
    let has_reader = !agrees || source.await_reader(run);
    let mut meter = meter(setup, setup.flows_of_all_ways(), agrees, (began_ns, &flags));
    let stopped = match has_reader {
        true => source.run(run, setup.pace(), &mut meter),
        // Without a known reader nothing is sent, least of all to another host.
        false => Ok(Stop::Aborted),
    };
    meter.close_early();
    if agrees && !matches!(stopped, Ok(Stop::Ended(_) | Stop::Aborted)) {
        // The sink must not wait for datagrams that cannot be sent.
        source.part(run);
    }
    let datagrams = Some(Box::new(source.report(&meter)));
    let row = FlowReport { counts: moved(meter.total_bytes(), 0), datagrams, ..socket(fd, setup) };
    let fault = match stopped {
        Ok(Stop::Time | Stop::Aborted | Stop::Refused | Stop::Done) => None,
        Ok(Stop::Ended(_)) => Some(EndError::PeerGone("the sink's socket is closed".into())),
        Err(fault) => Some(fault),
    };
    Ok(ThreadReport { fault, ..ThreadReport::of(meter, vec![(index, row)], source.engine()) })
}

/// The same for a flow that is read.
pub(super) fn read<E: ReaderWork + 'static>(
    mut stream: StreamThread,
    mut start: ThreadStart<ThreadReport>,
    effort: E,
) -> Result<ThreadReport, EndError> {
    let (index, number, fd) = flow(&mut stream)?;
    let (setup, fd) = (&*stream.setup, fd.as_fd());
    let prepared = Sink::prepare(setup, number, effort);
    let flags = start.flags.clone();
    let run = run(fd, &flags);
    let shown = prepared.as_ref().ok().and_then(|sink| sink.shown);
    let Some(began_ns) = begin(&mut start, fd, shown) else { return Ok(ThreadReport::default()) };
    let mut sink = prepared?;
    let agrees = !setup.is_with_iperf3();
    if agrees {
        sink.begin(run);
    }
    let mut meter = meter(setup, setup.flows_of_all_ways(), false, (began_ns, &flags));
    let stopped = sink.run(run, &mut meter);
    meter.close_early();
    let fault = match stopped {
        Ok(Stop::Time) => {
            start.closed();
            if agrees { sink.drain(run).err() } else { None }
        }
        Ok(Stop::Aborted | Stop::Done | Stop::Ended(ConnectionEnd::Closed)) => None,
        Ok(Stop::Ended(ConnectionEnd::Eof)) => {
            Some(EndError::PeerGone(format!("{} ended before the window did", setup.transport())))
        }
        Ok(Stop::Ended(ConnectionEnd::Failed { errno, .. })) => {
            Some(EndError::io("receiving datagrams")(std::io::Error::from_raw_os_error(errno)))
        }
        Ok(Stop::Refused) => refused(sink.reader.reader.planted_end, stream.body, &flags.abort),
        Err(fault) => Some(fault),
    };
    let fault = fault.or_else(|| sink.reader.fault());
    let counts = moved(sink.reader.bytes, sink.reader.verified_bytes);
    let datagrams = Some(Box::new(sink.report(&meter, run)));
    let row = FlowReport { counts, datagrams, ..socket(fd, setup) };
    Ok(ThreadReport { fault, ..ThreadReport::of(meter, vec![(index, row)], sink.engine()) })
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
fn begin(start: &mut ThreadStart<ThreadReport>, fd: BorrowedFd<'_>, shown: Option<Shown>) -> Option<u64> {
    match shown {
        Some(shown) => start.begin_doing(TICKET_INTERVAL, || send_ticket(fd, &shown)),
        None => start.begin(),
    }
}

fn run<'a>(fd: BorrowedFd<'a>, flags: &'a Flags) -> SourceLoop<'a> {
    SourceLoop { fd, abort: &flags.abort, stop_requested: &flags.stop_requested, limit: flags.limit.as_deref() }
}

/// The kernel's facts about the socket.
fn socket(fd: BorrowedFd<'_>, setup: &Setup) -> FlowReport {
    FlowReport { tcp: None, ..options::report(fd, setup) }
}

/// Bytes of a flow's whole life, and those that were compared.
fn moved(total_bytes: u64, verified_bytes: u64) -> EndCounts {
    EndCounts { total_bytes, verified_bytes, ..EndCounts::default() }
}
