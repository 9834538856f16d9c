//! A stream's end whose flows share one thread: for the engines that carry many connections.
//!
//! The engines with a thread a flow have [`flows`](super::flows). Here counters are those of the one thread and
//! stand with the first flow; every flow has its own bytes, its end, and what the kernel says of it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytegauge_model::{EndReport, EngineReport, FlowReport, Work};
use bytegauge_sys::io as sys_io;

use crate::end::crew::{Crew, Flags};
use crate::end::flows::{Body, DRAIN_SIZE, doing, meter, miscounted, refused, sum};
use crate::end::foreign;
use crate::end::gate::Gate;
use crate::end::serve::Peer;
use crate::engine::{self, Station, Stop};
use crate::fault::Fault;
use crate::flow::{End, Flow};
use crate::message::{Command, PathSetup, Plant, Reply, Side};
use crate::meter::Meter;
use crate::pace::Pace;
use crate::spin;
use crate::stream::{Carried, CopyOut, Discard, Effort, SinkFlow, SourceFlow, SpinPerByte, Streams, Sum};
use crate::transport::kernel;

type Ended = (EndReport, Option<Fault>);
/// Flows that an engine gave back.
type Given<F> = Vec<(F, Option<OwnedFd>)>;
type Driven = Result<(Stop, EngineReport), Fault>;

/// Carries all flows of one end in one thread. `Ok(None)` when it was called off.
pub(super) fn carry(
    peer: &mut impl Peer,
    side: Side,
    setup: &Arc<PathSetup>,
    fds: Vec<OwnedFd>,
    body: Body,
) -> Result<Option<Ended>, Fault> {
    spin::prepare();
    let (gate, flags) = (Arc::new(Gate::new()), Flags::default());
    let (tell_closed, closed) = mpsc::channel();
    let mut fds = Some(fds);
    let crew = Crew::start(
        doing(setup, side),
        1,
        flags.clone(),
        |_| setup.cpu(side, 0),
        |_| {
            let job = Job { setup: Arc::clone(setup), gate: Arc::clone(&gate), flags: flags.clone(), body };
            let (fds, tell_closed) = (fds.take().unwrap_or_default(), tell_closed.clone());
            move || job.run(side, fds, &tell_closed)
        },
    )?;
    drop(tell_closed);
    if !(peer.reply(Reply::Ready) && peer.command() == Some(Command::Go)) {
        gate.call_off();
        let _ = crew.finish(Duration::ZERO);
        return Ok(None);
    }
    gate.open();
    let lasting_ns = match side {
        // Nobody says when it is enough: the writer measures.
        Side::Source if setup.foreign().is_some() => setup.warmup_ns + setup.window_ns,
        Side::Source => {
            // `Stop`, or nobody is left to say it: both end the sending.
            let _ = peer.command();
            crew.tell();
            0
        }
        Side::Sink => {
            let lasting_ns = setup.warmup_ns + setup.window_ns;
            // Closed, late, or dead: in no case is more data wanted.
            let _ = closed.recv_timeout(Duration::from_nanos(lasting_ns + setup.grace_ns));
            let _ = peer.reply(Reply::Closed);
            0
        }
    };
    let left = crew.finish(Duration::from_nanos(lasting_ns + setup.grace_ns));
    if setup.foreign().is_some() {
        // If nobody hears it, nobody waits for the report either.
        let _ = peer.reply(Reply::Closed);
    }
    let (report, fault) = left.parts.into_iter().next().unwrap_or_default();
    Ok(Some((report, left.fault.or(fault))))
}

struct Job {
    setup: Arc<PathSetup>,
    gate: Arc<Gate>,
    flags: Flags,
    body: Body,
}

impl Job {
    fn run(self, side: Side, fds: Vec<OwnedFd>, closed: &mpsc::Sender<()>) -> Ended {
        let setup = Arc::clone(&self.setup);
        let paced = !Pace::of(setup.rate, setup.flows, setup.think_ns).is_free();
        match (side, setup.work) {
            (Side::Source, _) if paced => self.write::<true>(fds),
            (Side::Source, _) => self.write::<false>(fds),
            (Side::Sink, Work::None) => self.read(fds, closed, || Discard),
            (Side::Sink, Work::Sum) => self.read(fds, closed, Sum::default),
            (Side::Sink, Work::Copy) => self.read(fds, closed, || CopyOut::new(setup.read_size)),
            (Side::Sink, Work::NsPerByte(ns)) => self.read(fds, closed, || SpinPerByte(ns)),
        }
    }

    fn write<const PACED: bool>(self, fds: Vec<OwnedFd>) -> Ended {
        let setup = &*self.setup;
        let pace = Pace::of(setup.rate, setup.flows, setup.think_ns);
        let size = setup.write_size.unwrap_or(setup.read_size);
        let flow = |index| Carried::<_, PACED>::new(SourceFlow::new(setup, index, size), index, pace);
        let mut reports = Vec::with_capacity(fds.len());
        let abort = Arc::clone(&self.flags.abort);
        let farewell = |flow: &Carried<_, PACED>, fd: Option<&OwnedFd>| {
            if flow.ended.is_none() {
                foreign::await_acknowledged(setup, fd.map(AsFd::as_fd), &abort);
            }
            reports.push((flow.index, self.report(flow, fd)));
            if let Some(fd) = fd {
                // The sink drains one flow after another, each until it hears that nothing more comes: it must
                // hear that while the engine still sends what other flows hold.
                let _ = sys_io::shutdown(fd.as_fd(), std::net::Shutdown::Write);
            }
        };
        let until_told = setup.foreign().is_none();
        let driven = self.drive(fds, flow, until_told, farewell);
        let Some((meter, driven, left)) = driven else { return Ended::default() };
        let (_, engine, mut fault) = outcome(driven);
        if left.iter().any(|(flow, _)| flow.ended.is_some()) {
            fault.get_or_insert_with(|| Fault::PeerGone("the sink takes no more data".into()));
        }
        (self.summed(meter, reports, engine), fault)
    }

    fn read<E: Effort + 'static>(self, fds: Vec<OwnedFd>, closed: &mpsc::Sender<()>, effort: impl Fn() -> E) -> Ended {
        let setup = &*self.setup;
        let flow = |index| Carried::<_, false>::new(SinkFlow::new(setup, index, effort()), index, Pace::Free);
        let Some((meter, driven, left)) = self.drive(fds, flow, false, |_, _| {}) else { return Ended::default() };
        // Nobody listens any more if the watchdog has given up already.
        let _ = closed.send(());
        let (in_time, engine, mut fault) = outcome(driven);
        let mut scratch = vec![0; DRAIN_SIZE];
        let mut reports = Vec::with_capacity(left.len());
        for (mut carried, fd) in left {
            let drained = match &fd {
                Some(fd) if in_time && carried.ended.is_none() && !carried.refused => {
                    self.drain(fd, &mut carried, &mut scratch)
                }
                _ => Ok(()),
            };
            let mut report = self.report(&carried, fd.as_ref());
            report.verified_bytes = carried.flow.verified_bytes();
            let found = drained.err().or_else(|| self.end_of(&carried)).or_else(|| carried.flow.fault());
            if let Some(Plant::Overcount { bytes }) = setup.plant {
                report.total_bytes += bytes;
            } else if found.is_none() && fault.is_none() {
                fault = fd.as_ref().and_then(|fd| miscounted(setup, fd.as_fd(), carried.index, report.total_bytes));
            }
            fault = fault.or(found);
            reports.push((carried.index, report));
        }
        (self.summed(meter, reports, engine), fault)
    }

    /// Waits at the gate and drives; `None` if the trial was called off.
    fn drive<F: Flow + Send + 'static>(
        &self,
        fds: Vec<OwnedFd>,
        flow: impl Fn(usize) -> F,
        until_told: bool,
        farewell: impl FnMut(&F, Option<&OwnedFd>) + Send,
    ) -> Option<(Meter, Driven, Given<F>)> {
        let setup = &*self.setup;
        let unacknowledged = foreign::watched(setup, fds.iter().map(AsFd::as_fd));
        let flows = fds.into_iter().enumerate().map(|(index, fd)| (flow(index), fd)).collect();
        let mut party = Streams::new(flows, farewell);
        let began_ns = self.gate.wait()?;
        let mut meter = meter(setup, until_told, began_ns);
        meter.subtract_unacknowledged(unacknowledged);
        let station =
            Station { listener: None, buffer_size: setup.read_size, abort: &self.flags.abort, told: &self.flags.told };
        let driven = engine::drive(setup.engine, &mut party, station, &mut meter);
        meter.close_early();
        Some((meter, driven, party.into_left()))
    }

    /// Takes what is still on its way, so that bytes out and bytes in can be compared.
    fn drain<E: Effort>(
        &self,
        fd: &OwnedFd,
        carried: &mut Carried<SinkFlow<E>, false>,
        scratch: &mut [u8],
    ) -> Result<(), Fault> {
        sys_io::set_nonblocking(fd.as_fd(), false).map_err(Fault::io("draining what was on its way"))?;
        loop {
            match sys_io::read(fd.as_fd(), scratch) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    carried.bytes += n as u64;
                    if !carried.flow.received_late(&scratch[..n]) {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    if self.flags.abort.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                Err(source) => return Err(Fault::Io { doing: "draining what was on its way".into(), source }),
            }
        }
    }

    /// Why a flow left before its time, if it did.
    fn end_of<E: Effort>(&self, carried: &Carried<SinkFlow<E>, false>) -> Option<Fault> {
        match carried.ended {
            Some(End::Eof) => Some(Fault::PeerGone(format!("{} ended before the window did", self.setup.transport))),
            Some(End::Failed { errno, .. }) => {
                Some(Fault::io("moving bytes")(std::io::Error::from_raw_os_error(errno)))
            }
            Some(End::Closed) | None if carried.refused => {
                refused(carried.flow.planted_end(), self.body, &self.flags.abort)
            }
            Some(End::Closed) | None => None,
        }
    }

    fn report<F, const PACED: bool>(&self, carried: &Carried<F, PACED>, fd: Option<&OwnedFd>) -> FlowReport {
        let kernel = fd.map(|fd| kernel::report(fd.as_fd(), &self.setup)).unwrap_or_default();
        FlowReport { total_bytes: carried.bytes, ..kernel }
    }

    /// The thread's counters go with the first flow; the others have none of their own.
    fn summed(&self, meter: Meter, mut reports: Vec<(usize, FlowReport)>, engine: EngineReport) -> EndReport {
        reports.sort_by_key(|(index, _)| *index);
        let mut flows: Vec<FlowReport> = reports.into_iter().map(|(_, report)| report).collect();
        let window = meter.window();
        if let Some(first) = flows.first_mut() {
            let FlowReport { total_bytes, verified_bytes, tcp, options, socket_memory, .. } = std::mem::take(first);
            *first = FlowReport {
                total_bytes,
                verified_bytes,
                tcp,
                options,
                socket_memory,
                series: meter.into_bins(),
                ..window.report()
            };
        }
        EndReport { window_ns: window.ns, queued_ns: window.queued_ns, engine: Some(engine), ..sum(flows) }
    }
}

/// Whether the engine stopped because its time was up, what it did, and what went wrong.
fn outcome(driven: Driven) -> (bool, EngineReport, Option<Fault>) {
    match driven {
        Ok((stop, engine)) => (stop == Stop::Time, engine, None),
        Err(fault) => (false, EngineReport::default(), Some(fault)),
    }
}
