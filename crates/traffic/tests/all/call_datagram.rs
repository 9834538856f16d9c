//! Calls over datagrams from end to end: conserved over every transport and engine. Lost, late, repeated, cut off or overtaken
//! datagrams are counted once, in the right class.

use std::net::UdpSocket;
use std::time::Duration;

use crate::calls::{self, Ended, run, run_against, run_alone, try_run, until};
use crate::support::faulty_server::{self, Fault};
use bytegauge_model::{CallDatagrams, CallReport, Engine, ErrorClass, ErrorPhase, FactorKey, Level, Place, Transport};
use bytegauge_sys::snmp::backlog_drops;
use bytegauge_traffic::engine::missing_requirement;
use bytegauge_traffic::{Address, PlantedFault, Reply, Setup};

const SERVERS: [&str; 4] = ["plain", "mmsg", "uring:plain", "uring:multishot"];
const CLIENTS: [&str; 2] = ["plain", "mmsg"];

/// The server's engines that this kernel supports.
fn servers() -> impl Iterator<Item = Engine> {
    SERVERS.into_iter().map(|name| name.parse().unwrap()).filter(|engine| missing_requirement(*engine).is_none())
}

/// A short echo of 512 bytes on four flows, with a longer time-out than any machine is busy.
fn setup(transport: &str, server: Engine, client: &str) -> Setup {
    let mut setup = calls::setup(transport, client.parse().unwrap());
    setup.spec.put(FactorKey::read_size, 64 << 10);
    setup.spec.put(FactorKey::server_engine, server);
    setup.spec.put(FactorKey::timeout, 5_000_000_000);
    setup
}

fn datagrams(report: &bytegauge_model::EndReport) -> CallDatagrams {
    report.call.as_ref().unwrap().datagrams.unwrap()
}

/// Every call ends once, and every datagram is accounted for.
fn check_counted(ended: &Ended) {
    let (calls, server) = (ended.calls(), ended.server().call.clone().unwrap());
    check_client(calls);
    let (ours, theirs) = (datagrams(ended.client()), datagrams(ended.server()));
    assert!(server.completed >= calls.completed && server.begun <= calls.begun, "{calls:?} {server:?}");
    assert!(theirs.received <= ours.sent && ours.received <= theirs.sent, "{ours:?} {theirs:?}");
}

/// The same of the client alone.
fn check_client(calls: &CallReport) {
    let lost: u64 = calls.errors.iter().map(|error| error.count).sum();
    assert_eq!(calls.begun, calls.completed + lost + calls.unfinished, "{calls:?}");
    let ours = calls.datagrams.unwrap_or_default();
    let short = calls.errors.iter().filter(|error| error.phase == ErrorPhase::Reply).map(|error| error.count);
    let odd = ours.late + ours.duplicated + ours.strange;
    assert_eq!(ours.received, calls.completed + odd + short.sum::<u64>(), "{ours:?}");
}

/// A trial that can be opened, and the number of datagrams that no socket of this machine received meanwhile.
fn run_watched(setup: &Setup) -> (Result<Ended, Reply>, u64) {
    let before = backlog_drops().unwrap();
    let ended = try_run(setup);
    (ended, backlog_drops().unwrap().saturating_sub(before))
}

/// Whether a trial is to be judged: not if a busy machine kept an end from all of its window, or dropped a datagram.
fn tells((ended, dropped): &(Result<Ended, Reply>, u64)) -> bool {
    match ended {
        Ok(ended @ Ended { client: Reply::Done(_), server: Reply::Done(_), .. }) => {
            let ran = ended.calls().calls > 0 && ended.client().cpu_ns > 0 && ended.server().cpu_ns > 0;
            ran && (*dropped == 0 || ended.calls().errors.is_empty())
        }
        _ => true,
    }
}

/// A trial in which nothing is lost.
fn check_conserved(setup: &Setup) -> Option<Ended> {
    let ended = match until(setup, run_watched, tells).0 {
        Ok(ended) => ended,
        // The test machine may have no IPv6.
        Err(Reply::Skipped(reason)) if reason.contains("IPv6") => return None,
        Err(other) => panic!("{other:?} of {setup:?}"),
    };
    let (Reply::Done(_), Reply::Done(_)) = (&ended.client, &ended.server) else {
        panic!("{:?} and {:?} of {setup:?}", ended.client, ended.server)
    };
    check_counted(&ended);
    let (client, server, calls) = (ended.client(), ended.server(), ended.calls());
    assert_eq!((&calls.errors[..], calls.begun), (&[][..], calls.completed), "{setup:?}");
    assert!(calls.calls > 0 && client.cpu_ns > 0 && server.cpu_ns > 0 && server.window_ns > 0, "{setup:?}");
    assert_eq!(client.total_bytes, calls.completed * (setup.request() + setup.response()) as u64, "{setup:?}");
    assert_eq!(client.total_bytes, server.total_bytes, "{setup:?}");
    assert!(calls.total.is_some() && calls.write.is_some() && calls.connect.is_none());
    let (ours, theirs) = (datagrams(client), datagrams(server));
    assert_eq!((ours.sent, ours.received), (theirs.received, theirs.sent), "{setup:?}");
    assert_eq!((ours.dropped, theirs.dropped, theirs.truncated), (0, 0, 0));
    Some(ended)
}

#[test]
fn echoes_are_conserved_by_every_engine() {
    for transport in ["udp", "udp6", "unix-dgram"] {
        for server in servers() {
            for client in CLIENTS {
                for verify in [false, true] {
                    check_conserved(&Setup { verify, ..setup(transport, server, client) });
                }
            }
        }
    }
}

#[test]
fn requests_and_replies_of_all_lengths_are_conserved() {
    for server in servers() {
        for (request, response) in [(1, 1), (1, 3000), (65_507, 1), (60_000, 60_000), (7, 64), (1000, 9), (8, 8)] {
            let mut setup = Setup { verify: true, ..setup("udp", server, "plain") };
            // Fewer than the default buffer holds of the longest.
            setup.spec.put(FactorKey::flows, 2);
            setup.spec.put(FactorKey::request, request);
            setup.spec.put(FactorKey::response, response);
            // Comparing every byte takes time.
            setup.window_ns *= if request + response > 50_000 { 10 } else { 1 };
            check_conserved(&setup);
        }
    }
}

/// A server fails its trial if its work did not run exactly once per request.
#[test]
fn work_runs_once_a_request_on_every_engine() {
    for server in servers() {
        let mut setup = setup("udp", server, "plain");
        setup.spec.put(FactorKey::work, bytegauge_model::Work::Sum);
        setup.spec.put(FactorKey::working_set, 4096);
        check_conserved(&setup);
    }
}

#[test]
fn concurrent_calls_of_threads_are_conserved() {
    for server in servers() {
        for client in CLIENTS {
            for (transport, reuseport) in [("udp", false), ("udp", true), ("unix-dgram", false)] {
                let mut setup = Setup { verify: true, ..setup(transport, server, client) };
                setup.spec.put(FactorKey::flows, 5);
                setup.spec.set("reuseport", Level::Switch(reuseport));
                let spec = &mut setup.spec;
                spec.put(FactorKey::depth, 8);
                spec.put(FactorKey::client_threads, 3);
                spec.put(FactorKey::server_threads, 2);
                spec.put(FactorKey::batch, 3);
                spec.put(FactorKey::outstanding, 5);
                check_conserved(&setup);
            }
        }
    }
}

#[test]
fn a_thousand_clients_are_carried() {
    for server in servers() {
        let mut setup = setup("udp", server, "plain");
        setup.spec.put(FactorKey::flows, 1000);
        // However slow the machine, every flow's call must fit; and all of them into one buffer.
        setup.window_ns = 300_000_000;
        setup.spec.set("rcvbuf", Level::Number(4 << 20));
        // If the system's limit is lower, some of them are lost, and time out.
        setup.spec.put(FactorKey::timeout, 500_000_000);
        let ended = until(&setup, run, |ended| ended.calls().completed >= 300);
        check_counted(&ended);
        assert!(ended.calls().completed >= 300, "{:?}", ended.calls());
    }
}

#[test]
fn an_offered_load_is_offered() {
    for client in CLIENTS {
        let mut setup = Setup { window_ns: 200_000_000, ..setup("udp", Engine::Plain, client) };
        setup.spec.put(FactorKey::call_rate, 2000);
        let ended = run(&setup);
        check_counted(&ended);
        let calls = ended.calls();
        // A call that is due before the window closes is begun or overdue, however late the machine is.
        assert!(calls.calls <= 404 && calls.calls + calls.overdue + 40 >= 400, "{calls:?}");
    }
}

/// So short that lost replies are given up, and their flows continue, often within a window.
const SOON_NS: u64 = 50_000_000;

/// So long that a busy machine never looks like a loss.
const LATE_NS: u64 = 5_000_000_000;

/// The calls of a client with a server that spoils the replies that are due, in a window that is long enough to show it.
fn spoiled(
    fault: Fault,
    is_due: fn(u64) -> bool,
    client: &str,
    timeout_ns: u64,
    shows: impl Fn(&CallReport) -> bool,
) -> CallReport {
    let mut setup = Setup { verify: true, ..setup("udp", Engine::Plain, client) };
    // Several times the time-out of a reply.
    setup.window_ns = if timeout_ns == SOON_NS { 300_000_000 } else { 30_000_000 };
    setup.spec.put(FactorKey::depth, 4);
    setup.spec.put(FactorKey::timeout, timeout_ns);
    let carry = |setup: &Setup| {
        let (address, mut setup) = (faulty_server::over_udp(fault, is_due), setup.clone());
        setup.spec.put(FactorKey::connect, Place::Ip(address));
        let calls =
            calls::report(&run_against(&setup, Address::Ip(address)).unwrap()).call.as_deref().cloned().unwrap();
        check_client(&calls);
        calls
    };
    until(&setup, carry, shows)
}

fn count(calls: &CallReport, class: ErrorClass) -> u64 {
    calls.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

#[test]
fn lost_reply_is_one_time_out() {
    for client in CLIENTS {
        // All four flows of four would be stuck after sixteen. A busy machine may keep a client from writing until the time is out.
        let continues = |calls: &CallReport| {
            let has_many = count(calls, ErrorClass::TimedOut) > 16 && calls.completed > 16;
            has_many && calls.errors.iter().all(|error| error.phase != ErrorPhase::Write)
        };
        let calls = spoiled(Fault::Lost, |reply| reply % 20 == 0, client, SOON_NS, continues);
        let [error] = &calls.errors[..] else { panic!("{:?}", calls.errors) };
        assert_eq!((error.class, error.phase), (ErrorClass::TimedOut, ErrorPhase::FirstByte));
        assert_eq!((error.request_bytes_lost, error.reply_bytes_missing), (512 * error.count, 512 * error.count));
        assert!(continues(&calls), "{calls:?}");
    }
}

#[test]
fn a_late_reply_is_not_the_next_calls() {
    for client in CLIENTS {
        let late = |calls: &CallReport| calls.datagrams.unwrap_or_default().late;
        let fault = Fault::Late(Duration::from_nanos(SOON_NS + 20_000_000));
        let calls = spoiled(fault, |reply| reply % 20 == 0, client, SOON_NS, |calls| late(calls) > 0);
        assert!(late(&calls) > 0 && late(&calls) <= count(&calls, ErrorClass::TimedOut), "{calls:?}");
        assert_eq!(count(&calls, ErrorClass::Corrupt), 0);
    }
}

#[test]
fn repeated_and_overtaken_replies_are_counted() {
    for client in CLIENTS {
        let seen = |calls: &CallReport| calls.datagrams.unwrap_or_default();
        let doubled = |calls: &CallReport| seen(calls).duplicated > 0;
        let calls = spoiled(Fault::Repeated, |reply| reply % 5 == 0, client, LATE_NS, doubled);
        assert!(doubled(&calls) && seen(&calls).strange == 0, "{calls:?}");
        assert_eq!(calls.errors, []);
        // Only a flow's own replies can overtake each other. The last one is held for ever.
        let overtaken = |calls: &CallReport| seen(calls).overtaken > 0;
        let fault = Fault::Late(Duration::ZERO);
        let calls = spoiled(fault, |reply| reply % 5 == 0, client, SOON_NS, overtaken);
        assert!(overtaken(&calls), "{calls:?}");
    }
}

#[test]
fn wrong_bytes_and_wrong_lengths_are_named() {
    for (fault, class) in [
        (Fault::Short, ErrorClass::ShortReply),
        (Fault::Long, ErrorClass::LongReply),
        (Fault::Corrupt, ErrorClass::Corrupt),
    ] {
        // Ten calls precede the fault, and others follow it.
        let continues = |calls: &CallReport| count(calls, class) > 0 && calls.completed > 20;
        let calls = spoiled(fault, |reply| reply == 11, "plain", LATE_NS, continues);
        assert!(count(&calls, class) == 1 && continues(&calls), "{calls:?}");
    }
}

#[test]
fn both_ends_detect_a_short_buffer() {
    // The buffer of a well-known benchmark: longer messages come back cut off.
    for server in servers() {
        for client in CLIENTS {
            let mut setup = Setup { verify: true, ..setup("udp", server, client) };
            setup.spec.put(FactorKey::read_size, 4096);
            setup.spec.put(FactorKey::request, 8192);
            setup.spec.put(FactorKey::response, 8192);
            let ended = until(&setup, run, |ended| !ended.calls().errors.is_empty());
            check_counted(&ended);
            let seen = datagrams(ended.server());
            assert!(seen.truncated > 0 && seen.truncated == seen.received, "{server}: {seen:?}");
            let [error] = &ended.calls().errors[..] else { panic!("{:?}", ended.calls().errors) };
            assert_eq!((error.class, error.phase), (ErrorClass::ShortReply, ErrorPhase::Reply));
            assert_eq!((error.reply_bytes_missing, ended.calls().completed), (4096 * error.count, 0));
        }
    }
}

#[test]
fn oversized_request_is_refused_with_the_next_step() {
    let mut setup = setup("udp", Engine::Plain, "plain");
    setup.spec.put(FactorKey::request, 65_508);
    setup.spec.put(FactorKey::response, 1);
    // A client that a busy machine keeps from its whole window has sent nothing.
    let ended = until(&setup, run, |ended| !matches!(ended.client, Reply::Done(_)));
    let Reply::Failed(reason, _) = ended.client else { panic!("it fits nowhere") };
    assert!(reason.contains("use a smaller --request"), "{reason}");
}

#[test]
fn requests_lost_to_a_full_buffer_are_reported() {
    let mut setup = setup("udp", Engine::Plain, "plain");
    setup.spec.put(FactorKey::flows, 50);
    setup.spec.put(FactorKey::request, 8000);
    setup.spec.put(FactorKey::response, 1);
    setup.window_ns = 100_000_000;
    setup.spec.set("rcvbuf", Level::Number(20_000));
    setup.spec.put(FactorKey::timeout, 20_000_000);
    let full = |(ended, elsewhere): &(Result<Ended, Reply>, u64)| {
        *elsewhere == 0 && ended.as_ref().is_ok_and(|ended| datagrams(ended.server()).dropped > 0)
    };
    let (ended, elsewhere) = until(&setup, run_watched, full);
    let ended = ended.unwrap();
    check_counted(&ended);
    let (ours, theirs) = (datagrams(ended.client()), datagrams(ended.server()));
    assert!(theirs.dropped > 0, "{theirs:?}");
    // On loopback only the kernel's own queue may lose a request too.
    let unknown = ours.sent - (theirs.received + theirs.dropped);
    assert!(unknown <= elsewhere, "{unknown} unknown, {elsewhere} elsewhere: {ours:?} {theirs:?}");
}

#[test]
fn dead_or_stalled_server_is_no_hang() {
    for server in servers() {
        let mut setup = Setup { plant: Some(PlantedFault::Die(5000)), ..setup("udp", server, "plain") };
        // Requests waiting in its socket when it died get no answer, and later ones an error of the kernel.
        setup.window_ns = 3_600_000_000_000;
        setup.spec.put(FactorKey::timeout, SOON_NS);
        let ended = run(&setup);
        assert!(matches!(&ended.server, Reply::Failed(reason, _) if reason.contains("died")), "{:?}", ended.server);
        let Reply::Failed(reason, _) = &ended.client else { panic!("{server}: {:?}", ended.client) };
        assert!(reason.contains("no longer receives"), "{reason}");
        assert!(ended.errors(ErrorClass::Refused) > 0, "{:?}", ended.calls());
        let all_wait = |ended: &Ended| ended.errors(ErrorClass::TimedOut) >= 16;
        setup.plant = Some(PlantedFault::Stall(5000));
        setup.window_ns = 300_000_000;
        setup.spec.put(FactorKey::depth, 4);
        let ended = until(&setup, run, all_wait);
        assert!(all_wait(&ended), "{:?}", ended.calls());
    }
}

/// A socket of the test, and a client's setup with it as its server.
fn external(client: &str) -> (UdpSocket, Address, Setup) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let mut setup = setup("udp", Engine::Plain, client);
    setup.spec.put(FactorKey::timeout, 20_000_000);
    setup.spec.put(FactorKey::connect, Place::Ip(address));
    (socket, Address::Ip(address), setup)
}

#[test]
fn silent_server_costs_only_time_outs() {
    for client in CLIENTS {
        let (_silent, address, setup) = external(client);
        let carry = |setup: &Setup| run_against(setup, address.clone());
        let lost = |reply: &Result<Reply, Reply>| {
            reply.as_ref().is_ok_and(|reply| !calls::report(reply).call.as_ref().unwrap().errors.is_empty())
        };
        let Ok(Reply::Done(report)) = until(&setup, carry, lost) else { panic!("a result") };
        let calls = report.call.unwrap();
        let [error] = &calls.errors[..] else { panic!("{:?}", calls.errors) };
        assert_eq!((error.class, error.phase, calls.completed), (ErrorClass::TimedOut, ErrorPhase::FirstByte, 0));
        assert_eq!(calls.begun, error.count + calls.unfinished);
    }
}

#[test]
fn missing_server_is_given_up() {
    for client in CLIENTS {
        let (gone, address, mut setup) = external(client);
        // It has the port, and is its only user.
        gone.connect(gone.local_addr().unwrap()).unwrap();
        setup.window_ns = 3_600_000_000_000;
        // A busy machine must not make a refusal look like a reply that did not come.
        setup.spec.put(FactorKey::timeout, 60_000_000_000);
        let Ok(Reply::Failed(reason, report)) = run_against(&setup, address) else { panic!("there is no listener") };
        assert!(reason.contains("no longer receives"), "{reason}");
        assert!(report.call.unwrap().errors.iter().all(|error| error.class == ErrorClass::Refused));
    }
}

#[test]
fn replies_without_numbers_are_never_the_next_calls() {
    let (server, address, mut setup) = external("plain");
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    setup.spec.put(FactorKey::flows, 1);
    // Three calls of 20 ms each, and much time for delays.
    setup.window_ns = 2_000_000_000;
    // Only the length of its replies is known.
    setup.spec.set_level(FactorKey::response, setup.spec.level(FactorKey::request));
    let serving = std::thread::spawn(move || {
        let (mut buffer, mut late) = ([0; 2048], None);
        let mut peers = Vec::new();
        // The first request is answered when the second one arrives, and so on: always too late.
        loop {
            let (len, peer) = match server.recv_from(&mut buffer) {
                // Ends that are threads of this process are woken by signals.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
                Ok(came) => came,
            };
            if let Some(to) = late.replace(peer) {
                let _ = server.send_to(&buffer[..len], to);
            }
            peers.push(peer);
            if peers.len() == 3 {
                break;
            }
        }
        peers
    });
    let Ok(reply) = run_against(&setup, address) else { panic!("it can be opened") };
    let calls = calls::report(&reply).call.clone().unwrap();
    assert_eq!(calls.completed, 0, "{calls:?}");
    let peers = serving.join().unwrap();
    assert!(peers[0] != peers[1] && peers[1] != peers[2]);
}

#[test]
fn the_client_alone_measures_the_harness() {
    for (response, depth) in [(512, 1), (3, 4)] {
        let mut setup = Setup { series: true, ..calls::setup("udp", Engine::Null) };
        setup.spec.put(FactorKey::flows, 1);
        setup.spec.put(FactorKey::response, response);
        setup.spec.put(FactorKey::depth, depth);
        let some = |reply: &Reply| calls::report(reply).call.as_ref().is_some_and(|call| call.calls > 0);
        let ended = until(&setup, run_alone, some);
        let Reply::Done(report) = ended else { panic!("{ended:?}") };
        let calls = report.call.unwrap();
        assert!(calls.calls > 0 && calls.begun == calls.completed && calls.errors.is_empty());
    }
}

#[test]
fn engines_of_connections_are_not_for_datagrams() {
    for transport in [Transport::Udp, Transport::Udp6, Transport::UnixDatagram] {
        for name in SERVERS.iter().chain(&CLIENTS) {
            assert!(name.parse::<Engine>().unwrap().suits(&transport));
        }
        assert!(!Engine::Blocking.suits(&transport) && !Engine::Tokio.suits(&transport));
    }
}
