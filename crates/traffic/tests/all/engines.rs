//! The conformance suite of the engines: every engine of the table that carries parties passes it.
//!
//! Plain clients and servers of the standard library are the other end, so that two engines cannot agree on a mistake; a flow
//! with a planted error shows that the suite detects it. No test asserts how long something takes; guards only turn a hang
//! into a failure.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytegauge_model::{Engine, EpollMode};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::option::{self, SocketOption};
use bytegauge_traffic::engine::Stop;
use bytegauge_traffic::flow::{ConnectionEnd, Doing, Want};
use bytegauge_traffic::meter::{Schedule, Window};
use proptest::prelude::*;

use crate::support::caller::{Caller, Task};
use crate::support::echo::{Echo, Mistake};
use crate::support::habits::{AfterEof, BothWays, Impatient, Sleeper, Waiter};
use crate::support::running::{Outcome, Running};
use crate::support::{
    Group, echo_server, expect, for_all, for_all_over_unix, in_a_minute_ns, listener, message, no_listener, plain,
    plain_call, reset, small_parts, telling_server, wait_until,
};

const ECONNREFUSED: i32 = 111;
const ECONNRESET: i32 = 104;
const ETIMEDOUT: i32 = 110;
const EPIPE: i32 = 32;

fn task(flow: usize, calls: usize, len: usize) -> Task {
    Task { flow, calls, len, connect_per_call: false, give_up_ns: in_a_minute_ns() }
}

/// The counts equal those of the flows.
fn counted(outcome: &Outcome<Echo>) -> u64 {
    let bytes: u64 = outcome.group.flows().map(|flow| flow.received_bytes + flow.sent_bytes).sum();
    assert_eq!(outcome.total_bytes, bytes);
    assert_eq!(outcome.window.bytes, bytes);
    outcome.group.flows().map(|flow| flow.served).sum()
}

#[test]
fn random_pieces_come_back_whole() {
    for_all(|engine| {
        for buffer_size in [1, 7, 512, 65_536] {
            let (server, address) = echo_server(engine, buffer_size, &[]);
            let mut messages = 0;
            let most = buffer_size * 50;
            let pieces = prop::collection::vec(1usize..2000, 1..20);
            let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::with_cases(8));
            let served = std::cell::RefCell::new(&mut messages);
            runner
                .run(&(0usize..most.min(50_000), pieces), |(len, pieces)| {
                    let mut stream = plain(address);
                    let sent = message(len, len);
                    let mut rest = &sent[..];
                    for piece in pieces {
                        let (now, later) = rest.split_at(piece.min(rest.len()));
                        stream.write_all(now).unwrap();
                        rest = later;
                    }
                    stream.write_all(rest).unwrap();
                    expect(&mut stream, &sent);
                    **served.borrow_mut() += 1;
                    Ok(())
                })
                .unwrap();
            let outcome = server.tell();
            assert_eq!(outcome.stop, Stop::Time);
            assert_eq!(counted(&outcome), messages);
            assert_eq!(outcome.report.accepted, messages);
        }
    });
}

#[test]
fn messages_larger_than_any_buffer_come_back_whole() {
    // A tiny send buffer makes the path slow, so that fewer bytes have to pass.
    for_all(|engine| {
        check_large(engine, 5 << 20, &[]);
        check_large(engine, 100_000, &[option::SEND_BUFFER.to(1)]);
    });
}

fn check_large(engine: Engine, len: usize, options: &[SocketOption]) {
    let (server, address) = echo_server(engine, 4096, options);
    plain_call(&mut plain(address), 1, len);
    let clients = Group::clients(vec![Caller::new(task(2, 1, len)), Caller::new(task(3, 1, len))], address);
    let client = Running::start(engine, clients.with(options), None, 3000).finish();
    assert_eq!(client.stop, Stop::Done);
    for flow in client.group.flows() {
        assert_eq!((flow.completed, flow.wrong, flow.late), (1, 0, false), "{:?}", flow.ends);
    }
    assert_eq!(client.total_bytes, 4 * (4 + len as u64));
    assert_eq!(counted(&server.tell()), 3);
}

#[test]
fn unix_sockets_carry_calls_too() {
    for_all_over_unix(|engine| {
        let (left, right) = UnixStream::pair().unwrap();
        let server = Running::start(engine, Group::joined(vec![(Echo::default(), right.into())]), None, 1000);
        let client = Group::joined(vec![(Caller::joined(task(1, 20, 300_000)), OwnedFd::from(left))]);
        let client = Running::start(engine, client, None, 1000).finish();
        assert_eq!(client.group.left[0].0.completed, 20);
        let server = server.finish();
        assert_eq!(server.stop, Stop::Done);
        assert_eq!(server.group.left[0].0.ends, [ConnectionEnd::Eof]);
        assert_eq!(counted(&server), 20);
    });
}

#[test]
fn a_unix_listener_accepts() {
    for_all_over_unix(|engine| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = Running::start(engine, Group::server(Echo::default), Some(listener.into()), 4096);
        let mut stream = UnixStream::connect(&path).unwrap();
        let sent = message(1, 1000);
        stream.write_all(&sent).unwrap();
        let mut echo = vec![0; sent.len()];
        stream.read_exact(&mut echo).unwrap();
        assert_eq!(echo, sent);
        assert_eq!(counted(&server.tell()), 1);
    });
}

#[test]
fn half_closed_peer_gets_its_reply() {
    for_all(|engine| {
        let (server, address) = echo_server(engine, 4096, &small_parts());
        // Ten times the sender's buffer: each part of it waits for an acknowledgement.
        for len in [10, 300_000] {
            let mut stream = plain(address);
            let sent = message(5, len);
            let mut writer = stream.try_clone().unwrap();
            let copy = sent.clone();
            let writing = std::thread::spawn(move || {
                writer.write_all(&copy).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            writing.join().unwrap();
            expect(&mut stream, &sent);
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and then the end");
        }
        let outcome = server.tell();
        assert_eq!(counted(&outcome), 2);
        for flow in outcome.group.flows() {
            assert!(!flow.ends.is_empty() && flow.ends.iter().all(|end| *end == ConnectionEnd::Eof), "{:?}", flow.ends);
        }
    });
}

#[test]
fn flow_may_send_after_the_end_of_stream() {
    for_all(|engine| {
        let (listener, address) = listener();
        let group = Group::server(AfterEof::default).with(&small_parts());
        let server = Running::start(engine, group, Some(listener.into()), 4096);
        let mut stream = plain(address);
        let sent = message(1, 300_000);
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        expect(&mut stream, &sent);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        let outcome = server.tell();
        assert_eq!(outcome.group.left[0].0.eofs, 2);
        assert!(outcome.group.left[0].1.is_none(), "the engine has closed it");
    });
}

#[test]
fn reset_in_any_state_affects_one_connection() {
    for_all(|engine| {
        let (server, address, broken) = telling_server(engine);
        let mut other = plain(address);
        plain_call(&mut other, 0, 100);
        // Idle.
        let mut idle = plain(address);
        plain_call(&mut idle, 1, 100);
        reset(idle);
        // In the middle of a request.
        let mut asking = plain(address);
        asking.write_all(&message(2, 1000)[..500]).unwrap();
        reset(asking);
        // In the middle of a reply, with more to come than any buffer holds.
        let mut reading = plain(address);
        reading.write_all(&message(3, 8 << 20)).unwrap();
        reading.read_exact(&mut [0; 1000]).unwrap();
        reset(reading);
        // Perhaps before the engine has seen it at all.
        reset(plain(address));
        plain_call(&mut other, 4, 100_000);
        drop(other);
        wait_until("three resets are seen", || broken.load(Ordering::Relaxed) >= 3);
        let outcome = reported_when(server, address, 5);
        let failed = |end: &ConnectionEnd| matches!(end, ConnectionEnd::Failed { errno, .. } if [ECONNRESET, EPIPE].contains(errno));
        let resets = outcome.group.flows().filter(|flow| flow.ends.iter().any(failed)).count();
        // The last may have closed before it was accepted.
        assert!((3..=4).contains(&resets), "{resets} resets");
        let served: u64 = outcome.group.flows().map(|flow| flow.served).sum();
        assert_eq!(served, 4, "and one more that shows that the server is alive");
    });
}

/// One more call after everything else, on a connection of its own, so that earlier events have been seen.
fn reported_when(server: Running<Echo>, address: std::net::SocketAddr, flow: usize) -> Outcome<Echo> {
    let mut last = plain(address);
    plain_call(&mut last, flow, 10);
    drop(last);
    server.tell()
}

#[test]
fn death_of_a_server_reaches_its_clients() {
    for_all(|engine| {
        let (listener, address) = listener();
        listener.set_nonblocking(false).unwrap();
        let clients = Group::clients((0..3).map(|flow| Caller::new(task(flow, 1, 100_000))).collect(), address);
        let client = Running::start(engine, clients, None, 4096);
        let mut streams: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            stream.read_exact(&mut [0; 10]).unwrap();
        }
        // One closes with everything read, one with bytes unread, one by a reset.
        let mut orderly = streams.remove(0);
        orderly.read_exact(&mut vec![0; 100_004 - 10]).unwrap();
        drop(orderly);
        drop(streams.remove(0));
        reset(streams.remove(0));
        let outcome = client.finish();
        for flow in outcome.group.flows() {
            assert_eq!((flow.completed, flow.wrong, flow.late, flow.ends.len()), (0, 0, false, 1), "{flow:?}");
        }
        let eofs = outcome.group.flows().filter(|flow| flow.ends[0] == ConnectionEnd::Eof).count();
        assert_eq!(eofs, 1);
    });
}

#[test]
fn refused_connection_is_reported() {
    for_all(|engine| {
        let (_reserved, address) = no_listener();
        let clients = Group::clients((0..20).map(|flow| Caller::new(task(flow, 1, 10))).collect(), address);
        let outcome = Running::start(engine, clients, None, 4096).finish();
        assert_eq!(outcome.group.left.len(), 20);
        for flow in outcome.group.flows() {
            assert_eq!(flow.ends, [ConnectionEnd::Failed { doing: Doing::Connecting, errno: ECONNREFUSED }]);
        }
    });
}

#[test]
fn unanswered_connection_ends_with_the_patience() {
    for_all(|engine| {
        // A full backlog drops new connections (listen(2)).
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let _first = TcpStream::connect(address).unwrap();
        let ends_after = |patience_ns: u64| {
            let impatient = Task { give_up_ns: monotonic_ns() + patience_ns, ..task(1, 1, 10) };
            let clients = Group::clients(vec![Caller::new(impatient)], address);
            let outcome = Running::start(engine, clients, None, 64).finish();
            outcome.group.left[0].0.ends.clone()
        };
        // A busy machine may even keep it from trying.
        let ends = [30_000_000, 300_000_000, 3_000_000_000].into_iter().map(ends_after).find(|ends| !ends.is_empty());
        assert_eq!(ends, Some(vec![ConnectionEnd::Failed { doing: Doing::Connecting, errno: ETIMEDOUT }]));
    });
}

#[test]
fn thousands_of_connections_are_carried() {
    let limit = bytegauge_sys::resource_limit::raise_open_files().soft;
    // Both ends are in this process, and other tests run at the same time.
    let connections = (limit as usize / 4).saturating_sub(500).clamp(10, 2000);
    for_all(|engine| {
        let (server, address) = echo_server(engine, 1000, &[]);
        let flows = (0..connections).map(|flow| Caller::new(task(flow, 3, flow % 3000))).collect();
        let client = Running::start(engine, Group::clients(flows, address), None, 1000).finish();
        assert_eq!(client.group.left.len(), connections);
        for flow in client.group.flows() {
            assert_eq!((flow.completed, flow.wrong), (3, 0), "{:?}", flow.ends);
        }
        let outcome = server.tell();
        assert_eq!(counted(&outcome), 3 * connections as u64);
        assert_eq!(outcome.report.accepted, connections as u64);
        let batched =
            !matches!(engine, Engine::Blocking | Engine::Tokio | Engine::Epoll(EpollMode { batch: false, .. }));
        assert!(batched || outcome.report.accepted_at_once == 1);
    });
}

#[test]
fn a_connection_per_call() {
    for_all(|engine| {
        let (server, address) = echo_server(engine, 4096, &[]);
        let per_call = |flow| Caller::new(Task { connect_per_call: true, ..task(flow, 50, 10 + flow) });
        let client = Running::start(engine, Group::clients((0..8).map(per_call).collect(), address), None, 4096);
        let client = client.finish();
        for flow in client.group.flows() {
            assert_eq!((flow.completed, flow.wrong, flow.connects), (50, 0, 50), "{:?}", flow.ends);
        }
        let outcome = server.tell();
        assert_eq!(outcome.report.accepted, 400);
        // An old connection's event that reached the next one of its slot would end it too early.
        assert_eq!(counted(&outcome), 400);
    });
}

/// Otherwise threads would wait for each other's connections.
#[test]
fn a_blocking_flow_connects_again_without_its_party() {
    let (server, address) = echo_server(Engine::Blocking, 4096, &[]);
    let per_call = |flow| Caller::new(Task { connect_per_call: true, ..task(flow, 5, 10) });
    let opened = Arc::new(AtomicUsize::new(0));
    let mut group = Group::clients((0..3).map(per_call).collect(), address);
    let counts = Arc::clone(&opened);
    group.opener = Some(Arc::new(move || {
        counts.fetch_add(1, Ordering::Relaxed);
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        Ok(stream.into())
    }));
    let client = Running::start(Engine::Blocking, group, None, 4096).finish();
    assert!(client.group.flows().all(|flow| (flow.completed, flow.connects) == (5, 5)));
    assert_eq!((client.group.connected, opened.load(Ordering::Relaxed)), (3, 12));
    server.tell();
}

#[test]
fn many_that_send_at_once_are_all_served() {
    for_all(|engine| {
        let (server, address) = echo_server(engine, 4096, &[]);
        let mut streams: Vec<_> = (0..200).map(|_| plain(address)).collect();
        for (flow, stream) in streams.iter_mut().enumerate() {
            let one = message(flow, 1000);
            stream.write_all(&one.repeat(16)).unwrap();
        }
        for (flow, stream) in streams.iter_mut().enumerate() {
            expect(stream, &message(flow, 1000).repeat(16));
        }
        assert_eq!(counted(&server.tell()), 16 * 200);
    });
}

#[test]
fn deadlines_are_met_in_order_and_never_early() {
    for_all(|engine| {
        // Threads may be woken in any order; one thread keeps the order of the deadlines, unless the machine stalled until
        // several were over.
        let in_order = |step_ns: u64| deadlines_are_met(engine, step_ns) || engine == Engine::Blocking;
        let steps_ns = [7_000_000, 28_000_000, 112_000_000, 448_000_000];
        assert!(steps_ns.into_iter().any(in_order), "{engine}");
    });
}

/// Five flows pause without events, with this time between their deadlines. Returns whether they met them in order.
fn deadlines_are_met(engine: Engine, step_ns: u64) -> bool {
    let began_ns = monotonic_ns();
    let waited = Arc::new(AtomicUsize::new(0));
    let waiter = |k: u64| Waiter {
        pause_ns: began_ns + (6 - k) * step_ns,
        receive_ns: began_ns + (7 + k) * step_ns,
        waited: Arc::clone(&waited),
        ..Waiter::default()
    };
    let (mut near, far): (Vec<_>, Vec<_>) = (0..5).map(|_| UnixStream::pair().unwrap()).unzip();
    let flows = far.into_iter().enumerate().map(|(k, fd)| (waiter(k as u64), fd.into())).collect();
    let running = Running::start(engine, Group::joined(flows), None, 64);
    wait_until("all have seen that nothing came", || waited.load(Ordering::Relaxed) == 5);
    for stream in &mut near {
        stream.write_all(b"x").unwrap();
    }
    let outcome = running.finish();
    let mut flows: Vec<_> = outcome.group.flows().collect();
    assert_eq!(flows.len(), 5);
    for flow in &flows {
        let names: Vec<_> = flow.seen.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["paused", "nothing came", "received"]);
        assert!(flow.seen[0].1 >= flow.pause_ns && flow.seen[1].1 >= flow.receive_ns);
    }
    flows.sort_by_key(|flow| flow.pause_ns);
    let paused = flows.is_sorted_by_key(|flow| flow.seen[0].1);
    flows.sort_by_key(|flow| flow.receive_ns);
    paused && flows.is_sorted_by_key(|flow| flow.seen[1].1)
}

#[test]
fn flow_with_a_past_deadline_blocks_no_other() {
    for_all(|engine| {
        for want in [Want::ReceiveUntil(1), Want::Pause(1)] {
            let (_near, far) = UnixStream::pair().unwrap();
            let group = Group::joined(vec![(Impatient(want), OwnedFd::from(far))]);
            let outcome = Running::start(engine, group, None, 64).tell();
            assert_eq!((outcome.stop, outcome.group.left.len()), (Stop::Time, 1));
        }
    });
}

#[test]
fn waiting_engine_stops_and_returns_every_flow() {
    for_all(|engine| {
        for abort in [false, true] {
            let (server, address) = echo_server(engine, 4096, &[]);
            let mut streams: Vec<_> = (0..10).map(|_| plain(address)).collect();
            for stream in &mut streams {
                plain_call(stream, 1, 100);
            }
            let outcome = if abort { server.abort() } else { server.tell() };
            assert_eq!(outcome.stop, if abort { Stop::Aborted } else { Stop::Time });
            assert_eq!(outcome.group.left.len(), 10);
            for (flow, connection) in &outcome.group.left {
                assert!(flow.ends.is_empty());
                // Still open: it belongs to the party now.
                assert!(connection.is_some());
            }
            drop(outcome);
            for mut stream in streams {
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            }
        }
    });
}

#[test]
fn the_window_opens_closes_and_ends_the_loop() {
    for_all(|engine| {
        // A busy machine may keep the caller from a short window.
        let called = |window_ns: u64| a_window_of(engine, window_ns).bytes > 0;
        assert!([20_000_000, 200_000_000, 2_000_000_000].into_iter().any(called), "{engine}");
    });
}

/// The window of a server that is called all the time.
fn a_window_of(engine: Engine, window_ns: u64) -> Window {
    let (listener, address) = listener();
    let mut stream = plain(address);
    let schedule = Schedule { warmup_ns: 20_000_000, window_ns, until_stopped: false };
    let server = Running::start_by(engine, Group::server(Echo::default), Some(listener.into()), 4096, schedule);
    let caller = std::thread::spawn(move || {
        let sent = message(1, 2000);
        let mut echo = vec![0; sent.len()];
        // Until the server leaves.
        while stream.write_all(&sent).is_ok() && stream.read_exact(&mut echo).is_ok() {
            assert_eq!(echo, sent);
        }
    });
    let outcome = server.finish();
    assert_eq!(outcome.stop, Stop::Time);
    // Shorter than planned if it opened late.
    assert!(outcome.window.ns > 0);
    // An engine that began late, on a machine that is busy with other tests, moved nothing before its window.
    assert!(outcome.window.bytes <= outcome.total_bytes);
    if outcome.window.bytes > 0 {
        assert!(outcome.window.calls > 0 && outcome.window.short_calls <= outcome.window.calls);
        assert!(outcome.window.usage.total_ns > 0, "moving bytes uses CPU time");
    }
    let window = outcome.window.clone();
    drop(outcome);
    caller.join().unwrap();
    window
}

#[test]
fn directions_do_not_wait_for_each_other() {
    for_all_over_unix(|engine| {
        let (left, right) = UnixStream::pair().unwrap();
        let flow = |k, fd: UnixStream| {
            let flow = BothWays { outbox: message(k, 3 << 20), gone: 0, inbox: Vec::new() };
            Running::start(engine, Group::joined(vec![(flow, OwnedFd::from(fd))]), None, 10_000)
        };
        let (left, right) = (flow(1, left), flow(2, right));
        let (left, right) = (left.finish(), right.finish());
        assert!(left.group.left[0].0.inbox == right.group.left[0].0.outbox);
        assert!(right.group.left[0].0.inbox == left.group.left[0].0.outbox);
    });
}

#[test]
fn events_of_a_resting_flow_cause_no_spinning() {
    for_all(|engine| {
        let (listener, address) = listener();
        listener.set_nonblocking(false).unwrap();
        let mut peer = plain(address);
        let accepted = listener.accept().unwrap().0;
        let sleeper = Sleeper { until_ns: monotonic_ns() + 100_000_000, ended: false };
        let running = Running::start(engine, Group::joined(vec![(sleeper, accepted.into())]), None, 64);
        peer.write_all(b"bytes that are not read yet").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        reset(peer);
        let outcome = running.finish();
        assert!(outcome.group.left[0].0.ended);
        assert!(outcome.report.system_calls < 1000, "{} system calls", outcome.report.system_calls);
    });
}

#[test]
fn the_suite_notices_a_flow_that_errs() {
    for_all(|engine| {
        for mistake in [Mistake::Corrupts, Mistake::Drops, Mistake::Repeats] {
            let (listener, address) = listener();
            let wrong = move || Echo::erring(mistake);
            let server = Running::start(engine, Group::server(wrong), Some(listener.into()), 512);
            let is_noticed_within = |ns: u64| {
                let soon = Task { give_up_ns: monotonic_ns() + ns, ..task(1, 1, 10_000) };
                let clients = Group::clients(vec![Caller::new(soon)], address);
                let client = Running::start(engine, clients, None, 4096).finish();
                let flow = &client.group.left[0].0;
                assert_eq!(flow.completed, 0, "{mistake:?}");
                flow.wrong > 0 || flow.late
            };
            // A busy machine may even keep it from connecting in time.
            assert!([100_000_000, 1_000_000_000, 10_000_000_000].into_iter().any(is_noticed_within), "{mistake:?}");
            server.abort();
        }
    });
}
