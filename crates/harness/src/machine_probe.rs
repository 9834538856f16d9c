//! The capabilities of this machine, probed once before a plan is made.

use std::os::fd::AsFd;
use std::{fs, io};

use bytegauge_model::name_tables::{ENGINES, PLACEMENTS};
use bytegauge_model::{Level, RelayProgram, RunningRelay, Tls, Transport, Workload};
use bytegauge_plan::{Catalog, PlanSpec};
use bytegauge_sys::topology::Topology;
use bytegauge_sys::{affinity, network, option, resource_limit};
use bytegauge_traffic::{engine, relay, ring, tls, transport};

use crate::cpu_placement;

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
            (Ok(topology), _) => cpu_placement::missing(row.value, topology),
            (Err(error), _) if row.name != "unpinned" => Some(format!("placement {}: {error}", row.name)),
            (Err(_), _) => None,
        };
        catalog.note_missing("placement", row.name, missing);
        let of_relay = topology.as_ref().ok().and_then(|topology| cpu_placement::relay_missing(row.value, topology));
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
