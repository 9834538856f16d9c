//! Features that this machine lacks for a cell: placements, engines, files, memory. Uses the catalog only.
//!
//! Also the capabilities of a machine.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use bytegauge_model::name_tables::Batches;
use bytegauge_model::{Bytes, Cell, CellId, Ends, Engine, Outcome, Spec, Work, Workload, option};

use crate::plan::{Index, Plan};
use crate::{PlanError, engines, relay};

/// Descriptors that a process needs in addition to its flows.
const FILES_RESERVED: u64 = 64;

/// Default number of datagrams per call of an engine that moves many.
const DATAGRAMS_AT_ONCE: u64 = 64;

/// The name of the only kind of link that may be missing.
pub const EMULATED: &str = "emulated";

/// Marks the cells that this machine cannot measure.
pub(crate) fn skip_what_is_missing(plan: &mut Plan, catalog: &Catalog) {
    let (ends, mut reasons) = (plan.ends, Vec::new());
    // Only the reason remains of cells that are shown but never compared.
    plan.artefacts.retain(|cell| {
        let reason = missing(cell, ends, catalog);
        let is_there = reason.is_none();
        reasons.extend(reason);
        is_there
    });
    for cell in &plan.cells {
        let reason = missing(cell, ends, catalog);
        plan.skipped.extend(reason.map(|reason| (cell.id.clone(), Outcome::Skipped(reason))));
    }
    let skipped: HashSet<&CellId> = plan.skipped.iter().map(|(id, _)| id).collect();
    let sent = plan.cells.iter().filter(|cell| !skipped.contains(&cell.id));
    let note = |cell: &Cell| engines::note(&cell.factors, cell.factors.transport()?, catalog);
    let useless = plan.cells.iter().flat_map(|cell| option::without_effect(&cell.factors));
    let of_cells = plan.skipped.iter().filter_map(|(_, outcome)| outcome.reason());
    let reasons = reasons.iter().map(String::as_str).chain(of_cells).map(|reason| format!("skipped: {reason}"));
    // Most cells of a large plan have the same notes.
    let mut notes: Vec<String> = Vec::new();
    for note in reasons.chain(sent.filter_map(note)).chain(useless) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.into_iter().for_each(|note| plan.note(note));
}

impl Plan {
    /// Skips cells, for reasons that other hosts reported after the plan was made.
    ///
    /// # Errors
    /// [`PlanError::NothingLeft`] with the first reason if no cell can be measured any more.
    pub fn skip(&mut self, reason: impl Fn(&Spec) -> Option<String>) -> Result<(), PlanError> {
        let skipped: HashSet<&CellId> = self.skipped.iter().map(|(id, _)| id).collect();
        let is_left = |cell: &&Cell| !skipped.contains(&cell.id);
        let found =
            self.cells.iter().filter(is_left).filter_map(|cell| Some((cell.id.clone(), reason(&cell.factors)?)));
        let found: Vec<_> = found.map(|(id, reason)| (id, Outcome::Skipped(reason))).collect();
        self.skipped.extend(found);
        self.screen_what_is_left(&Index::of(self));
        match self.skipped.first().filter(|_| self.skipped.len() == self.cells.len()) {
            Some((_, outcome)) => Err(PlanError::NothingLeft(outcome.reason().unwrap_or_default().to_owned())),
            None => Ok(()),
        }
    }
}

fn missing(cell: &Cell, ends: Ends, catalog: &Catalog) -> Option<String> {
    if cell.factors.workload() == Workload::Ring {
        return catalog.lacks("ring", format!("{} {}", cell.factors.implementation()?, cell.factors.setup()?));
    }
    let placement = cell.factors.placement();
    if cell.factors.workload() == Workload::Tune {
        let link = cell.factors.emulated_link().and_then(|_| catalog.lacks("link", EMULATED));
        return link.or_else(|| catalog.lacks("placement", placement?));
    }
    let (spec, transport) = (&cell.factors, cell.factors.transport()?);
    let engines = [spec.engine(), spec.server_engine(), spec.client_engine()];
    // Over a link, each end is a process of its own.
    let is_here = spec.connect().is_none() && spec.host().is_none() && spec.emulated_link().is_none();
    let has_both = transport.two_ended() && ends == Ends::Threads && is_here;
    let relay_under_load = spec.load_flows().is_some_and(|flows| flows > 0) && spec.relay().is_some();
    (catalog.lacks("transport", transport))
        .or_else(|| spec.emulated_link().and_then(|_| catalog.lacks("link", EMULATED)))
        .or_else(|| catalog.lacks("placement", placement?))
        .or_else(|| relay::missing(spec, catalog))
        .or_else(|| lacks_congestion(spec, catalog))
        .or_else(|| catalog.lacks("tls", spec.tls()?))
        .or_else(|| engines.into_iter().flatten().find_map(|engine| catalog.lacks("engine", engine)))
        .or_else(|| engines::unsendable(spec, transport, catalog))
        .or_else(|| engines::unbatchable(spec))
        .or_else(|| {
            let why = "--load-flows loads the path without a relay: leave out --relay or --load-flows";
            relay_under_load.then(|| why.into())
        })
        .or_else(|| lacks_files(spec, has_both, catalog))
        .or_else(|| lacks_files_of_relay(spec, catalog))
        .or_else(|| lacks_memory(spec, catalog))
}

/// Why there are too few descriptors for the connections, if so; `has_both` if both ends are in this process.
fn lacks_files(spec: &Spec, has_both: bool, catalog: &Catalog) -> Option<String> {
    let (flows, competing) = (connections(spec), spec.competing_flows().unwrap_or(0));
    // Competing clients are a process of their own: only the server's ends are in this one.
    let needed = (flows - competing) * if has_both { 2 } else { 1 } + competing + FILES_RESERVED;
    let limit = catalog.open_files_max.filter(|limit| needed > *limit)?;
    Some(format!(
        "{flows} flows need {needed} open files, the hard limit is {limit}: use fewer --flows, or raise it (ulimit -Hn, \
         LimitNOFILE=)"
    ))
}

/// Why there is too little memory for the buffers, if so.
fn lacks_memory(spec: &Spec, catalog: &Catalog) -> Option<String> {
    let (flows, memory) = (connections(spec), memory(spec));
    let available = catalog.memory_available.filter(|available| memory > available / 2)?;
    Some(format!(
        "{flows} flows with these buffers take {}, more than half of the {} available: use fewer flows or smaller buffers",
        Bytes(memory),
        Bytes(available >> 20 << 20)
    ))
}

/// Why a congestion control is unavailable, if so. The ends of an emulated link may use any: the networks are their own.
fn lacks_congestion(levels: &Spec, catalog: &Catalog) -> Option<String> {
    let name = levels.congestion()?;
    let known = &catalog.congestion;
    if !known.is_empty() && !known.iter().any(|other| other == name) {
        let known = known.join(", ");
        return Some(format!("congestion control {name} is not available here (available: {known}); load its module"));
    }
    let is_reserved = catalog.reserved_congestion.iter().any(|other| other == name) && levels.emulated_link().is_none();
    is_reserved.then(|| {
        let free: Vec<_> = known.iter().filter(|other| !catalog.reserved_congestion.contains(other)).cloned().collect();
        let choose =
            if free.is_empty() { String::new() } else { format!("choose one that is not ({}), ", free.join(", ")) };
        format!(
            "congestion control {name} is reserved for privileged users: {choose}allow it (sysctl \
             net.ipv4.tcp_allowed_congestion_control), or run as root"
        )
    })
}

/// Why a relay cannot hold all connections, if so: it is a process of its own, with the same limit.
fn lacks_files_of_relay(levels: &Spec, catalog: &Catalog) -> Option<String> {
    let (method, limit) = (levels.relay_or_direct()?, catalog.open_files_max?);
    if levels.relay_host().is_some() {
        return None;
    }
    let threads = levels.relay_threads().unwrap_or_default();
    let (all, each) = (connections(levels), method.holds(threads).descriptors);
    let needed = all * each + FILES_RESERVED;
    (needed > limit).then(|| {
        format!(
            "--relay {method}: {all} connections of {each} descriptors each need {needed} open files, the hard limit is \
             {limit}: use a relay that needs 2 of each (epoll, uring, hybrid, …), fewer flows, or raise ulimit -Hn"
        )
    })
}

/// Connections of a cell at its server, idle and competing ones included, and those that load its path.
pub(crate) fn connections(levels: &Spec) -> u64 {
    let besides = [levels.idle_flows(), levels.competing_flows(), levels.load_flows()];
    levels.flows().unwrap_or(0).max(1) + besides.into_iter().flatten().sum::<u64>()
}

/// Memory that a cell's ends may touch, bytes: buffers, state, and what a thread takes.
fn memory(levels: &Spec) -> u64 {
    let [read_size, write_size, walk] =
        [levels.read_size(), levels.write_size(), levels.working_set()].map(|bytes| bytes.unwrap_or(0));
    let flows = connections(levels);
    match levels.workload() {
        Workload::Stream => {
            // Engines of datagrams have a buffer for each datagram that they hand to the kernel at once. Only the part
            // that a datagram fills is touched.
            let at_once = match levels.engine().map(|engine| engine.can().batches) {
                Some(Batches::Calls) => levels.batch().unwrap_or(DATAGRAMS_AT_ONCE),
                _ => levels.outstanding().unwrap_or(0).max(1),
            };
            let read = if at_once > 1 { read_size.min(write_size + 4096) } else { read_size };
            flows * (at_once * (read + write_size) + walk + (512 << 10))
        }
        Workload::Call => {
            // A thread that only carries a connection touches little more than its stacks and its entry in
            // the kernel; an engine's thread holds a few hundred bytes per connection, and the messages in flight.
            let end = |engine: Option<Engine>| match engine {
                Some(engine) if engine.has_thread_a_flow() => read_size + (64 << 10),
                _ => 4 << 10,
            };
            let request = levels.request().unwrap_or(0);
            let messages = request + levels.response().unwrap_or(request);
            let depth = levels.depth().unwrap_or(0).max(1);
            // Each connection has a state of its own to work with.
            let work = walk + if levels.work() == Some(Work::Copy) { read_size } else { 0 };
            flows * (end(levels.server_engine()) + end(levels.client_engine()) + 2 * messages * depth + work)
        }
        // A submission takes 64 bytes, two completions 32: nothing compared with the memory of a process. The memory of
        // the user's program is unknown.
        _ => 0,
    }
}

// Capabilities of the machine, as probed by code that may open sockets and files.

/// Capabilities. An unlisted one counts as available, so that a plan can be made without a machine.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// What the machine does not have, by its kind and its name, such as `placement` and `cross-core`, and why.
    pub missing: BTreeMap<(&'static str, String), String>,
    /// Congestion controls that the kernel offers; empty if unknown.
    pub congestion: Vec<String>,
    /// Those of them that this user may not set.
    pub reserved_congestion: Vec<String>,
    /// Files that the process may have open at most, after raising its soft limit.
    pub open_files_max: Option<u64>,
    /// The largest packet of the loopback interface, bytes with its IP header.
    pub loopback_mtu: Option<u64>,
    /// Memory that could be used without swapping, bytes.
    pub memory_available: Option<u64>,
}

impl Catalog {
    /// Notes why something is unavailable, if so.
    pub fn note_missing(&mut self, kind: &'static str, name: impl Display, why: Option<String>) {
        self.missing.extend(why.map(|why| ((kind, name.to_string()), why)));
    }

    /// Why something is unavailable, if so.
    pub fn lacks(&self, kind: &'static str, name: impl Display) -> Option<String> {
        self.missing.get(&(kind, name.to_string())).cloned()
    }
}
