//! Every engine over every transport as every end: either planning refuses it with a reason, or a small trial of it runs
//! or says what this machine lacks. Never a third thing.

mod support;

use bytegauge_model::catalog::{ENGINES, EngineEnd, EngineRow, TRANSPORTS};
use bytegauge_model::{Outcome, Transport, Workload, factor};
use bytegauge_plan::{Catalog, Spec, resolve};
use bytegauge_traffic::PathSetup;
use bytegauge_traffic::engine::lacks;
use support::run;

/// The flag that makes an engine this end, and those that keep the plan small.
fn flags(end: EngineEnd, transport: &str, engine: &str) -> (Workload, Vec<(&'static str, String)>) {
    let datagrams = transport.parse::<Transport>().unwrap().is_datagram();
    let other = if datagrams { "plain" } else { "blocking" };
    let mut flags = vec![("transport", transport.to_owned()), ("placement", "unpinned".to_owned())];
    let mut set = |name, level: &str| flags.push((name, level.to_owned()));
    match end {
        EngineEnd::Stream => {
            set("read_size", "4K");
            set("profile", "drain");
            set("engine", engine);
            if !transport.starts_with('/') {
                set("write_size", "1000");
            }
            (Workload::Stream, flags)
        }
        EngineEnd::Client | EngineEnd::Server => {
            let is_client = end == EngineEnd::Client;
            set("client_engine", if is_client { engine } else { other });
            set("server_engine", if is_client { other } else { engine });
            // As many at once as show an engine that moves many.
            set("profile", "echo");
            set("request", "64");
            set("flows", "4");
            set("depth", "4");
            (Workload::Call, flags)
        }
    }
}

/// The path of the only cell that such a plan has; why there is none.
fn planned(end: EngineEnd, transport: &str, engine: &str) -> Result<PathSetup, String> {
    let (workload, flags) = flags(end, transport, engine);
    let mut spec = Spec::named("a walk", workload);
    let fits = |name: &str| (factor::find(name).unwrap().fits)(&transport.parse().unwrap());
    let flags: Vec<_> = flags
        .into_iter()
        .filter(|(name, _)| *name == "transport" || fits(name))
        .map(|(name, level)| (factor::find(name).unwrap(), level))
        .collect();
    spec.set_all(&flags).map_err(|error| error.to_string())?;
    let plan = resolve(&spec, &Catalog::default(), 1).map_err(|error| error.to_string())?;
    let [cell] = &plan.cells[..] else {
        return Err(format!("{} cells of {engine} over {transport}", plan.cells.len()));
    };
    Ok(PathSetup::of(&cell.factors).unwrap())
}

fn check(end: EngineEnd, transport: &str, row: &EngineRow) {
    let what = format!("{} over {transport} as {end:?}", row.name);
    let planned = planned(end, transport, row.name);
    if !row.value.carries(end, &transport.parse().unwrap()) {
        let refused = planned.expect_err(&what);
        assert!(refused.contains("does not carry"), "{what}: {refused}");
        return;
    }
    let mut setup = planned.unwrap_or_else(|refused| panic!("{what}: {refused}"));
    (setup.warmup_ns, setup.window_ns, setup.seed) = (2_000_000, 20_000_000, 7);
    let measured = run(&setup);
    match (lacks(row.value), &measured.outcome) {
        (None, Outcome::Measured) => {
            let ends = [&measured.source, &measured.sink];
            assert!(ends.into_iter().flatten().all(|end| end.total_bytes > 0 || end.calls > 0), "{what}: {measured:?}");
        }
        (Some(reason), Outcome::Skipped(said)) => assert_eq!(*said, reason, "{what}"),
        // Planning skips what the machine lacks; IPv6 is a transport's business.
        (None, Outcome::Skipped(said)) if said.contains("IPv6") => {}
        (lacking, outcome) => panic!("{what}: {outcome:?}, though the machine lacks {lacking:?}"),
    }
}

fn check_all(end: EngineEnd) {
    let workload = if end == EngineEnd::Stream { Workload::Stream } else { Workload::Call };
    let names = TRANSPORTS.iter().map(|row| row.name).chain(["/dev/zero"]);
    for transport in names.filter(|name| workload.runs_over(&name.parse().unwrap())) {
        ENGINES.iter().for_each(|row| check(end, transport, row));
    }
}

#[test]
fn streams_run_or_are_refused() {
    check_all(EngineEnd::Stream);
}

#[test]
fn servers_run_or_are_refused() {
    check_all(EngineEnd::Server);
}

#[test]
fn clients_run_or_are_refused() {
    check_all(EngineEnd::Client);
}
