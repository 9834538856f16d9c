//! One flow of datagrams at one end: prepared, started at the gate, ended, reported.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::{FlowReport, Side};

use crate::datagram::{KNOCKS_EVERY, Run, Sink, Source};
use crate::end::crew::{Flags, Post};
use crate::end::duty::{Part, meter};
use crate::end::stream::{StreamHand, refused};
use crate::engine::Stop;
use crate::fault::Fault;
use crate::flow::End;
use crate::setup::Setup;
use crate::stream::Effort;
use crate::transport::kernel;

/// Prepares memory, waits at the gate, and writes the thread's flow.
pub(super) fn write(mut hand: StreamHand, mut post: Post<Part>) -> Result<Part, Fault> {
    let (index, number, fd) = flow(&mut hand)?;
    let (setup, fd) = (&*hand.setup, fd.as_fd());
    let prepared = Source::prepare(setup, number);
    let flags = post.flags.clone();
    let run = run(fd, &flags);
    let begun = match &prepared {
        // Until the sink has admitted it, which the source learns only this way.
        Ok(source) if knocks(&hand) => post.begin_doing(KNOCKS_EVERY, || source.knock(run)),
        _ => post.begin(),
    };
    let Some(began_ns) = begun else { return Ok(Part::default()) };
    let mut source = prepared?;
    // The control connection has the begin and the end of a test with an iperf3 server.
    let agrees = !setup.is_with_iperf3();
    let is_heard = !agrees || source.await_reader(run);
    let mut meter = meter(setup, setup.flows_of_all_ways(), agrees, (began_ns, &flags));
    let stopped = match is_heard {
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
    let row = FlowReport { total_bytes: meter.total_bytes(), datagrams, ..socket(fd, setup) };
    let fault = match stopped {
        Ok(Stop::Time | Stop::Aborted | Stop::Refused | Stop::Done) => None,
        Ok(Stop::Ended(_)) => Some(Fault::PeerGone("the sink's socket is closed".into())),
        Err(fault) => Some(fault),
    };
    Ok(Part { fault, ..Part::of(meter, vec![(index, row)], source.engine()) })
}

/// The same for a flow that is read.
pub(super) fn read<E: Effort>(mut hand: StreamHand, mut post: Post<Part>, effort: E) -> Result<Part, Fault> {
    let (index, number, fd) = flow(&mut hand)?;
    let (setup, fd) = (&*hand.setup, fd.as_fd());
    let prepared = Sink::prepare(setup, number, effort);
    let flags = post.flags.clone();
    let run = run(fd, &flags);
    let begun = match &prepared {
        Ok(sink) if knocks(&hand) => post.begin_doing(KNOCKS_EVERY, || sink.knock(run)),
        _ => post.begin(),
    };
    let Some(began_ns) = begun else { return Ok(Part::default()) };
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
            post.closed();
            if agrees { sink.drain(run).err() } else { None }
        }
        Ok(Stop::Aborted | Stop::Done | Stop::Ended(End::Closed)) => None,
        Ok(Stop::Ended(End::Eof)) => {
            Some(Fault::PeerGone(format!("{} ended before the window did", setup.transport())))
        }
        Ok(Stop::Ended(End::Failed { errno, .. })) => {
            Some(Fault::io("receiving datagrams")(std::io::Error::from_raw_os_error(errno)))
        }
        Ok(Stop::Refused) => refused(sink.planted_end(), hand.body, &flags.abort),
        Err(fault) => Some(fault),
    };
    let fault = fault.or_else(|| sink.fault());
    let (total_bytes, verified_bytes) = (sink.total_bytes(), sink.verified_bytes());
    let datagrams = Some(Box::new(sink.report(&meter, run)));
    let row = FlowReport { total_bytes, verified_bytes, datagrams, ..socket(fd, setup) };
    Ok(Part { fault, ..Part::of(meter, vec![(index, row)], sink.engine()) })
}

/// The thread's flow by its number among those of its direction, and among all, with its socket.
fn flow(hand: &mut StreamHand) -> Result<(usize, usize, OwnedFd), Fault> {
    let Some((index, Some(fd))) = hand.flows.pop() else {
        return Err(Fault::Impossible("datagrams need a socket".into()));
    };
    Ok((index, if hand.back { hand.setup.flows() + index } else { index }, fd))
}

/// Whether this end must be admitted by another host: the end that connected must.
fn knocks(hand: &StreamHand) -> bool {
    hand.setup.far.is_some() && (hand.side == Side::Source) != hand.back
}

fn run<'a>(fd: BorrowedFd<'a>, flags: &'a Flags) -> Run<'a> {
    Run { fd, abort: &flags.abort, stop_requested: &flags.stop_requested, limit: flags.limit.as_deref() }
}

/// The kernel's facts about the socket.
fn socket(fd: BorrowedFd<'_>, setup: &Setup) -> FlowReport {
    let FlowReport { options, socket_memory, .. } = kernel::report(fd, setup);
    FlowReport { options, socket_memory, ..FlowReport::default() }
}
