//! What a relay asks of a plan: factors that mean nothing without one, a place to run, and the path without it beside
//! those with one.

use bytegauge_model::{CellKind, Levels, Placement, RelayMethod, RelayPlacement, Workload};

use crate::catalog::Catalog;
use crate::spec::{Part, PlanError};

/// Every factor that says something about a relay.
const OF_RELAYS: &[&str] = &["relay", "relay_threads", "relay_buffer", "relay_pipe", "relay_placement"];

/// Whether a factor is of relays, and the part names none: cells of other plans have no such levels.
pub(crate) fn is_left_out(part: &Part, name: &str) -> bool {
    OF_RELAYS.contains(&name) && !part.levels.contains_key("relay")
}

fn method(levels: &Levels) -> Option<RelayMethod> {
    levels.get("relay").name().and_then(|name| name.parse().ok())
}

/// Whether a combination has a relay of which something holds.
pub(crate) fn has(levels: &Levels, holds: fn(RelayMethod) -> bool) -> bool {
    method(levels).is_some_and(holds)
}

/// What a combination is among those of its part: beside relays, the path without one is what they could reach.
pub(crate) fn kind(part: &Part, combination: &Levels) -> CellKind {
    let named = part.levels.get("relay").map_or(0, Vec::len);
    if named > 1 && method(combination) == Some(RelayMethod::Direct) { CellKind::Ceiling } else { CellKind::Candidate }
}

/// What this machine lacks for the relay of a cell.
pub(crate) fn missing(levels: &Levels, catalog: &Catalog) -> Option<String> {
    let method = method(levels).filter(|method| *method != RelayMethod::Direct)?;
    if let Some(reason) = catalog.missing_relays.get(&method.to_string()) {
        return Some(reason.clone());
    }
    let place: RelayPlacement = levels.get("relay_placement").name()?.parse().ok()?;
    let ends: Placement = levels.get("placement").name()?.parse().ok()?;
    match (place, ends) {
        (RelayPlacement::Unpinned, _) => None,
        (_, Placement::Unpinned) => Some(format!(
            "--relay-placement {place} is beside the CPUs of the ends, and those are unpinned: use --relay-placement \
             unpinned, or another --placement"
        )),
        (RelayPlacement::Own, ends) => catalog.missing_relay_cpus.get(&ends.to_string()).cloned(),
        (RelayPlacement::Client | RelayPlacement::Server, _) => None,
    }
}

/// A stream to a server that is not ours ends, for all that is known here, where the relay took it.
pub(crate) fn refuse_foreign(workload: Workload, part: &Part) -> Result<(), PlanError> {
    if workload == Workload::Stream && part.levels.contains_key("relay") {
        let why = "what such a server took of a stream its kernel says to the relay alone: use the workload call";
        return Err(PlanError::OfForeign { flag: "relay".into(), why });
    }
    Ok(())
}
