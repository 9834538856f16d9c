//! Sessions of calls, planted: rates, latencies, errors, and their findings.
//!
//! Long because all cases share the planted sessions.

use crate::{State, state_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::session::Surroundings;
use bytegauge_model::{
    BlockRecord, CallDatagrams, CallError, CallReport, Cell, CellId, CellKind, Cost, EffectiveOptions,
    EncodedHistogram, EndCounts, EndReport, EndRole, EngineReport, ErrorClass, ErrorPhase, FlowReport, Group, GroupId,
    Level, MachineUse, Outcome, Probe, Spec, Stage, Trial, Workload,
};
use bytegauge_report::results::OptionStatus;
use bytegauge_report::view::numbers::{CellView, HarmKind};
use bytegauge_report::{Report, SessionData, Settings, render};
use bytegauge_store::{CellRow, GroupRow};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use serde_json::{Map, Value};

use crate::support;

/// A cell to plant: its choices, its true rate, and the share of its calls that is reset.
struct Planted {
    choices: &'static [(&'static str, &'static str)],
    calls_per_second: f64,
    reset_share: f64,
}

const WINDOW_NS: u64 = 50_000_000;
const BLOCKS: u64 = 20;

/// Different times of a trial's calls.
const STEPS: u64 = 200;

pub fn histogram(calls: u64, median_ns: u64) -> EncodedHistogram {
    let mut histogram: Histogram<u64> = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds");
    // From half the median to three halves of it, evenly.
    for step in 0..STEPS {
        let count = calls * (step + 1) / STEPS - calls * step / STEPS;
        histogram.record_n(median_ns / 2 + median_ns * step / STEPS, count).expect("within bounds");
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).expect("memory");
    EncodedHistogram(BASE64.encode(bytes))
}

fn end(calls: u64, busy: f64, rcvbuf: u64) -> EndReport {
    let flow = FlowReport { options: support::in_force(&[("rcvbuf", rcvbuf)]), ..FlowReport::default() };
    EndReport {
        counts: EndCounts {
            bytes: calls * 1024,
            total_bytes: calls * 1024 * 5 / 4,
            calls,
            window_ns: WINDOW_NS,
            cpu_ns: (WINDOW_NS as f64 * busy) as u64,
            voluntary_switches: calls,
            queued_ns: 0.into(),
            ..EndCounts::default()
        },
        flows: vec![flow],
        engine: Some(Box::new(EngineReport {
            system_calls: calls * 5 / 2,
            accepted: 50,
            accepted_at_once: 1,
            buffer_bytes: 640 << 10,
            copied_bytes: 0,
            ..EngineReport::default()
        })),
        ..EndReport::default()
    }
}

fn trial(cell: &Cell, planted: &Planted, block: u64, position: u32, competing: bool) -> Trial {
    let rate = planted.calls_per_second * (1.0 + 0.004 * ((block * 7 + u64::from(position)) % 5) as f64);
    let calls = (rate * WINDOW_NS as f64 / 1e9) as u64;
    let begun = calls * 5 / 4;
    let resets = (begun as f64 * planted.reset_share) as u64;
    let error = CallError {
        class: ErrorClass::Reset,
        phase: ErrorPhase::FirstByte,
        count: resets,
        request_bytes_lost: resets * 512,
        reply_bytes_missing: resets * 512,
    };
    let report = CallReport {
        calls,
        begun,
        completed: begun - resets,
        window_ns: WINDOW_NS,
        write: Some(histogram(calls, 2_000)),
        first_byte: Some(histogram(calls, 200_000)),
        total: Some(histogram(calls, 210_000)),
        errors: (resets > 0).then_some(error).into_iter().collect(),
        ..CallReport::default()
    };
    let rcvbuf = cell.factors.rcvbuf().map_or(131_072, |asked| asked * 2);
    let client = EndReport { call: Some(Box::new(report.clone())), ..end(calls, 0.7, rcvbuf) };
    Trial {
        cell: cell.id.clone(),
        workload: Workload::Call,
        stage: Stage::Confirm,
        block,
        position,
        started_unix_ns: block,
        outcome: Outcome::Measured,
        bytes: calls * 1024,
        calls,
        wall_ns: WINDOW_NS,
        warmup_ns: 1_000_000,
        cpus: [(EndRole::Client, 0), (EndRole::Server, 1)].into(),
        ends: competing
            .then(|| (EndRole::Competitor, client.clone()))
            .into_iter()
            .chain([(EndRole::Client, client), (EndRole::Server, end(calls, 0.97, rcvbuf))])
            .collect(),
        machine: None,
    }
}

/// A session of one group a condition; every group has the same cells.
fn session(conditions: &[&[(&str, &str)]], planted: &[Planted]) -> SessionData {
    let common = [("transport", "tcp"), ("placement", "cross-core"), ("flows", "50"), ("request", "512")];
    let levels = |pairs: &[(&str, &str)]| -> Spec {
        support::levels(&pairs.iter().map(|(name, text)| (*name, (*text).to_owned())).collect::<Vec<_>>())
    };
    let mut record = support::record(5);
    (record.plan_name, record.workload, record.notes) = ("tcp-echo".into(), "call".into(), Vec::new());
    let (groups, cells, blocks, trials) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut data = SessionData { record, groups, cells, blocks, trials };
    for (index, own) in conditions.iter().enumerate() {
        let factors = levels(&[&common[..], own].concat());
        let id = GroupId(format!("g{}", index + 1));
        let competing = factors.competing_flows().is_some_and(|flows| flows > 0);
        let cells: Vec<Cell> = planted
            .iter()
            .map(|planted| {
                let mut factors = factors.clone();
                factors.extend(&levels(planted.choices));
                let id = CellId(format!("c{}", data.cells.len() + 1).into());
                let cell = Cell {
                    id,
                    group: GroupId(format!("g{}", index + 1)),
                    kind: CellKind::Candidate,
                    twin_of: None,
                    factors,
                };
                data.cells.push(CellRow { cell: cell.clone(), outcome: None });
                cell
            })
            .collect();
        data.groups.push(GroupRow { group: Group { id: id.clone(), factors }, facts: Map::new() });
        for _ in 0..BLOCKS {
            let block = data.blocks.len() as u64;
            for (position, (cell, planted)) in cells.iter().zip(planted).enumerate() {
                data.trials.push(trial(cell, planted, block, position as u32, competing));
            }
            data.blocks.push(BlockRecord {
                index: block,
                group: id.clone(),
                stage: Stage::Confirm,
                started_unix_ns: block,
                complete: true,
                surroundings: Surroundings {
                    wall_ns: 200_000_000,
                    steal_share: Some(0.001),
                    ..Surroundings::default()
                },
            });
        }
    }
    data
}

const RPC: &[(&str, &str)] = &[("profile", "rpc"), ("work", "sum"), ("working_set", "16K"), ("idle_flows", "0")];

pub fn engines() -> SessionData {
    let planted = [
        Planted { choices: &[("server_engine", "blocking")], calls_per_second: 120_000.0, reset_share: 0.0 },
        Planted { choices: &[("server_engine", "epoll")], calls_per_second: 210_000.0, reset_share: 0.0 },
    ];
    session(&[RPC], &planted)
}

pub fn buffers(auto: f64, reset_share: f64) -> SessionData {
    let cell = |choices, calls_per_second, reset_share| Planted { choices, calls_per_second, reset_share };
    let planted = [
        cell(&[("server_engine", "epoll"), ("rcvbuf", "auto")], auto, 0.0),
        cell(&[("server_engine", "epoll"), ("rcvbuf", "1K"), ("rcvbuf_on", "listener")], 4_000.0, 0.0),
        cell(&[("server_engine", "epoll"), ("rcvbuf", "5000"), ("rcvbuf_on", "listener")], 19_800.0, 0.0),
        cell(&[("server_engine", "epoll"), ("rcvbuf", "1M"), ("rcvbuf_on", "listener")], 20_000.0, reset_share),
    ];
    let quiet = [RPC, &[("connect_per_call", "on"), ("competing_flows", "0")]].concat();
    let loaded = [RPC, &[("connect_per_call", "on"), ("competing_flows", "20")]].concat();
    session(&[&quiet, &loaded], &planted)
}

fn view(data: &SessionData) -> Report {
    Report::of(data, &Settings::default())
}

fn cell<'a>(view: &'a Report, id: &str) -> &'a CellView {
    view.cells.iter().find(|cell| &*cell.id.0 == id).expect("a cell")
}

#[track_caller]
fn check(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

fn on_screen(view: &Report) -> String {
    crate::flat(&render::screen::render(view, &render::TerminalStyle::default()))
}

#[test]
fn calls_are_rated_in_calls() {
    let view = view(&engines());
    let epoll = cell(&view, "c2");
    assert_eq!((epoll.estimate.metric, epoll.estimate.unit), ("calls", "calls/s"));
    let rate = epoll.estimate.median.expect("a rate");
    assert!((209_000.0..214_000.0).contains(&rate) && epoll.estimate.lower.is_some(), "{rate}");
    let more = |name: &str| epoll.more.get(name).and_then(|estimate| estimate.median).expect("an estimate");
    assert!((205_000.0..215_000.0).contains(&more("total_p50_ns")));
    assert!((308_000.0..316_000.0).contains(&more("total_p99_ns")));
    assert!((4_000.0..5_000.0).contains(&more("server_cpu_ns_per_call")));
    assert!((1.9..2.1).contains(&more("server_system_calls_per_call")), "engines count over their whole lives");
    assert!((215_000.0..220_000.0).contains(&more("calls_per_server_cpu_second")));
    assert_eq!(epoll.call.as_ref().expect("calls").timing, "service time (closed loop)");
    assert_eq!(epoll.limit.name, "server CPU");
    assert!(!epoll.more.contains_key("calls_per_second") && !epoll.more.contains_key("connect_p50_ns"));
    assert_eq!(view.groups[0].cost, "ns_per_call");
}

/// A p99 takes a thousand calls, a median twenty: what is known of each option is shown.
#[test]
fn few_calls_have_a_time_too() {
    let with = |timed: usize| {
        let cell = |choices, calls_per_second| Planted { choices, calls_per_second, reset_share: 0.0 };
        let planted = [cell(&[("server_engine", "blocking")], 20.0), cell(&[("server_engine", "epoll")], 120_000.0)];
        let mut data = session(&[RPC], &planted);
        for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c1").skip(timed) {
            let client = trial.ends.get_mut(EndRole::Client).expect("a client");
            client.call.as_mut().expect("calls").total = None;
        }
        on_screen(&view(&data))
    };
    check(&with(20), &["k calls/s p50 p99 (full load)"]);
    assert!(!with(20).contains("mean time"));
    check(&with(15), &["k calls/s mean time p50 p99 (full load)", "µs – –"]);
}

/// The connections of each trial go to other threads.
#[test]
fn uneven_threads_of_a_server_are_a_caution() {
    let over = |flows: u64, calls: [u64; 4]| {
        let mut data = engines();
        data.cells[1].cell.factors.extend(&Spec::from([("server_threads", 4.into()), ("flows", flows.into())]));
        let of_epoll = data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c2").enumerate();
        for (at, trial) in of_epoll {
            let row = |calls| FlowReport { counts: EndCounts { calls, ..EndCounts::default() }, ..Default::default() };
            let mut rows = calls.map(row);
            rows.rotate_left(at % 4);
            // A sampled connection follows the threads.
            let server = trial.ends.get_mut(EndRole::Server).expect("a server");
            server.flows = rows.into_iter().chain([row(0)]).collect();
            server.counts.calls = calls.iter().sum();
        }
        view(&data)
    };
    let with = |calls: [u64; 4]| over(100, calls);
    let text = "the 4 threads of the server had 11–43 % of the calls each, where at most 25 % would be fair";
    let uneven = with([430, 250, 110, 210]);
    let workers = cell(&uneven, "c2").call.as_ref().and_then(|call| call.workers).expect("threads");
    assert_eq!((workers.threads, workers.least_share, workers.most_share), (4, 0.11, 0.43));
    check(&on_screen(&uneven), &[text]);
    check(&render::csv::render(&uneven), &["workers_least_share,workers_most_share", "0.11,0.43"]);
    assert!(!on_screen(&over(5, [400, 200, 200, 200])).contains("threads of the server"), "as even as 5 can be");
    let even = with([260, 250, 240, 250]);
    assert!(!on_screen(&even).contains("threads of the server"));
    let full = crate::flat(&render::full::full(&even, &render::TerminalStyle::default()));
    check(&full, &["epoll: the 4 threads of the server had 24–26 % of the calls each"]);
    assert!(cell(&even, "c1").call.as_ref().is_some_and(|call| call.workers.is_none()), "a thread for each connection");
}

#[test]
fn full_load_is_followed_by_a_search() {
    let mut data = engines();
    data.record.plan = serde_json::json!({ "asked": ["call", "--time", "60s", "--flows=50"] });
    let steps = |data: &SessionData| view(data).next.into_iter().filter_map(|step| step.command).collect::<Vec<_>>();
    // The p99 is 313 µs.
    let search = "bytegauge call --flows=50 --slo p99=100us".to_owned();
    assert!(steps(&data).contains(&search), "{:?}", steps(&data));
    // A search sets the load itself, and a single call waits for no other one.
    for own in [("call_rate", 20_000), ("think_time", 1_000_000), ("flows", 1)] {
        let mut data = data.clone();
        for row in &mut data.cells {
            row.cell.factors.extend(&Spec::from([(own.0, own.1.into())]));
        }
        assert!(!steps(&data).iter().any(|command| command.contains("--slo")), "{own:?}: {:?}", steps(&data));
    }
}

#[test]
fn equal_engines_are_recommended_together() {
    let planted = ["epoll", "tokio", "blocking"].map(|engine| {
        let choices: &[(&str, &str)] = Box::leak(Box::new([("server_engine", engine)]));
        let calls_per_second = if engine == "blocking" { 120_000.0 } else { 210_000.0 };
        Planted { choices, calls_per_second, reset_share: 0.0 }
    });
    let report = view(&session(&[RPC], &planted));
    assert!(report.tests[0].is_decided() && report.decisions[0].set.contains(" or "), "{:?}", report.decisions);
    let avoided: Vec<&str> = report.tests[0].with(OptionStatus::Avoid).map(|own| own.label.as_str()).collect();
    assert_eq!(avoided, ["blocking"]);
}

#[test]
fn one_client_thread_waits_within_its_time() {
    let mut data = engines();
    for trial in &mut data.trials {
        for role in [EndRole::Client, EndRole::Server] {
            let end = trial.ends.get_mut(role).expect("an end");
            // One thread with fifty flows, and waits that began before the window.
            end.flows = vec![FlowReport::default(); 50];
            end.cpu_ns = WINDOW_NS / 5;
            end.queued_ns = (WINDOW_NS * 7 / 4).into();
        }
    }
    let epoll = cell(&view(&data), "c2").limit.clone();
    assert_eq!(epoll.name, "other programs", "{epoll:?}");
    assert!(epoll.evidence.values().all(|share| *share <= 0.8 + 1e-9), "{epoll:?}");
}

#[test]
fn calls_are_no_reads() {
    let mut data = engines();
    for trial in &mut data.trials {
        let server = trial.ends.get_mut(EndRole::Server).expect("a server");
        // Ten reads per request.
        server.short_calls = 10 * server.calls;
    }
    let counters = cell(&view(&data), "c2").counters.clone();
    assert_eq!((counters.reads, counters.short_reads, counters.short_read_share), (None, None, None));
    assert!(counters.bytes.is_some());
}

#[test]
fn a_floor_has_no_share_of_itself() {
    let mut data = engines();
    let mut floor = data.cells[1].cell.clone();
    (floor.id, floor.kind) = (CellId("g1n".into()), CellKind::Floor);
    floor.factors.set("client_engine", Level::Name("null".into()));
    let planted = Planted { choices: &[("server_engine", "epoll")], calls_per_second: 320_000.0, reset_share: 0.0 };
    for block in 0..BLOCKS {
        let mut trial = trial(&floor, &planted, block, 2, false);
        trial.ends.get_mut(EndRole::Client).expect("a client").flows = vec![FlowReport::default(); 50];
        data.trials.push(trial);
    }
    data.cells.push(CellRow { cell: floor, outcome: None });
    let view = view(&data);
    let limit = &cell(&view, "g1n").limit;
    assert!(limit.name == "the harness" && limit.evidence.is_empty(), "{limit:?}");
    let share = cell(&view, "c2").limit.evidence.get("floor_share").copied().expect("most of a call");
    assert!((0.5..0.88).contains(&share), "a floor is one thread's, whatever flows are reported: {share}");
}

#[test]
fn a_rare_percentile_is_left_out() {
    let mut data = engines();
    // Two blocks hold some 21,000 calls of c2: two beyond the 99.99th percentile.
    data.trials.retain(|trial| trial.block < 2);
    data.blocks.truncate(2);
    let view = view(&data);
    let more = &cell(&view, "c2").more;
    assert!(more.contains_key("total_p99_9_ns") && !more.contains_key("total_p99_99_ns"), "{more:?}");
}

#[test]
fn unanswered_clients_make_no_server_quick() {
    let mut data = engines();
    // In c1 the number of calls without an answer equals that of answered ones, and they wait for the whole trial.
    for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c1") {
        let report = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
        report.left = Some(histogram(report.calls, WINDOW_NS));
    }
    let view = view(&data);
    let of = |id: &str| cell(&view, id).more.contains_key("total_p99_ns");
    assert_eq!((of("c1"), of("c2")), (false, true), "percentiles beyond the observed range are not reported");
    let call = |id: &str| cell(&view, id).call.as_ref().and_then(|call| call.outlasting_share);
    assert!(call("c1").is_some_and(|share| (0.45..0.55).contains(&share)) && call("c2").is_none(), "{:?}", call("c1"));
    assert!(
        view.notes.iter().any(|note| note.text.contains("longer than their trials could observe (50 %")),
        "{:?}",
        view.notes
    );
}

/// The document of an open loop whose client begins calls late: by how many nanoseconds, and in how many trials of c2.
fn with_lateness(late_ns: u64, late_trials: usize) -> Report {
    let mut data = engines();
    for row in &mut data.cells {
        row.cell.factors.extend(&Spec::from([("call_rate", 20_000.into())]));
    }
    let mut left = late_trials;
    for trial in &mut data.trials {
        let is_late = &*trial.cell.0 == "c2" && left > 0;
        left -= usize::from(is_late);
        let report = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
        report.late = Some(histogram(report.calls, if is_late { late_ns } else { 1_000 }));
    }
    view(&data)
}

#[test]
fn client_later_than_a_tenth_is_a_caveat() {
    let reported =
        |view: &Report| crate::phrases(view, "noise/late-clients").contains(" are the delay of the load generator");
    // Calls take 210 µs, half as much again at most.
    let all = with_lateness(40_000, BLOCKS as usize);
    let late = |view: &Report| ["late_p50_ns", "late_p99_ns"].map(|name| cell(view, "c2").median(name));
    assert!(late(&all)[0].is_some_and(|ns| (30_000.0..70_000.0).contains(&ns)), "{:?}", late(&all));
    assert!(reported(&all), "{:?}", all.findings);
    // Few late trials, and small lateness, are numbers only.
    assert!(!reported(&with_lateness(40_000, 3)));
    let small = with_lateness(10_000, BLOCKS as usize);
    assert!(!reported(&small) && late(&small)[0] < late(&small)[1], "{:?}", late(&small));
    assert_eq!(late(&view(&engines())), [None, None]);
}

/// A search that closed at `closed` calls per second, kept `kept` and lost the next rate.
fn search(closed: u64, kept: u64) -> Vec<Probe> {
    let probe = |offered: Option<u64>, percentile_ns, is_kept| Probe {
        offered,
        window_ns: 1_000_000_000,
        calls: offered.unwrap_or(closed),
        late: if is_kept { 0 } else { 5_000 },
        percentile_ns: Some(percentile_ns),
        kept: is_kept,
    };
    vec![
        probe(None, 5_000_000, false),
        probe(Some(closed / 2), 300_000, true),
        probe(Some(kept), 1_600_000, true),
        probe(Some(kept * 51 / 50), 3_100_000, false),
    ]
}

#[test]
fn a_knee_has_its_rate_and_the_next() {
    let planted = [
        Planted { choices: &[("server_engine", "blocking")], calls_per_second: 80_000.0, reset_share: 0.0 },
        Planted { choices: &[("server_engine", "epoll")], calls_per_second: 100_000.0, reset_share: 0.0 },
    ];
    let mut data = session(&[&[RPC, &[("slo", "p99=2ms")]].concat()], &planted);
    for trial in &mut data.trials {
        let kept = if &*trial.cell.0 == "c1" { 80_000 } else { 100_000 };
        let report = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
        report.search = search(125_000, kept);
    }
    let view = view(&data);
    let call = cell(&view, "c2").call.as_ref().expect("calls");
    assert_eq!(call.timing, "from the intended send (open loop)");
    let knee = call.knee.as_ref().expect("a knee");
    assert_eq!(
        (knee.slo.as_str(), knee.objective.limit_ns, knee.objective.at_knee_ns),
        ("p99=2ms", 2_000_000, Some(1_600_000.0))
    );
    assert_eq!(
        (knee.objective.closed_per_second, knee.objective.beyond_per_second),
        (Some(125_000.0), Some(102_000.0))
    );
    let limit = &cell(&view, "c2").limit;
    assert_eq!(limit.name, "latency objective");
    check(&limit.sentence, &["p99 is 1.6 ms of the 2 ms allowed", "3.1 ms at 102 k calls/s", "reach 125 k calls/s"]);
    assert_eq!((knee.overall_per_second, knee.searches), (Some(100_000.0), 20));
    check(&view.sentence, &["Use epoll: p99 ≤ 2ms up to 100 k calls/s, "]);
    check(&view.tests[0].title, &["p99 ≤ 2ms"]);
    let text = render::full::full(&view, &render::TerminalStyle::default());
    check(
        &text.split_whitespace().collect::<Vec<_>>().join(" "),
        &[
            "slo p99=2ms",
            "Rates are the highest at which half of the trials keep p99 ≤ 2ms; “overall” is that of all trials.",
        ],
    );
    assert_eq!(view.groups[0].cost, "ns_per_call");
}

#[test]
fn failed_searches_lead_to_a_longer_limit() {
    let planted = ["epoll", "blocking"].map(|engine| {
        let choices: &[(&str, &str)] = Box::leak(Box::new([("server_engine", engine)]));
        Planted { choices, calls_per_second: 100_000.0, reset_share: 0.0 }
    });
    let mut data = session(&[&[RPC, &[("slo", "p99=2ms")]].concat()], &planted);
    data.record.plan = serde_json::json!({ "asked": ["call", "--slo", "p99=2ms", "--flows=50"] });
    let fail = |data: &mut SessionData, cell: &str, probes: std::ops::Range<usize>, reason: &str| {
        for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == cell) {
            trial.outcome = Outcome::Failed(reason.into());
            let report = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
            report.search = search(125_000, 80_000)[probes.clone()].to_vec();
        }
    };
    fail(&mut data, "c2", 3..4, "p99 was 3.1 ms even at 81.6 k calls/s");
    let command = "bytegauge call --flows=50 --slo p99=10ms";
    let next = |view: &Report| view.next[0].command.clone().expect("a command");
    let alone = view(&data);
    assert_eq!((state_of(&alone.tests[0]), next(&alone).as_str()), (State::Single, command));
    fail(&mut data, "c1", 3..4, "p99 was 5 ms even at 2 k calls/s");
    let none = view(&data);
    assert_eq!(none.decisions[0].why, "no option kept p99 ≤ 2ms (lowest p99: 3.1 ms)");
    assert_eq!(next(&none), command);
    check(&on_screen(&none), &["epoll, blocking failed: p99 was 3.1 ms at best"]);
    // A search that kept a rate broke off for another reason.
    ["c1", "c2"].into_iter().for_each(|cell| fail(&mut data, cell, 0..4, "the server died"));
    assert_eq!(view(&data).decisions[0].why, "nothing was measured: the server died");
}

#[test]
fn an_engine_is_recommended_in_a_sentence() {
    let view = view(&engines());
    check(&view.tests[0].title, &["Calls over TCP (", "50 connections", "512 B"]);
    check(&view.sentence, &["Use epoll: the fastest. "]);
    assert_eq!(state_of(&view.tests[0]), State::Decided);
}

/// The same servers under an offered load; the blocking one, which reaches 120,000 calls a second, takes a tenth of its CPU time.
fn offered(rate: &str) -> SessionData {
    let mut data = engines();
    let rate = support::levels(&[("call_rate", rate.to_owned())]);
    data.groups.iter_mut().for_each(|row| row.group.factors.extend(&rate));
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&rate));
    for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c1") {
        trial.ends.get_mut(EndRole::Server).expect("a server").cpu_ns /= 10;
        let client = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
        client.total = Some(histogram(client.calls, 360_000));
    }
    data
}

#[test]
fn rare_long_calls_have_a_column() {
    let with_long = |trials: usize| {
        let mut data = offered("100k");
        for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c1").take(trials) {
            let client = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
            client.total = Some(histogram(client.calls, 20_000_000));
        }
        view(&data)
    };
    let all_ns = |view: &Report| cell(view, "c1").call.as_ref().and_then(|call| call.p99_all_ns);
    assert!(all_ns(&with_long(0)).is_some_and(|ns| ns < 600_000.0));
    // One of some twenty trials has all calls above 10 ms.
    let view = with_long(1);
    assert!(all_ns(&view).is_some_and(|ns| ns > 10e6));
    check(&on_screen(&view), &["p99 p99 of all", "The p99 of blocking is "]);
    let full_load = self::view(&engines());
    assert!(full_load.texts[0].columns.iter().all(|column| column.heading != "p99 of all"), "no offered load");
}

#[test]
fn options_that_miss_the_load_are_excluded() {
    let carried = view(&offered("100k"));
    let named = |view: &Report| view.groups[0].recommendation.cell.as_ref().map(|id| id.0.clone());
    assert_eq!((named(&carried).as_deref(), cell(&carried, "c1").behind), (Some("c1"), None));
    let left = view(&offered("200k"));
    assert_eq!(named(&left).as_deref(), Some("c2"), "{:?}", left.groups[0].recommendation);
    assert!(left.groups[0].recommendation.proven && cell(&left, "c2").behind.is_none());
    assert!(cell(&left, "c1").behind.is_some_and(|share| (0.55..0.65).contains(&share)), "{:?}", cell(&left, "c1"));
    check(
        &crate::phrases(&left, "harm/missed-load"),
        &["blocking: 60.5 % of the offered load carried", "another option carried it"],
    );
    let text = on_screen(&left);
    check(&text, &["blocking 121 60.5 %", " avoid", "% of the offered load carried"]);
    assert_eq!(left.decisions[0].why, "the only one that carries the offered load; p99 313 µs");
    // Where no option carries it, none is excluded.
    let overloaded = view(&offered("900k"));
    assert!(overloaded.cells.iter().all(|cell| cell.behind.is_none()));
    check(&crate::phrases(&overloaded, "harm/missed-load"), &["o option carried the offered load, the best one 23."]);
    check_schema(&left);
    let planted = ["blocking", "epoll", "tokio"].map(|engine| {
        let choices: &[(&str, &str)] = Box::leak(Box::new([("server_engine", engine)]));
        Planted {
            choices,
            calls_per_second: if engine == "blocking" { 120_000.0 } else { 210_000.0 },
            reset_share: 0.0,
        }
    });
    let two_carry = view(&session(&[&[RPC, &[("call_rate", "200k")]].concat()], &planted));
    check(&on_screen(&two_carry), &["Avoid blocking: 60.5 % of the offered load carried."]);
}

#[test]
fn a_control_of_an_excluded_option_decides_nothing() {
    let mut data = offered("200k");
    let own = data.cells.iter().find(|row| &*row.cell.id.0 == "c1").expect("the one that misses the load").cell.clone();
    let id = CellId("c1t".into());
    let control = Cell { id: id.clone(), kind: CellKind::Twin, twin_of: Some(own.id.clone()), ..own.clone() };
    data.cells.push(CellRow { cell: control, outcome: None });
    let repeated = data.trials.iter().filter(|trial| trial.cell == own.id).cloned();
    let repeated: Vec<Trial> = repeated.map(|trial| Trial { cell: id.clone(), position: 9, ..trial }).collect();
    data.trials.extend(repeated);
    let view = view(&data);
    assert_eq!((state_of(&view.tests[0]), view.groups[0].recommendation.survives_exchange), (State::Decided, None));
}

#[test]
fn an_offered_load_compares_server_cpu() {
    let view = view(&offered("100k"));
    assert_eq!(view.groups[0].cost, "cpu_ns_per_call");
    assert_eq!(cell(&view, "c1").call.as_ref().expect("calls").timing, "from the intended send (open loop)");
    check(&view.tests[0].title, &["100k offered"]);
    assert!(view.texts[0].columns.iter().any(|column| column.heading == "CPU µs/call"), "{:?}", view.texts[0]);
    check(&on_screen(&view), &["The load is fixed, so options are compared by CPU time."]);
    // The time of calls, which the options cost, is next to it.
    check(&view.decisions[0].why, &["; p99 "]);
    assert!(!self::view(&engines()).decisions[0].why.contains("p99"), "at full load it is mostly waiting");
    let mut paused = engines();
    let pause = Spec::from([("think_time", 1_000_000.into())]);
    paused.groups.iter_mut().for_each(|row| row.group.factors.extend(&pause));
    paused.cells.iter_mut().for_each(|row| row.cell.factors.extend(&pause));
    let text = on_screen(&self::view(&paused));
    check(&text, &["Pauses limit the load, so options are compared by CPU time."]);
    let longer = crate::phrases(&view, "longer-tail");
    check(&longer, &[" p99 of blocking is 1.", "× that of epoll"]);
    assert_eq!(crate::phrases(&self::view(&engines()), "longer-tail"), "", "at full load it is mostly waiting");
}

#[test]
fn responsiveness_is_shown_under_load() {
    let streams = support::levels(&[("load_flows", "8".to_owned())]);
    let mut data = engines();
    data.groups.iter_mut().for_each(|row| row.group.factors.extend(&streams));
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&streams));
    let view = view(&data);
    // Times from 105 to 315 µs, evenly: the fastest 95 % take 205 µs on average.
    let minute = cell(&view, "c1").median("round_trips_per_minute").expect("calls");
    assert!((minute - 60e9 / 205e3).abs() < 0.01 * minute, "{minute}");
    let is_shown = |view: &Report| view.texts[0].columns.iter().any(|column| column.heading == "RPM");
    assert!(is_shown(&view) && !is_shown(&self::view(&engines())));
}

#[test]
fn pauses_between_parts_decide_a_streamed_reply() {
    let mut data = engines();
    let parts = support::levels(&[("response_chunk", "100".to_owned()), ("response_gap", "15ms".to_owned())]);
    data.groups.iter_mut().for_each(|row| row.group.factors.extend(&parts));
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&parts));
    for trial in &mut data.trials {
        // The one with fewer calls has the shorter pauses; all calls take alike.
        let gap_ns = if &*trial.cell.0 == "c1" { 10_000_000 } else { 30_000_000 };
        let client = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
        client.gap = Some(histogram(client.calls, gap_ns));
    }
    let by = |objective| Report::of(&data, &Settings { objective, ..Settings::default() });
    let by_gap = by(None);
    assert_eq!((by_gap.tests[0].compares, by_gap.groups[0].cost), (Cost::GapP99, "gap_p99_ns"));
    check(
        &by_gap.sentence,
        &["Use blocking: the lowest gap p99; gap p99 14.9 ms. epoll has at least 2.9", "× the gap p99."],
    );
    let headings = by_gap.texts[0].columns.iter().map(|column| column.heading.as_str()).collect::<Vec<_>>();
    assert_eq!(headings[headings.len() - 2..], ["gap p99", "gap longer by"]);
    check(&on_screen(&by_gap), &["Options are compared by the p99 of the gaps between parts of a reply."]);
    check(&by(Some(Cost::Time)).sentence, &["Use epoll"]);
    let by_p99 = by(Some(Cost::P99));
    assert_eq!(by_p99.groups[0].cost, "total_p99_ns");
    check(&by_p99.sentence, &["above the lowest p99"]);
    // Streams have no calls.
    let stream = support::session(&support::Plan::default());
    let by_p99 = Report::of(&stream, &Settings { objective: Some(Cost::P99), ..Settings::default() });
    assert_eq!(by_p99.tests[0].compares, Cost::Time);
}

#[test]
fn what_is_certain_leads() {
    let cell = |engine: &'static [(&str, &str)], calls_per_second| Planted {
        choices: engine,
        calls_per_second,
        reset_share: 0.0,
    };
    let [slow, fast, other] =
        [&[("server_engine", "blocking")], &[("server_engine", "epoll")], &[("server_engine", "epoll:edge")]];
    let mut data = session(&[RPC], &[cell(slow, 20_000.0), cell(fast, 200_000.0), cell(other, 200_000.0)]);
    // The others differ from block to block, more than the margin.
    for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 != "c1") {
        let is_first = (trial.block + u64::from(trial.position)).is_multiple_of(2);
        trial.calls = if is_first { trial.calls * 3 / 4 } else { trial.calls };
    }
    check(
        &view(&data).sentence,
        &["blocking takes at least 8.1× the time. Undecided: epoll and epoll:edge within 14 %."],
    );
}

#[test]
fn the_only_option_has_its_time() {
    let planted = [Planted { choices: &[("server_engine", "epoll")], calls_per_second: 120_000.0, reset_share: 0.0 }];
    let mut data = session(&[RPC], &planted);
    assert!(!view(&data).decisions[0].why.contains("p99"), "at full load it is mostly waiting");
    let load = Spec::from([("load_flows", 8.into())]);
    data.groups.iter_mut().for_each(|row| row.group.factors.extend(&load));
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&load));
    check(&view(&data).decisions[0].why, &["nothing to compare it with; p99 "]);
}

#[test]
fn options_that_fail_at_last_are_named() {
    let mut data = engines();
    data.cells[0].outcome = Some(Outcome::Failed("no call was completed".into()));
    let view = view(&data);
    check(&view.decisions[0].why, &["measuring stopped for blocking, whose trials kept failing"]);
    check(&on_screen(&view), &["blocking stopped: no call was completed"]);
}

#[test]
fn time_outs_make_an_option_harmful() {
    let mut data = buffers(20_000.0, 0.0);
    for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c1") {
        let begun = trial.client().expect("calls").begun;
        trial.machine.get_or_insert_default().timeouts = (begun / 50).into();
    }
    let view = view(&data);
    let own = view.tests[0].options.iter().find(|option| &*option.id.0 == "c1").expect("measured");
    assert_eq!((own.status, own.harm.as_slice()), (OptionStatus::Avoid, &[HarmKind::TimeOuts][..]), "{own:?}");
    assert!(crate::phrases(&view, "harm/time-outs").contains("retransmission time-out"), "{:?}", view.findings);
}

#[test]
fn harm_of_one_moment_is_no_property_of_an_option() {
    // Failures of half of the calls in some of the 20 trials of the slow engine.
    let harm_of = |failing: std::ops::Range<usize>| {
        let mut data = engines();
        let own: Vec<&mut Trial> = data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c1").collect();
        for trial in own.into_iter().skip(failing.start).take(failing.len()) {
            let client = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut()).expect("a client");
            let count = client.begun / 2;
            let (class, phase) = (ErrorClass::Reset, ErrorPhase::FirstByte);
            client.errors = vec![CallError { class, phase, count, request_bytes_lost: 0, reply_bytes_missing: 0 }];
        }
        cell(&view(&data), "c1").harmful.clone()
    };
    assert_eq!((harm_of(0..2), harm_of(0..20)), (vec![], vec![HarmKind::FailedCalls]));
    // A load that a few trials missed was carried.
    let missed = |trials: usize| {
        let mut data = offered("100k");
        for trial in data.trials.iter_mut().filter(|trial| &*trial.cell.0 == "c2").take(trials) {
            trial.calls /= 4;
        }
        cell(&view(&data), "c2").behind
    };
    assert_eq!(missed(4), None);
    assert!(missed(16).is_some_and(|share| share < 0.9));
}

#[test]
fn waits_for_delayed_acknowledgements_are_harm() {
    let mut data = engines();
    let parts = support::levels(&[("response_chunk", "100".to_owned())]);
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&parts));
    // Their rates differ from block to block only.
    for trial in &mut data.trials {
        let factor = if (trial.block + u64::from(trial.position)).is_multiple_of(2) { 3 } else { 5 };
        trial.calls = 20_000 * factor / 4;
        let waits = &*trial.cell.0 == "c1";
        trial.machine.get_or_insert_default().delayed_acks = if waits { trial.calls } else { 1 }.into();
        for role in [EndRole::Client, EndRole::Server] {
            let end = trial.ends.get_mut(role).expect("an end");
            let mut options = EffectiveOptions::default();
            options.levels.insert("nodelay".into(), Level::Switch(!waits));
            end.flows.iter_mut().for_each(|flow| flow.options = options.clone().into());
            let Some(client) = end.call.as_mut().filter(|_| waits) else { continue };
            client.total = Some(histogram(client.calls, 100_000_000));
        }
    }
    let view = view(&data);
    let own = &view.tests[0].options[0];
    assert_eq!((own.status, own.harm.as_slice()), (OptionStatus::Avoid, &[HarmKind::DelayedAcks][..]), "{own:?}");
    check(&view.sentence, &["Avoid blocking: 100 % of the calls take 40 ms and more"]);
}

#[test]
fn receive_buffers_are_compared_with_their_default() {
    let status = |data: &SessionData| {
        let test = view(data).tests.remove(0);
        let auto = test.options.iter().find(|option| option.label == "SO_RCVBUF auto").expect("the default");
        (auto.status, test.used().map(|own| &own.id) == Some(&auto.id))
    };
    assert_eq!(status(&buffers(20_000.0, 0.0)), (OptionStatus::Use, true));
    assert_eq!(status(&buffers(10_000.0, 0.0)), (OptionStatus::Avoid, false));
}

#[test]
fn errors_are_results_with_their_cause() {
    let view = view(&buffers(20_000.0, 0.02));
    let call = cell(&view, "c4").call.clone().expect("calls");
    let [error] = call.errors.as_slice() else { panic!("{:?}", call.errors) };
    assert_eq!((error.class, error.phase), (ErrorClass::Reset, ErrorPhase::FirstByte));
    assert!(call.failed_share.is_some_and(|share| (0.015..0.025).contains(&share)));
    check(
        &error.explanation,
        &["the server closed with bytes of the request unread", "bytes of replies did not arrive"],
    );
    check(&crate::phrases(&view, "harm/failed-calls"), &["1M: 2 % of the calls failed"]);
    assert!(cell(&view, "c5").call.as_ref().is_some_and(|call| call.competing.is_some()));
}

/// A cell a fifth of whose calls fail in one way while connecting, where a listener's queue was full so often a trial.
fn unconnected(transport: &str, class: ErrorClass, listen_overflows: Option<u64>) -> CellView {
    let conditions = [RPC, &[("connect_per_call", "on")]].concat();
    let choices: &[_] = &[("server_engine", "epoll")];
    let mut data = session(&[&conditions], &[Planted { choices, calls_per_second: 20_000.0, reset_share: 0.2 }]);
    let transport = support::levels(&[("transport", transport.to_owned())]);
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&transport));
    for trial in &mut data.trials {
        let client = trial.ends.get_mut(EndRole::Client);
        let errors = client.and_then(|client| client.call.as_mut()).into_iter().flat_map(|call| &mut call.errors);
        errors.for_each(|error| (error.class, error.phase) = (class, ErrorPhase::Connect));
        trial.machine = Some(MachineUse { listen_overflows: listen_overflows.into(), ..MachineUse::default() });
    }
    cell(&view(&data), "c1").clone()
}

#[test]
fn only_a_full_backlog_is_called_one() {
    let check = |transport, class, overflows, limit: &str, explanation: &str| {
        let cell = unconnected(transport, class, overflows);
        assert_eq!(cell.limit.name, limit, "{transport} {class:?} {overflows:?}: {:?}", cell.limit);
        let [error] = &cell.call.expect("calls").errors[..] else { panic!("one way to fail") };
        assert!(error.explanation.contains(explanation), "{class:?} {overflows:?}: {}", error.explanation);
    };
    check("unix", ErrorClass::BacklogFull, None, "backlog", "the server's backlog was full");
    check("unix", ErrorClass::Refused, None, "errors", "had no listener");
    check("tcp", ErrorClass::Refused, Some(9), "errors", "had no listener");
    check("tcp", ErrorClass::Reset, Some(9), "errors", "as soon as it came about");
    check("tcp", ErrorClass::TimedOut, Some(1000), "backlog", "a listener's queue full 20000 times");
    check("tcp", ErrorClass::TimedOut, Some(0), "errors", "no listener's queue was full here");
    check("tcp", ErrorClass::TimedOut, None, "errors", "a filter, or a dead host");
}

#[test]
fn lost_datagrams_of_calls_are_accounted_for() {
    let mut data = engines();
    let udp = support::levels(&[("transport", "udp".to_owned())]);
    data.groups.iter_mut().for_each(|row| row.group.factors.extend(&udp));
    data.cells.iter_mut().for_each(|row| row.cell.factors.extend(&udp));
    for trial in &mut data.trials {
        let seen = CallDatagrams { sent: 1000, received: 940, late: 2, ..CallDatagrams::default() };
        let server = CallDatagrams { sent: 950, received: 950, dropped: 40, ..CallDatagrams::default() };
        let calls = trial.ends.get_mut(EndRole::Client).and_then(|client| client.call.as_mut());
        calls.expect("calls").datagrams = Some(seen);
        trial.ends.get_mut(EndRole::Server).expect("a server").call =
            Some(Box::new(CallReport { datagrams: Some(server), ..CallReport::default() }));
    }
    let view = view(&data);
    let seen = cell(&view, "c2").call.as_ref().and_then(|call| call.datagrams).expect("datagrams");
    let trials = BLOCKS;
    assert_eq!(seen.requests_sent, 1000 * trials);
    assert_eq!((seen.requests_dropped, seen.requests_lost_elsewhere), (Some(40 * trials), Some(10 * trials)));
    assert_eq!(seen.replies_lost_elsewhere, Some(10 * trials));
    let bytes = seen.reply_bytes_per_second.expect("a rate");
    assert!((512.0 * 209_000.0..512.0 * 214_000.0).contains(&bytes), "{bytes}");
    let style = render::TerminalStyle { columns: 140, ..Default::default() };
    let terminal = render::full::full(&view, &style).split_whitespace().collect::<Vec<_>>().join(" ");
    check(
        &terminal,
        &["800 requests found the server's receive buffer full", "200 requests were lost at an unknown place"],
    );
    check_schema(&view);
}

fn check_schema(view: &Report) {
    let document: Value = serde_json::from_str(&render::json::render(view)).expect("one document");
    let schema: Value = serde_json::from_str(render::json::SCHEMA).expect("a schema");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn an_option_has_one_name_that_in_code() {
    let view = view(&buffers(20_000.0, 0.0));
    let heading = view.plan.factors.iter().find(|factor| factor.name == "rcvbuf").map(|factor| factor.heading);
    assert_eq!(heading, Some("SO_RCVBUF"));
    let label = &cell(&view, "c3").label;
    check(label, &["SO_RCVBUF 5000 B"]);
    let terminal = render::full::full(&view, &render::TerminalStyle { columns: 140, ..Default::default() });
    assert!(!terminal.contains("rcvbuf"), "{terminal}");
}

#[test]
fn every_renderer_prints_calls() {
    let view = view(&buffers(20_000.0, 0.02));
    let style = render::TerminalStyle { columns: 140, ..Default::default() };
    let terminal = render::full::full(&view, &style);
    check(
        &terminal,
        &[
            "p50",
            "p99",
            "CPU µs/call",
            "failed",
            "Bottleneck: ",
            "k calls/s",
            "µs",
            "from the moment when a client may send",
            "p99 (95 %)",
            "system calls/call",
            "competing clients had",
            "× reset (first-byte): the server closed",
        ],
    );
    check(&render::markdown::render(&view), &["| p99 (full load) |", "- p50 and p99: from the moment"]);
    let csv = render::csv::render(&view);
    check(&csv, &["rate_unit", "total_p99_ns", "reset/first-byte=", "options_rcvbuf_sink"]);
    check_schema(&view);
}

#[test]
fn unmeasured_calls_have_no_bytes() {
    let flows: Vec<Vec<(&str, &str)>> =
        ["1", "2", "3", "4", "5", "6", "7"].map(|flows| [RPC, &[("flows", flows)]].concat()).to_vec();
    let conditions: Vec<&[(&str, &str)]> = flows.iter().map(Vec::as_slice).collect();
    let planted = Planted { choices: &[("server_engine", "epoll")], calls_per_second: 1e3, reset_share: 0.0 };
    let mut data = session(&conditions, &[planted]);
    data.trials.clear();
    let text = render::full::full(&view(&data), &render::TerminalStyle::default());
    assert!(text.contains("Calls over ") && !text.contains("B/s"), "{text}");
}
