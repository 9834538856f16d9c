//! Which CPUs the ends of each flow are pinned to.
//!
//! Placement moves a result more than any buffer size, so it is fixed within a block and the roles of the
//! two CPUs are swapped between blocks by a seeded coin: what one CPU has to do besides (interrupts, a
//! busy neighbour) averages out over blocks and cancels within them.

use std::collections::BTreeMap;

use bytegauge_model::{EndRole, Levels, Placement, Side};
use bytegauge_sys::topology::{Relation, Topology};

/// The CPUs of each end's flows, cyclically; empty leaves it to the scheduler.
///
/// One-ended sources have no placement: their one end is pinned, so that it does not wander. Clients that compete
/// stand where the measured ones do.
pub fn cpus(factors: &Levels, topology: &Topology, swapped: bool) -> BTreeMap<EndRole, Vec<usize>> {
    let relation = match factors.get("placement").name().and_then(|name| name.parse::<Placement>().ok()) {
        Some(Placement::Unpinned) => return BTreeMap::new(),
        Some(Placement::SameCpu) | None => Relation::SameCpu,
        Some(Placement::SmtSibling) => Relation::SmtSibling,
        Some(Placement::CrossCore) => Relation::CrossCore,
        Some(Placement::CrossNode) => Relation::CrossNode,
    };
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
    let (here, there): (Vec<usize>, Vec<usize>) = pairs.into_iter().unzip();
    let cpus = |role: &EndRole| match role.side() {
        Side::Source => (*role, here.clone()),
        Side::Sink => (*role, there.clone()),
    };
    factors.workload().row().roles.iter().map(cpus).collect()
}

/// Why a placement cannot be had on this machine, or `None` if it can.
pub fn missing(placement: Placement, topology: &Topology) -> Option<String> {
    let (relation, why) = match placement {
        Placement::Unpinned => return None,
        Placement::SameCpu => (Relation::SameCpu, "no CPU is allowed"),
        Placement::SmtSibling => {
            (Relation::SmtSibling, "no two hardware threads of one core are allowed to this process")
        }
        Placement::CrossCore => (Relation::CrossCore, "only one core is allowed to this process"),
        Placement::CrossNode => (Relation::CrossNode, "the allowed CPUs are on one NUMA node"),
    };
    topology.pairs(relation).is_empty().then(|| format!("placement {placement}: {why}: use another --placement"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::Level;
    use bytegauge_sys::topology::CpuPlace;

    fn two_cores() -> Topology {
        let place = |cpu| CpuPlace { cpu, package: 0, core: cpu, node: 0, last_level_cache: None };
        Topology { cpus: vec![place(0), place(1)] }
    }

    fn check(placement: &str, swapped: bool, first: Option<(usize, usize)>) {
        let mut factors = Levels::default();
        factors.set("placement", Level::Name(placement.into()));
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
