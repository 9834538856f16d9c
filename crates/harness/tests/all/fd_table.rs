//! Measured threads with descriptor tables of their own: trials run as with a shared one, and nothing stays open.

use bytegauge_model::catalog::{ENGINES, EngineEnd, TRANSPORTS};
use bytegauge_model::{EndRole, Engine, Level, Outcome, Spec, Transport, Workload};
use bytegauge_sys::descriptor_table;
use bytegauge_traffic::{Setup, transport};

use crate::support::{in_mode, run, run_until};

fn stream(transport: &str, engine: Engine) -> Setup {
    let levels = Spec::from([
        ("transport", transport.into()),
        ("engine", engine.to_string().into()),
        ("read_size", (16 << 10).into()),
        ("write_size", (16 << 10).into()),
        ("flows", if transport.starts_with('/') { 1 } else { 2 }.into()),
        ("fd_table", "private".into()),
    ]);
    Setup { warmup_ns: 1_000_000, window_ns: 50_000_000, ..Setup::of(&levels).unwrap() }
}

fn call(engine: Engine, connect_per_call: bool) -> Setup {
    let levels = Spec::from([
        ("transport", "tcp".into()),
        ("server_engine", engine.to_string().into()),
        ("client_engine", "epoll".into()),
        ("request", 64.into()),
        ("flows", 3.into()),
        ("connect_per_call", Level::Switch(connect_per_call)),
        ("fd_table", "private".into()),
    ])
    .with_workload(Workload::Call);
    Setup { warmup_ns: 1_000_000, window_ns: 100_000_000, ..Setup::of(&levels).unwrap() }
}

#[test]
fn streams_are_conserved_with_private_tables() {
    let engines = ENGINES.iter().map(|row| row.value).filter(|engine| *engine != Engine::Null);
    for engine in engines {
        let transports = TRANSPORTS.iter().map(|row| row.name).chain(["/dev/zero"]);
        for name in transports.filter(|name| *name != "tcp6" && *name != "udp6") {
            let parsed: Transport = name.parse().unwrap();
            if !engine.carries(EngineEnd::Stream, &parsed) || transport::missing(&parsed).is_some() {
                continue;
            }
            let measured = run_until(&stream(name, engine), in_mode);
            if !matches!((engine, &measured.outcome), (Engine::Uring(_), Outcome::Skipped(_))) {
                assert_eq!(measured.outcome, Outcome::Measured, "{engine} over {name}");
                assert!(measured.end(EndRole::Sink).unwrap().bytes > 0);
            }
        }
    }
}

#[test]
fn calls_are_conserved_with_private_tables() {
    for engine in [Engine::Tokio, "epoll".parse().unwrap(), "uring".parse().unwrap()] {
        for connect_per_call in [false, true] {
            let measured = run_until(&call(engine, connect_per_call), in_mode);
            if !matches!((engine, &measured.outcome), (Engine::Uring(_), Outcome::Skipped(_))) {
                assert_eq!(measured.outcome, Outcome::Measured, "{engine} {connect_per_call}");
                // The server looks at connections that the client keeps open until then.
                let flows = &measured.end(EndRole::Server).unwrap().flows;
                assert!(flows.iter().any(|flow| flow.tcp.is_some()), "{engine} {connect_per_call}");
            }
        }
    }
}

#[test]
fn thread_per_connection_cannot_have_private_tables() {
    let outcome = run(&call(Engine::Blocking, false)).outcome;
    let Outcome::Skipped(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("--fd-table shared"), "{reason}");
}

#[test]
fn private_tables_leave_nothing_open() {
    // Other tests open descriptors in the shared table at the same time. The threads of these trials get a table of their own
    // from this thread's.
    descriptor_table::leave_shared(&[]).unwrap();
    let open = || descriptor_table::open_descriptors().unwrap().len();
    let trial = || run(&call("epoll".parse().unwrap(), false)).outcome;
    assert_eq!(trial(), Outcome::Measured);
    let before = open();
    for _ in 0..40 {
        assert_eq!(trial(), Outcome::Measured);
    }
    // A trial opens several, and the last trial's threads may still close theirs.
    assert!(open() < before + 40, "{before} before, {} after", open());
}
