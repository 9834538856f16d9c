//! One flow of datagrams at one end, in its own thread: prepared, let go at the gate, parted from, reported.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

use bytegauge_model::{EngineReport, FlowReport, Work};

use crate::datagram::{Run, Sink, Source};
use crate::end::flows::{Job, News, meter, refused};
use crate::engine::Stop;
use crate::fault::Fault;
use crate::flow::End;
use crate::message::{PathSetup, Plant, Side};
use crate::meter::Meter;
use crate::pace::Pace;
use crate::stream::{CopyOut, Discard, Effort, SpinPerByte, Sum};
use crate::transport::kernel;

type Carried = (FlowReport, Option<Fault>);

/// Prepares memory, announces readiness, waits at the gate, and carries the flow.
pub(super) fn carry(job: &Job, announce: impl FnOnce()) -> Carried {
    let Some(fd) = job.fd.as_ref().map(AsFd::as_fd) else {
        return (FlowReport::default(), Some(Fault::Impossible("datagrams need a socket".into())));
    };
    let setup = &*job.setup;
    let carried = match (job.side, setup.work) {
        (Side::Source, _) => write(job, fd, announce),
        (Side::Sink, Work::None) => read(job, fd, Discard, announce),
        (Side::Sink, Work::Sum) => read(job, fd, Sum::default(), announce),
        (Side::Sink, Work::Copy) => read(job, fd, CopyOut::new(setup.read_size), announce),
        (Side::Sink, Work::NsPerByte(ns)) => read(job, fd, SpinPerByte(ns), announce),
    };
    carried.unwrap_or_else(|fault| (FlowReport::default(), Some(fault)))
}

fn write(job: &Job, fd: BorrowedFd<'_>, announce: impl FnOnce()) -> Result<Carried, Fault> {
    let setup = &*job.setup;
    let prepared = Source::prepare(setup, job.flow);
    announce();
    let Some(began_ns) = job.gate.wait() else { return Ok((FlowReport::default(), None)) };
    let mut source = prepared?;
    let run = Run { fd, abort: &job.abort, told: &job.told };
    source.await_reader(run);
    let mut meter = meter(setup, true, began_ns);
    let stopped = source.run(run, Pace::of(setup.rate, setup.flows, setup.think_ns), &mut meter);
    meter.close_early();
    if !matches!(stopped, Ok(Stop::Ended(_) | Stop::Aborted)) {
        // A sink that hears it does not wait in vain for what cannot be sent.
        source.part(run);
    }
    let mut report = report(fd, setup, &meter);
    report.total_bytes = meter.total_bytes();
    report.datagrams = Some(source.report(&meter));
    note(job, source.engine());
    report.series = meter.into_bins();
    let fault = match stopped {
        Ok(Stop::Time | Stop::Aborted | Stop::Refused | Stop::Done) => None,
        Ok(Stop::Ended(_)) => Some(Fault::PeerGone("nobody has the sink's socket any more".into())),
        Err(fault) => Some(fault),
    };
    Ok((report, fault))
}

fn read<E: Effort>(job: &Job, fd: BorrowedFd<'_>, effort: E, announce: impl FnOnce()) -> Result<Carried, Fault> {
    let setup = &*job.setup;
    let prepared = Sink::prepare(setup, job.flow, effort);
    announce();
    let Some(began_ns) = job.gate.wait() else { return Ok((FlowReport::default(), None)) };
    let mut sink = prepared?;
    let run = Run { fd, abort: &job.abort, told: &job.told };
    sink.begin(run);
    let mut meter = meter(setup, false, began_ns);
    let stopped = sink.run(run, &mut meter);
    meter.close_early();
    let mut fault = match stopped {
        Ok(Stop::Time) => {
            // Nobody listens any more if the watchdog has given up already.
            let _ = job.tell.send(News::Closed { flow: job.flow });
            sink.drain(run).err()
        }
        Ok(Stop::Aborted | Stop::Done | Stop::Ended(End::Closed)) => None,
        Ok(Stop::Ended(End::Eof)) => Some(Fault::PeerGone(format!("{} ended before the window did", setup.transport))),
        Ok(Stop::Ended(End::Failed { errno, .. })) => {
            Some(Fault::io("receiving datagrams")(std::io::Error::from_raw_os_error(errno)))
        }
        Ok(Stop::Refused) => refused(sink.planted_end(), job.body, &job.abort),
        Err(fault) => Some(fault),
    };
    fault = fault.or_else(|| sink.fault());
    let mut report = report(fd, setup, &meter);
    let mut datagrams = sink.report(&meter, run);
    if let Some(Plant::Overcount { bytes }) = setup.plant {
        datagrams.total += bytes;
    }
    report.total_bytes = sink.total_bytes();
    report.verified_bytes = sink.verified_bytes();
    report.datagrams = Some(datagrams);
    note(job, sink.engine());
    report.series = meter.into_bins();
    Ok((report, fault))
}

/// What the window held, and what the kernel says of the socket.
fn report(fd: BorrowedFd<'_>, setup: &PathSetup, meter: &Meter) -> FlowReport {
    let FlowReport { options, socket_memory, .. } = kernel::report(fd, setup);
    FlowReport { options, socket_memory, ..meter.window().report() }
}

/// What engines that keep count did is of the end, not of a flow.
fn note(job: &Job, engine: Option<EngineReport>) {
    let mut all = job.engine.lock().unwrap_or_else(PoisonError::into_inner);
    *all = [*all, engine].into_iter().flatten().reduce(|one, other| one.plus(&other));
}
