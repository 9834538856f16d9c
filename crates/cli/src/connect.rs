//! `--connect`, `--host` and `--relay-host`: resolves names and checks that there is a listener, before anything is measured.

use bytegauge_model::{Level, Place};
use bytegauge_plan::{Plan, PlanSpec};
use bytegauge_traffic::address;

use crate::exit_code::Failure;

/// Looks up the names of external servers and of far hosts, once: a session measures one address, even if the
/// name changes meanwhile.
pub fn look_up(spec: &mut PlanSpec) -> Result<(), Failure> {
    for factor in ["connect", "host", "relay_host"] {
        for level in spec.parts.iter_mut().filter_map(|part| part.levels.get_mut(factor)).flatten() {
            let Some(named) = level.name().and_then(|name| name.parse::<Place>().ok()) else { continue };
            let found = address::resolved_server(&named)
                .map_err(|fault| Failure::usage(format!("--{}: {fault}", factor.replace('_', "-"))))?;
            *level = Level::Name(found.to_string());
        }
    }
    Ok(())
}

/// Checks that every external server can be reached.
pub fn reach(plan: &Plan) -> Result<(), Failure> {
    let mut seen: Vec<&Place> = Vec::new();
    for cell in &plan.cells {
        let (Some(server), Some(transport)) = (cell.factors.connect(), cell.factors.transport()) else { continue };
        if !seen.contains(&server) {
            address::reach(server, transport)?;
            seen.push(server);
        }
    }
    Ok(())
}
