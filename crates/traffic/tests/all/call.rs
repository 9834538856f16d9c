//! Calls from end to end: conserved over every transport and engine, and every kind of error classified.

use crate::calls::{self, Ended, engines, kinds, setup, try_run};
use bytegauge_model::named_levels::MESSAGE_WRITES;
use bytegauge_model::{EndReport, Engine, FactorKey, Level, MessageWrites};
use bytegauge_traffic::call::DecodedHistogram;
use bytegauge_traffic::{Reply, Setup};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/support/examples.rs"));

/// A trial without errors: nothing is lost between the two ends, and everything is counted once. With a longer window if a
/// busy machine completed no call in this one.
fn check_conserved(setup: &Setup) -> Option<Ended> {
    let ended = check_conserved_once(setup)?;
    let (client, server) = (ended.client(), ended.server());
    // Each end has its own window, and a busy machine may keep one of them from all of it.
    let some = ended.calls().calls > 0 && server.calls > 0 && client.cpu_ns > 0 && server.cpu_ns > 0;
    if !some && setup.window_ns < 2_000_000_000 {
        return check_conserved(&Setup { window_ns: setup.window_ns * 4, ..setup.clone() });
    }
    assert!(some && server.window_ns > 0, "{setup:?}: {client:?}, {server:?}");
    Some(ended)
}

fn check_conserved_once(setup: &Setup) -> Option<Ended> {
    let ended = match try_run(setup) {
        Ok(ended) => ended,
        // The test machine may have no IPv6.
        Err(Reply::Skipped(reason)) if reason.contains("IPv6") => return None,
        Err(other) => panic!("{other:?} of {setup:?}"),
    };
    if let (Reply::Skipped(reason), _) | (_, Reply::Skipped(reason)) = (&ended.client, &ended.server) {
        assert!(reason.contains("use "), "{reason}");
        return None;
    }
    let (Reply::Done(_), Reply::Done(_)) = (&ended.client, &ended.server) else {
        panic!("{:?} and {:?} of {setup:?}", ended.client, ended.server)
    };
    let (client, server, calls) = (ended.client(), ended.server(), ended.calls());
    let served = server.call.as_ref().unwrap();
    let (request, response, connect_per_call) = (setup.request(), setup.response(), setup.connect_per_call());
    assert_eq!(calls.errors, [], "{setup:?}");
    assert_eq!((calls.begun, calls.unfinished), (calls.completed, 0), "{setup:?}");
    assert_eq!((served.begun, served.completed), (calls.begun, calls.completed), "{setup:?}");
    assert_eq!(client.total_bytes, calls.completed * (request + response) as u64, "{setup:?}");
    assert_eq!(client.total_bytes, server.total_bytes, "{setup:?}");
    assert!(calls.total.is_some() && calls.write.is_some() && calls.first_byte.is_some());
    assert_eq!(calls.connect.is_some(), connect_per_call);
    if setup.depth() == 1 && request <= setup.read_size() {
        let copied = |end: &EndReport| end.engine.as_ref().map_or(0, |engine| engine.copied_bytes);
        assert_eq!((copied(client), copied(server)), (0, 0), "{setup:?}");
    }
    Some(ended)
}

#[test]
fn echoes_are_conserved_by_every_engine() {
    for transport in ["tcp", "tcp6", "unix"] {
        for engine in engines() {
            for verify in [false, true] {
                check_conserved(&Setup { verify, ..setup(transport, engine) });
            }
        }
    }
}

#[test]
fn requests_and_replies_of_all_lengths_are_conserved() {
    for engine in engines() {
        for (request, response) in [(1, 1), (1, 3000), (100_000, 1), (300_000, 300_000), (7, 64), (4096, 9)] {
            let mut setup = Setup { verify: true, ..setup("tcp", engine) };
            setup.spec.put(FactorKey::request, request);
            setup.spec.put(FactorKey::response, response);
            // Comparing every byte takes time.
            setup.window_ns *= if request + response > 50_000 { 3 } else { 1 };
            check_conserved(&setup);
        }
    }
}

#[test]
fn concurrent_calls_in_pieces_are_conserved() {
    for engine in kinds() {
        for (depth, chunk, size) in [(16, None, 512), (4, Some(100), 512), (8, None, 200_000), (3, Some(1), 16)] {
            for echo in [true, false] {
                let mut setup = Setup { verify: true, ..setup("tcp", engine) };
                // Without it, small pieces wait for each other's acknowledgement, 40 ms at a time.
                setup.spec.set("nodelay", Level::Switch(true));
                setup.window_ns *= if size > 50_000 { 10 } else { 1 };
                let spec = &mut setup.spec;
                spec.put(FactorKey::depth, depth);
                spec.set_level(FactorKey::request_chunk, chunk.map_or_else(Level::auto, Level::Number));
                spec.put(FactorKey::request, size);
                spec.put(FactorKey::response, if echo { size } else { size + 1 });
                check_conserved(&setup);
            }
        }
    }
}

/// Two parts each way, written in each way that a program may use; an engine without system calls for each send has two of them.
#[test]
fn messages_in_parts_are_conserved() {
    for engine in kinds() {
        let makes_calls = matches!(engine, Engine::Blocking | Engine::Epoll(_));
        for row in MESSAGE_WRITES.iter().filter(|row| makes_calls || row.value == MessageWrites::Separate) {
            // Three parts of a reply: one from memory, the others from a file at once.
            let mut setup = in_parts(engine, row.value);
            setup.spec.set("nodelay", Level::Switch(true));
            setup.spec.put(FactorKey::depth, 3);
            let Some(ended) = check_conserved(&setup) else { continue };
            assert!(ended.calls().gap.is_some(), "{engine} {}", row.name);
        }
    }
}

/// With Nagle's algorithm the second part waits for an acknowledgement, which is delayed by 40 ms, unless both leave together.
#[test]
fn joined_parts_do_not_wait_for_acknowledgements() {
    for engine in ["blocking", "epoll"] {
        let calls = |writes| {
            let mut setup = in_parts(engine.parse().unwrap(), writes);
            setup.spec.set("nodelay", Level::Switch(false));
            setup.window_ns = 500_000_000;
            check_conserved(&setup).unwrap().calls().calls
        };
        let separate = calls(MessageWrites::Separate);
        assert!(separate < 40, "{engine}: {separate}");
        let (file, joined) = (calls(MessageWrites::Sendfile), calls(MessageWrites::MoreSendfile));
        assert!(joined > file, "a header and a file are two parts, {engine}: {joined} and {file}");
        let is_joined = |writes: MessageWrites| !matches!(writes, MessageWrites::Separate | MessageWrites::Sendfile);
        for row in MESSAGE_WRITES.iter().filter(|row| is_joined(row.value)) {
            let joined = calls(row.value);
            assert!(joined > separate, "{engine} {}: {joined} and {separate}", row.name);
        }
    }
}

/// A reply of three parts lasts as long as its two pauses, with every engine.
#[test]
fn pauses_between_parts_are_kept() {
    for engine in kinds() {
        let mut setup = in_parts(engine, MessageWrites::Separate);
        setup.spec.set("nodelay", Level::Switch(true));
        setup.spec.put(FactorKey::response, 300);
        setup.spec.put(FactorKey::response_gap, 5_000_000);
        let Some(ended) = check_conserved(&setup) else { continue };
        let shortest = DecodedHistogram::decode(ended.calls().total.as_ref().unwrap()).unwrap().at(0.0);
        assert!(shortest >= 9_900_000, "{engine}: {shortest}");
    }
}

/// A header of 30 bytes, and a body in one part or in two: with the pauses that belong to them.
#[test]
fn a_header_is_a_part_of_its_own() {
    for engine in kinds() {
        for (body, pauses) in [(Level::Absent, 1), (Level::Number(150), 2)] {
            let mut setup = in_parts(engine, MessageWrites::Separate);
            setup.spec.set("nodelay", Level::Switch(true));
            setup.spec.put(FactorKey::response, 300);
            setup.spec.put(FactorKey::response_header, 30);
            setup.spec.set_level(FactorKey::response_chunk, body);
            setup.spec.put(FactorKey::response_gap, 5_000_000);
            let Some(ended) = check_conserved(&setup) else { continue };
            let shortest = DecodedHistogram::decode(ended.calls().total.as_ref().unwrap()).unwrap().at(0.0);
            assert!(shortest >= pauses * 4_950_000, "{engine}: {shortest}");
        }
    }
}

/// Requests and replies of two parts of 100 bytes.
fn in_parts(engine: Engine, writes: MessageWrites) -> Setup {
    let mut setup = Setup { verify: true, ..setup("tcp", engine) };
    for (key, bytes) in [
        (FactorKey::request, 200),
        (FactorKey::request_chunk, 100),
        (FactorKey::response, 200),
        (FactorKey::response_chunk, 100),
    ] {
        setup.spec.put(key, bytes);
    }
    setup.spec.put(FactorKey::message_writes, writes);
    if writes.sends_file() {
        setup.spec.set_level(FactorKey::request_chunk, Level::Absent);
        setup.spec.put(FactorKey::response, 300);
    }
    setup
}

#[test]
fn a_connection_per_call_is_conserved() {
    for transport in ["tcp", "tcp6", "unix"] {
        for engine in engines() {
            let mut setup = Setup { verify: true, ..setup(transport, engine) };
            setup.spec.put(FactorKey::connect_per_call, true);
            if let Some(ended) = check_conserved(&setup) {
                let accepted = ended.server().engine.as_ref().unwrap().accepted;
                assert_eq!(accepted, ended.calls().begun, "{engine}");
            }
        }
    }
}

#[test]
fn threads_share_the_flows_and_the_port() {
    for engine in engines().filter(|engine| *engine != Engine::Blocking) {
        for reuseport in [false, true] {
            let mut setup = setup("tcp", engine);
            setup.spec.put(FactorKey::flows, 7);
            setup.spec.set("reuseport", Level::Switch(reuseport));
            let spec = &mut setup.spec;
            spec.put(FactorKey::client_threads, 3);
            spec.put(FactorKey::server_threads, 2);
            spec.put(FactorKey::idle_flows, 5);
            let Some(ended) = check_conserved(&setup) else { continue };
            assert_eq!(ended.server().engine.as_ref().unwrap().accepted, 12);
        }
    }
}

#[test]
fn ends_may_have_different_engines() {
    for (server, client) in [("blocking", "epoll"), ("epoll:edge", "blocking"), ("tokio", "epoll")] {
        let mut setup = setup("unix", "epoll".parse().unwrap());
        setup.spec.set_level(FactorKey::server_engine, server.into());
        setup.spec.set_level(FactorKey::client_engine, client.into());
        check_conserved(&setup);
    }
}

/// A server fails its trial if its work did not run exactly once per request.
#[test]
fn work_runs_once_a_request_on_every_engine() {
    use bytegauge_model::Work;
    for engine in engines() {
        for (work, walk) in [(Work::Sum, 4096), (Work::Copy, 0), (Work::NsPerByte(0.1), 0), (Work::None, 100)] {
            for connect_per_call in [false, true] {
                let mut setup = setup("tcp", engine);
                setup.spec.put(FactorKey::work, work);
                setup.spec.put(FactorKey::working_set, walk);
                setup.spec.put(FactorKey::connect_per_call, connect_per_call);
                check_conserved(&setup);
            }
        }
    }
}

#[test]
fn options_are_set_and_read_back() {
    use bytegauge_model::RcvbufOn;
    for (rcvbuf_on, at_server) in [(RcvbufOn::Listener, true), (RcvbufOn::Accepted, true), (RcvbufOn::Client, false)] {
        for connect_per_call in [false, true] {
            let mut setup = setup("tcp", "epoll".parse().unwrap());
            setup.spec.set("rcvbuf", Level::Number(50_000));
            setup.spec.set("nodelay", Level::Switch(true));
            setup.spec.set("rcvbuf_on", Level::Name(rcvbuf_on.to_string()));
            setup.spec.put(FactorKey::connect_per_call, connect_per_call);
            let ended = check_conserved(&setup).unwrap();
            let (client, server) = (&ended.client().flows[0], &ended.server().flows[0]);
            // Linux doubles the requested value (socket(7)).
            assert_eq!(*server.options.get("rcvbuf") == Level::Number(100_000), at_server, "{rcvbuf_on:?}");
            assert_eq!(*client.options.get("rcvbuf") == Level::Number(100_000), !at_server, "{rcvbuf_on:?}");
            assert_eq!([client, server].map(|end| end.options.get("nodelay")), [&Level::Switch(true); 2]);
            assert!(server.tcp.is_some());
        }
    }
}

#[test]
fn every_option_of_a_call_is_read_back() {
    use bytegauge_model::option::{OPTIONS, OptionRow};
    use bytegauge_model::{EndRole, Spec, Transport};
    for transport in ["tcp", "tcp6", "unix", "udp", "udp6", "unix-dgram"] {
        let joint: Transport = transport.parse().unwrap();
        let sets = |row: &OptionRow, end| (row.sites)(&Spec::default()).0.contains(&end);
        let of_calls =
            |row: &&OptionRow| (row.fits)(&joint) && (sets(row, EndRole::Client) || sets(row, EndRole::Server));
        for row in OPTIONS.iter().filter(of_calls) {
            let asked = row.kind.parse(example(row.factor)).unwrap();
            let engine = match row.factor {
                _ if joint.is_datagram() => "plain",
                _ => "epoll",
            };
            let mut setup = setup(transport, engine.parse().unwrap());
            setup.spec.set(row.factor, asked.clone());
            // In a short window a busy machine may keep the server from its first sample.
            let is_sampled = |ended: &Ended| {
                [ended.client(), ended.server()].iter().all(|report| !report.flows[0].options.levels.is_empty())
            };
            let ended = match calls::until(&setup, try_run, |ended| ended.as_ref().map_or(true, is_sampled)) {
                Ok(ended) => ended,
                Err(Reply::Skipped(reason)) => {
                    let known = ["CAP_NET_ADMIN", "lacks the option", "net.ipv4.tcp_fastopen", "no IPv6"];
                    assert!(known.iter().any(|why| reason.contains(why)), "{}: {reason}", row.name);
                    continue;
                }
                Err(other) => panic!("{other:?} of {}", row.factor),
            };
            for (end, report) in [(EndRole::Client, ended.client()), (EndRole::Server, ended.server())] {
                let found = report.flows[0].options.get(row.factor);
                let is_reported = *found == row.expected(&asked) || row.changes && *found != Level::Absent;
                let is_reported = is_reported || !(row.readable)(&joint) && *found == Level::Absent;
                assert!(is_reported || !sets(row, end), "{} at the {end:?} over {transport}: {found}", row.factor);
            }
        }
    }
}

#[test]
fn data_with_the_syn_is_reported() {
    let mut setup = setup("tcp", "epoll".parse().unwrap());
    setup.spec.put(FactorKey::connect_per_call, true);
    setup.spec.set("fastopen", Level::Number(256));
    let with_data = |ended: &Ended| {
        ended.server().flows.iter().any(|flow| flow.tcp.as_ref().is_some_and(|tcp| tcp.syn_data == Some(true)))
    };
    match calls::until(&setup, try_run, |ended| ended.as_ref().map_or(true, with_data)) {
        Ok(ended) => assert!(with_data(&ended), "{:?}", ended.server().flows),
        Err(Reply::Skipped(reason)) => assert!(reason.contains("net.ipv4.tcp_fastopen"), "{reason}"),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn the_client_alone_measures_the_harness() {
    for (response, connect_per_call) in [(512, false), (100_000, false), (3, true)] {
        let mut setup = Setup { series: true, ..setup("tcp", Engine::Null) };
        setup.spec.put(FactorKey::flows, 1);
        setup.spec.put(FactorKey::response, response);
        setup.spec.put(FactorKey::connect_per_call, connect_per_call);
        let some = |reply: &Reply| {
            let report = calls::report(reply);
            report.call.as_ref().is_some_and(|call| call.calls > 0) && !report.flows[0].series.is_empty()
        };
        let ended = calls::until(&setup, calls::run_alone, some);
        let Reply::Done(report) = ended else { panic!("{ended:?}") };
        let calls = report.call.unwrap();
        assert!(calls.calls > 0 && calls.begun == calls.completed && calls.errors.is_empty());
        assert!(!report.flows[0].series.is_empty());
    }
}

#[test]
fn too_many_connections_are_skipped_with_a_reason() {
    let mut setup = setup("tcp", "epoll".parse().unwrap());
    setup.spec.put(FactorKey::flows, 600_000_000);
    match try_run(&setup) {
        Err(Reply::Skipped(reason)) => assert!(reason.contains("raise ulimit -n"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn clients_have_outstanding_calls_at_the_end() {
    for engine in engines().filter(|engine| !engine.has_thread_a_flow()) {
        let mut setup = setup("tcp", engine);
        setup.spec.put(FactorKey::flows, 300);
        let waiting = |ended: &Ended| ended.calls().left.as_ref().map_or(0, |left| calls::decoded(left).len());
        let ended = calls::until(&setup, calls::run, |ended| waiting(ended) == 300);
        assert_eq!(waiting(&ended), 300, "{engine}: {:?}", ended.calls());
    }
}

#[test]
fn thousands_of_connections_are_carried() {
    let mut setup = setup("tcp", "epoll:batch".parse().unwrap());
    setup.spec.put(FactorKey::flows, 2000);
    // However slow the machine: every flow's call must fit.
    setup.window_ns = 300_000_000;
    match try_run(&setup) {
        Ok(_) => drop(check_conserved(&setup)),
        Err(Reply::Skipped(reason)) => assert!(reason.contains("open files"), "{reason}"),
        Err(other) => panic!("{other:?}"),
    }
}
