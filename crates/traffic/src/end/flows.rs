//! The flows of one end: a thread each, pinned, started together, watched, and summed up.
//!
//! The watchdog is the thread that waits for them. It sleeps, and there is no ticker: a flow that is late
//! is woken out of its system call by a signal and told to stop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::{EndReport, Engine, EngineReport, FlowReport, Transport, Work};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::interrupt::{ThreadHandle, interrupt};
use bytegauge_sys::{affinity, file, io as sys_io, tcp_info};

use crate::end::gate::Gate;
use crate::end::{datagrams, foreign};
use crate::engine::{self, Slot, Stop};
use crate::fault::Fault;
use crate::flow::End;
use crate::message::{PathSetup, Plant, Side};
use crate::meter::{Meter, Schedule};
use crate::pace::Pace;
use crate::spin;
use crate::stream::{CopyOut, Discard, Effort, SinkFlow, SourceFlow, SpinPerByte, Sum};
use crate::transport::kernel;

/// How long a flow that was told to stop may take before it is left behind.
const ABORT_NS: u64 = 1_000_000_000;

/// Buffer of what is drained after the window: large, since it is not measured.
pub(super) const DRAIN_SIZE: usize = 256 << 10;

/// Bins are kept for at most this many laps.
const BINS_MAX: u64 = 200_000;

/// Whether an end runs as a thread or as a process of its own; a planted death differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A thread of the measuring process.
    Thread,
    /// A process.
    Process,
}

/// The flows of one end, ready to start.
#[derive(Debug)]
pub(super) struct Flows {
    gate: Arc<Gate>,
    abort: Arc<AtomicBool>,
    told: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    handles: Vec<ThreadHandle>,
    news: mpsc::Receiver<News>,
    engine: Arc<Mutex<Option<EngineReport>>>,
    setup: Arc<PathSetup>,
    side: Side,
}

/// What a flow's thread tells the watchdog.
pub(super) enum News {
    /// Its window has closed; it drains.
    Closed { flow: usize },
    /// It is done.
    Finished { flow: usize, report: Box<FlowReport>, fault: Option<Fault> },
}

impl Flows {
    /// Starts a thread a flow and waits until all of them are ready.
    pub(super) fn prepare(setup: &Arc<PathSetup>, side: Side, fds: Vec<OwnedFd>, body: Body) -> Result<Flows, Fault> {
        // The spin's length is measured before anything counts.
        spin::prepare();
        let (tell, news) = mpsc::channel();
        let (report_ready, ready) = mpsc::channel();
        let mut flows = Flows {
            gate: Arc::new(Gate::new()),
            abort: Arc::new(AtomicBool::new(false)),
            told: Arc::new(AtomicBool::new(false)),
            threads: Vec::with_capacity(setup.flows),
            handles: Vec::with_capacity(setup.flows),
            news,
            engine: Arc::default(),
            setup: Arc::clone(setup),
            side,
        };
        let mut fds = fds.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        for flow in 0..setup.flows {
            let job = Job {
                setup: Arc::clone(setup),
                side,
                flow,
                body,
                fd: fds.next().flatten(),
                gate: Arc::clone(&flows.gate),
                abort: Arc::clone(&flows.abort),
                told: Arc::clone(&flows.told),
                tell: tell.clone(),
                engine: Arc::clone(&flows.engine),
            };
            let report_ready = report_ready.clone();
            let thread = std::thread::Builder::new()
                .name(format!("{side:?}-{flow}").to_lowercase())
                .stack_size(256 << 10)
                .spawn(move || job.run(&report_ready));
            match thread {
                Ok(thread) => flows.threads.push(thread),
                Err(source) => {
                    let doing = format!("starting thread {flow} of {}: use fewer --flows", setup.flows);
                    return Err(flows.call_off(Fault::Io { doing, source }));
                }
            }
        }
        // Only the flows' own ends are left: one that dies without a word is noticed.
        drop((report_ready, tell));
        for _ in 0..setup.flows {
            match ready.recv() {
                Ok(Ok(handle)) => flows.handles.push(handle),
                Ok(Err(fault)) => return Err(flows.call_off(fault)),
                Err(_) => {
                    let dead = flows.dead();
                    return Err(flows.call_off(dead));
                }
            }
        }
        Ok(flows)
    }

    /// Opens the gate.
    pub(super) fn start(&self) {
        self.gate.open();
    }

    /// Tells flows that go on until told to stop.
    pub(super) fn tell(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Waits for every flow or for the watchdog's deadline, and sums up. `closed` is called once, when the
    /// windows of all flows have closed.
    pub(super) fn finish(self, lasting_ns: u64, mut closed: impl FnMut()) -> (EndReport, Option<Fault>) {
        let mut reports: Vec<Option<FlowReport>> = vec![None; self.setup.flows];
        let patience = Duration::from_nanos(lasting_ns + self.setup.grace_ns);
        let mut fault = self.collect(&mut reports, patience, &mut closed);
        if reports.iter().any(Option::is_none) {
            self.abort.store(true, Ordering::Relaxed);
            let deadline = Instant::now() + Duration::from_nanos(ABORT_NS);
            while reports.iter().any(Option::is_none) && Instant::now() < deadline {
                for handle in &self.handles {
                    // A thread that has ended, or a queue of signals that is full, is no reason to stop.
                    let _ = interrupt(handle);
                }
                let _ = self.collect(&mut reports, Duration::from_millis(5), &mut || {});
            }
        }
        let finished = reports.iter().all(Option::is_some);
        let engine = *self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let report = EndReport { engine, ..sum(reports.into_iter().flatten().collect()) };
        if finished {
            for thread in self.threads {
                if thread.join().is_err() {
                    fault.get_or_insert(dead(self.side));
                }
            }
        }
        (report, fault)
    }

    /// Takes results until all are there, one is bad, or time is up. The first fault is kept.
    fn collect(
        &self,
        reports: &mut [Option<FlowReport>],
        patience: Duration,
        closed: &mut impl FnMut(),
    ) -> Option<Fault> {
        let deadline = Instant::now() + patience;
        let mut first = None;
        // A flow that ends without having closed its window wants no more data either.
        let mut open = vec![true; self.setup.flows];
        let mut close = |flow: usize| {
            if std::mem::take(&mut open[flow]) && !open.contains(&true) {
                closed();
            }
        };
        while reports.iter().any(Option::is_none) {
            match self.news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(News::Closed { flow }) => close(flow),
                Ok(News::Finished { flow, report, fault }) => {
                    close(flow);
                    reports[flow] = Some(*report);
                    if first.is_none() {
                        first = fault;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let what = doing(&self.setup, self.side);
                    let after_ms = patience.as_millis() as u64;
                    return first.or(Some(Fault::Stalled { what, after_ms }));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return first.or(Some(self.dead()));
                }
            }
        }
        first
    }

    fn dead(&self) -> Fault {
        dead(self.side)
    }

    fn call_off(self, fault: Fault) -> Fault {
        self.gate.call_off();
        for thread in self.threads {
            // Nothing ran yet: the thread only had to go home.
            let _ = thread.join();
        }
        fault
    }

    /// Sends everybody home before `Go`.
    pub(super) fn dismiss(self) {
        self.call_off(Fault::Impossible("called off".into()));
    }
}

pub(super) struct Job {
    pub(super) setup: Arc<PathSetup>,
    pub(super) side: Side,
    pub(super) flow: usize,
    pub(super) body: Body,
    pub(super) fd: Option<OwnedFd>,
    pub(super) gate: Arc<Gate>,
    pub(super) abort: Arc<AtomicBool>,
    pub(super) told: Arc<AtomicBool>,
    pub(super) tell: mpsc::Sender<News>,
    /// What engines that keep count did, all flows together.
    pub(super) engine: Arc<Mutex<Option<EngineReport>>>,
}

impl Job {
    fn run(self, ready: &mpsc::Sender<Result<ThreadHandle, Fault>>) {
        let prepared = self.pin().and_then(|()| ThreadHandle::current().map_err(Fault::io("preparing the watchdog")));
        let pinned = prepared.is_ok();
        // Nobody waits for an answer any more once the trial was called off.
        let (announce, flow, tell) = (|| ready.send(prepared), self.flow, self.tell.clone());
        if !pinned {
            let _ = announce();
            return;
        }
        let (report, fault) = self.move_bytes(|| {
            let _ = announce();
        });
        let _ = tell.send(News::Finished { flow, report: Box::new(report), fault });
    }

    fn pin(&self) -> Result<(), Fault> {
        let Some(cpu) = self.setup.cpu(self.side, self.flow) else { return Ok(()) };
        affinity::pin_thread(&[cpu]).map_err(|error| {
            Fault::Missing(format!("pinning to CPU {cpu} is not permitted ({error}): use --placement unpinned"))
        })
    }

    /// Prepares memory, announces readiness, waits at the gate, and carries the flow.
    fn move_bytes(self, announce: impl FnOnce()) -> (FlowReport, Option<Fault>) {
        let setup = Arc::clone(&self.setup);
        if setup.transport.is_datagram() && setup.engine != Engine::Null {
            return datagrams::carry(&self, announce);
        }
        match (self.side, setup.work) {
            (Side::Source, _) => self.write(announce),
            (Side::Sink, Work::None) => self.read(Discard, announce),
            (Side::Sink, Work::Sum) => self.read(Sum::default(), announce),
            (Side::Sink, Work::Copy) => self.read(CopyOut::new(setup.read_size), announce),
            (Side::Sink, Work::NsPerByte(ns)) => self.read(SpinPerByte(ns), announce),
        }
    }

    fn write(self, announce: impl FnOnce()) -> (FlowReport, Option<Fault>) {
        let setup = &*self.setup;
        let mut flow = SourceFlow::new(setup, self.flow, setup.write_size.unwrap_or(setup.read_size));
        let unacknowledged = foreign::watched(setup, self.fd().into_iter());
        announce();
        let Some(began_ns) = self.gate.wait() else { return (FlowReport::default(), None) };
        let mut meter = meter(setup, setup.foreign().is_none(), began_ns);
        meter.subtract_unacknowledged(unacknowledged);
        let pace = Pace::of(setup.rate, setup.flows, setup.think_ns);
        let slot = Slot { fd: self.fd(), buffer: &mut [], pace, abort: &self.abort, told: &self.told, rewind: false };
        let stopped = engine::run(setup.engine, &mut flow, slot, &mut meter);
        meter.close_early();
        if matches!(stopped, Ok(Stop::Time)) {
            foreign::await_acknowledged(setup, self.fd(), &self.abort);
        }
        let mut report = self.report(&meter);
        report.total_bytes = meter.total_bytes();
        report.series = meter.into_bins();
        if let (Some(fd), true) = (self.fd(), setup.transport.is_socket()) {
            // Closing would do for the sink; shutting down says the same while we still hold the socket.
            let _ = sys_io::shutdown(fd, std::net::Shutdown::Write);
        }
        let fault = match stopped {
            Ok(Stop::Time | Stop::Aborted | Stop::Refused | Stop::Done) => None,
            Ok(Stop::Ended(_)) => Some(Fault::PeerGone("the sink takes no more data".into())),
            Err(fault) => Some(fault),
        };
        (report, fault)
    }

    fn read<E: Effort>(self, effort: E, announce: impl FnOnce()) -> (FlowReport, Option<Fault>) {
        let setup = &*self.setup;
        let mut flow = SinkFlow::new(setup, self.flow, effort);
        let mut buffer = AlignedBuffer::new(setup.read_size);
        let page_cache_share = self.page_cache_share();
        let mut scratch = if setup.has_two_ends() { vec![0; DRAIN_SIZE] } else { Vec::new() };
        announce();
        let Some(began_ns) = self.gate.wait() else { return (FlowReport::default(), None) };
        let mut meter = meter(setup, false, began_ns);
        let rewind = matches!(setup.transport, Transport::Source(_));
        let told = &self.told;
        let slot = Slot { fd: self.fd(), buffer: &mut buffer, pace: Pace::Free, abort: &self.abort, told, rewind };
        let stopped = engine::run(setup.engine, &mut flow, slot, &mut meter);
        meter.close_early();
        let mut report = self.report(&meter);
        report.options.page_cache_share = page_cache_share;
        report.total_bytes = meter.total_bytes();
        report.series = meter.into_bins();
        let mut fault = match stopped {
            Ok(Stop::Time) if setup.has_two_ends() => {
                // Nobody listens any more if the watchdog has given up already.
                let _ = self.tell.send(News::Closed { flow: self.flow });
                self.drain(&mut flow, &mut scratch, &mut report).err()
            }
            Ok(Stop::Time | Stop::Aborted | Stop::Done | Stop::Ended(End::Closed)) => None,
            Ok(Stop::Ended(End::Eof)) => {
                Some(Fault::PeerGone(format!("{} ended before the window did", setup.transport)))
            }
            Ok(Stop::Ended(End::Failed { errno, .. })) => {
                Some(Fault::io("moving bytes")(std::io::Error::from_raw_os_error(errno)))
            }
            Ok(Stop::Refused) => refused(flow.planted_end(), self.body, &self.abort),
            Err(fault) => Some(fault),
        };
        fault = fault.or_else(|| flow.fault());
        if let Some(Plant::Overcount { bytes }) = setup.plant {
            report.bytes += bytes;
            report.total_bytes += bytes;
        } else if fault.is_none() && setup.has_two_ends() {
            fault = self.fd().and_then(|fd| miscounted(setup, fd, self.flow, report.total_bytes));
        }
        report.verified_bytes = flow.verified_bytes();
        (report, fault)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// What the window held, and what the kernel says of the connection.
    fn report(&self, meter: &Meter) -> FlowReport {
        let kernel = self.fd().map(|fd| kernel::report(fd, &self.setup)).unwrap_or_default();
        let FlowReport { tcp, options, socket_memory, .. } = kernel;
        FlowReport { tcp, options, socket_memory, ..meter.window().report() }
    }

    /// How much of a regular file the page cache holds: reading it measures memory, or a disk.
    fn page_cache_share(&self) -> Option<f64> {
        let Transport::Source(path) = &self.setup.transport else { return None };
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        file::cached_fraction(self.fd()?, metadata.len()).ok()
    }

    /// Takes what is still on its way, so that bytes out and bytes in can be compared.
    fn drain<E: Effort>(
        &self,
        flow: &mut SinkFlow<E>,
        scratch: &mut [u8],
        report: &mut FlowReport,
    ) -> Result<(), Fault> {
        let Some(fd) = self.fd() else { return Ok(()) };
        loop {
            match sys_io::read(fd, scratch) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    report.total_bytes += n as u64;
                    if !flow.received_late(&scratch[..n]) {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    if self.abort.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                Err(source) => return Err(Fault::Io { doing: "draining what was on its way".into(), source }),
            }
        }
    }
}

/// What an end does to its path, for the watchdog.
pub(super) fn doing(setup: &PathSetup, side: Side) -> String {
    match (side, setup.foreign()) {
        (Side::Source, Some(_)) => format!(
            "writing to a server over {} that takes nothing more (does it read? or does it wait until somebody reads what \
             it sends?)",
            setup.transport
        ),
        (Side::Source, None) => format!("writing to {}", setup.transport),
        (Side::Sink, _) => format!("reading from {}", setup.transport),
    }
}

/// A meter for one thread of a trial, with room for bins where they are kept. Its time starts now; where there are
/// other flows, it started for all of them at `began_ns`.
pub(super) fn meter(setup: &PathSetup, until_told: bool, began_ns: u64) -> Meter {
    let PathSetup { warmup_ns, window_ns, series, .. } = *setup;
    let bins_max = if series { ((warmup_ns + window_ns) / 500_000 + 64).min(BINS_MAX) } else { 0 };
    let mut meter = Meter::start(&Schedule { warmup_ns, window_ns, until_told }, bins_max as usize);
    if setup.flows > 1 {
        meter.share_window(began_ns);
    }
    meter
}

fn dead(side: Side) -> Fault {
    let side = match side {
        Side::Source => "source",
        Side::Sink => "sink",
    };
    Fault::Impossible(format!("a thread of the {side} died in the middle of a trial"))
}

/// A flow ended itself: its data was wrong, or a fault was planted.
pub(super) fn refused(planted_end: Option<Plant>, body: Body, abort: &AtomicBool) -> Option<Fault> {
    match planted_end {
        Some(Plant::Die { .. }) if body == Body::Process => std::process::abort(),
        // Without the panic hook: the death is planned, and standard error belongs to the user.
        Some(Plant::Die { .. }) => std::panic::resume_unwind(Box::new("planted death")),
        Some(Plant::Stall { .. }) => {
            while !abort.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            None
        }
        _ => None,
    }
}

/// The kernel's own count of what a TCP connection received must be ours (a FIN counts as one byte).
pub(super) fn miscounted(setup: &PathSetup, fd: BorrowedFd<'_>, flow: usize, ours: u64) -> Option<Fault> {
    if !setup.transport.is_tcp() {
        return None;
    }
    let received = tcp_info::tcp_info(fd).ok()?.bytes_received?;
    (received != ours && received != ours + 1)
        .then(|| Fault::Miscounted(format!("flow {flow}: {ours} bytes were counted, TCP_INFO says {received}")))
}

/// An end's flows, or threads, summed up.
pub(super) fn sum(flows: Vec<FlowReport>) -> EndReport {
    let total = |field: fn(&FlowReport) -> u64| flows.iter().map(field).sum();
    EndReport {
        bytes: total(|f| f.bytes),
        calls: total(|f| f.calls),
        short_calls: total(|f| f.short_calls),
        window_ns: flows.iter().map(|flow| flow.window_ns).max().unwrap_or(0),
        user_ns: total(|f| f.user_ns),
        system_ns: total(|f| f.system_ns),
        cpu_ns: total(|f| f.cpu_ns),
        queued_ns: flows.iter().map(|f| f.queued_ns).sum(),
        voluntary_switches: total(|f| f.voluntary_switches),
        involuntary_switches: total(|f| f.involuntary_switches),
        total_bytes: total(|f| f.total_bytes),
        verified_bytes: total(|f| f.verified_bytes),
        call: None,
        engine: None,
        ring: None,
        datagrams: flows.iter().filter_map(|flow| flow.datagrams).reduce(|one, other| one.plus(&other)),
        flows,
    }
}
