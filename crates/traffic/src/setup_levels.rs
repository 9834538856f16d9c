//! The levels of a trial as its ends use them: a level of the spec, or its default.
//!
//! Hot loops do not come here: a flow copies what it needs when it begins.

use bytegauge_model::{
    Arrivals, EmulatedLink, EndRole, Engine, Fill, Implementation, MessageParts, MessageWrites, Mode, RELAY_BUFFER,
    RelayChoice, RelayMethod, RelayThreads, RingFlags, SendFrom, Tls, Transport, UserData, Work, Workload,
};

use bytegauge_sys::buffer::PageOffset;

use crate::address::Address;
use crate::datagram::numbers::Layout;
use crate::pace::Pace;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;

/// How long a call may take, nanoseconds.
pub const TIMEOUT_NS: u64 = 5_000_000_000;

/// The backlog of a server: the kernel clamps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Largest receive of a call, bytes.
pub const READ_SIZE: usize = 16 << 10;

/// Datagrams that a system call moves at most, and receives that a ring keeps in flight: more gain little, and keep the reader
/// waiting.
pub const BATCH: u64 = 64;

/// Declares methods that read a level of the spec, or its default where the spec has none: `name: type = factor(default);`. Where a
/// number is at least one, `.max(1)` follows.
macro_rules! levels {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $factor:ident($default:expr) $(.max($least:literal))? $(as $cast:ty)?;)+) => {
        impl Setup {
            $($(#[doc = $doc])+ pub fn $name(&self) -> $type {
                self.spec.$factor().unwrap_or($default) $(.max($least))? $(as $cast)?
            })+
        }
    };
}

levels! {
    /// Parallel flows.
    flows: usize = flows(1) as usize;
    /// Receives of datagrams that a ring keeps in flight.
    outstanding: usize = outstanding(BATCH).max(1) as usize;
    /// Datagrams that a system call moves at most, for an engine that moves several.
    call_batch: usize = batch(BATCH).max(1) as usize;
    /// Calls that a flow keeps outstanding.
    depth: usize = depth(1).max(1) as usize;
    /// Threads of the server; an engine with a thread per flow makes its own.
    server_threads: usize = server_threads(1).max(1) as usize;
    /// Threads of the client.
    client_threads: usize = client_threads(1).max(1) as usize;
    /// The set-up of a ring.
    ring_flags: RingFlags = setup(RingFlags::default());
    /// Work per read, or per request.
    work: Work = work(Work::None);
    /// Private state touched per read, or per request, bytes.
    working_set: usize = working_set(0) as usize;
    /// Pause between two writes, or two calls, nanoseconds.
    think_ns: u64 = think_time(0);
    /// Encryption of connections.
    tls: Tls = tls(Tls::None);
    /// Where a writer of a stream has its bytes.
    send_from: SendFrom = send_from(SendFrom::Memory);
    /// The engine of both ends of a stream.
    engine: Engine = engine(Engine::Blocking);
    /// Work per write.
    writer_work: Fill = writer_work(Fill::None);
    /// CPU time that an end of a stream spends on its own per read or write, nanoseconds.
    call_work_ns: u64 = call_work(0);
    // `Setup::check` refuses calls without one.
    /// Bytes of a request.
    request: usize = request(0) as usize;
    /// How a message of several parts is written.
    message_writes: MessageWrites = message_writes(MessageWrites::Separate);
    /// Whether every call opens a connection of its own.
    connect_per_call: bool = connect_per_call(false);
    /// Further connections that are open and silent.
    idle_flows: usize = idle_flows(0) as usize;
    /// Flows of a second group of clients that loads the same server at the same time.
    competing_flows: usize = competing_flows(0) as usize;
    /// How an offered load is spaced.
    arrivals: Arrivals = arrivals(Arrivals::Constant);
    /// How long a call may take, nanoseconds.
    timeout_ns: u64 = timeout(TIMEOUT_NS);
    /// Whether each thread of the server has a socket of its own at the same address (`SO_REUSEPORT`).
    reuseport: bool = reuseport(false);
    /// The threads of a relay whose method leaves the choice.
    relay_threads: RelayThreads = relay_threads(RelayThreads::Direction);
    // `Setup::check` refuses a ring without one.
    /// The implementation that drives the ring.
    implementation: Implementation = implementation(Implementation::Null);
    /// The data of each operation.
    user_data: UserData = user_data(UserData::None);
    /// The task of the loop.
    mode: Mode = mode(Mode::Ceiling);
    /// Submissions that fit the ring.
    entries: u32 = entries(0) as u32;
}

/// The path, independent of the workload.
impl Setup {
    /// The workload over the path.
    pub fn workload(&self) -> Workload {
        self.spec.workload()
    }

    /// Whether there is a path: a ring has none, and that of a program is its own.
    pub fn has_path(&self) -> bool {
        matches!(self.workload(), Workload::Stream | Workload::Call)
    }

    /// How the ends are joined.
    pub fn transport(&self) -> &Transport {
        // `Setup::check` refuses a path without one.
        self.spec.transport().unwrap_or(&Transport::Unix)
    }

    /// Buffer of a read, bytes.
    pub fn read_size(&self) -> usize {
        let default = match self.workload() {
            Workload::Call => READ_SIZE as u64,
            // With an external server, only the harness's own loop needs it: the size of a write.
            _ => self.spec.write_size().unwrap_or(0),
        };
        self.spec.read_size().unwrap_or(default) as usize
    }

    /// Where the buffers of the ends begin within a page.
    pub fn page_offset(&self) -> PageOffset {
        self.spec.buffer_offset().map_or(PageOffset::Malloc, |offset| PageOffset::At(offset as usize))
    }

    /// The address of an external server: then only the end that writes or calls is bytegauge's.
    pub fn external(&self) -> Option<Address> {
        // `Setup::check` refuses a name that was never looked up.
        self.spec.connect().filter(|_| self.is_external()).and_then(|place| Address::of(place).ok())
    }

    /// Whether the server is external. The harness's own loop of a stream connects to no server.
    pub fn is_external(&self) -> bool {
        self.spec.connect().is_some() && (self.workload() == Workload::Call || self.engine() != Engine::Null)
    }

    /// Whether an iperf3 server is the other end.
    pub fn is_with_iperf3(&self) -> bool {
        self.spec.is_with_iperf3() && self.is_external()
    }

    /// Whether an iperf3 server writes and the end here reads.
    pub fn iperf3_writes(&self) -> bool {
        self.spec.iperf3_writes() && self.is_external()
    }

    /// Where the numbers of datagrams are.
    pub(crate) fn layout(&self) -> Layout {
        if self.is_with_iperf3() { Layout::Iperf3 } else { Layout::Plain }
    }

    /// The emulated link between the ends, or between a program and its server, if there is one.
    pub fn link(&self) -> Option<EmulatedLink> {
        self.spec.emulated_link().filter(|_| self.has_path() || self.program.is_some())
    }

    /// Whether both ends take part. The null engine moves nothing, an external server takes no commands, and a device has no
    /// other end: then the end that measures is alone.
    pub fn has_two_ends(&self) -> bool {
        match self.workload() {
            Workload::Call => self.client_engine() != Engine::Null && !self.is_external(),
            _ => self.transport().two_ended() && self.engine() != Engine::Null && !self.is_external(),
        }
    }

    /// The engine of one end; `None` for ends that have none.
    pub fn engine_of(&self, role: EndRole) -> Option<Engine> {
        match self.workload() {
            Workload::Stream => Some(self.engine()),
            Workload::Call if role == EndRole::Server => Some(self.server_engine()),
            Workload::Call => Some(self.client_engine()),
            _ => None,
        }
    }

    /// Offered load of all flows, bytes or calls per second, in each direction. `None`: as much as the path carries.
    pub fn rate(&self) -> Option<u64> {
        match self.workload() {
            Workload::Call => self.spec.call_rate(),
            _ => self.spec.rate(),
        }
    }

    /// The planted fault, where faults are compiled in.
    pub(crate) fn planted(&self) -> Option<PlantedFault> {
        PlantedFault::enabled(self.plant)
    }
}

/// A stream.
impl Setup {
    /// Buffer of a write, bytes; `None` for one-ended sources.
    pub fn write_size(&self) -> Option<usize> {
        self.spec.write_size().filter(|_| self.transport().two_ended()).map(|bytes| bytes as usize)
    }

    /// Bytes of a datagram.
    pub(crate) fn datagram_size(&self) -> usize {
        self.write_size().unwrap_or(1).max(1)
    }

    /// Datagrams that are handed to the kernel at once; `None`: as many as suit the engine.
    pub fn batch(&self) -> Option<usize> {
        self.spec.batch().map(|n| n as usize)
    }

    /// Whether the kernel joins datagrams for one receive.
    pub fn joins_datagrams(&self) -> bool {
        self.engine() == Engine::Gso && self.spec.gro() != Some(false)
    }

    /// Whether bytes go in both directions at once: each end writes and reads every connection, or has as many flows of datagrams
    /// once more for the other direction.
    pub fn goes_both_ways(&self) -> bool {
        self.workload() == Workload::Stream && self.spec.goes_both_ways() && self.engine() != Engine::Null
    }

    /// The pace of each of its flows' writes.
    pub(crate) fn pace(&self) -> Pace {
        match self.spec.bursts() {
            Some((bytes, every_ns)) => Pace::Burst { bytes, every_ns },
            None => Pace::of(self.rate(), self.flows(), self.think_ns()),
        }
    }

    /// Flows of both directions, in one window.
    pub(crate) fn flows_of_all_ways(&self) -> usize {
        self.flows().saturating_mul(if self.goes_both_ways() { 2 } else { 1 })
    }

    /// Whether the second direction has sockets of its own. The messages by which the ends of a flow of datagrams agree on its
    /// beginning and end use its socket's other direction, where no data may be.
    pub(crate) fn has_sockets_each_way(&self) -> bool {
        self.goes_both_ways() && self.transport().is_datagram()
    }

    /// Sockets that the ends connect: one for each flow, followed by those of the second direction if it has its own.
    pub fn joined(&self) -> usize {
        if self.has_sockets_each_way() { self.flows_of_all_ways() } else { self.flows() }
    }

    /// Whether a flow of datagrams belongs to the second direction: the end that connected reads it.
    pub(crate) fn goes_back(&self, flow: usize) -> bool {
        self.has_sockets_each_way() && flow >= self.flows()
    }
}

/// Calls.
impl Setup {
    /// Bytes of a reply. As long as the request, it is an echo: the same bytes.
    pub fn response(&self) -> usize {
        self.spec.response().map_or(self.request(), |bytes| bytes as usize)
    }

    /// The parts in which a request is sent; `None`: it is sent whole.
    pub fn request_parts(&self) -> Option<MessageParts> {
        self.spec.request_chunk().map(|bytes| MessageParts::of(bytes as usize))
    }

    /// The value of `TCP_QUICKACK` that both ends of calls set again after each receive.
    pub fn quickack_again(&self) -> Option<bool> {
        self.spec.quickack().filter(|_| self.spec.quickack_again() == Some(true))
    }

    /// Streams in each direction that load the path of the calls. The harness's own loop has no path.
    pub fn load_flows(&self) -> usize {
        if self.has_two_ends() { self.spec.load_flows().unwrap_or(0) as usize } else { 0 }
    }

    /// The engine of the server.
    pub fn server_engine(&self) -> Engine {
        self.engine_of_calls(self.spec.server_engine())
    }

    /// The engine of the client.
    pub fn client_engine(&self) -> Engine {
        self.engine_of_calls(self.spec.client_engine())
    }

    fn engine_of_calls(&self, own: Option<Engine>) -> Engine {
        let plainest = if self.transport().is_datagram() { Engine::Plain } else { Engine::Blocking };
        own.or(self.spec.engine()).unwrap_or(plainest)
    }

    /// Connections that may wait to be accepted.
    pub fn backlog(&self) -> i32 {
        self.spec.backlog().map_or(BACKLOG, |n| n.min(i32::MAX as u64) as i32)
    }

    /// Whether only the length of replies is known: an external server that replies with this number of bytes may return other
    /// bytes.
    pub fn is_opaque(&self) -> bool {
        self.is_external() && self.spec.response().is_some()
    }

    /// Whether clients wait for given times: an offered rate, or a pause between calls.
    pub fn waits(&self) -> bool {
        self.rate().is_some() || self.think_ns() > 0
    }

    /// Whether a reply is the request itself, sent from where it was received.
    pub fn echoes(&self) -> bool {
        self.request() == self.response() && self.spec.response_parts().is_none() && !self.is_opaque()
    }
}

/// A relay between the ends.
impl Setup {
    /// The relay; `None` if the ends are connected directly.
    pub fn relay(&self) -> Option<&RelayChoice> {
        let direct = RelayChoice::Method(RelayMethod::Direct);
        self.spec.relay().filter(|relay| **relay != direct && self.has_path())
    }

    /// The method of bytegauge's own relay.
    pub fn relay_method(&self) -> Option<RelayMethod> {
        self.relay().and_then(RelayChoice::method)
    }

    /// Bytes of the buffer of each direction, if the user sets them.
    pub fn set_relay_buffer(&self) -> Option<usize> {
        self.spec.relay_buffer().map(|bytes| bytes as usize)
    }

    /// Bytes of the buffer of each direction of a relay.
    pub fn relay_buffer(&self) -> usize {
        let small = || self.relay_method().and_then(RelayMethod::small_buffer);
        self.set_relay_buffer().or_else(small).unwrap_or(RELAY_BUFFER)
    }

    /// Capacity to request for each pipe of a relay, bytes; `None`: the kernel's default.
    pub fn relay_pipe(&self) -> Option<usize> {
        self.spec.relay_pipe().map(|bytes| bytes as usize)
    }
}

/// A ring.
impl Setup {
    /// Operations of one submission.
    pub fn submit_batch(&self) -> u32 {
        self.spec.submit_batch().map_or(self.entries(), |count| count as u32)
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Level, Spec};

    use super::*;

    fn call(given: &[(&str, Level)]) -> Setup {
        let mut levels =
            Spec::from([("transport", "tcp".into()), ("request", 512.into())]).with_workload(Workload::Call);
        for (name, level) in given {
            levels.set(name, level.clone());
        }
        Setup::of(&levels).unwrap()
    }

    #[test]
    fn a_stream_reads_its_levels() {
        let levels = [("transport", "tcp".into()), ("read_size", 4096.into()), ("write_size", 65536.into())];
        let more = [("work", "0.5ns".into()), ("rate", "max".into())];
        let setup = Setup::of(&levels.into_iter().chain(more).collect()).unwrap();
        assert_eq!((setup.read_size(), setup.write_size(), setup.rate()), (4096, Some(65536), None));
        assert_eq!((setup.work(), setup.engine()), (Work::NsPerByte(0.5), Engine::Blocking));
    }

    #[test]
    fn a_plain_echo_is_the_default_of_calls() {
        let setup = call(&[]);
        assert!(setup.echoes());
        assert_eq!((setup.depth(), setup.rate(), setup.read_size()), (1, None, READ_SIZE));
        assert_eq!(setup.server_engine(), Engine::Blocking);
    }

    #[test]
    fn an_external_server_is_known_to_echo_only() {
        let at = || ("connect", Level::Name("127.0.0.1:7".into()));
        let echo = call(&[at(), ("response", Level::Name("same".into()))]);
        assert_eq!(echo.external(), Some(Address::Ip(([127, 0, 0, 1], 7).into())));
        assert!(echo.echoes() && !echo.is_opaque());
        let other = call(&[at(), ("response", Level::Number(512))]);
        assert!(!other.echoes() && other.is_opaque());
        assert!(!call(&[("connect", Level::auto())]).is_external());
    }

    #[test]
    fn calls_read_their_levels() {
        let name = |text: &str| Level::Name(text.into());
        let setup = call(&[
            ("response", name("same")),
            ("engine", name("tokio")),
            ("client_engine", name("epoll")),
            ("call_rate", name("max")),
            ("arrivals", name("poisson")),
            ("request_chunk", name("auto")),
        ]);
        assert_eq!(setup.response(), 512);
        assert_eq!((setup.server_engine(), setup.client_engine().to_string()), (Engine::Tokio, "epoll".into()));
        assert_eq!((setup.rate(), setup.arrivals()), (None, Arrivals::Poisson));
        assert_eq!(setup.request_parts(), None);
    }
}
