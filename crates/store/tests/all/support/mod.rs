//! Shared by the tests of the store: a session with two cells, and generators for every kind of trial.

use bytegauge_model::Bin;
use bytegauge_model::option::OPTIONS;
use bytegauge_model::session::Surroundings;
use bytegauge_model::*;
use bytegauge_store::Store;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

/// A new session.
pub fn new_session() -> SessionRecord {
    SessionRecord {
        plan_name: "buffer-size".into(),
        workload: "stream".into(),
        seed: u64::MAX - 1,
        margin: 0.05,
        version: "0.1.0".into(),
        plan: json!({"cells": 2, "fraction": 0.1}),
        machine: json!({"cpus": 2, "kernel": "6.18"}),
        notes: vec!["write size is absent for /dev/zero".into()],
        started_unix_ns: 1_700_000_000_000_000_000,
        ..SessionRecord::default()
    }
}

/// The group `g0`.
pub fn group() -> Group {
    let mut factors = Spec::of(Workload::Stream);
    factors.set("transport", Level::Name("unix".into()));
    factors.set("flows", Level::Number(1));
    Group { id: GroupId("g0".into()), factors }
}

/// A cell of `g0`.
pub fn cell(id: &str, read_size: u64) -> Cell {
    let mut factors = group().factors;
    factors.set("read_size", Level::Number(read_size));
    factors.set("write_size", Level::Absent);
    factors.set("nodelay", Level::Switch(true));
    factors.set("rcvbuf", Level::auto());
    Cell { id: CellId(id.into()), group: GroupId("g0".into()), kind: CellKind::Candidate, twin_of: None, factors }
}

/// A store at `path` with a session of `g0` with the cells `c0` and `c1`.
pub fn begin(path: &std::path::Path) -> (Store, SessionId) {
    let mut store = Store::open(path).unwrap();
    let session = store.create_session(&new_session()).unwrap();
    store.add_groups(session, &[group()]).unwrap();
    store.add_cells(session, &[cell("c0", 4096), cell("c1", 65_536)]).unwrap();
    (store, session)
}

/// A block of `g0`.
pub fn block(index: u64) -> BlockRecord {
    BlockRecord {
        index,
        group: GroupId("g0".into()),
        stage: Stage::Confirm,
        started_unix_ns: 1_700_000_000_000_000_000 + index,
        complete: true,
        surroundings: Surroundings { wall_ns: 42_000_000, steal_share: Some(0.1 + 0.2), ..Surroundings::default() },
    }
}

/// A trial like those of the harness: one flow, both ends, TCP.
pub fn plain_trial(n: u64) -> Trial {
    let tcp = TcpReport {
        retransmits: 0.into(),
        busy_us: (41_000 + n % 100).into(),
        rwnd_limited_us: (n % 300).into(),
        sndbuf_limited_us: (n % 7).into(),
        min_rtt_us: 9.into(),
        bytes_sent: (200_000_000 + n).into(),
        bytes_acked: (200_000_001 + n).into(),
        bytes_received: 0.into(),
        mptcp: None,
        syn_data: None,
    };
    let mut options = EffectiveOptions::default();
    for (factor, level) in [
        ("sndbuf", Level::Number(2_626_560)),
        ("rcvbuf", Level::Number(131_072)),
        ("rcvlowat", Level::Number(1)),
        ("nodelay", Level::Switch(false)),
        ("congestion", Level::Name("cubic".into())),
    ] {
        options.levels.insert(factor.to_owned(), level);
    }
    let counts = EndCounts {
        bytes: 200_000_000 + n,
        calls: 3_000 + n,
        short_calls: n % 50,
        window_ns: 42_000_000 + n,
        user_ns: 1_000_000,
        system_ns: 39_000_000,
        cpu_ns: 40_123_456 + n,
        voluntary_switches: 120,
        involuntary_switches: 3,
        queued_ns: (7_000 + n).into(),
        total_bytes: 250_000_000 + n,
        verified_bytes: 0,
    };
    let flow = FlowReport {
        datagrams: None,
        back: false,
        counts,
        tcp: Some(Box::new(tcp)),
        options: options.into(),
        series: Vec::new(),
    };
    let end = EndReport { counts, flows: vec![flow], ..EndReport::default() };
    Trial {
        cell: CellId("c0".into()),
        workload: Workload::Stream,
        stage: Stage::Confirm,
        block: n / 2,
        position: (n % 2) as u32,
        started_unix_ns: 1_700_000_000_000_000_000 + n,
        outcome: Outcome::Measured,
        bytes: 200_000_000 + n,
        calls: 0,
        wall_ns: 42_000_000 + n,
        warmup_ns: 2_000_000,
        cpus: [(EndRole::Source, 0), (EndRole::Sink, 1)].into(),
        ends: [(EndRole::Source, end.clone()), (EndRole::Sink, end)].into_iter().collect(),
        machine: Some(MachineUse {
            wall_ns: 46_000_000,
            busy_ns: 80_000_000,
            softirq_ns: 10_000_000,
            steal_ns: 0,
            net_rx: vec![120 + n, 3],
            ..MachineUse::default()
        }),
    }
}

fn tcp() -> impl Strategy<Value = TcpReport> {
    let u = of(any::<u64>());
    ((u.clone(), u.clone(), u.clone(), u.clone()), (u.clone(), u.clone(), u.clone(), u)).prop_map(|(a, b)| TcpReport {
        retransmits: a.0.into(),
        busy_us: a.1.into(),
        rwnd_limited_us: a.2.into(),
        sndbuf_limited_us: a.3.into(),
        min_rtt_us: b.0.into(),
        bytes_sent: b.1.into(),
        bytes_acked: b.2.into(),
        bytes_received: b.3.into(),
        mptcp: a.0.map(|n| n % 2 == 0),
        syn_data: a.1.map(|n| n % 2 == 0),
    })
}

fn options() -> impl Strategy<Value = EffectiveOptions> {
    let level = prop_oneof![
        any::<u64>().prop_map(Level::Number),
        any::<bool>().prop_map(Level::Switch),
        ".*".prop_map(Level::Name)
    ];
    let levels = btree_map(select(OPTIONS.as_slice()).prop_map(|row| row.factor.to_owned()), level, 0..OPTIONS.len());
    let share = prop_oneof![0.0..=1.0, proptest::num::f64::NORMAL];
    (levels, of(share)).prop_map(|(levels, page_cache_share)| EffectiveOptions { levels, page_cache_share })
}

fn flow() -> impl Strategy<Value = FlowReport> {
    let bin = (any::<u64>(), any::<u64>()).prop_map(|(ns, bytes)| Bin { ns, bytes });
    (any::<[u64; 11]>(), of(tcp()), options(), any::<[Option<u64>; 2]>(), vec(bin, 0..4)).prop_map(
        |(n, tcp, options, [datagram, queued_ns], series)| FlowReport {
            datagrams: datagram.map(datagrams).map(Box::new),
            back: n[0] % 2 == 0,
            counts: EndCounts {
                queued_ns: queued_ns.into(),
                bytes: n[0],
                calls: n[1],
                short_calls: n[2],
                window_ns: n[3],
                user_ns: n[4],
                system_ns: n[5],
                cpu_ns: n[6],
                voluntary_switches: n[7],
                involuntary_switches: n[8],
                total_bytes: n[9],
                verified_bytes: n[10],
            },
            tcp: tcp.map(Box::new),
            options: options.into(),
            series,
        },
    )
}

fn end() -> impl Strategy<Value = EndReport> {
    // With one flow the counters usually equal its counters; here they may also differ.
    (vec(flow(), 0..4), any::<bool>()).prop_map(|(flows, differs)| {
        let first = flows.first().cloned().unwrap_or_default();
        EndReport {
            counts: EndCounts { verified_bytes: first.verified_bytes.wrapping_add(u64::from(differs)), ..first.counts },
            flows,
            call: differs.then(|| Box::new(call_report())),
            engine: differs.then(|| Box::new(EngineReport { accepted: first.calls, ..EngineReport::default() })),
            datagrams: first.datagrams.clone(),
            ring: differs.then(|| Box::new(RingReport { left: first.calls, ..Default::default() })),
            relay: differs
                .then(|| Box::new(RelayReport { taken_up: first.calls, kernel_up: Some(7), ..Default::default() })),
            relay_program: differs
                .then(|| Box::new(RelayProgramReport { processes: first.calls, ..Default::default() })),
            task: differs.then(|| Box::new(TaskReport { left_behind: first.calls, ..Default::default() })),
            iperf3: differs.then(|| Box::new(Iperf3Report { bytes: first.calls, lost: Some(3), ..Default::default() })),
        }
    })
}

fn datagrams(n: u64) -> DatagramReport {
    let socket_drops = n.is_multiple_of(2).then_some(n);
    DatagramReport { datagrams: n, packets: n / 64, total: n, missing: 3, socket_drops, ..DatagramReport::default() }
}

/// A client's report with a histogram and an error.
fn call_report() -> CallReport {
    let error = CallError {
        class: ErrorClass::Other(104),
        phase: ErrorPhase::Reply,
        count: 3,
        request_bytes_lost: 512,
        reply_bytes_missing: 100,
    };
    let total = Some(EncodedHistogram("HISTFAAA".into()));
    CallReport { calls: 7, window_ns: 1_000_000, total, errors: vec![error], ..CallReport::default() }
}

fn machine() -> impl Strategy<Value = MachineUse> {
    (any::<[u64; 4]>(), vec(any::<u64>(), 0..4)).prop_map(|(n, net_rx)| MachineUse {
        wall_ns: n[0],
        busy_ns: n[1],
        softirq_ns: n[2],
        steal_ns: n[3],
        udp: net_rx.first().map(|drops| Box::new(UdpUse { receive_buffer_errors: *drops, ..UdpUse::default() })),
        delayed_acks: net_rx.last().copied().into(),
        link: net_rx.last().map(|ns| Box::new(LinkUse { cpu_ns: *ns, ..LinkUse::default() })),
        listen_overflows: net_rx.first().copied().into(),
        timeouts: net_rx.last().copied().into(),
        tcp_drops: net_rx.first().map(|count| ("TCPRcvQDrop".to_owned(), *count)).into_iter().collect(),
        net_rx,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Measured),
        ".*".prop_map(Outcome::Skipped),
        ".*".prop_map(Outcome::Failed),
        ".*".prop_map(Outcome::NothingMoved)
    ]
}

/// Any trial of `c0` or `c1`.
pub fn any_trial() -> impl Strategy<Value = Trial> {
    let stage = select(&session::STAGES[..]);
    let name = select(&["c0", "c1"][..]);
    let role = select(&end::END_ROLES[..]);
    (
        (name, stage, any::<[u64; 6]>(), any::<u32>(), outcome()),
        select(&[Workload::Stream, Workload::Call, Workload::Ring][..]),
        btree_map(role.clone(), any::<usize>(), 0..3),
        btree_map(role, end(), 0..4),
        of(machine()),
    )
        .prop_map(|((name, stage, n, position, outcome), workload, cpus, ends, machine)| Trial {
            cell: CellId(name.into()),
            workload,
            stage,
            block: n[0],
            position,
            started_unix_ns: n[1],
            outcome,
            bytes: n[2],
            calls: n[5],
            wall_ns: n[3],
            warmup_ns: n[4],
            cpus: cpus.into_iter().collect(),
            ends: ends.into_iter().collect(),
            machine,
        })
}

/// A trial without its series, as `trials()` returns it.
pub fn without_series(mut trial: Trial) -> Trial {
    for end in trial.ends.values_mut() {
        for flow in &mut end.flows {
            flow.series.clear();
        }
    }
    trial
}
