//! Every method of a relay, in every threading that it has, between plain clients and servers of the standard library.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytegauge_model::relay::{RELAY_METHODS, RELAY_THREADS};
use bytegauge_model::{FactorKey, RelayChoice, RelayMethod, RelayReport, RelayThreads, Spec, Workload};
use bytegauge_traffic::end::thread_group::Flags;
use bytegauge_traffic::meter::{Meter, Schedule};
use bytegauge_traffic::relay::{self, RelayShared, Upstream};
use bytegauge_traffic::{Address, EndError, PlantedFault, Setup};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::support::relayed::{
    HELD_UP, a_reset_comes_through, all_comes_back_at_the_end, all_comes_through_after_a_pause, blocking_listener,
    calls_come_back, echo, replies_at_the_end, server,
};
use crate::support::{file_reads, listener, message, no_listener, plain, plain_call};

/// Every method with every threading, and one of an odd buffer.
fn specs() -> Vec<Spec> {
    let methods = RELAY_METHODS.iter().map(|row| row.value).filter(|method| *method != RelayMethod::Direct);
    let mut specs = Vec::new();
    for method in methods {
        let threads = RELAY_THREADS.iter().map(|row| row.value);
        let kinds: Vec<_> = if method.has_threads() { threads.map(Some).collect() } else { vec![None] };
        specs.extend(kinds.into_iter().map(|threads| {
            relay_with(method, |spec| {
                if let Some(threads) = threads {
                    spec.put(FactorKey::relay_threads, threads);
                }
            })
        }));
    }
    let small = |spec: &mut Spec| spec.put(FactorKey::relay_buffer, 777);
    specs.push(relay_with(RelayMethod::ReadvWritev, small));
    let mut pipes = relay_with(RelayMethod::Hybrid, small);
    pipes.put(FactorKey::relay_pipe, 4096);
    specs.push(pipes);
    specs.retain(|spec| match spec.relay().and_then(RelayChoice::method).and_then(missing_requirement) {
        None => true,
        Some(reason) => {
            eprintln!("SKIPPED: {:?}: {reason}", spec.relay());
            false
        }
    });
    specs
}

/// A relay of calls by a method, over TCP.
fn relay_by(method: RelayMethod) -> Spec {
    let levels = [("transport", "tcp".into()), ("request", 4096.into())];
    let mut spec = levels.into_iter().collect::<Spec>().with_workload(Workload::Call);
    spec.put(FactorKey::relay, RelayChoice::Method(method));
    spec
}

/// The same with a level of its own.
fn relay_with(method: RelayMethod, change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = relay_by(method);
    change(&mut spec);
    spec
}

/// The missing requirement of a method, checked in a thread of its own: when a tested ring closes, it interrupts the system
/// calls of the thread that created it.
fn missing_requirement(method: RelayMethod) -> Option<String> {
    std::thread::spawn(move || relay::missing_requirement(method)).join().unwrap()
}

fn method(relay: &Spec) -> RelayMethod {
    relay.relay().and_then(RelayChoice::method).unwrap()
}

fn for_all(check: impl Fn(&Spec)) {
    for spec in specs() {
        println!("{}", serde_json::to_string(&spec).unwrap());
        check(&spec);
    }
}

/// The reads of files by a thread of the relay, if they are counted, and the bytes that its engine copied.
type RelayCounts = (Option<u64>, u64);

/// A running relay.
struct Running {
    shared: Arc<RelayShared>,
    stop_requested: Arc<AtomicBool>,
    /// The number of its read(2) calls, if the kernel reports it, and of the bytes that its engine copied.
    threads: Vec<JoinHandle<Result<RelayCounts, EndError>>>,
    address: Address,
}

impl Running {
    /// A relay in front of an address, until `expected` connections have ended, or until it is stopped.
    fn over(
        transport: &str,
        relay: &Spec,
        to: &Address,
        expected: Option<usize>,
        plant: Option<PlantedFault>,
    ) -> Running {
        let mut spec = relay.clone();
        spec.set_level(FactorKey::transport, transport.into());
        let setup = Setup { plant, ..Setup::of(&spec).unwrap() };
        let (listener, address) = relay::listen(&setup).unwrap();
        let shared = Arc::new(RelayShared::new(listener, Upstream::new(to, &setup).unwrap(), expected));
        let stop_requested = Arc::new(AtomicBool::new(false));
        let thread = || {
            let (shared, stop_requested, setup) = (Arc::clone(&shared), Arc::clone(&stop_requested), setup.clone());
            std::thread::spawn(move || {
                let schedule = Schedule { warmup_ns: 0, window_ns: 1, until_stopped: true };
                let (mut flags, mut meter) = (Flags::default(), Meter::start(&schedule, 0));
                flags.stop_requested = stop_requested;
                let before = file_reads();
                let report = relay::carry(&shared, &setup, &flags, &mut meter)?;
                Ok((file_reads().zip(before).map(|(after, before)| after - before), report.copied_bytes))
            })
        };
        let threads = (0..relay::threads_of(&setup).unwrap()).map(|_| thread()).collect();
        Running { shared, stop_requested, threads, address }
    }

    /// Over TCP, until it is stopped.
    fn start(relay: &Spec, to: SocketAddr) -> (Running, SocketAddr) {
        let running = Running::over("tcp", relay, &Address::Ip(to), None, None);
        let Address::Ip(address) = running.address else { panic!("TCP has an address") };
        (running, address)
    }

    fn tell(self) -> (RelayReport, Option<EndError>) {
        self.stop_requested.store(true, Ordering::Relaxed);
        self.finish()
    }

    /// The same, and how many bytes its engine copied.
    fn tell_all(self) -> ((RelayReport, Option<EndError>), u64) {
        self.stop_requested.store(true, Ordering::Relaxed);
        let copied = self.threads.into_iter().map(|thread| thread.join().unwrap().unwrap().1).sum();
        (self.shared.take_books(), copied)
    }

    /// Its counts at the end.
    fn finish(self) -> (RelayReport, Option<EndError>) {
        for thread in self.threads {
            thread.join().unwrap().unwrap();
        }
        self.shared.take_books()
    }
}

#[test]
fn all_bytes_are_relayed() {
    for_all(|setup| {
        let connections = 6;
        let (to, serving) = server(connections, echo);
        let (running, address) = Running::start(setup, to);
        let bytes = calls_come_back(address, connections, [1, 100, 5000, 700_000]) as u64;
        serving.join().unwrap();
        let ((report, fault), copied) = running.tell_all();
        assert!(fault.is_none(), "{fault:?}");
        assert_eq!(copied, 0, "bytes that an engine copied");
        let RelayReport { taken_up, given_up, taken_down, given_down, .. } = report;
        assert_eq!([taken_up, given_up, taken_down, given_down], [bytes; 4]);
        assert_eq!((report.connections, report.broken, report.unconnected), (connections as u64, 0, 0));
        assert_eq!(report.kernel_up, Some(bytes));
        assert_eq!(report.pipe_size.is_some(), method(setup).has_pipe() && method(setup) != RelayMethod::Hybrid);
    });
}

#[test]
fn methods_receive_by_the_call_of_sockets() {
    const CALLS: usize = 500;
    let methods = [RelayMethod::ReadWrite, RelayMethod::Hybrid, RelayMethod::Epoll];
    for method in methods {
        let (to, serving) = server(1, echo);
        let (running, address) =
            Running::start(&relay_with(method, |spec| spec.put(FactorKey::relay_threads, RelayThreads::One)), to);
        let mut stream = plain(address);
        (0..CALLS).for_each(|call| plain_call(&mut stream, call, 10));
        drop(stream);
        serving.join().unwrap();
        running.stop_requested.store(true, Ordering::Relaxed);
        let [thread] = <[_; 1]>::try_from(running.threads).unwrap();
        let (Some(reads), _) = thread.join().unwrap().unwrap() else {
            println!("skipped: no account of calls in /proc/thread-self/io");
            return;
        };
        // The accounting file itself is read, too.
        assert!(reads < CALLS as u64 / 5, "{method}: {reads} reads of a socket");
    }
}

#[test]
fn end_of_stream_is_relayed_in_both_directions() {
    // Ends its sending first.
    fn listens_alone(mut stream: TcpStream) {
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, message(3, 2_000_000));
    }
    // Its last bytes and its end are one segment, which closes the connection.
    fn replies_with_the_end(mut stream: TcpStream) {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        SockRef::from(&stream).set_tcp_cork(true).unwrap();
        stream.write_all(&all).unwrap();
    }
    for_all(|setup| {
        let (to, serving) = server(3, replies_at_the_end);
        let (running, address) = Running::start(setup, to);
        all_comes_back_at_the_end(address);
        serving.join().unwrap();
        assert_eq!(running.tell().0.broken, 0);

        let (to, serving) = server(3, replies_with_the_end);
        let (running, address) = Running::start(setup, to);
        all_comes_back_at_the_end(address);
        serving.join().unwrap();
        assert_eq!(running.tell().0.broken, 0);

        let (to, serving) = server(1, listens_alone);
        let (running, address) = Running::start(setup, to);
        let mut stream = plain(address);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server sends nothing");
        stream.write_all(&message(3, 2_000_000)).unwrap();
        drop(stream);
        serving.join().unwrap();
        running.tell();
    });
}

#[test]
fn a_reset_is_passed_on_as_a_reset() {
    for_all(|setup| {
        for breaks in ["client", "server"] {
            let (behind, to) = blocking_listener();
            let (running, address) = Running::start(setup, to);
            a_reset_comes_through(address, &behind, breaks);
            let (report, fault) = running.tell();
            assert_eq!((report.connections, report.broken), (1, 1));
            assert!(fault.is_none(), "a relayed error is no fault of the relay: {fault:?}");
        }
    });
}

#[test]
fn unreachable_upstream_resets_with_a_reason() {
    for_all(|setup| {
        let (_reserved, to) = no_listener();
        let (running, address) = Running::start(setup, to);
        let error = plain(address).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let (report, fault) = running.tell();
        assert_eq!((report.connections, report.unconnected), (1, 1));
        let reason = fault.unwrap().to_string();
        assert!(reason.contains("from the relay to the end behind it") && reason.contains("refused"), "{reason}");
    });
}

#[test]
fn back_pressure_loses_no_bytes() {
    for_all(|setup| {
        let (behind, to) = blocking_listener();
        let (running, address) = Running::start(setup, to);
        let taken = all_comes_through_after_a_pause(address, &behind, 100_000);
        assert!(taken < HELD_UP, "all of it was accepted without a reader");
        let (report, fault) = running.tell();
        assert!(fault.is_none() && report.given_up == HELD_UP as u64, "{report:?} {fault:?}");
    });
}

#[test]
fn vanished_client_affects_no_other() {
    // Writes more than the other side reads.
    fn talks(mut stream: TcpStream) {
        while stream.write_all(&[7; 50_000]).is_ok() {}
    }
    for_all(|setup| {
        let (to, talking) = server(1, talks);
        let (running, address) = Running::start(setup, to);
        let mut client = plain(address);
        let read = client.read_exact(&mut [0; 100_000]);
        assert!(read.is_ok(), "{read:?}");
        drop(client);
        talking.join().unwrap();
        // The next one is served by the current listener.
        let mut next = plain(address);
        assert_eq!(next.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        let (report, _) = running.tell();
        // A closed listener stays for a moment longer if another test is starting a program.
        assert_eq!((report.connections, report.broken + report.unconnected), (2, 2));
    });
}

#[test]
fn relay_ends_when_stopped_or_all_ended() {
    for_all(|setup| {
        let (to, serving) = server(1, |mut stream| {
            let _ = stream.read(&mut [0]);
        });
        let (running, address) = Running::start(setup, to);
        let mut idle = plain(address);
        idle.write_all(b"x").unwrap();
        serving.join().unwrap();
        running.tell();
        assert!(!matches!(idle.read(&mut [0]), Ok(n) if n > 0), "the connection is closed");

        let (to, serving) = server(2, echo);
        let running = Running::over("tcp", setup, &Address::Ip(to), Some(2), None);
        let Address::Ip(address) = running.address else { panic!("TCP has an address") };
        for flow in 0..2 {
            plain_call(&mut plain(address), flow, 10_000);
        }
        serving.join().unwrap();
        let (report, fault) = running.finish();
        assert_eq!((report.connections, fault.map(|fault| fault.to_string())), (2, None));
    });
}

#[test]
fn unix_sockets_are_relayed_as_tcp_is() {
    let name = |name: &str| SockAddr::unix(format!("\0{name}")).unwrap();
    let relays = AtomicUsize::new(0);
    for_all(|setup| {
        if method(setup).needs_tcp() {
            return;
        }
        // Each has a name of its own: the previous one may not be free yet.
        let behind = format!("bytegauge-behind-{}-{}", std::process::id(), relays.fetch_add(1, Ordering::Relaxed));
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&name(&behind)).unwrap();
        listener.listen(4).unwrap();
        let running = Running::over("unix", setup, &Address::Abstract(behind), Some(1), None);
        let Address::Abstract(front) = &running.address else { panic!("a Unix socket has a name") };
        let mut client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        client.connect(&name(front)).unwrap();
        let mut server = listener.accept().unwrap().0;
        let sent = message(1, 500_000);
        std::thread::scope(|scope| {
            let sent = &sent;
            scope.spawn(move || {
                let mut all = vec![0; sent.len()];
                server.read_exact(&mut all).unwrap();
                server.write_all(&all).unwrap();
            });
            client.write_all(sent).unwrap();
            let mut back = Vec::new();
            client.shutdown(Shutdown::Write).unwrap();
            client.read_to_end(&mut back).unwrap();
            assert!(back == *sent);
        });
        let (report, fault) = running.finish();
        assert_eq!((report.given_up, report.given_down), (sent.len() as u64, sent.len() as u64), "{fault:?}");
    });
}

#[test]
fn unavailable_pipe_is_a_reason_to_skip() {
    for method in [RelayMethod::Splice, RelayMethod::Sendfile] {
        let setup = relay_with(method, |spec| spec.put(FactorKey::relay_pipe, 1 << 32));
        let (_behind, to) = listener();
        let (running, _) = Running::start(&setup, to);
        match running.threads.into_iter().next().unwrap().join().unwrap() {
            Err(EndError::Missing(reason)) => assert!(reason.contains("fs.pipe-max-size"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn planted_fault_changes_bytes_but_not_counts() {
    for (plant, differs) in [(PlantedFault::RelayLoses(5), "lost"), (PlantedFault::RelayCorrupts(5), "wrong")] {
        let (behind, to) = blocking_listener();
        let setup = relay_by(RelayMethod::ReadWrite);
        let running = Running::over("tcp", &setup, &Address::Ip(to), Some(1), Some(plant));
        let Address::Ip(address) = running.address else { panic!("TCP has an address") };
        let sent = message(2, 100_000);
        let mut client = plain(address);
        client.write_all(&sent).unwrap();
        drop(client);
        let mut got = Vec::new();
        behind.accept().unwrap().0.read_to_end(&mut got).unwrap();
        let (report, fault) = running.finish();
        assert_eq!((report.taken_up, report.given_up), (sent.len() as u64, sent.len() as u64));
        assert!(fault.is_none());
        assert!(got != sent, "{differs}");
        assert_eq!(got.len(), sent.len() - usize::from(differs == "lost"));
    }
}
