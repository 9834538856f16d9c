//! The capabilities of this machine, probed once before a plan is made.
//!
//! Also on which CPUs the ends of a trial run.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::{fs, io};

use bytegauge_model::name_tables::{ENGINES, PLACEMENTS};
use bytegauge_model::{
    EndRole, Level, Placement, RelayPlacement, RelayProgram, RunningRelay, Side, Spec, Tls, Transport, Workload,
};
use bytegauge_plan::{Catalog, PlanSpec};
use bytegauge_sys::topology::{Relation, Topology};
use bytegauge_sys::{affinity, network, option, resource_limit};
use bytegauge_traffic::{engine, relay, ring, tls, transport};

/// Probes what the spec needs. Raises the soft limit of open files as a side effect.
pub fn catalog(spec: &PlanSpec) -> Catalog {
    let mut catalog = Catalog {
        congestion: option::available_congestion().unwrap_or_default(),
        open_files_max: Some(resource_limit::raise_open_files().soft),
        loopback_mtu: network::mtu(network::LOOPBACK).ok(),
        memory_available: memory_available(),
        ..Catalog::default()
    };
    if spec.parts.iter().any(|part| part.levels.contains_key("congestion")) {
        catalog.reserved_congestion = reserved(&catalog.congestion);
    }
    let kernel_tls = Level::Name(Tls::Kernel.to_string());
    if spec.parts.iter().any(|part| part.levels.get("tls").is_some_and(|levels| levels.contains(&kernel_tls))) {
        catalog.note_missing("tls", Tls::Kernel, tls::lacks_kernel());
    }
    probe_placements(&mut catalog);
    if spec.workload == Workload::Ring {
        probe_rings(&mut catalog, spec);
        return catalog;
    }
    for row in ENGINES {
        catalog.note_missing("engine", row.name, engine::missing_requirement(row.value));
    }
    for level in spec.parts.iter().filter_map(|part| part.levels.get("relay")).flatten() {
        let Some(name) = level.name() else { continue };
        let of_method = || relay::missing_requirement(name.parse().ok()?);
        let of_running = || relay::lacks_running(&RunningRelay::of(name)?);
        let of_program = || relay::lacks_program(&RelayProgram::of(name)?);
        catalog.note_missing("relay", level, of_method().or_else(of_running).or_else(of_program));
    }
    for level in spec.parts.iter().filter_map(|part| part.levels.get("transport")).flatten() {
        probe_transport(&mut catalog, level);
    }
    catalog
}

/// Tries every ring of the spec: only the kernel and the library show which set-ups they support.
fn probe_rings(catalog: &mut Catalog, spec: &PlanSpec) {
    for part in &spec.parts {
        for implementation in part.levels_of(spec.workload, "implementation") {
            for setup in part.levels_of(spec.workload, "setup") {
                let parsed = implementation.parsed().zip(setup.parsed());
                let missing = parsed.and_then(|(by, made)| ring::missing_requirement(by, made));
                catalog.note_missing("ring", format!("{implementation} {setup}"), missing);
            }
        }
    }
}

fn probe_placements(catalog: &mut Catalog) {
    let topology = Topology::read();
    let refused = pinning_refused(&topology);
    for row in PLACEMENTS {
        let missing = match (&topology, &refused) {
            (_, Some(reason)) if row.name != "unpinned" => Some(reason.clone()),
            (Ok(topology), _) => missing(row.value, topology),
            (Err(error), _) if row.name != "unpinned" => Some(format!("placement {}: {error}", row.name)),
            (Err(_), _) => None,
        };
        catalog.note_missing("placement", row.name, missing);
        let of_relay = topology.as_ref().ok().and_then(|topology| relay_missing(row.value, topology));
        catalog.note_missing("relay CPU", row.name, of_relay);
    }
}

/// Tries to pin, in a thread of its own so that the present one is not moved.
fn pinning_refused<E>(topology: &Result<Topology, E>) -> Option<String> {
    let cpu = topology.as_ref().ok()?.cpus.first()?.cpu;
    let tried =
        std::thread::Builder::new().spawn(move || affinity::pin_thread(&[cpu])).map(std::thread::JoinHandle::join);
    match tried {
        // If no thread can be made, the first trial reports it.
        Ok(Ok(Err(error))) => Some(format!(
            "pinning a thread to CPU {cpu} is not permitted ({error}): use --placement unpinned, or allow \
             sched_setaffinity in the sandbox"
        )),
        _ => None,
    }
}

fn probe_transport(catalog: &mut Catalog, level: &Level) {
    let Some(transport) = level.parsed::<Transport>() else { return };
    let missing = transport::missing(&transport);
    catalog.note_missing("transport", transport, missing);
}

/// Congestion controls that this user may not set (tcp(7), `tcp_allowed_congestion_control`).
fn reserved(congestion: &[String]) -> Vec<String> {
    // If there is no such socket, a trial reports it.
    let Ok(socket) = std::net::TcpListener::bind("127.0.0.1:0") else { return Vec::new() };
    let is_refused = |name: &&String| {
        let refused = option::set(socket.as_fd(), &option::CONGESTION.to(name.as_str())).err();
        refused.is_some_and(|error| error.source.kind() == io::ErrorKind::PermissionDenied)
    };
    congestion.iter().filter(is_refused).cloned().collect()
}

/// `MemAvailable` of `/proc/meminfo`: memory that can be used without swapping (proc_meminfo(5)).
fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

// Which CPUs the ends of each flow are pinned to.
//
// Placement moves a result more than any buffer size, so it is fixed within a block and the roles of the
// two CPUs are swapped between blocks by a seeded coin: other load of one CPU (interrupts, a
// busy neighbour) averages out over blocks and cancels within them.

/// The CPUs of each end's flows, cyclically; empty leaves it to the scheduler.
///
/// One-ended sources have no placement: their one end is pinned, so that it does not move. Competing clients use
/// the CPUs of the measured ones.
pub fn cpus(factors: &Spec, topology: &Topology, swapped: bool) -> BTreeMap<EndRole, Vec<usize>> {
    let placement = factors.placement();
    let Some(relation) = relation(placement.unwrap_or(Placement::SameCpu)) else { return BTreeMap::new() };
    let mut pairs = topology.pairs(relation);
    if swapped {
        if relation == Relation::SameCpu {
            pairs.reverse();
        } else {
            for pair in &mut pairs {
                *pair = (pair.1, pair.0);
            }
        }
    }
    let own = own_cpu(&pairs, topology);
    let (here, there): (Vec<usize>, Vec<usize>) = pairs.into_iter().unzip();
    let relays = match factors.relay_placement() {
        Some(RelayPlacement::Own) => own.into_iter().collect(),
        Some(RelayPlacement::Client) => here.clone(),
        Some(RelayPlacement::Server) => there.clone(),
        Some(RelayPlacement::Unpinned | RelayPlacement::Follows) | None => Vec::new(),
    };
    let cpus = |role: &EndRole| match role.side() {
        // A program of the user's with a server.
        Side::Sink if *role == EndRole::Command => (*role, here.clone()),
        Side::Source => (*role, here.clone()),
        Side::Sink => (*role, there.clone()),
    };
    factors
        .workload()
        .row()
        .roles
        .iter()
        .map(cpus)
        .chain((!relays.is_empty()).then_some((EndRole::Relay, relays)))
        .collect()
}

/// A CPU that neither end of the first flow uses: the last one, which other programs are least likely to use.
fn own_cpu(pairs: &[(usize, usize)], topology: &Topology) -> Option<usize> {
    let (here, there) = pairs.first()?;
    topology.cpus.iter().map(|place| place.cpu).rfind(|cpu| cpu != here && cpu != there)
}

/// Why a placement of the ends leaves a relay no CPU of its own, or `None` if it does.
pub fn relay_missing(placement: Placement, topology: &Topology) -> Option<String> {
    let has_own = |relation| own_cpu(&topology.pairs(relation), topology).is_some();
    (!has_own(relation(placement)?)).then(|| {
        let same_cpu = match has_own(Relation::SameCpu) {
            true => "--relay-placement own --placement same-cpu (both ends on one CPU, the relay on another), or ",
            false => "",
        };
        format!(
            "--relay-placement own: with --placement {placement} the ends use all allowed CPUs: use {same_cpu}\
             --relay-placement client,server (where one of the ends runs)"
        )
    })
}

/// How two CPUs are related under a placement that pins.
fn relation(placement: Placement) -> Option<Relation> {
    Some(match placement {
        Placement::Unpinned => return None,
        Placement::SameCpu => Relation::SameCpu,
        Placement::SmtSibling => Relation::SmtSibling,
        Placement::CrossCore => Relation::CrossCore,
        Placement::CrossNode => Relation::CrossNode,
    })
}

/// Why a placement is unavailable on this machine, or `None` if it is available.
pub fn missing(placement: Placement, topology: &Topology) -> Option<String> {
    let relation = relation(placement)?;
    let why = match relation {
        Relation::SameCpu => "no CPU is allowed",
        Relation::SmtSibling => "no two hardware threads of one core are allowed to this process",
        Relation::CrossCore => "only one core is allowed to this process",
        Relation::CrossNode => "the allowed CPUs are on one NUMA node",
    };
    topology.pairs(relation).is_empty().then(|| format!("placement {placement}: {why}: use another --placement"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_sys::topology::CpuPlace;

    fn cores(count: usize) -> Topology {
        let place = |cpu| CpuPlace { cpu, core: cpu, node: 0, last_level_cache: None };
        Topology { cpus: (0..count).map(place).collect() }
    }

    fn two_cores() -> Topology {
        cores(2)
    }

    #[test]
    fn suggestions_for_relays_can_be_measured() {
        let missing = |placement, count| relay_missing(placement, &cores(count));
        assert_eq!((missing(Placement::CrossCore, 3), missing(Placement::SameCpu, 2)), (None, None));
        let two = missing(Placement::CrossCore, 2).expect("two ends have both CPUs");
        assert!(two.contains("use --relay-placement own --placement same-cpu (both ends"), "{two}");
        let one = missing(Placement::SameCpu, 1).expect("there is one CPU");
        assert!(
            !one.contains("use --relay-placement own") && one.contains("use --relay-placement client,server"),
            "{one}"
        );
    }

    fn check(placement: &str, swapped: bool, first: Option<(usize, usize)>) {
        let factors = Spec::from([("placement", placement.into())]);
        let found = cpus(&factors, &two_cores(), swapped);
        let first_of = |role| found.get(&role).and_then(|cpus: &Vec<usize>| cpus.first().copied());
        assert_eq!(first_of(EndRole::Source).zip(first_of(EndRole::Sink)), first, "{placement}");
    }

    #[test]
    fn pairs_by_placement() {
        check("unpinned", false, None);
        check("same-cpu", false, Some((0, 0)));
        check("same-cpu", true, Some((1, 1)));
        check("cross-core", false, Some((0, 1)));
        check("cross-core", true, Some((1, 0)));
        assert!(missing(Placement::SmtSibling, &two_cores()).is_some());
        assert_eq!(missing(Placement::CrossCore, &two_cores()), None);
    }
}
