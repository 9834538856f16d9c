//! A session made of planted numbers: rates by a formula, noise by a small generator.
//!
//! Two transports, three profiles, a grid of sizes; screening, confirmation, an A/A control and a floor in each group.

use std::path::Path;
use std::sync::Arc;

use bytegauge_model::session::Surroundings;
use bytegauge_model::{
    BlockRecord, Cell, CellId, CellKind, EffectiveOptions, EndCounts, EndReport, EndRole, FlowReport, Group, GroupId,
    Level, MachineUse, Outcome, SessionId, SessionRecord, SessionStatus, Spec, Stage, TcpReport, Trial, Workload,
    factor,
};
use bytegauge_report::SessionData;
use bytegauge_store::{CellRow, GroupRow, Store};
use serde_json::{Map, json};

/// Options as the kernel reports them.
pub fn in_force(options: &[(&str, u64)]) -> Arc<EffectiveOptions> {
    let mut effective = EffectiveOptions::default();
    for (factor, value) in options {
        effective.levels.insert((*factor).to_owned(), Level::Number(*value));
    }
    effective.into()
}

/// A planted session.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub transports: Vec<&'static str>,
    pub placements: Vec<&'static str>,
    pub profiles: Vec<&'static str>,
    pub read_sizes: Vec<u64>,
    pub write_sizes: Vec<u64>,
    pub screen_blocks: u64,
    pub confirm_blocks: u64,
    /// Confirmed cells of each group.
    pub finalists: usize,
    /// Relative spread of a trial within its block.
    pub noise: f64,
    /// The true slowdown of the A/A control.
    pub twin_bias: f64,
    pub steal: f64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            seed: 7,
            transports: vec!["unix", "tcp"],
            placements: vec!["cross-core"],
            profiles: vec!["drain", "sum", "parser"],
            read_sizes: vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
            write_sizes: vec![16 << 10, 64 << 10, 256 << 10, 1 << 20],
            screen_blocks: 2,
            confirm_blocks: 40,
            finalists: 6,
            noise: 0.03,
            twin_bias: 0.0,
            steal: 0.003,
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough for planted noise.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Close to normal: the sum of twelve uniforms.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Levels from flag texts.
pub fn levels(pairs: &[(&str, String)]) -> Spec {
    let level = |name, text| factor::find(name).expect("a known factor").kind.parse(text).expect("a level");
    pairs.iter().map(|(name, text)| (*name, level(name, text))).collect()
}

/// The planted rate, bytes per second: a cost per call at each end and one per byte.
pub fn true_rate(levels: &Spec) -> f64 {
    let number = |name: &str| levels.get(name).number().unwrap_or(65_536) as f64;
    let (call, byte) = match levels.get("transport").name() {
        Some("unix") => (1_800.0, 0.21),
        Some("tcp") => (3_900.0, 0.16),
        _ => (160.0, 0.022),
    };
    let work = match levels.get("profile").name() {
        Some("sum") => 0.05,
        Some("parser") => 0.05 + 24_000.0 / number("read_size"),
        _ => 0.0,
    };
    let faster = if levels.get("placement").name() == Some("same-cpu") { 2.4 } else { 1.0 };
    let ns_per_byte = byte + work + call / number("read_size") + 0.4 * call / number("write_size");
    faster * 1e9 / ns_per_byte
}

/// A trial of a cell at a rate.
pub fn trial(cell: &Cell, stage: Stage, block: u64, position: u32, rate: f64) -> Trial {
    let wall_ns = 40_000_000;
    let bytes = (rate * wall_ns as f64 / 1e9) as u64;
    let two_ended = cell.factors.transport().is_some_and(bytegauge_model::Transport::two_ended);
    let size = |name: &str| cell.factors.get(name).number().unwrap_or(65_536);
    let end = |size: u64, busy: f64, tcp: bool| {
        let calls = (bytes / size.min(60_000)).max(1);
        let cpu_ns = (wall_ns as f64 * busy) as u64;
        let counts = EndCounts {
            bytes,
            calls,
            short_calls: if size > 60_000 { calls - calls / 9 } else { calls / 40 },
            window_ns: wall_ns,
            user_ns: cpu_ns / 10,
            system_ns: cpu_ns - cpu_ns / 10,
            cpu_ns,
            voluntary_switches: calls / 6,
            involuntary_switches: 2,
            total_bytes: bytes + bytes / 4,
            ..EndCounts::default()
        };
        let flow = FlowReport {
            counts,
            tcp: tcp.then(|| {
                Box::new(TcpReport {
                    retransmits: 0.into(),
                    busy_us: 40_000.into(),
                    rwnd_limited_us: 900.into(),
                    sndbuf_limited_us: 100.into(),
                    min_rtt_us: 14.into(),
                    ..TcpReport::default()
                })
            }),
            options: in_force(&[("sndbuf", 212_992), ("rcvbuf", 212_992)]),
            ..FlowReport::default()
        };
        EndReport { counts: EndCounts { queued_ns: 0.into(), ..counts }, flows: vec![flow], ..EndReport::default() }
    };
    let tcp = cell.factors.transport().is_some_and(bytegauge_model::Transport::is_tcp);
    Trial {
        cell: cell.id.clone(),
        workload: Workload::Stream,
        stage,
        block,
        position,
        started_unix_ns: 1_763_756_269_000_000_000 + block * 1_000_000_000 + u64::from(position) * 50_000_000,
        outcome: Outcome::Measured,
        bytes,
        calls: 0,
        wall_ns,
        warmup_ns: 4_000_000,
        cpus: [(EndRole::Source, 0), (EndRole::Sink, 1)].into(),
        ends: two_ended
            .then(|| (EndRole::Source, end(size("write_size"), 0.97, tcp)))
            .into_iter()
            .chain([(EndRole::Sink, end(size("read_size"), if two_ended { 0.71 } else { 0.99 }, false))])
            .collect(),
        machine: Some(MachineUse {
            wall_ns: wall_ns + 10_000_000,
            busy_ns: 88_000_000,
            softirq_ns: 11_000_000,
            steal_ns: 0,
            net_rx: vec![700, 300],
            ..MachineUse::default()
        }),
    }
}

/// A report of the null engine: calls, no bytes.
pub fn floor_trial(cell: &Cell, stage: Stage, block: u64, position: u32) -> Trial {
    let counts = EndCounts { calls: 1_300_000, window_ns: 40_000_000, cpu_ns: 40_000_000, ..EndCounts::default() };
    let end = EndReport { counts, ..EndReport::default() };
    Trial { bytes: 0, ends: [(EndRole::Sink, end)].into_iter().collect(), ..trial(cell, stage, block, position, 1e9) }
}

/// The whole session.
pub fn session(plan: &Plan) -> SessionData {
    let mut data = SessionData {
        record: record(plan.seed),
        groups: Vec::new(),
        cells: Vec::new(),
        blocks: Vec::new(),
        trials: Vec::new(),
    };
    let mut random = Random(plan.seed);
    let mut next_cell = 1;
    for transport in &plan.transports {
        for placement in &plan.placements {
            for profile in &plan.profiles {
                let id = GroupId(format!("g{}", data.groups.len() + 1));
                add_group(&mut data, plan, &id, &mut next_cell, (transport, placement, profile), &mut random);
            }
        }
    }
    data
}

/// A session's record.
pub fn record(seed: u64) -> SessionRecord {
    SessionRecord {
        id: SessionId(12),
        started_unix_ns: 1_763_756_269_000_000_000,
        finished_unix_ns: Some(1_763_756_330_500_000_000),
        status: SessionStatus::Complete,
        plan_name: "buffer-size".into(),
        workload: "stream".into(),
        seed,
        margin: 0.05,
        version: "0.1.0".into(),
        plan: json!({ "budget_ns": 60_000_000_000u64 }),
        machine: json!({
            "kernel_release": "6.18.0",
            "cpu": { "model": "Example CPU", "allowed": [0, 1], "governor": null, "turbo": null },
            "network": { "congestion_control": "cubic" }
        }),
        machine_after: json!(null),
        notes: vec!["write_size was left out for /dev/zero: it has no writer".into()],
        imported: false,
    }
}

fn add_group(
    data: &mut SessionData,
    plan: &Plan,
    id: &GroupId,
    next_cell: &mut u64,
    (transport, placement, profile): (&str, &str, &str),
    random: &mut Random,
) {
    let two_ended = !transport.starts_with('/');
    let mut conditions =
        vec![("transport", transport.to_owned()), ("profile", profile.to_owned()), ("flows", "1".to_owned())];
    if two_ended {
        conditions.push(("placement", placement.to_owned()));
    }
    conditions.push(("work", if profile == "drain" { "none" } else { "sum" }.into()));
    conditions.push(("working_set", if profile == "parser" { "512K" } else { "0" }.into()));
    let mut facts = Map::new();
    facts.insert("warmup_ns".into(), json!(4_000_000));
    facts.insert("steady".into(), json!(true));
    data.groups.push(GroupRow { group: Group { id: id.clone(), factors: levels(&conditions) }, facts });
    let mut cells: Vec<Cell> = Vec::new();
    let writes: Vec<Option<u64>> =
        if two_ended { plan.write_sizes.iter().copied().map(Some).collect() } else { vec![None] };
    for read in &plan.read_sizes {
        for write in &writes {
            let mut factors = levels(&conditions);
            factors.set("engine", Level::Name("blocking".into()));
            factors.set("read_size", Level::Number(*read));
            factors.set("write_size", write.map_or(Level::Absent, Level::Number));
            cells.push(cell(format!("c{next_cell}"), id, CellKind::Candidate, None, factors));
            *next_cell += 1;
        }
    }
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by(|a, b| true_rate(&cells[*b].factors).total_cmp(&true_rate(&cells[*a].factors)));
    order.truncate(plan.finalists);
    let leader = cells[order[0]].clone();
    let twin = cell(format!("{}t", leader.id), id, CellKind::Twin, Some(leader.id.clone()), leader.factors.clone());
    let mut floor_levels = leader.factors.clone();
    floor_levels.set("engine", Level::Name("null".into()));
    let floor = cell(format!("{id}n"), id, CellKind::Floor, None, floor_levels);
    for _ in 0..plan.screen_blocks {
        let all: Vec<Cell> = cells.iter().chain([&floor]).cloned().collect();
        block(data, plan, id, Stage::Screen, &all, random);
    }
    for _ in 0..plan.confirm_blocks {
        let chosen: Vec<Cell> =
            order.iter().map(|&at| cells[at].clone()).chain([twin.clone(), floor.clone()]).collect();
        block(data, plan, id, Stage::Confirm, &chosen, random);
    }
    let all = cells.into_iter().chain([twin, floor]);
    data.cells.extend(all.map(|cell| CellRow { cell, outcome: None }));
}

/// A cell.
pub fn cell(id: String, group: &GroupId, kind: CellKind, twin_of: Option<CellId>, factors: Spec) -> Cell {
    Cell { id: CellId(id.into()), group: group.clone(), kind, twin_of, factors }
}

fn block(data: &mut SessionData, plan: &Plan, group: &GroupId, stage: Stage, cells: &[Cell], random: &mut Random) {
    let index = data.blocks.len() as u64;
    let swing = 0.08 * random.normal();
    for (position, cell) in cells.iter().enumerate() {
        let noise = plan.noise * random.normal();
        let bias = if cell.kind == CellKind::Twin { plan.twin_bias } else { 0.0 };
        let rate = true_rate(&cell.factors) * (swing + noise - bias).exp();
        data.trials.push(match cell.kind {
            CellKind::Floor => floor_trial(cell, stage, index, position as u32),
            _ => trial(cell, stage, index, position as u32, rate),
        });
    }
    data.blocks.push(BlockRecord {
        index,
        group: group.clone(),
        stage,
        started_unix_ns: 1_763_756_269_000_000_000 + index * 1_000_000_000,
        complete: true,
        surroundings: Surroundings {
            wall_ns: 420_000_000,
            steal_share: Some(plan.steal),
            foreign_cpus: Some(0.02),
            throttled_us: Some(0),
            ..Surroundings::default()
        },
    });
}

/// The session in a store of its own.
pub fn stored(data: &SessionData, folder: &Path) -> (Store, SessionId) {
    let mut store = Store::open(&folder.join("results.db")).expect("a store");
    let id = store.create_session(&data.record).expect("a session");
    let groups: Vec<_> = data.groups.iter().map(|row| row.group.clone()).collect();
    let cells: Vec<_> = data.cells.iter().map(|row| row.cell.clone()).collect();
    store.add_groups(id, &groups).expect("groups");
    for row in &data.groups {
        for (name, value) in &row.facts {
            store.set_group_fact(id, &row.group.id, name, value).expect("a fact");
        }
    }
    store.add_cells(id, &cells).expect("cells");
    for block in &data.blocks {
        store.record_block(id, block).expect("a block");
    }
    for trial in &data.trials {
        store.record_trial(id, trial).expect("a trial");
    }
    (store, id)
}
