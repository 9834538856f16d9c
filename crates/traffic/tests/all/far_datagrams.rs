//! Streams of datagrams between two ends set up as on two hosts, over a path that loses messages of the handshake as well as
//! data.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::{DatagramReport, EndReport, EndRole, Ends, Side, Spec};
use bytegauge_traffic::path::{FarPath, Ticket};
use bytegauge_traffic::{Address, Command, EndPool, Reply, Setup};

/// A peer that is silent for this time has hung.
const PATIENCE: Duration = Duration::from_secs(60);

const FLOWS: usize = 2;

fn setup(engine: &str, window_ns: u64) -> Setup {
    let levels = Spec::from([
        ("transport", "udp".into()),
        ("engine", engine.into()),
        ("flows", (FLOWS as u64).into()),
        ("read_size", 65_536.into()),
        ("write_size", 1000.into()),
        ("rate", 10_000_000.into()),
    ]);
    let far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, Ticket::fresh().unwrap()));
    Setup { far, warmup_ns: 1_000_000, window_ns, seed: 7, verify: true, ..Setup::of(&levels).unwrap() }
}

/// The fate of a datagram in this direction, given its number and its size.
type Loses = fn(back: bool, number: u64, len: usize) -> bool;

/// A path to a socket.
struct Lossy {
    at: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Lossy {
    fn to(door: SocketAddr, loses: Loses) -> Lossy {
        let here = UdpSocket::bind("127.0.0.1:0").unwrap();
        here.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (at, over) = (here.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut ways: Vec<(SocketAddr, UdpSocket)> = Vec::new();
            let (mut bytes, mut there, mut back) = (vec![0; 65_536], 0, 0);
            while !ends.load(Ordering::Relaxed) {
                if let Ok((len, source)) = here.recv_from(&mut bytes) {
                    if ways.iter().all(|(known, _)| *known != source) {
                        let way = UdpSocket::bind("127.0.0.1:0").unwrap();
                        way.connect(door).unwrap();
                        way.set_nonblocking(true).unwrap();
                        ways.push((source, way));
                    }
                    there += 1;
                    let way = ways.iter().find(|(known, _)| *known == source && !loses(false, there, len));
                    let _ = way.map(|(_, way)| way.send(&bytes[..len]));
                }
                for (source, way) in &ways {
                    if let Ok(len) = way.recv(&mut bytes) {
                        back += 1;
                        let _ = (!loses(true, back, len)).then(|| here.send_to(&bytes[..len], source));
                    }
                }
            }
        });
        Lossy { at, over }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Runs a trial as the harness does: the counts of the source and the sink. `None` if this machine lacks the engine.
fn carried(engine: &str, loses: Loses, window_ns: u64) -> Option<[EndReport; 2]> {
    let setup = setup(engine, window_ns);
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    let stop_requested = |pool: &mut EndPool, role: EndRole, command| pool.end(role).unwrap().send(command).unwrap();
    let heard = |pool: &mut EndPool, role: EndRole| pool.end(role).unwrap().reply(PATIENCE).unwrap();
    stop_requested(&mut pool, EndRole::Sink, Command::Open(EndRole::Sink, Box::new(setup.clone()), None));
    let Reply::Listening(Address::Ip(door)) = heard(&mut pool, EndRole::Sink) else { panic!("no door") };
    let path = Lossy::to(door, loses);
    let open = Command::Open(EndRole::Source, Box::new(setup), Some(Address::Ip(path.at)));
    stop_requested(&mut pool, EndRole::Source, open);
    for role in [EndRole::Source, EndRole::Sink] {
        match heard(&mut pool, role) {
            Reply::Ready => {}
            other => panic!("{role}: {other:?}"),
        }
    }
    for role in [EndRole::Sink, EndRole::Source] {
        stop_requested(&mut pool, role, Command::Go);
    }
    let closed = heard(&mut pool, EndRole::Sink);
    stop_requested(&mut pool, EndRole::Source, Command::Stop);
    let mut reports = [EndRole::Source, EndRole::Sink].map(|role| match (role, heard(&mut pool, role)) {
        (_, Reply::Done(report)) => Some(*report),
        (_, Reply::Skipped(reason)) if engine.starts_with("uring") && !reason.is_empty() => None,
        (_, other) => panic!("{role}: {other:?}"),
    });
    let reports = [reports[0].take()?, reports[1].take()?];
    assert_eq!(closed, Reply::Closed);
    Some(reports)
}

/// Every number is accounted for, although some were lost, and only data was counted.
fn check(engine: &str, loses: Loses) {
    let mut seen = [100_000_000, 1_000_000_000, 10_000_000_000].into_iter().map(|window_ns| {
        let [source, sink] = carried(engine, loses, window_ns)?;
        assert_eq!((source.flows.len(), sink.flows.len()), (FLOWS, FLOWS));
        Some((*source.datagrams.unwrap(), *sink.datagrams.clone().unwrap(), sink))
    });
    // A busy machine may keep both from a window in which datagrams arrive, and some are lost.
    let shows = |seen: &Option<(DatagramReport, DatagramReport, EndReport)>| {
        seen.as_ref().is_none_or(|(sent, came, _)| came.total > 0 && came.distinct() < sent.total)
    };
    let Some((sent, came, sink)) = seen.find(shows).expect("some came, and some were lost") else { return };
    assert!(came.missing <= sent.total - came.distinct() && came.duplicated == 0, "{engine}: {sent:?} {came:?}");
    assert_eq!((sink.total_bytes, sink.verified_bytes), (came.total * 1000, came.total * 1000), "{engine}");
}

#[test]
fn flows_survive_losses_of_the_handshake() {
    for engine in ["plain", "mmsg", "uring:plain", "uring:multishot"] {
        // The first tickets of each flow, the first answers, and from then on every seventh datagram.
        check(engine, |_, number, _| number <= 4 || number % 7 == 0);
    }
}

#[test]
fn source_leaves_without_an_answer_to_its_end() {
    check("plain", |back, number, len| (back && len == 0) || number % 7 == 0);
}

#[test]
fn unadmitted_source_sends_only_its_ticket() {
    for engine in ["plain", "mmsg", "gso"] {
        let setup = setup(engine, 100_000_000);
        let shown = setup.far.unwrap().ticket;
        let door = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
        let source = pool.end(EndRole::Source).unwrap();
        let at = Address::Ip(door.local_addr().unwrap());
        source.send(Command::Open(EndRole::Source, Box::new(setup), Some(at))).unwrap();
        assert_eq!(source.reply(PATIENCE).unwrap(), Reply::Ready);
        source.send(Command::Go).unwrap();
        // The other end has given up.
        source.send(Command::Stop).unwrap();
        let Reply::Done(report) = source.reply(PATIENCE).unwrap() else { panic!("{engine}") };
        assert_eq!((report.total_bytes, report.datagrams.as_ref().unwrap().total), (0, 0), "{engine}");
        door.set_nonblocking(true).unwrap();
        let mut bytes = [0; 2000];
        let received: Vec<_> =
            std::iter::from_fn(|| door.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec())).collect();
        assert!(!received.is_empty(), "{engine}: it sends its ticket until it is stopped");
        assert!(
            received.iter().all(|received| (0..FLOWS).any(|flow| *received == shown.shown_by(flow))),
            "{engine}: {received:?}"
        );
    }
}
