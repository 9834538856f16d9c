//! Every engine over every transport as every end: either planning refuses or skips it with a reason, or a small trial of
//! it runs. Never a third thing.

use crate::support::{in_mode, run_until};
use bytegauge_harness::trial::TrialResult;
use bytegauge_model::name_tables::{ENGINES, EngineEnd, EngineRow, TRANSPORTS};
use bytegauge_model::{EndReport, EndRole, Engine, Outcome, Transport, Workload, factor};
use bytegauge_plan::{Catalog, PlanSpec, resolve};
use bytegauge_traffic::Setup;
use bytegauge_traffic::engine::missing_requirement;

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
            set("urgent", "1ms");
            if !transport.starts_with('/') {
                set("write_size", "1000");
            }
            (Workload::Stream, flags)
        }
        EngineEnd::Client | EngineEnd::Server => {
            let is_client = end == EngineEnd::Client;
            set("client_engine", if is_client { engine } else { other });
            set("server_engine", if is_client { other } else { engine });
            // Enough at once to show a batching engine, and long enough to fill several buffers.
            set("profile", "echo");
            set("request", if datagrams { "64" } else { "64K" });
            set("flows", "4");
            set("depth", "4");
            (Workload::Call, flags)
        }
    }
}

/// The path of the only cell that such a plan has; why there is none.
fn planned(end: EngineEnd, transport: &str, engine: &str) -> Result<Setup, String> {
    let (workload, flags) = flags(end, transport, engine);
    let mut spec = PlanSpec::named("a walk", workload);
    let fits = |name: &str| (factor::find(name).unwrap().fits)(&transport.parse().unwrap());
    let flags: Vec<_> = flags
        .into_iter()
        .filter(|(name, _)| *name == "transport" || fits(name))
        .map(|(name, level)| (factor::find(name).unwrap(), level))
        .collect();
    spec.set_all(&flags).map_err(|error| error.to_string())?;
    let mut catalog = Catalog::default();
    ENGINES.iter().for_each(|row| catalog.note_missing("engine", row.name, missing_requirement(row.value)));
    let plan = resolve(&spec, &catalog, 1).map_err(|error| error.to_string())?;
    let [cell] = &plan.cells[..] else {
        return Err(format!("{} cells of {engine} over {transport}", plan.cells.len()));
    };
    Ok(Setup::of(&cell.factors).unwrap())
}

fn check(end: EngineEnd, transport: &str, row: &EngineRow) {
    let what = format!("{} over {transport} as {end:?}", row.name);
    let planned = planned(end, transport, row.name);
    if !row.value.carries(end, &transport.parse().unwrap()) {
        let refused = planned.expect_err(&what);
        assert!(refused.contains("does not carry"), "{what}: {refused}");
        return;
    }
    if let Some(reason) = missing_requirement(row.value) {
        let skipped = planned.expect_err(&what);
        assert!(skipped.contains(&reason), "{what}: {skipped}");
        return;
    }
    let mut setup = planned.unwrap_or_else(|refused| panic!("{what}: {refused}"));
    (setup.warmup_ns, setup.window_ns, setup.seed) = (2_000_000, 5_000_000, 7);
    if row.name.ends_with("sqpoll") {
        // A submission thread shares the test's CPUs with everything else.
        setup.window_ns = 100_000_000;
    }
    // The null engine moves no message.
    let is_urgent = setup.spec.urgent().is_some() && row.value != Engine::Null;
    let urgent = |measured: &TrialResult| measured.end(EndRole::Sink).and_then(|sink| Some(sink.call.as_ref()?.calls));
    let is_skipped = |measured: &TrialResult| matches!(measured.outcome, Outcome::Skipped(_));
    let shows = |measured: &TrialResult| is_skipped(measured) || !is_urgent || urgent(measured) > Some(0);
    let measured = run_until(&setup, |measured| in_mode(measured) && shows(measured));
    assert!(shows(&measured), "no urgent message: {what}: {measured:?}");
    match &measured.outcome {
        Outcome::Measured => {
            let moved = |end: &EndReport| end.total_bytes > 0 || end.calls > 0;
            assert!(measured.ends.iter().all(|(_, end)| moved(end)), "{what}: {measured:?}");
        }
        Outcome::Skipped(reason) if ["IPv6", "mptcp: ", "vsock: "].iter().any(|without| reason.contains(without)) => {}
        outcome => panic!("{what}: {outcome:?}"),
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
