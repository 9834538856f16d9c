//! Options of sockets and pipes, and ways to send and receive, in one trial.

use bytegauge_model::{EndRole, Engine, FactorKey, Level, Outcome, Spec, Transport};
use bytegauge_traffic::Setup;

use crate::support::run;
use crate::trial::{check_measured, setup};

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/support/examples.rs"));

#[test]
fn writes_without_copies_keep_their_bytes() {
    for (engine, flows) in
        [("blocking", 1), ("blocking", 2), ("epoll", 1), ("epoll", 3), ("epoll:edge", 1), ("epoll:edge", 3)]
    {
        // Compared byte for byte: memory that changes before the kernel returned it would be seen.
        let mut setup = Setup { verify: true, window_ns: 50_000_000, ..setup("tcp") };
        setup.spec.set_level(FactorKey::engine, engine.into());
        setup.spec.put(FactorKey::flows, flows);
        setup.spec.set("zerocopy", Level::Switch(true));
        let measured = check_measured(&setup).expect("every kernel has TCP");
        let writer = measured.end(EndRole::Source).unwrap().engine.as_deref().expect("the writer counts its sends");
        assert!(writer.zero_copy > 0 && writer.zero_copy_copied <= writer.zero_copy, "{writer:?}");
        // Loopback copies what is received.
        assert!(writer.zero_copy_copied > 0, "{writer:?}");
    }
}

#[test]
fn options_are_read_back_as_set() {
    let mut tcp = setup("tcp");
    tcp.spec.set("sndbuf", Level::Number(100_000));
    tcp.spec.set("rcvbuf", Level::Number(50_000));
    tcp.spec.set("nodelay", Level::Switch(true));
    let measured = run(&tcp);
    let (source, sink) = (measured.end(EndRole::Source).unwrap(), measured.end(EndRole::Sink).unwrap());
    // Linux doubles what is asked for (socket(7)).
    assert_eq!(*source.flows[0].options.get("sndbuf"), Level::Number(200_000));
    assert_eq!(*sink.flows[0].options.get("rcvbuf"), Level::Number(100_000));
    assert_eq!(*source.flows[0].options.get("nodelay"), Level::Switch(true));
    assert!(source.flows[0].options.get("congestion").name().is_some());
    let tcp = source.flows[0].tcp.clone().unwrap();
    assert!(tcp.busy_us.get().is_some() && tcp.bytes_sent.get().unwrap() > 0);
    let mut pipe = setup("pipe");
    pipe.spec.set("pipe_size", Level::Number(1 << 18));
    assert_eq!(*run(&pipe).end(EndRole::Sink).unwrap().flows[0].options.get("pipe_size"), Level::Number(1 << 18));
}

#[test]
fn every_option_of_a_stream_is_read_back() {
    use bytegauge_model::option;
    for transport in ["tcp", "tcp6", "unix", "pipe", "udp", "udp6", "unix-dgram"] {
        let joint: Transport = transport.parse().unwrap();
        let of_streams = |row: &&option::OptionRow| {
            let setters = (row.sites)(&Spec::default()).0;
            (row.fits)(&joint) && [EndRole::Source, EndRole::Sink].iter().any(|end| setters.contains(end))
        };
        for row in option::OPTIONS.iter().filter(of_streams) {
            let asked = row.kind.parse(example(row.factor)).unwrap();
            let mut setup = setup(transport);
            if joint.is_datagram() {
                setup.spec.put(FactorKey::engine, Engine::Plain);
                setup.spec.put(FactorKey::write_size, 1000);
            }
            setup.spec.set(row.factor, asked.clone());
            let measured = run(&setup);
            if let Outcome::Skipped(reason) = &measured.outcome {
                let known = ["CAP_NET_ADMIN", "lacks the option", "no IPv6"];
                let refused = known.iter().any(|why| reason.contains(why));
                assert!(refused, "{}: {reason}", row.name);
                continue;
            }
            assert_eq!(measured.outcome, Outcome::Measured, "{} over {transport}", row.factor);
            let is_source = (row.sites)(&Spec::default()).0.contains(&EndRole::Source);
            let end = measured.end(if is_source { EndRole::Source } else { EndRole::Sink }).unwrap();
            let found = end.flows[0].options.get(row.factor);
            let is_readable = (row.readable)(&joint);
            let is_as_asked = *found == row.expected(&asked) || row.changes || !is_readable;
            assert!(is_as_asked, "{}: {found} over {transport}", row.factor);
            assert_eq!(*found != Level::Absent, is_readable, "{} over {transport}", row.factor);
        }
    }
}

#[test]
fn a_reader_gets_the_count_of_queued_bytes() {
    for transport in ["tcp", "unix"] {
        let mut setup = setup(transport);
        setup.spec.put(FactorKey::engine, Engine::Blocking);
        setup.spec.put(FactorKey::read_size, 1024);
        setup.spec.set("inq", Level::Switch(true));
        let measured = run(&setup);
        if let Outcome::Skipped(reason) = &measured.outcome {
            // Unix sockets have it since Linux 6.17.
            assert!(transport == "unix" && reason.contains("lacks the option"), "{reason}");
            continue;
        }
        let engine = measured.end(EndRole::Sink).unwrap().engine.clone().unwrap();
        assert!(engine.queued_counts > 0, "{transport}: {engine:?}");
    }
}

#[test]
fn writers_of_files_send_every_byte() {
    for transport in ["tcp", "tcp6", "unix", "pipe"] {
        for (place, engine) in [("file", "blocking"), ("file", "epoll"), ("sendfile", "blocking")] {
            for (flows, verify) in [(1, false), (3, true)] {
                let mut setup = Setup { verify, ..setup(transport) };
                setup.spec.set("send_from", place.into());
                // Messages that go across the end of the file.
                setup.spec.set_level(FactorKey::engine, engine.into());
                setup.spec.put(FactorKey::write_size, 100_000);
                setup.spec.put(FactorKey::flows, flows);
                let Some(measured) = check_measured(&setup) else { continue };
                let writer = measured.end(EndRole::Source).unwrap().engine.as_deref();
                assert!(place != "sendfile" || writer.is_some_and(|writer| writer.system_calls > 0), "{writer:?}");
            }
        }
    }
}

#[test]
fn unfit_writers_of_files_are_skipped() {
    for (with, level, engine, expected) in [
        ("nodelay", "auto", "epoll", "use --engine blocking, or --send-from file"),
        ("zerocopy", "on", "blocking", "leave out --zerocopy or --send-from"),
        ("tls", "rustls", "blocking", "use --send-from file, or sendfile with --tls kernel"),
    ] {
        let mut setup = setup("tcp");
        for (name, level) in [("send_from", "sendfile"), (with, level)] {
            setup.spec.set(name, bytegauge_model::factor::find(name).unwrap().kind.parse(level).unwrap());
        }
        setup.spec.set_level(FactorKey::engine, engine.into());
        let Outcome::Skipped(reason) = run(&setup).outcome else { panic!("{with}") };
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn an_unknown_option_is_a_skip() {
    let mut tcp = setup("tcp");
    tcp.spec.set("congestion", Level::Name("carrier-pigeon".into()));
    let Outcome::Skipped(reason) = run(&tcp).outcome else { panic!("it is not available") };
    assert!(reason.contains("carrier-pigeon"), "{reason}");
}
