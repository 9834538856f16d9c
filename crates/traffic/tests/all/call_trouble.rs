//! Every error of a call is classified, counted once, and never a hang.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::calls::{self, Ended, PATIENCE, client, kinds, listen, run, run_against, server, setup, try_run, until};
use crate::support::faulty_server::{self, Fault};
use crate::support::no_listener;
use bytegauge_model::{
    Arrivals, CallError, CallReport, EndRole, Ends, Engine, ErrorClass, ErrorPhase, FactorKey, Level,
};
use bytegauge_traffic::{Address, Command, EndPool, PlantedFault, Reply, Setup};
use socket2::{Domain, SockAddr, Socket, Type};

/// Each call that began is completed, lost, or outstanding.
fn check_counted(calls: &CallReport, connect_per_call: bool) {
    let is_call = |error: &&CallError| match error.phase {
        ErrorPhase::Idle => false,
        ErrorPhase::Connect => connect_per_call,
        _ => true,
    };
    let lost: u64 = calls.errors.iter().filter(is_call).map(|error| error.count).sum();
    assert_eq!(calls.begun, calls.completed + lost + calls.unfinished, "{calls:?}");
}

/// The calls of a client with a server that spoils the replies that are due.
fn against_faulty(setup: &Setup, fault: Fault, is_due: fn(u64) -> bool) -> CallReport {
    let address = faulty_server::over_tcp(setup.request(), fault, is_due);
    let reply = run_against(setup, Address::Ip(address)).unwrap();
    calls::report(&reply).call.as_deref().cloned().unwrap()
}

fn planted(plant: PlantedFault, engine: Engine) -> Setup {
    let mut setup = Setup { plant: Some(plant), ..setup("tcp", engine) };
    setup.spec.put(FactorKey::timeout, 200_000_000);
    setup
}

#[test]
fn wrong_reply_costs_one_call_and_is_named() {
    for engine in kinds() {
        for (fault, class, missing) in [
            (Fault::Short, ErrorClass::ShortReply, true),
            (Fault::Long, ErrorClass::LongReply, false),
            (Fault::Corrupt, ErrorClass::Corrupt, true),
        ] {
            let mut setup = setup("tcp", engine);
            // Whatever the machine does meanwhile, no other call is lost.
            setup.spec.put(FactorKey::timeout, 5_000_000_000);
            let carry = |setup: &Setup| against_faulty(setup, fault, |reply| reply == 11);
            let calls = until(&setup, carry, |calls| !calls.errors.is_empty() && calls.calls > 0);
            check_counted(&calls, false);
            let [error] = &calls.errors[..] else { panic!("{engine} {fault:?} {calls:?}") };
            // An additional byte that arrives alone is taken for the next reply's first, and is wrong there.
            let late = class == ErrorClass::LongReply && error.class == ErrorClass::Corrupt;
            assert!(error.count == 1 && (error.class == class || late), "{engine} {fault:?} {error:?}");
            assert!(late || (error.reply_bytes_missing > 0) == missing, "{error:?}");
            assert!(calls.calls > 0, "the flow goes on with a new connection");
        }
    }
}

#[test]
fn silent_server_times_out() {
    for engine in kinds() {
        let mut setup = planted(PlantedFault::Stall(20_000), engine);
        setup.spec.put(FactorKey::timeout, 20_000_000);
        let ended = until(&setup, run, |ended| ended.errors(ErrorClass::TimedOut) > 0);
        assert!(ended.errors(ErrorClass::TimedOut) > 0, "{engine} {:?}", ended.calls());
        check_counted(ended.calls(), false);
    }
}

#[test]
fn a_client_that_cannot_send_is_timed_out() {
    // Replies are awaited only when a request has been sent: with a stalled server this one never is.
    for transport in ["tcp", "unix"] {
        for engine in kinds() {
            let mut setup = planted(PlantedFault::Stall(1), engine);
            setup.spec.set_level(FactorKey::transport, transport.into());
            setup.spec.put(FactorKey::request, 16 << 20);
            setup.spec.put(FactorKey::response, 1);
            setup.spec.put(FactorKey::depth, 2);
            setup.spec.put(FactorKey::timeout, 50_000_000);
            let stop_requested = |ended: &Result<Ended, Reply>| match ended {
                Ok(ended @ Ended { client: Reply::Done(_), .. }) => ended.errors(ErrorClass::TimedOut) > 0,
                _ => true,
            };
            let ended = match until(&setup, try_run, stop_requested) {
                Ok(Ended { client: Reply::Skipped(_), .. } | Ended { server: Reply::Skipped(_), .. }) => continue,
                Err(Reply::Skipped(_)) => continue,
                ended => ended.unwrap(),
            };
            assert!(ended.errors(ErrorClass::TimedOut) > 0, "{transport} {engine} {:?}", ended.client);
            check_counted(ended.calls(), false);
        }
    }
}

#[test]
fn death_of_the_server_keeps_the_counts() {
    // The death of one thread of many is not the server's: processes test that for the blocking engine.
    for engine in kinds().filter(|engine| *engine != Engine::Blocking) {
        for connect_per_call in [false, true] {
            let mut setup = planted(PlantedFault::Die(50_000), engine);
            // An hour: the client must notice, not wait.
            setup.window_ns = 3_600_000_000_000;
            setup.warmup_ns = 0;
            setup.spec.put(FactorKey::connect_per_call, connect_per_call);
            let ended = run(&setup);
            let Reply::Failed(reason, _) = &ended.client else { panic!("{:?}", ended.client) };
            assert!(reason.contains("no longer accepts connections"), "{reason}");
            assert!(matches!(&ended.server, Reply::Failed(reason, _) if reason.contains("died")), "{:?}", ended.server);
            assert!(ended.calls().calls > 0 && ended.errors(ErrorClass::Refused) > 0, "{:?}", ended.calls());
            check_counted(ended.calls(), connect_per_call);
        }
    }
}

#[test]
fn server_without_clients_stops_when_requested() {
    for engine in kinds() {
        let setup = setup("tcp", engine);
        let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
        let address = listen(&mut pool, &setup).unwrap();
        client(&mut pool).send(Command::Open(EndRole::Client, Box::new(setup.clone()), Some(address))).unwrap();
        assert_eq!(client(&mut pool).reply(PATIENCE).unwrap(), Reply::Ready);
        server(&mut pool).send(Command::Go).unwrap();
        client(&mut pool).send(Command::Quit).unwrap();
        server(&mut pool).send(Command::Stop).unwrap();
        assert!(matches!(server(&mut pool).reply(PATIENCE).unwrap(), Reply::Done(_)));
    }
}

#[test]
fn reset_loses_replies_in_flight() {
    for engine in kinds() {
        let mut setup = setup("tcp", engine);
        // More than both socket buffers hold: closing at once discards the rest.
        setup.spec.put(FactorKey::response, 300_000);
        setup.spec.put(FactorKey::connect_per_call, true);
        setup.spec.set("linger", Level::Number(0));
        setup.spec.set("rcvbuf", Level::Number(4096));
        setup.spec.set("rcvbuf_on", Level::Name("client".into()));
        let ended = until(&setup, run, |ended| ended.errors(ErrorClass::Reset) > 0);
        let resets = ended.errors(ErrorClass::Reset);
        assert!(resets > 0, "{engine} {:?}", ended.calls());
        check_counted(ended.calls(), true);
        let (lost, missing) = ended
            .calls()
            .errors
            .iter()
            .fold((0, 0), |(lost, missing), error| (lost + error.count, missing + error.reply_bytes_missing));
        assert!(missing > 0 && missing <= lost * 300_000, "{engine} {:?}", ended.calls().errors);
    }
}

#[test]
fn closing_with_unread_data_resets() {
    for engine in kinds() {
        let mut setup = setup("tcp", engine);
        let spec = &mut setup.spec;
        spec.put(FactorKey::read_once, true);
        spec.put(FactorKey::connect_per_call, true);
        // One that reads a part at a time: a bundle of buffers may hold the whole.
        spec.set_level(FactorKey::server_engine, "epoll".into());
        spec.put(FactorKey::request, 100_000);
        spec.put(FactorKey::response, 64);
        spec.put(FactorKey::request_chunk, 10_000);
        let ended = until(&setup, run, |ended| ended.errors(ErrorClass::Reset) > 0);
        assert!(ended.errors(ErrorClass::Reset) > 0, "{engine} {:?}", ended.calls());
        check_counted(ended.calls(), true);
    }
}

#[test]
fn a_refused_connection_is_counted_and_given_up() {
    for engine in kinds() {
        let mut setup = setup("tcp", engine);
        setup.window_ns = 3_600_000_000_000;
        setup.spec.put(FactorKey::connect_per_call, true);
        let (_reserved, at) = no_listener();
        let Ok(client) = run_against(&setup, Address::Ip(at)) else { panic!("connections come with calls") };
        let Reply::Failed(reason, report) = client else { panic!("{client:?}") };
        assert!(reason.contains("no longer accepts connections"), "{reason}");
        let errors = report.call.unwrap().errors;
        assert!(matches!(errors[..], [CallError { class: ErrorClass::Refused, phase: ErrorPhase::Connect, .. }]));
        // With persistent connections nothing begins.
        setup.spec.put(FactorKey::connect_per_call, false);
        let Err(Reply::Failed(reason, _)) = run_against(&setup, Address::Ip(at)) else {
            panic!("there is no listener")
        };
        assert!(reason.starts_with("connecting to the server by tcp"), "{reason}");
    }
}

#[test]
fn full_unix_backlog_differs_from_a_missing_socket() {
    let [full, gone] = ["full", "gone"].map(|name| format!("bytegauge-{name}-{}", std::process::id()));
    let address = |name: &str| SockAddr::unix(format!("\0{name}")).unwrap();
    let open = || Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    let (listener, deaf) = (open(), open());
    listener.bind(&address(&full)).unwrap();
    listener.listen(0).unwrap();
    // It has the name, and does not listen.
    deaf.bind(&address(&gone)).unwrap();
    // The only place, and there is no accept.
    let filler = open();
    filler.connect(&address(&full)).unwrap();
    let classes = |engine, name: &str| {
        let mut setup = setup("unix", engine);
        setup.window_ns = 3_600_000_000_000;
        setup.spec.put(FactorKey::connect_per_call, true);
        let Ok(Reply::Failed(_, report)) = run_against(&setup, Address::Abstract(name.to_owned())) else {
            panic!("connections come with calls")
        };
        let errors = report.call.unwrap().errors;
        errors.iter().map(|error| (error.class, error.phase)).collect::<Vec<_>>()
    };
    for engine in kinds() {
        assert_eq!(classes(engine, &full), [(ErrorClass::BacklogFull, ErrorPhase::Connect)], "{engine}");
        assert_eq!(classes(engine, &gone), [(ErrorClass::Refused, ErrorPhase::Connect)], "{engine}");
    }
}

#[test]
fn unanswered_connection_times_out() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    // These fill the backlog, and later ones are dropped silently.
    let fillers: Vec<Socket> = (0..8)
        .map(|_| {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            let _ = filler.connect(&address.into());
            filler
        })
        .collect();
    for engine in kinds() {
        let mut setup = setup("tcp", engine);
        setup.spec.put(FactorKey::connect_per_call, true);
        setup.spec.put(FactorKey::timeout, 10_000_000);
        let carry = |setup: &Setup| run_against(setup, Address::Ip(address));
        let lost = |reply: &Result<Reply, Reply>| {
            reply.as_ref().is_ok_and(|reply| !calls::report(reply).call.as_ref().unwrap().errors.is_empty())
        };
        let Ok(Reply::Done(report)) = until(&setup, carry, lost) else { panic!("a result") };
        let errors = report.call.unwrap().errors;
        let classes: Vec<_> = errors.iter().map(|error| (error.class, error.phase)).collect();
        assert_eq!(classes, [(ErrorClass::TimedOut, ErrorPhase::Connect)], "{engine}");
    }
    drop(fillers);
}

/// The longest call of a trial whose server stalls once for 50 ms, and the number of calls that took half as long.
fn after_a_nap(rate: Option<u64>) -> (u64, u64) {
    let mut setup = setup("tcp", "epoll".parse().unwrap());
    setup.spec.put(FactorKey::flows, 1);
    setup.window_ns = 200_000_000;
    setup.spec.set_level(FactorKey::call_rate, rate.map_or(Level::Absent, Level::Number));
    let calls = against_faulty(&setup, Fault::Nap(Duration::from_millis(50)), |reply| reply == 21);
    assert_eq!(calls.errors, []);
    let total = calls::decoded(calls.total.as_ref().unwrap());
    (total.max(), total.len() - total.count_between(0, 25_000_000))
}

/// The same, repeated if a busy machine kept the stall out of the window.
fn after_a_nap_that_shows(rate: Option<u64>, shows: impl Fn((u64, u64)) -> bool) -> (u64, u64) {
    let mut seen = after_a_nap(rate);
    for _ in 0..4 {
        if shows(seen) {
            break;
        }
        seen = after_a_nap(rate);
    }
    seen
}

#[test]
fn stall_delays_all_due_calls() {
    let (longest_ns, slow) = after_a_nap_that_shows(None, |(longest_ns, _)| longest_ns >= 49_000_000);
    assert!(longest_ns >= 49_000_000);
    // The closed loop sent no more while it waited: one slow call, whatever delay the machine adds.
    assert!(slow < 10, "{slow}");
    let shows = |(longest_ns, slow)| longest_ns >= 49_000_000 && slow >= 40;
    let (longest_ns, slow) = after_a_nap_that_shows(Some(2000), shows);
    assert!(longest_ns >= 49_000_000);
    // 2000 calls per second were due during the first half of the stall: they waited 25 ms or more.
    assert!(slow >= 40, "{slow}");
}

#[test]
fn excess_of_an_offered_load_is_overdue() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let mut setup = setup("unix", "epoll".parse().unwrap());
        setup.window_ns = 500_000_000;
        setup.spec.put(FactorKey::call_rate, 2000);
        setup.spec.put(FactorKey::arrivals, arrivals);
        let ended = run(&setup);
        let (calls, overdue) = (ended.calls().calls, ended.calls().overdue);
        // A thousand were due in the window; six standard deviations of a Poisson count are 190. A call that is late on a busy
        // machine completes after the window or is overdue.
        assert!(calls <= 1190 && calls + overdue + 100 >= 810, "{arrivals:?}: {calls} and {overdue} overdue");
        setup.spec.put(FactorKey::call_rate, 1_000_000_000);
        assert!(run(&setup).calls().overdue > 400_000_000);
    }
}

#[test]
fn two_groups_of_clients_load_one_server() {
    let both = |[ours, theirs, _]: &[CallReport; 3]| ours.calls > 0 && theirs.calls > 0;
    let [ours, theirs, server] = until(&setup("tcp", "epoll".parse().unwrap()), two_groups, both);
    assert!(theirs.calls > 0 && theirs.errors.is_empty() && theirs.unfinished == 0);
    assert_eq!(server.completed, ours.completed + theirs.completed);
}

/// The counts of the measured clients, the competing ones and the server.
fn two_groups(setup: &Setup) -> [CallReport; 3] {
    let mut setup = setup.clone();
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    let mut rivals = EndPool::new(Ends::Threads, Path::new("unused"));
    let address = listen(&mut pool, &setup).unwrap();
    let open = |setup: &Setup| Command::Open(EndRole::Client, Box::new(setup.clone()), Some(address.clone()));
    client(&mut pool).send(open(&setup)).unwrap();
    setup.until_stopped = true;
    setup.spec.put(FactorKey::flows, 3);
    client(&mut rivals).send(open(&setup)).unwrap();
    for end in [client(&mut pool), client(&mut rivals)] {
        assert_eq!(end.reply(PATIENCE).unwrap(), Reply::Ready);
    }
    server(&mut pool).send(Command::Go).unwrap();
    for end in [client(&mut rivals), client(&mut pool)] {
        end.send(Command::Go).unwrap();
    }
    assert_eq!(client(&mut pool).reply(PATIENCE).unwrap(), Reply::Closed);
    client(&mut rivals).send(Command::Stop).unwrap();
    let rival = client(&mut rivals).reply(PATIENCE).unwrap();
    server(&mut pool).send(Command::Stop).unwrap();
    let replies = [client(&mut pool).reply(PATIENCE).unwrap(), rival, server(&mut pool).reply(PATIENCE).unwrap()];
    replies.each_ref().map(|reply| calls::report(reply).call.as_deref().cloned().unwrap())
}
