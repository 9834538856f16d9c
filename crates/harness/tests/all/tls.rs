//! Encrypted connections: by the library in each engine that can, by the kernel where it has TLS, and refusals elsewhere.

use bytegauge_harness::trial::TrialResult;
use bytegauge_model::{Direction, EndRole, Engine, FactorKey, Level, Outcome, Spec, Tls, Workload};
use bytegauge_traffic::{Setup, tls, transport};

use crate::support::{run, run_until};

fn stream(transport: &str, kind: Tls, engine: &str) -> Setup {
    let levels = Spec::from([
        ("transport", transport.into()),
        ("engine", engine.into()),
        ("tls", kind.to_string().into()),
        ("read_size", (64 << 10).into()),
        ("write_size", (100 << 10).into()),
    ]);
    Setup { verify: true, warmup_ns: 1_000_000, window_ns: 50_000_000, seed: 7, ..Setup::of(&levels).unwrap() }
}

fn call(kind: Tls, server: &str, client: &str) -> Setup {
    let levels = Spec::from([
        ("transport", "tcp".into()),
        ("server_engine", server.into()),
        ("client_engine", client.into()),
        ("tls", kind.to_string().into()),
        ("request", 64.into()),
        ("flows", 3.into()),
    ])
    .with_workload(Workload::Call);
    Setup { verify: true, warmup_ns: 1_000_000, window_ns: 100_000_000, ..Setup::of(&levels).unwrap() }
}

fn moved(measured: &TrialResult) -> bool {
    measured.end(EndRole::Sink).is_some_and(|sink| sink.bytes > 0)
}

fn completed(measured: &TrialResult) -> u64 {
    let client = measured.end(EndRole::Client).and_then(|end| end.call.as_deref());
    client.map_or(0, |call| call.completed)
}

fn skipped(setup: &Setup) -> String {
    let Outcome::Skipped(reason) = run(setup).outcome else { panic!("measured or failed: {setup:?}") };
    reason
}

#[test]
fn streams_by_the_library_conserve_bytes() {
    for name in ["tcp", "tcp6", "unix", "mptcp"] {
        if transport::missing(&name.parse().unwrap()).is_some() {
            continue;
        }
        for flows in [1, 3] {
            let mut setup = stream(name, Tls::Rustls, "blocking");
            setup.spec.put(FactorKey::flows, flows);
            let measured = run_until(&setup, moved);
            assert_eq!(measured.outcome, Outcome::Measured, "{name}");
            let (source, sink) = (measured.end(EndRole::Source).unwrap(), measured.end(EndRole::Sink).unwrap());
            assert_eq!((source.total_bytes, sink.verified_bytes), (sink.total_bytes, sink.total_bytes), "{name}");
            // A record has at most 16 KiB, and is received in several pieces.
            let reader = sink.engine.as_deref().expect("a session counts its calls");
            assert!(sink.bytes == 0 || reader.system_calls * (16 << 10) > sink.bytes, "{reader:?}");
        }
    }
}

#[test]
fn calls_by_the_library_are_answered() {
    for (server, client) in
        [("blocking", "blocking"), ("epoll", "epoll"), ("epoll:edge:batch", "blocking"), ("blocking", "epoll:edge")]
    {
        for (request, connects) in [(64, false), (300_000, false), (64, true), (300_000, true)] {
            let mut setup = call(Tls::Rustls, server, client);
            setup.spec.set("connect_per_call", Level::Switch(connects));
            setup.spec.put(FactorKey::request, request);
            let measured = run_until(&setup, |measured| completed(measured) > 0);
            let case = format!("{server} {client} {request} {connects}");
            assert_eq!(measured.outcome, Outcome::Measured, "{case}");
            let client = measured.end(EndRole::Client).unwrap();
            assert_eq!(client.verified_bytes, completed(&measured) * request, "{case}");
        }
    }
}

#[test]
fn depth_and_idle_connections_work_with_the_library() {
    for engine in ["blocking", "epoll", "epoll:edge"] {
        let mut setup = call(Tls::Rustls, engine, engine);
        setup.spec.put(FactorKey::depth, 8);
        setup.spec.put(FactorKey::idle_flows, 5);
        let measured = run_until(&setup, |measured| completed(measured) > 0);
        assert_eq!(measured.outcome, Outcome::Measured, "{engine}");
    }
}

/// A kernel without TLS, or with its module absent, skips the cells; otherwise every engine carries them.
#[test]
fn the_kernel_encrypts_or_has_a_reason() {
    let engines = ["blocking", "epoll", "epoll:batch"];
    for engine in engines {
        let (of_bytes, of_calls) = (stream("tcp", Tls::Kernel, engine), call(Tls::Kernel, engine, engine));
        if tls::lacks_kernel().is_some() {
            for setup in [of_bytes, of_calls] {
                let reason = skipped(&setup);
                assert!(reason.contains("--tls kernel") && reason.contains("use --tls rustls"), "{reason}");
            }
            continue;
        }
        assert_eq!(run_until(&of_bytes, moved).outcome, Outcome::Measured, "{engine}");
        let mut both = of_bytes;
        both.spec.put(FactorKey::direction, Direction::Both);
        assert_eq!(run_until(&both, moved).outcome, Outcome::Measured, "{engine}");
        let measured = run_until(&of_calls, |measured| completed(measured) > 0);
        assert_eq!(measured.outcome, Outcome::Measured, "{engine}");
    }
}

#[test]
fn unfit_connections_are_skipped_with_advice() {
    let check = |setup: &Setup, expected: &str| {
        let reason = skipped(setup);
        assert!(reason.contains(expected), "{reason}");
    };
    check(&stream("tcp", Tls::Rustls, "epoll"), "engine epoll does not work with --tls rustls: use blocking");
    check(
        &call(Tls::Rustls, "tokio", "blocking"),
        "engine tokio does not work with --tls rustls: use blocking or epoll",
    );
    check(&stream("tcp", Tls::Kernel, "tokio"), "engine tokio does not work with --tls kernel: use blocking or epoll");
    check(&stream("unix", Tls::Kernel, "blocking"), "the kernel encrypts TCP alone, not unix");
    check(&stream("pipe", Tls::Rustls, "blocking"), "needs a stream socket, not pipe: use tcp or unix");
    let mut per_call = call(Tls::Kernel, "epoll", "epoll");
    per_call.spec.set("connect_per_call", Level::Switch(true));
    check(&per_call, "use --tls rustls with --connect-per-call");
    let mut both = stream("tcp", Tls::Rustls, "blocking");
    both.spec.put(FactorKey::direction, Direction::Both);
    both.spec.put(FactorKey::engine, Engine::Blocking);
    check(&both, "use --direction to or from");
}
