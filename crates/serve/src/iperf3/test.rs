//! One test of one client, from its parameters to the exchange of results.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_sys::{cpu_time, socket};

use super::admission::Admitted;
use super::flow::{DataSocket, StreamCounts, StreamWork};
use super::{Iperf3Interval, Iperf3Notice, Iperf3Shared, Iperf3Test, is_passing, opening};
use bytegauge_traffic::iperf3::STREAMS_MAX;
use bytegauge_traffic::iperf3::message::{
    ControlState, Cookie, IDLE as IDLE_CODE, NOT_COUNTED, RATE_LIMIT, StreamResult, TOO_LONG, TestParameters,
    TestResults, stream_id,
};
use bytegauge_traffic::iperf3::server::{ControlServer, ServerEvent};

/// How long a test may move no byte before it is ended: its client has disappeared.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// How long a client may take for one step of the protocol.
const STEP: Duration = Duration::from_secs(10);

/// How long a test may be over its time before it is ended.
const LATE: Duration = Duration::from_secs(5);

/// How long a client may take to leave after an error.
const LEAVES: Duration = Duration::from_secs(2);

/// How often counts and flags are looked at.
const CHECK: Duration = Duration::from_millis(100);

/// The reason why a test did not end as planned, with iperf3's number of an error for the client, if it is still there.
struct Problem {
    code: Option<i32>,
    why: String,
}

/// Serves a client. Its connection is the control connection.
pub(super) fn serve(shared: &Iperf3Shared, connection: TcpStream, client: SocketAddr, cookie: Cookie) {
    let is_gone = || shared.stops() || hung_up(&connection);
    match shared.admission.enter(is_gone) {
        Admitted::Now => {}
        Admitted::Full => {
            let _ = (&connection).write_all(&[ControlState::AccessDenied.byte()]);
            return shared.refuse(client, "too many clients: raise --max-clients".into());
        }
        Admitted::Gone => return shared.refuse(client, "it left before its turn".into()),
    }
    let (taken, arriving) = mpsc::sync_channel(STREAMS_MAX);
    shared.waiting().insert(cookie, taken);
    let mut control = ControlLink { socket: connection, machine: ControlServer::new() };
    let mut test = Iperf3Test {
        client,
        version: None,
        transport: "tcp",
        server_writes: false,
        connections: 0,
        bytes: 0,
        client_bytes: None,
        seconds: 0.0,
        retransmits: None,
        datagrams: None,
        lost: None,
        jitter_seconds: None,
        problem: None,
    };
    if let Err(problem) = carry(shared, &mut control, arriving, &mut test) {
        match problem.code {
            Some(code) => control.machine.fail(code),
            None if shared.stops() => control.machine.terminate(),
            None => {}
        }
        let _ = control.flush();
        if test.connections == 0 {
            // It sent no parameters: there was no test.
            shared.refuse(client, problem.why.clone());
        }
        test.problem = Some(problem.why);
    }
    shared.waiting().remove(&cookie);
    shared.admission.leave();
    let moved = test.bytes > 0 || test.problem.is_none();
    let is_test = test.connections > 0;
    let ended = Iperf3Notice::Ended(Box::new(test));
    match (is_test, moved) {
        (true, true) => (shared.log)(ended),
        (true, false) => shared.report_briefly(ended),
        (false, _) => {}
    }
}

/// Whether a connection was closed by its peer.
fn hung_up(connection: &TcpStream) -> bool {
    match socket::peek(connection.as_fd(), &mut [0]) {
        Ok(n) => n == 0,
        Err(error) => !is_passing(&error),
    }
}

fn carry(
    shared: &Iperf3Shared,
    control: &mut ControlLink,
    arriving: mpsc::Receiver<TcpStream>,
    test: &mut Iperf3Test,
) -> Result<(), Problem> {
    let Some(ServerEvent::Parameters(wanted)) = control.event(STEP, shared)? else {
        return Err(gone("it sent no parameters"));
    };
    test.version.clone_from(&wanted.client_version);
    test.transport = if wanted.udp { "udp" } else { "tcp" };
    (test.server_writes, test.connections) = (wanted.reverse, wanted.parallel as usize);
    wanted.check().map_err(|error| Problem { code: Some(error.code()), why: error.to_string() })?;
    let time = allowed(shared, &wanted)?;
    let sockets = open(shared, control, &arriving, &wanted, test.client)?;
    // Further connections with this cookie are closed.
    drop(arriving);
    control.machine.start();
    control.flush().map_err(|error| gone(&error.to_string()))?;
    let began = Instant::now();
    let cpu_before_ns = cpu_time::process_usage().total_ns;
    let mut work = TestThreads::start(sockets, &wanted, shared.limits.rate);
    let mut ended = watch(shared, control, &work, (test.client, began, began + time));
    test.seconds = began.elapsed().as_secs_f64();
    send_error(control, &mut ended);
    work.end();
    let cpu_ns = cpu_time::process_usage().total_ns.saturating_sub(cpu_before_ns);
    work.settle(test, &wanted);
    ended?;
    control.machine.exchange();
    let Some(ServerEvent::Results(theirs)) = control.event(STEP, shared)? else {
        return Err(gone("it sent no results"));
    };
    test.client_bytes = Some(theirs.streams.iter().map(|stream| stream.bytes).fold(0, u64::saturating_add));
    let ours = work.results(test, cpu_ns, &wanted);
    control.machine.results(&ours).map_err(|error| gone(&error.to_string()))?;
    // The client has all results; it may close without its last state.
    let _ = control.event(STEP, shared);
    Ok(())
}

/// Sends the error of a test to its client, which reads it between two blocks of data: data flows until the client leaves.
fn send_error(control: &mut ControlLink, ended: &mut Result<(), Problem>) {
    let Some(code) = ended.as_mut().err().and_then(|problem| problem.code.take()) else { return };
    control.machine.fail(code);
    if control.flush().is_err() {
        return;
    }
    let deadline = Instant::now() + LEAVES;
    while Instant::now() < deadline && !hung_up(&control.socket) {
        std::thread::sleep(CHECK);
    }
}

fn gone(why: &str) -> Problem {
    Problem { code: None, why: why.into() }
}

/// The time of a test that the limits allow, its warm-up included.
fn allowed(shared: &Iperf3Shared, wanted: &TestParameters) -> Result<Duration, Problem> {
    let limits = &shared.limits;
    let asked = Duration::from_secs(wanted.time.saturating_add(wanted.omit));
    let is_bounded = wanted.time > 0 || wanted.num > 0 || wanted.blockcount > 0;
    if asked > limits.time || !is_bounded {
        let asked = if is_bounded { format!("{} s", asked.as_secs()) } else { "no end".into() };
        let why = format!("it asked for {asked}, the limit is {} s: raise --max-time", limits.time.as_secs());
        return Err(Problem { code: Some(TOO_LONG), why });
    }
    let rate = wanted.bandwidth.saturating_mul(wanted.parallel) / 8;
    // TCP slows down to the limit; a UDP client would only lose datagrams.
    if limits.rate.is_some_and(|limit| rate > limit || (wanted.udp && !wanted.reverse && rate == 0)) {
        let why = format!("it asked for {} bits a second: raise --max-rate", rate.saturating_mul(8));
        return Err(Problem { code: Some(RATE_LIMIT), why });
    }
    Ok(if wanted.time > 0 { asked } else { limits.time })
}

fn open(
    shared: &Iperf3Shared,
    control: &mut ControlLink,
    arriving: &mpsc::Receiver<TcpStream>,
    wanted: &TestParameters,
    client: SocketAddr,
) -> Result<Vec<DataSocket>, Problem> {
    let opened = if wanted.udp {
        let ControlLink { socket, machine } = control;
        let accept = || {
            machine.accept();
            // A client that left is noticed below.
            let _ = (&*socket).write_all(&machine.take_output());
        };
        opening::udp(shared, client.ip(), wanted, accept, || shared.stops() || hung_up(socket))
    } else {
        control.machine.accept();
        control.flush().map_err(|error| gone(&error.to_string()))?;
        opening::tcp(arriving, wanted, || shared.stops() || hung_up(&control.socket))
    };
    opened.map_err(|why| Problem { code: None, why })
}

/// Waits until the client ends the test, or a limit does.
fn watch(
    shared: &Iperf3Shared,
    control: &mut ControlLink,
    work: &TestThreads,
    (client, began, planned): (SocketAddr, Instant, Instant),
) -> Result<(), Problem> {
    let (mut seen, mut last) = (0, Instant::now());
    let mut interval = (began, 0);
    loop {
        match control.next(CHECK)? {
            Some(ServerEvent::Ended) => return Ok(()),
            Some(_) => return Err(gone("it does not keep to the protocol")),
            None => {}
        }
        let (bytes, now) = (work.bytes(), Instant::now());
        if bytes > seen {
            (seen, last) = (bytes, now);
        }
        if shared.limits.interval.is_some_and(|length| now >= interval.0 + length) {
            let (from, before) = std::mem::replace(&mut interval, (now, bytes));
            (shared.log)(Iperf3Notice::Interval(Iperf3Interval {
                client,
                from_seconds: (from - began).as_secs_f64(),
                to_seconds: (now - began).as_secs_f64(),
                bytes: bytes - before,
            }));
        }
        if shared.stops() {
            return Err(gone("the server stops"));
        }
        if now > planned + LATE {
            return Err(Problem { code: Some(TOO_LONG), why: "it did not end after its time".into() });
        }
        if now > last + IDLE {
            let why = format!("it moved no byte for {} s", IDLE.as_secs());
            return Err(Problem { code: Some(IDLE_CODE), why });
        }
        if let Some(limit) = shared.limits.bytes.filter(|limit| bytes > *limit) {
            let why = format!("it moved more than {limit} bytes: raise --max-bytes");
            return Err(Problem { code: Some(RATE_LIMIT), why });
        }
    }
}

/// The control connection with its protocol.
struct ControlLink {
    socket: TcpStream,
    machine: ControlServer,
}

impl ControlLink {
    /// The next event within `patience`. `None`: the time is over.
    fn event(&mut self, patience: Duration, shared: &Iperf3Shared) -> Result<Option<ServerEvent>, Problem> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && !shared.stops() {
            if let Some(event) = self.next(CHECK)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The next event, after one read at most.
    fn next(&mut self, patience: Duration) -> Result<Option<ServerEvent>, Problem> {
        self.flush().map_err(|error| gone(&error.to_string()))?;
        if let Some(event) = self.machine.next_event().map_err(|error| gone(&error.to_string()))? {
            return Ok(Some(event));
        }
        let mut buffer = [0; 4096];
        let room = self.machine.room().min(buffer.len());
        let read = self.socket.set_read_timeout(Some(patience)).and_then(|()| self.socket.read(&mut buffer[..room]));
        match read {
            Ok(0) => Err(gone("it closed its control connection")),
            Ok(n) => {
                self.machine.received(&buffer[..n]);
                self.machine.next_event().map_err(|error| gone(&error.to_string()))
            }
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(gone(&error.to_string())),
        }
    }

    /// Sends the answers within [`STEP`].
    fn flush(&mut self) -> io::Result<()> {
        send_within(STEP, &self.socket, &self.machine.take_output())
    }
}

/// Sends all bytes within a time, however little the client takes at once.
fn send_within(patience: Duration, mut socket: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_write_timeout(Some(left))?;
        match socket.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The threads of a test.
struct TestThreads {
    counts: Vec<Arc<StreamCounts>>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl TestThreads {
    fn start(sockets: Vec<DataSocket>, wanted: &TestParameters, limit: Option<u64>) -> TestThreads {
        let ends = Arc::new(AtomicBool::new(false));
        let (mut counts, mut threads) = (Vec::new(), Vec::new());
        let block: Arc<[u8]> = vec![0x5a; wanted.len as usize].into();
        let asked = (wanted.bandwidth > 0 && wanted.reverse).then_some(wanted.bandwidth / 8);
        let share = limit.map(|limit| (limit / wanted.parallel.max(1)).max(1));
        for socket in sockets {
            let own = Arc::new(StreamCounts::default());
            counts.push(Arc::clone(&own));
            let work = StreamWork {
                socket,
                counts: own,
                ends: Arc::clone(&ends),
                writes: wanted.reverse,
                block: Arc::clone(&block),
                rate: asked.into_iter().chain(share).min(),
                long_counters: wanted.udp_counters_64bit > 0,
            };
            // Without a thread the connection is closed, and the test ends without bytes.
            threads.extend(std::thread::Builder::new().name("iperf3-data".into()).spawn(move || work.run()).ok());
        }
        TestThreads { counts, ends, threads }
    }

    fn total(&self, field: impl Fn(&StreamCounts) -> u64) -> u64 {
        // Clients number their datagrams, and may give any number.
        self.counts.iter().map(|counts| field(counts)).fold(0, u64::saturating_add)
    }

    fn bytes(&self) -> u64 {
        self.total(|counts| counts.bytes.load(Ordering::Relaxed))
    }

    /// Ends all threads; each looks at the flag several times a second.
    fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    /// Sums the counts up.
    fn settle(&self, test: &mut Iperf3Test, wanted: &TestParameters) {
        let jitter_ns = self.counts.iter().map(|counts| counts.jitter_ns.load(Ordering::Relaxed)).max();
        let reads_datagrams = wanted.udp && !wanted.reverse;
        test.bytes = self.bytes();
        test.retransmits =
            (!wanted.udp && wanted.reverse).then(|| self.total(|counts| counts.retransmits.load(Ordering::Relaxed)));
        test.datagrams = wanted.udp.then(|| self.total(|counts| counts.datagrams.load(Ordering::Relaxed)));
        test.lost = reads_datagrams.then(|| self.total(|counts| counts.lost.load(Ordering::Relaxed)));
        test.jitter_seconds = jitter_ns.filter(|_| reads_datagrams).map(|ns| ns as f64 / 1e9);
    }

    /// The results as iperf3 sends them. CPU time is that of the whole server.
    fn results(&self, test: &Iperf3Test, cpu_ns: u64, wanted: &TestParameters) -> TestResults {
        let counts_retransmits = test.retransmits.is_some();
        let streams = self.counts.iter().enumerate().map(|(index, counts)| {
            let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
            StreamResult {
                id: stream_id(index),
                bytes: read(&counts.bytes),
                retransmits: if counts_retransmits { read(&counts.retransmits) } else { NOT_COUNTED },
                jitter: read(&counts.jitter_ns) as f64 / 1e9,
                errors: read(&counts.lost),
                packets: read(&counts.datagrams),
                end_time: test.seconds,
                ..StreamResult::default()
            }
        });
        TestResults {
            cpu_util_total: cpu_ns as f64 / 1e7 / test.seconds.max(1e-3),
            sender_has_retransmits: if wanted.reverse { counts_retransmits.into() } else { NOT_COUNTED },
            streams: streams.collect(),
            ..TestResults::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn client_that_takes_little_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut connection = TcpStream::connect(place).unwrap();
            let mut some = vec![0; 64 << 10];
            while matches!(connection.read(&mut some), Ok(1..)) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let socket = listener.accept().unwrap().0;
        // At this pace it takes a minute.
        let sent = send_within(Duration::from_millis(200), &socket, &vec![0; 64 << 20]);
        assert!(sent.is_err_and(|error| is_passing(&error)));
        // It resets the connection: the bytes under way would take long to read.
        socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
        drop(socket);
        client.join().unwrap();
    }

    #[test]
    fn counts_of_any_size_are_summed() {
        let counts = || {
            let counts = StreamCounts::default();
            for count in [&counts.bytes, &counts.datagrams, &counts.lost] {
                count.store(u64::MAX, Ordering::Relaxed);
            }
            Arc::new(counts)
        };
        let work = TestThreads { counts: vec![counts(), counts()], ends: Arc::default(), threads: Vec::new() };
        assert_eq!(work.bytes(), u64::MAX);
        assert_eq!(work.total(|counts| counts.lost.load(Ordering::Relaxed)), u64::MAX);
    }
}
