//! Any content of a store is reported: nothing panics, nothing prints as not-a-number.

use bytegauge_model::{
    BlockRecord, Cell, CellId, CellKind, EndCounts, EndReport, EndRole, FlowReport, Group, GroupId, Level, MachineUse,
    Outcome, SessionStatus, Spec, Stage, TcpReport, Trial, Workload,
};
use bytegauge_report::{Report, SessionData, Settings, render};
use bytegauge_store::{CellRow, GroupRow};
use proptest::prelude::*;
use serde_json::{Map, json};

use crate::support;

const STAGES: [Stage; 5] = bytegauge_model::session::STAGES;

/// Ordinary numbers, zeros, and the largest there are.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1u64..1_000_000_000, 1 => Just(0), 1 => Just(u64::MAX)]
}

fn share() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![Just(None), (0.0..0.2).prop_map(Some), Just(Some(f64::NAN)), Just(Some(f64::INFINITY))]
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![
        Just(Level::Absent),
        Just(Level::auto()),
        Just(Level::Switch(true)),
        prop::sample::select(vec![0u64, 1, 4096, 65_536, u64::MAX]).prop_map(Level::Number),
        prop::sample::select(vec!["unix", "tcp", "/dev/zero", "drain", "sum", "same-cpu", "null", "carrier pigeon"])
            .prop_map(|name| Level::Name(name.into())),
    ]
}

fn levels() -> impl Strategy<Value = Spec> {
    let names = vec![
        "transport",
        "placement",
        "profile",
        "flows",
        "work",
        "working_set",
        "rate",
        "think_time",
        "engine",
        "read_size",
        "write_size",
        "sndbuf",
        "rcvbuf",
        "pipe_size",
        "nodelay",
        "congestion",
        "unheard_of",
    ];
    prop::collection::btree_map(prop::sample::select(names).prop_map(str::to_owned), level(), 0..8).prop_map(Spec::from)
}

fn end() -> impl Strategy<Value = Option<EndReport>> {
    let flow = (count(), count(), count()).prop_map(|(bytes, window_ns, limited)| FlowReport {
        counts: EndCounts { bytes, window_ns, ..EndCounts::default() },
        tcp: Some(Box::new(TcpReport {
            busy_us: window_ns.into(),
            rwnd_limited_us: limited.into(),
            ..TcpReport::default()
        })),
        ..FlowReport::default()
    });
    let counts = (count(), count(), count(), count(), count(), count());
    let report = (counts, prop::collection::vec(flow, 0..3)).prop_map(
        |((bytes, calls, short, window, cpu, switches), flows)| EndReport {
            counts: EndCounts {
                bytes,
                calls,
                short_calls: short,
                window_ns: window,
                user_ns: cpu,
                system_ns: cpu,
                cpu_ns: cpu,
                voluntary_switches: switches,
                involuntary_switches: switches,
                total_bytes: bytes,
                verified_bytes: short,
                queued_ns: switches.into(),
            },
            flows,
            ..EndReport::default()
        },
    );
    prop::option::of(report)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Measured),
        1 => Just(Outcome::Skipped("no such CPU".into())),
        1 => Just(Outcome::Failed("it stalled".into())),
    ]
}

prop_compose! {
    fn trial()(
        cell in 0usize..7, stage in 0usize..4, block in 0u64..30, outcome in outcome(), bytes in count(), wall_ns in count(),
        workload in prop::sample::select(&[Workload::Stream, Workload::Call, Workload::Ring][..]),
        source in end(), sink in end(), client in end(), server in end(),
        machine in prop::option::of((count(), count(), count(), 0u64..3))
    ) -> Trial {
        Trial {
            cell: CellId(format!("c{cell}").into()),
            workload,
            stage: STAGES[stage],
            block,
            position: 0,
            started_unix_ns: block,
            outcome,
            bytes,
            calls: 0,
            wall_ns,
            warmup_ns: 0,
            cpus: Default::default(),
            ends: [(EndRole::Source, source), (EndRole::Sink, sink), (EndRole::Client, client), (EndRole::Server, server)]
                .into_iter()
                .filter_map(|(role, end)| Some((role, end?)))
                .collect(),
            machine: machine.map(|(wall_ns, busy_ns, softirq_ns, steal_ns)| MachineUse {
                wall_ns, busy_ns, softirq_ns, steal_ns, net_rx: vec![busy_ns, softirq_ns], ..MachineUse::default()
            }),
        }
    }
}

prop_compose! {
    fn any_session()(
        groups in prop::collection::vec(levels(), 0..3),
        cells in prop::collection::vec((levels(), 0usize..3, 0usize..6, prop::option::of(outcome())), 0..6),
        blocks in prop::collection::vec((0usize..4, any::<bool>(), share(), count()), 0..30),
        trials in prop::collection::vec(trial(), 0..120),
        margin in prop_oneof![Just(0.05), Just(0.0), Just(f64::NAN)],
        imported in any::<bool>(),
    ) -> SessionData {
        let mut record = support::record(3);
        record.margin = margin;
        if imported {
            record.status = SessionStatus::Imported;
        }
        let rows = groups.into_iter().enumerate();
        let groups: Vec<GroupRow> = rows
            .map(|(at, factors)| GroupRow { group: Group { id: GroupId(format!("g{at}")), factors }, facts: Map::new() })
            .collect();
        let kinds = [CellKind::Candidate, CellKind::Candidate, CellKind::Candidate, CellKind::Candidate, CellKind::Twin, CellKind::Floor];
        let cells = cells.into_iter().enumerate().map(|(at, (factors, group, kind, outcome))| CellRow {
            cell: Cell {
                id: CellId(format!("c{at}").into()),
                group: GroupId(format!("g{group}")),
                kind: kinds[kind],
                twin_of: (kind == 4).then(|| CellId("c0".into())),
                factors,
            },
            outcome,
        });
        let blocks = blocks.into_iter().enumerate().map(|(at, (stage, complete, steal, wall_ns))| {
            let mut block = BlockRecord {
                index: at as u64,
                group: GroupId("g0".into()),
                stage: STAGES[stage],
                started_unix_ns: at as u64,
                complete,
                surroundings: Default::default(),
            };
            (block.surroundings.steal_share, block.surroundings.wall_ns) = (steal, wall_ns);
            block.surroundings.foreign_cpus = steal;
            block
        });
        SessionData { record, groups, cells: cells.collect(), blocks: blocks.collect(), trials }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(data in any_session(), columns in 0usize..160) {
        prints(&data, columns)?;
    }
}

/// Possible damage to a trial of an ordinary session.
fn spoil(trial: &mut Trial, how: u8, by: u64) {
    match how {
        0 => trial.bytes = 0,
        1 => trial.wall_ns = by,
        2 => trial.outcome = Outcome::Failed("it stalled".into()),
        3 => drop(trial.ends.remove(EndRole::Sink)),
        4 => drop(trial.ends.remove(EndRole::Source)),
        5 => trial.block = by % 40,
        6 => trial.stage = STAGES[(by % 4) as usize],
        _ => trial.bytes = by,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_on_a_spoilt_session(
        spoils in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8, count()), 0..60),
        steals in prop::collection::vec((any::<prop::sample::Index>(), share(), any::<bool>()), 0..20),
        finalists in 1usize..6, confirm_blocks in 0u64..14, analyses in prop::option::of(analyses()), first in prop_oneof![0u64..9, Just(u64::MAX)], profile in prop::sample::select(vec!["drain", "sum"])
    ) {
        let mut data = support::session(&support::Plan {
            read_sizes: vec![4096, 65_536, 1 << 20],
            write_sizes: vec![4096, 65_536],
            profiles: vec![profile, "parser"],
            transports: vec!["tcp"],
            finalists,
            confirm_blocks,
            ..support::Plan::default()
        });
        for (at, how, by) in spoils {
            let at = at.index(data.trials.len());
            spoil(&mut data.trials[at], how, by);
        }
        for (at, steal, complete) in steals {
            let at = at.index(data.blocks.len());
            let block = &mut data.blocks[at];
            (block.surroundings.steal_share, block.complete) = (steal, complete);
        }
        for row in data.groups.iter_mut().filter(|_| analyses.is_some()) {
            row.facts.insert("looks".into(), json!(analyses));
            row.facts.insert("blocks_fixed".into(), json!(first));
        }
        prints(&data, 100)?;
    }
}

/// Numbers that a plan may have, and numbers that only a stored file can have.
fn analyses() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..5, 60u64..70, Just(1 << 40), Just(u64::MAX)]
}

fn prints(data: &SessionData, columns: usize) -> Result<(), TestCaseError> {
    let view = Report::of(data, &Settings::default());
    let style = render::TerminalStyle { columns, ..Default::default() };
    let texts = [
        render::json::render(&view),
        render::csv::render(&view),
        render::markdown::render(&view),
        render::full::full(&view, &style),
    ];
    for text in &texts {
        prop_assert!(!text.contains("NaN"), "{}", text);
        prop_assert!(!text.contains(" inf"), "{}", text);
        prop_assert!(!text.bytes().any(|byte| byte == 27));
    }
    prop_assert_eq!(texts[0].clone(), render::json::render(&Report::of(data, &Settings::default())));
    Ok(())
}
