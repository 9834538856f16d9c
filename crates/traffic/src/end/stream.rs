//! An end of a stream: a thread per flow, or one thread for all of them, depending on the engine.
//!
//! If flows share a thread, the first one has its counters; every flow has its own bytes, its end, and the kernel's facts about
//! it.

mod drain;
pub(super) mod thread;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytegauge_model::catalog::EngineEnd;
use bytegauge_model::{EndRole, Engine, FdTable, Side, Tls};
use bytegauge_sys::descriptor_table;

use crate::address::Address;
use crate::datagram::cut_size;
use crate::end::peer::{Body, Peer};
use crate::end::plan::{EndPlan, LARGE_STACK, SMALL_STACK};
use crate::end::runner::{self, EndResult, ThreadReport, overcount, summed};
use crate::end::server::own_table_without_sqpoll;
use crate::end::stream::thread::StreamThread;
use crate::end::thread_group::{EndThread, ThreadResults};
use crate::end_error::EndError;
use crate::iperf3;
use crate::message::Reply;
use crate::setup::Setup;
use crate::stream::SourceFile;
use crate::tls;
use crate::transport::datagram::{cut_sends, join_segments, turn};
use crate::transport::device::Alone;
use crate::transport::{Joint, Listening, joint};

/// One end of a stream, connected to the other.
struct StreamEnd {
    setup: Arc<Setup>,
    role: EndRole,
    body: Body,
    /// By flow, and with bytes in both directions by flow once more, for the other direction; absent in the null engine, or if
    /// a thread has it.
    fds: Vec<Option<OwnedFd>>,
    /// The test that this is for an iperf3 server.
    iperf3: Option<iperf3::Iperf3Session>,
    /// The file of its writers, if they have one.
    file: Option<Arc<SourceFile>>,
    /// Held until `Go`: a pipe keeps its name until the source has opened it too.
    _listening: Option<Box<dyn Listening>>,
}

impl StreamEnd {
    /// Connects the ends. `Ok(None)` if the channel was closed before its first reply.
    fn open(
        peer: &mut impl Peer,
        role: EndRole,
        setup: &Arc<Setup>,
        address: Option<&Address>,
        body: Body,
    ) -> Result<Option<StreamEnd>, EndError> {
        let (transport, engine) = (setup.transport(), setup.engine());
        if !engine.carries(EngineEnd::Stream, transport) {
            return Err(EndError::Missing(format!("engine {engine} does not carry {transport}: use another --engine")));
        }
        own_table_without_sqpoll(setup.fd_table(), engine)?;
        tls::fit(setup)?;
        let file = SourceFile::of(setup)?;
        if setup.spec.zerocopy_receive() == Some(true) && setup.spec.inq() == Some(true) {
            let why =
                "a reader that maps its bytes gets no count of queued ones: leave out --inq or --zerocopy-receive";
            return Err(EndError::Missing(why.into()));
        }
        let joins = setup.has_two_ends() || setup.is_external();
        let joint: &dyn Joint = if joins { joint(transport) } else { lone(setup) };
        let mut listening = None;
        let mut iperf3 = None;
        let fds = match (role.side(), address) {
            (_, Some(Address::Iperf3(server))) => {
                let (session, fds) = iperf3::Iperf3Session::open(*server, setup)?;
                iperf3 = Some(session);
                fds
            }
            (Side::Sink, _) => {
                let listener = listening.insert(joint.listen(setup)?);
                if !peer.reply(Reply::Listening(listener.address())) {
                    return Ok(None);
                }
                let accepted = listener.accept(setup)?;
                if setup.shares_port() {
                    // All expected connections are here: the agent gets its port back.
                    listening = None;
                }
                accepted
            }
            (Side::Source, Some(address)) => joint.connect(address, setup)?,
            (Side::Source, None) => return Err(EndError::Impossible("a source was opened without an address".into())),
        };
        for (flow, fd) in fds.iter().enumerate().filter(|_| transport.is_datagram()) {
            let back = setup.goes_back(flow);
            let side = if back { role.side().other() } else { role.side() };
            if back {
                turn(fd, side, setup)?;
            }
            match side {
                Side::Sink if engine == Engine::Gso => join_segments(fd.as_fd())?,
                Side::Sink => {}
                Side::Source => cut_size(setup).map_or(Ok(()), |size| cut_sends(fd.as_fd(), size))?,
            }
        }
        let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
        fds.resize_with(setup.joined(), || None);
        if setup.goes_both_ways() && !setup.has_sockets_each_way() {
            let twice = fds.iter().map(|fd| fd.as_ref().map(OwnedFd::try_clone).transpose());
            let twice = twice.collect::<io::Result<Vec<_>>>().map_err(EndError::io("duplicating a connection"))?;
            fds.extend(twice);
        }
        Ok(Some(StreamEnd { setup: Arc::clone(setup), role, body, fds, iperf3, file, _listening: listening }))
    }

    /// Threads with the same task.
    fn threads(&self) -> usize {
        if carries_many(&self.setup) { 1 } else { self.setup.flows() }
    }
}

/// Without a source the sink is alone: it reads a device or a file, or moves nothing at all.
fn lone(setup: &Setup) -> &'static dyn Joint {
    if setup.transport().two_ended() { &Alone } else { joint(setup.transport()) }
}

/// Whether one thread drives all flows.
fn carries_many(setup: &Setup) -> bool {
    setup.engine() != Engine::Null && !setup.engine().has_thread_a_flow() && !setup.transport().is_datagram()
}

/// Runs a trial of a source or a sink. `Ok(None)` if it was called off.
pub(super) fn run(
    peer: &mut impl Peer,
    role: EndRole,
    setup: &Arc<Setup>,
    address: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    let Some(mut end) = StreamEnd::open(peer, role, setup, address, body)? else { return Ok(None) };
    let results = runner::run(peer, &end.plan(), |thread, _| end.thread(thread))?;
    Ok(results.map(|results| end.report(results)))
}

impl StreamEnd {
    fn plan(&self) -> EndPlan {
        let Setup { warmup_ns, window_ns, grace_ns, .. } = *self.setup;
        let (threads, both, writes) = (self.threads(), self.setup.goes_both_ways(), self.role.side() == Side::Source);
        // An external server sends no report, so the writer measures.
        let until_stopped = writes && !both && !self.setup.is_external();
        let readers = if writes { threads..2 * threads } else { 0..threads };
        let all = threads * if both { 2 } else { 1 };
        let what = doing(&self.setup, self.role.side());
        let cpus = (0..all).map(|thread| self.setup.cpu(self.role, thread % threads)).collect();
        EndPlan {
            stack: if carries_many(&self.setup) || self.setup.tls() == Tls::Rustls { LARGE_STACK } else { SMALL_STACK },
            own_tables: self.setup.fd_table() == FdTable::Private,
            waits: !self.setup.pace().is_free(),
            until_stopped,
            patience_ns: if until_stopped { 0 } else { warmup_ns + window_ns } + grace_ns,
            windowed: both.then_some(readers),
            bound: self.setup.bound,
            ..EndPlan::of(what, self.role.name(), cpus, "--flows")
        }
    }

    fn thread(&mut self, thread: usize) -> EndThread<ThreadReport> {
        let (alone, flows) = (!carries_many(&self.setup), self.setup.flows());
        let (back, number) = (thread >= self.threads(), thread % self.threads());
        let numbers = if alone { number..number + 1 } else { 0..flows };
        let first = if back { flows } else { 0 };
        let flows: Vec<_> = numbers.map(|flow| (flow, self.fds[first + flow].take())).collect();
        let numbers = flows.iter().filter_map(|(_, fd)| Some(descriptor_table::number(fd.as_ref()?.as_fd())));
        let descriptors = numbers.collect();
        let side = if back { self.role.side().other() } else { self.role.side() };
        let (setup, file) = (Arc::clone(&self.setup), self.file.clone());
        let stream = StreamThread { setup, side, body: self.body, alone, back, file, flows };
        EndThread::new(descriptors, move |start| stream.carry(start))
    }

    fn report(self, results: ThreadResults<ThreadReport>) -> EndResult {
        let (mut report, mut fault) = summed(results);
        overcount(&mut report, self.setup.planted(), self.role.side());
        if let (Some(session), None) = (self.iperf3, &fault) {
            fault = session.finish(&mut report).err();
        }
        EndResult { report, fault, ..EndResult::default() }
    }
}

/// A description of an end's work, for the watchdog.
fn doing(setup: &Setup, side: Side) -> String {
    match (side, setup.is_external()) {
        (Side::Source, true) => format!(
            "writing to a server over {} that takes nothing more (does it read? or does it wait for a reader of the bytes that \
             it sends?)",
            setup.transport()
        ),
        (Side::Source, false) => format!("writing to {}", setup.transport()),
        (Side::Sink, _) => format!("reading from {}", setup.transport()),
    }
}
